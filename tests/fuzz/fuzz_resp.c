/*
 * The request parser: whatever the bytes, it stays inside them, and bytes that come in pieces give
 * the same requests, or the same error, as bytes that come at once.
 *
 * The first input byte chooses the pieces' size.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resp.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* What one pass over the input found, as a digest. */
struct outcome {
    uint64_t digest;
    uint64_t requests;
    size_t used;
    enum kv_parse last;
    char error[KV_PARSE_ERROR_MAX];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mix(struct outcome *outcome, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < length; i++)
        outcome->digest = (outcome->digest ^ at[i]) * UINT64_C(0x100000001b3);
}

/* Each piece is shown in memory of exactly its size, so that a sanitizer sees a byte too far. */
static struct outcome parse(const uint8_t *data, size_t size, size_t piece)
{
    static const struct kv_limits limits = {.args_max = 64, .bulk_max = 4096, .request_max = 16384};
    struct outcome outcome = {.last = KV_PARSE_MORE};
    struct kv_args args = {0};
    struct kv_parser parser;
    size_t shown = 0;
    kv_parser_init(&parser, &limits);
    for (;;) {
        struct kv_request request;
        size_t available = shown - outcome.used;
        char *region = malloc(available ? available : 1);
        REQUIRE(region);
        memcpy(region, data + outcome.used, available);
        outcome.last = kv_parser_step(&parser, region, available, &args, &request);
        if (outcome.last == KV_PARSE_COMMAND) {
            REQUIRE(request.size > 0 && request.size <= available);
            REQUIRE(request.argc <= limits.args_max);
            REQUIRE(request.args_from + request.argc == args.count);
            for (uint32_t i = 0; i < request.argc; i++) {
                const struct kv_arg *arg = &args.items[request.args_from + i];
                REQUIRE((size_t)arg->offset + arg->length <= request.size);
                mix(&outcome, &arg->length, sizeof arg->length);
                mix(&outcome, region + arg->offset, arg->length);
            }
            args.count = 0;
            outcome.used += request.size;
            outcome.requests++;
        }
        free(region);
        if (outcome.last == KV_PARSE_ERROR) {
            snprintf(outcome.error, sizeof outcome.error, "%s", kv_parser_error(&parser));
            break;
        }
        if (outcome.last == KV_PARSE_MORE) {
            REQUIRE(kv_parser_wants(&parser) <= limits.request_max);
            if (shown == size)
                break;
            shown = size - shown > piece ? shown + piece : size;
        }
    }
    kv_args_free(&args);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t piece = 1u + data[0] % 32u;
    struct outcome whole = parse(data, size, size);
    struct outcome pieces = parse(data, size, piece);
    REQUIRE(whole.last == pieces.last);
    REQUIRE(whole.requests == pieces.requests);
    REQUIRE(whole.digest == pieces.digest);
    REQUIRE(whole.used == pieces.used);
    REQUIRE(strcmp(whole.error, pieces.error) == 0);
    return 0;
}

/*
 * From a request's bytes to the answer's: whatever the commands, each gives one well-formed answer,
 * read back here by a reader of its own; it is the one that a naive model gives (kv_model.h); and
 * the store then holds what the model holds. An image of the store that is taken meanwhile shows
 * what the model held when it was begun.
 *
 * The first input byte chooses how far the clock moves between commands, the second one the longest
 * answer and where the image begins; the rest is what a client sends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "hash.h"
#include "kv_model.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define START_MS     INT64_C(1700000000000)
#define ARGS_MAX     64u
#define LIMIT_MAX    ((size_t)1 << 20)
#define COMMANDS_MAX 400u
/* How often the store is compared in full. */
#define COMPARE_EVERY 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    struct kv_store *store;
    struct model model;
    struct expected expected;
    struct kv_reply reply;
    int64_t now_ms;
    unsigned commands;
    size_t visited; /* entries, by compare */
    bool over;      /* more keys than the model has room for */

    unsigned image_from;    /* the command before which the image begins */
    struct kv_image *image; /* NULL: not yet, or no more */
    struct model then;      /* the model when it was begun; what the image shows is taken out */
    int64_t then_ms;
};

/* ---- the reader of answers ---- */

/* The line at `at`, without its end; it must have one, and no half of one inside. */
static struct bytes read_line(struct bytes text, size_t *at)
{
    size_t from = *at;
    while (*at < text.length && text.data[*at] != '\r' && text.data[*at] != '\n')
        ++*at;
    REQUIRE(text.length - *at >= 2 && text.data[*at] == '\r' && text.data[*at + 1] == '\n');
    *at += 2;
    return (struct bytes){text.data + from, *at - 2 - from};
}

static int64_t read_number(struct bytes line)
{
    char digits[24], again[24];
    REQUIRE(line.length > 1 && line.length - 1 < sizeof digits);
    memcpy(digits, line.data + 1, line.length - 1);
    digits[line.length - 1] = '\0';
    long long number = strtoll(digits, NULL, 10);
    snprintf(again, sizeof again, "%lld", number);
    REQUIRE(strcmp(digits, again) == 0);
    return number;
}

/* One answer at `at`; returns its mark. A bulk string's bytes go to *ret_bulk. */
static char read_answer(struct bytes text, size_t *at, unsigned depth, struct bytes *ret_bulk)
{
    struct bytes line = read_line(text, at), inner;
    REQUIRE(line.length > 0 && memchr("+-:$*", line.data[0], 5));
    switch (line.data[0]) {
    case '+':
        break;
    case '-': /* an error begins with its code */
        REQUIRE(line.length > 4 && line.data[1] >= 'A' && line.data[1] <= 'Z');
        break;
    case ':':
        (void)read_number(line);
        break;
    case '$': {
        int64_t length = read_number(line);
        REQUIRE(length >= -1);
        if (length < 0)
            break;
        REQUIRE((uint64_t)length + 2 <= text.length - *at);
        *ret_bulk = (struct bytes){text.data + *at, (size_t)length};
        *at += (size_t)length;
        REQUIRE(text.data[*at] == '\r' && text.data[*at + 1] == '\n');
        *at += 2;
        break;
    }
    case '*': {
        int64_t count = read_number(line);
        REQUIRE(count >= 0 && depth < 2);
        for (; count > 0; count--)
            (void)read_answer(text, at, depth + 1, &inner);
        break;
    }
    default:
        break;
    }
    return line.data[0];
}

/* ---- the store against the model ---- */

static void compare_one(const struct kv_entry *entry, void *arg)
{
    struct run *run = arg;
    struct bytes key = {kv_entry_key(entry), entry->key_length};
    const struct model_key *twin = model_find(&run->model, key);
    REQUIRE(twin != NULL);
    REQUIRE(twin->expire_at_ms == entry->expire_at_ms);
    REQUIRE(twin->value_length == entry->value_length);
    REQUIRE(memcmp(twin->value, kv_entry_value(entry), entry->value_length) == 0);
    run->visited++;
}

static void compare(struct run *run)
{
    uint64_t cursor = 0;
    run->visited = 0;
    model_expire(&run->model, run->now_ms);
    while (kv_store_walk(run->store, &cursor, 2, run->now_ms, compare_one, run))
        ;
    REQUIRE(run->visited == run->model.count);
    REQUIRE(kv_store_count(run->store) >= run->model.count);
}

static void learn_one(const struct kv_entry *entry, void *arg)
{
    struct run *run = arg;
    struct bytes key = {kv_entry_key(entry), entry->key_length};
    struct bytes value = {kv_entry_value(entry), entry->value_length};
    if (!model_set(&run->model, key, value, entry->expire_at_ms))
        run->over = true;
}

static void learn(struct run *run)
{
    uint64_t cursor = 0;
    model_clear(&run->model);
    while (kv_store_walk(run->store, &cursor, 16, run->now_ms, learn_one, run))
        ;
}

/* KEYS * and a whole SCAN name each key once. */
static void check_listing(struct run *run, const struct kv_reply *reply, unsigned depth)
{
    struct bytes text = {reply->data, reply->length}, bulk = {0};
    size_t at = 0;
    struct bytes header = read_line(text, &at);
    REQUIRE(header.data[0] == '*');
    if (depth == 1) { /* SCAN's cursor comes first */
        REQUIRE(read_number(header) == 2);
        REQUIRE(read_answer(text, &at, 1, &bulk) == '$' && bulk.length == 1 && bulk.data[0] == '0');
        header = read_line(text, &at);
    }
    int64_t count = read_number(header);
    REQUIRE((uint64_t)count == run->model.count);
    bool seen[MODEL_KEYS_MAX] = {false};
    for (; count > 0; count--) {
        REQUIRE(read_answer(text, &at, 2, &bulk) == '$');
        const struct model_key *one = model_find(&run->model, bulk);
        REQUIRE(one != NULL && !seen[one - run->model.keys]);
        seen[one - run->model.keys] = true;
    }
}

/* ---- the image ---- */

static void see_one(const struct kv_entry *entry, void *arg)
{
    struct run *run = arg;
    struct bytes key = {kv_entry_key(entry), entry->key_length};
    struct model_key *twin = model_find(&run->then, key);
    if (!twin) { /* it may show what had expired, but nothing that came later, and nothing twice */
        REQUIRE(entry->expire_at_ms <= run->then_ms);
        return;
    }
    REQUIRE(twin->expire_at_ms == entry->expire_at_ms);
    REQUIRE(twin->value_length == entry->value_length);
    REQUIRE(memcmp(twin->value, kv_entry_value(entry), entry->value_length) == 0);
    model_drop(&run->then, twin);
}

static void end_image(struct run *run)
{
    kv_image_detach(run->store, run->image);
    kv_image_free(run->image);
    run->image = NULL;
    model_clear(&run->then);
}

/* One slice between two commands; the image ends when all of the model has been seen. */
static void go_on_imaging(struct run *run)
{
    if (run->image) {
        if (kv_image_slice(run->image, 1, see_one, run))
            return;
        REQUIRE(run->then.count == 0);
        end_image(run);
    } else if (run->commands == run->image_from) {
        model_expire(&run->model, run->now_ms);
        model_copy(&run->model, &run->then);
        run->then_ms = run->now_ms;
        REQUIRE(kv_image_begin(run->store, &run->image) == 0);
    }
}

/* ---- one command ---- */

/* As the server does it. */
static void execute(const struct kv_call *call)
{
    const struct kv_command *command =
        kv_command_find(kv_store_commands, kv_store_commands_count, kv_call_arg(call, 0));
    if (!command)
        kv_reply_unknown_command(call);
    else if (!kv_command_arity_fits(command, call->argc))
        kv_reply_wrong_arity(call->reply, command->name);
    else
        command->run(call);
}

static void judge(struct run *run, enum model_verdict verdict)
{
    struct bytes text = {run->reply.data, run->reply.length}, bulk = {0};
    size_t at = 0;
    char mark = read_answer(text, &at, 0, &bulk);
    REQUIRE(at == text.length); /* one answer, and nothing behind it */
    if (verdict == MODEL_ERROR)
        REQUIRE(mark == '-');
    if (verdict == MODEL_EXACT)
        REQUIRE(text.length == run->expected.length &&
                memcmp(text.data, run->expected.data, text.length) == 0);
}

static void run_command(struct run *run, const char *region, const struct kv_arg *args,
                        uint32_t count)
{
    struct kv_call call = {.store = run->store,
                           .base = region,
                           .args = args,
                           .argc = count,
                           .reply = &run->reply,
                           .now_ms = run->now_ms};
    struct bytes words[ARGS_MAX];
    for (uint32_t i = 0; i < count; i++)
        words[i] = (struct bytes){region + args[i].offset, args[i].length};
    model_expire(&run->model, run->now_ms);
    enum model_verdict verdict = model_run(&run->model, words, count, run->now_ms, &run->expected);
    kv_reply_cut(&run->reply, 0);
    execute(&call);
    REQUIRE(run->reply.length <= run->reply.limit);
    if (run->reply.failed) {
        REQUIRE(run->reply.limit < LIMIT_MAX);
        kv_reply_cut(&run->reply, 0);
    } else {
        judge(run, verdict);
        if (count == 2 && words[1].length == 1 && words[1].data[0] == '*' && words[0].length == 4 &&
            memcmp(words[0].data, "KEYS", 4) == 0)
            check_listing(run, &run->reply, 0);
    }
    if (verdict == MODEL_FULL)
        run->over = true;
    else if (verdict == MODEL_UNKNOWN)
        learn(run);
    else if (run->commands % COMPARE_EVERY == 0)
        compare(run);
}

static void check_end(struct run *run)
{
    static const char scan[] = "SCAN0COUNT1000000";
    static const struct kv_arg args[] = {{0, 4}, {4, 1}, {5, 5}, {10, 7}};
    struct kv_call call = {.store = run->store,
                           .base = scan,
                           .args = args,
                           .argc = 4,
                           .reply = &run->reply,
                           .now_ms = run->now_ms};
    while (run->image)
        go_on_imaging(run);
    compare(run);
    kv_reply_cut(&run->reply, 0);
    run->reply.limit = LIMIT_MAX * 4;
    kv_cmd_scan(&call);
    REQUIRE(!run->reply.failed);
    check_listing(run, &run->reply, 1);
    while (kv_store_expire_due(run->store, run->now_ms, 3) > 0)
        ;
    REQUIRE(kv_store_count(run->store) == run->model.count);
    while (kv_store_free_trash(run->store, 2))
        ;
}

static void run_stream(struct run *run, char *region, size_t left, int64_t step_ms)
{
    static const struct kv_limits limits = {
        .args_max = ARGS_MAX, .bulk_max = 4096, .request_max = 16384};
    struct kv_args args = {0};
    struct kv_parser parser;
    struct kv_request request;
    kv_parser_init(&parser, &limits);
    while (!run->over && run->commands < COMMANDS_MAX &&
           kv_parser_step(&parser, region, left, &args, &request) == KV_PARSE_COMMAND) {
        if (request.argc > 0) {
            run->commands++;
            go_on_imaging(run);
            run_command(run, region, args.items + request.args_from, request.argc);
            run->now_ms += step_ms;
        }
        args.count = 0;
        region += request.size;
        left -= request.size;
    }
    kv_args_free(&args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    static bool ready;
    struct run run = {.now_ms = START_MS};
    char *region = malloc(size - 1);
    REQUIRE(ready || kv_hash_init() == 0);
    ready = true;
    REQUIRE(region && kv_store_create(&run.store) == 0);
    memcpy(region, data + 2, size - 2);
    kv_reply_init(&run.reply, data[1] & 1 ? 64u + data[1] * 2u : LIMIT_MAX);
    run.image_from = data[1] >> 1;
    run_stream(&run, region, size - 2, (int64_t)data[0] * 4);
    if (!run.over)
        check_end(&run);
    if (run.image)
        end_image(&run);
    model_clear(&run.model);
    free(run.expected.data);
    kv_reply_free(&run.reply);
    kv_store_destroy(run.store);
    free(region);
    return 0;
}

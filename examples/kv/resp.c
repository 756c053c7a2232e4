#include "resp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct kv_limits kv_limits_default = {
    .args_max = KV_ARGS_MAX,
    .bulk_max = KV_BULK_MAX_DEFAULT,
    .request_max = KV_REQUEST_MAX_DEFAULT,
};

#define ARGS_CAPACITY_FIRST 16u

void kv_args_free(struct kv_args *args)
{
    free(args->items);
    *args = (struct kv_args){0};
}

int kv_args_push(struct kv_args *args, uint32_t offset, uint32_t length)
{
    if (args->count == args->capacity) {
        size_t capacity = args->capacity ? args->capacity * 2 : ARGS_CAPACITY_FIRST;
        struct kv_arg *items = realloc(args->items, capacity * sizeof *items);
        if (!items)
            return -ENOMEM;
        args->items = items;
        args->capacity = capacity;
    }
    args->items[args->count++] = (struct kv_arg){.offset = offset, .length = length};
    return 0;
}

bool kv_parse_int64(const char *text, size_t length, int64_t *ret_value)
{
    size_t at = 0;
    bool negative = length > 0 && text[0] == '-';
    if (negative)
        at = 1;
    size_t digits = length - at;
    if (digits == 0 || digits > 19)
        return false;
    if (text[at] == '0' && (digits > 1 || negative))
        return false;
    uint64_t value = 0;
    for (; at < length; at++) {
        if (text[at] < '0' || text[at] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[at] - '0'); /* 19 digits fit in 64 bits */
    }
    if (value > (uint64_t)INT64_MAX + (negative ? 1u : 0u))
        return false;
    *ret_value = (int64_t)(negative ? 0 - value : value);
    return true;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void kv_parser_init(struct kv_parser *parser, const struct kv_limits *limits)
{
    *parser = (struct kv_parser){
        .limits =
            {
                .args_max = least(limits->args_max, KV_ARGS_MAX),
                .bulk_max = least(limits->bulk_max, KV_BULK_MAX),
                .request_max = least(limits->request_max, KV_REQUEST_MAX),
            },
    };
}

const char *kv_parser_error(const struct kv_parser *parser)
{
    return parser->error;
}

uint32_t kv_parser_wants(const struct kv_parser *parser)
{
    return parser->in_bulk ? parser->position + parser->bulk_left + 2 : parser->position;
}

__attribute__((format(printf, 2, 3))) static enum kv_parse fail(struct kv_parser *parser,
                                                                const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(parser->error, sizeof parser->error, format, list);
    va_end(list);
    return KV_PARSE_ERROR;
}

static enum kv_parse fail_memory(struct kv_parser *parser)
{
    return fail(parser, "Protocol error: out of memory");
}

/* Ends the request: describes it, and makes the parser ready for the next. */
static enum kv_parse finish(struct kv_parser *parser, const struct kv_args *args,
                            struct kv_request *ret_request)
{
    *ret_request = (struct kv_request){
        .size = parser->position,
        .argc = (uint32_t)(args->count - parser->args_from),
        .args_from = parser->args_from,
    };
    parser->position = parser->scanned = 0;
    parser->args_left = parser->bulk_left = 0;
    parser->in_multibulk = parser->in_bulk = false;
    return KV_PARSE_COMMAND;
}

/*
 * Finds the line end behind the parsed part. Returns false if it has not arrived; what was looked
 * at is not looked at again, so that a line sent byte by byte costs its length, not its square.
 */
static bool find_line_end(struct kv_parser *parser, const char *region, size_t available, char end,
                          uint32_t *ret_at)
{
    size_t from = (size_t)parser->position + parser->scanned;
    const char *found = from < available ? memchr(region + from, end, available - from) : NULL;
    if (!found) {
        parser->scanned = (uint32_t)(available - parser->position);
        return false;
    }
    parser->scanned = 0;
    *ret_at = (uint32_t)(found - region);
    return true;
}

/*
 * Reads a "<mark><number>\r\n" line at the position, which it moves behind the line. MORE, COMMAND
 * (a number was read) or ERROR. `what` names the number in the error's text.
 */
static enum kv_parse read_header(struct kv_parser *parser, const char *region, size_t available,
                                 const char *what, int64_t *ret_number)
{
    size_t seen = available - parser->position;
    size_t looked = seen < KV_HEADER_MAX ? seen : KV_HEADER_MAX;
    uint32_t end = 0;
    if (!find_line_end(parser, region, parser->position + looked, '\r', &end)) {
        if (looked == KV_HEADER_MAX)
            return fail(parser, "Protocol error: invalid %s", what);
        return KV_PARSE_MORE;
    }
    if ((size_t)end + 1 >= available) {
        parser->scanned = end - parser->position; /* the '\r' is looked at again */
        return KV_PARSE_MORE;
    }
    const char *digits = region + parser->position + 1;
    if (region[end + 1] != '\n' ||
        !kv_parse_int64(digits, (size_t)(region + end - digits), ret_number))
        return fail(parser, "Protocol error: invalid %s", what);
    parser->position = end + 2;
    return KV_PARSE_COMMAND;
}

/* Reads the "$<length>" line of the next argument. */
static enum kv_parse read_bulk_header(struct kv_parser *parser, const char *region,
                                      size_t available)
{
    char mark = region[parser->position];
    if (mark != '$')
        return fail(parser, "Protocol error: expected '$', got '%c'",
                    mark >= ' ' && mark <= '~' ? mark : '?');
    int64_t length = 0;
    enum kv_parse rc = read_header(parser, region, available, "bulk length", &length);
    if (rc != KV_PARSE_COMMAND)
        return rc;
    if (length < 0 || length > parser->limits.bulk_max)
        return fail(parser, "Protocol error: invalid bulk length");
    if ((uint64_t)parser->position + (uint64_t)length + 2 > parser->limits.request_max)
        return fail(parser, "Protocol error: request too big");
    parser->bulk_left = (uint32_t)length;
    parser->in_bulk = true;
    return KV_PARSE_COMMAND;
}

static enum kv_parse step_multibulk(struct kv_parser *parser, const char *region, size_t available,
                                    struct kv_args *args, struct kv_request *ret_request)
{
    while (parser->args_left > 0) {
        if (!parser->in_bulk) {
            if (parser->position >= available)
                return KV_PARSE_MORE;
            enum kv_parse rc = read_bulk_header(parser, region, available);
            if (rc != KV_PARSE_COMMAND)
                return rc;
        }
        if (available - parser->position < (size_t)parser->bulk_left + 2)
            return KV_PARSE_MORE;
        const char *end = region + parser->position + parser->bulk_left;
        if (end[0] != '\r' || end[1] != '\n')
            return fail(parser, "Protocol error: invalid bulk length");
        if (kv_args_push(args, parser->position, parser->bulk_left) < 0)
            return fail_memory(parser);
        parser->position += parser->bulk_left + 2;
        parser->in_bulk = false;
        parser->args_left--;
    }
    return finish(parser, args, ret_request);
}

static enum kv_parse begin_multibulk(struct kv_parser *parser, const char *region, size_t available,
                                     struct kv_args *args, struct kv_request *ret_request)
{
    int64_t count = 0;
    enum kv_parse rc = read_header(parser, region, available, "multibulk length", &count);
    if (rc != KV_PARSE_COMMAND)
        return rc;
    if (count > parser->limits.args_max)
        return fail(parser, "Protocol error: invalid multibulk length");
    if (count <= 0) /* no arguments: no request, and no answer */
        return finish(parser, args, ret_request);
    parser->args_left = (uint32_t)count;
    parser->in_multibulk = true;
    return step_multibulk(parser, region, available, args, ret_request);
}

static enum kv_parse step_inline(struct kv_parser *parser, char *region, size_t available,
                                 struct kv_args *args, struct kv_request *ret_request)
{
    uint32_t end = 0;
    size_t looked = available < KV_INLINE_MAX ? available : KV_INLINE_MAX;
    if (!find_line_end(parser, region, looked, '\n', &end)) {
        if (looked == KV_INLINE_MAX)
            return fail(parser, "Protocol error: too big inline request");
        return KV_PARSE_MORE;
    }
    uint32_t length = end > 0 && region[end - 1] == '\r' ? end - 1 : end;
    int rc = kv_inline_split(region, length, parser->limits.args_max, args);
    if (rc == -EINVAL)
        return fail(parser, "Protocol error: unbalanced quotes in request");
    if (rc < 0)
        return fail_memory(parser);
    parser->position = end + 1;
    return finish(parser, args, ret_request);
}

enum kv_parse kv_parser_step(struct kv_parser *parser, char *region, size_t available,
                             struct kv_args *args, struct kv_request *ret_request)
{
    if (available == 0)
        return KV_PARSE_MORE;
    if (parser->in_multibulk)
        return step_multibulk(parser, region, available, args, ret_request);
    if (parser->position == 0)
        parser->args_from = args->count;
    if (region[0] == '*')
        return begin_multibulk(parser, region, available, args, ret_request);
    return step_inline(parser, region, available, args, ret_request);
}

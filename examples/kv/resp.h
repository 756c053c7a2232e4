/*
 * The request side of the Redis protocol (RESP2): multibulk requests and inline commands.
 *
 * The parser is incremental and holds no bytes of its own: it is shown the same region, which
 * starts at the first byte of a request and grows as bytes arrive, and remembers how far it came.
 * Arguments are offsets into that region, so the region may move between calls.
 *
 *     struct kv_parser parser;
 *     kv_parser_init(&parser, &kv_limits_default);
 *     switch (kv_parser_step(&parser, region, available, &args, &command)) {
 *     case KV_PARSE_MORE:    ... read more behind the region, call again
 *     case KV_PARSE_COMMAND: ... command.size bytes are used up; the next request begins there
 *     case KV_PARSE_ERROR:   ... answer kv_parser_error(&parser), close
 *     }
 *
 * Nothing is allocated because a header asks for it: the argument array grows by the arguments
 * that have arrived, and what is over a limit is refused when its header is read.
 */
#ifndef KV_RESP_H
#define KV_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Arguments of one request, the command's name included. */
#define KV_ARGS_MAX (1024u * 1024u)
/* Bytes of one argument: the most that the option may ask for, and what it is by default. */
#define KV_BULK_MAX         (512u * 1024u * 1024u)
#define KV_BULK_MAX_DEFAULT (64u * 1024u * 1024u)
/* Bytes of an inline command, its line end included. */
#define KV_INLINE_MAX (64u * 1024u)
/* Bytes of a "*<count>" or "$<length>" line: a sign, 19 digits, and some. */
#define KV_HEADER_MAX 32u
/* Bytes of one request: the most that offsets can name here, and the default. */
#define KV_REQUEST_MAX         (1024u * 1024u * 1024u)
#define KV_REQUEST_MAX_DEFAULT (128u * 1024u * 1024u)
/* Bytes of a protocol error's text. */
#define KV_PARSE_ERROR_MAX 96u

struct kv_limits {
    uint32_t args_max;
    uint32_t bulk_max;
    uint32_t request_max;
};

extern const struct kv_limits kv_limits_default;

/* One argument: bytes [offset, offset + length) of its request. */
struct kv_arg {
    uint32_t offset;
    uint32_t length;
};

/* A growable array of arguments; several requests may stand in one. */
struct kv_args {
    struct kv_arg *items;
    size_t count;
    size_t capacity;
};

void kv_args_free(struct kv_args *args);

/* One complete request. */
struct kv_request {
    uint32_t size;    /* bytes of the request, line ends included */
    uint32_t argc;    /* 0: an empty request, which has no answer */
    size_t args_from; /* its first argument in the array */
};

enum kv_parse {
    KV_PARSE_MORE,
    KV_PARSE_COMMAND,
    KV_PARSE_ERROR,
};

struct kv_parser {
    struct kv_limits limits;
    uint32_t position;  /* bytes of the request that are parsed */
    uint32_t scanned;   /* of an unfinished line: bytes known to hold no line end */
    uint32_t args_left; /* arguments of the multibulk request that are still to come */
    uint32_t bulk_left; /* length of the argument whose header was read */
    bool in_multibulk;
    bool in_bulk;
    size_t args_from;
    char error[KV_PARSE_ERROR_MAX];
};

/* Limits above the constants are brought down to them. */
void kv_parser_init(struct kv_parser *parser, const struct kv_limits *limits);

/*
 * Goes on with the request at `region`, of which `available` bytes are there. On KV_PARSE_COMMAND
 * its arguments were appended to `args`, the request described, and the parser is ready for the
 * next one. Quoted inline arguments are unescaped in place: `region` is written to.
 */
enum kv_parse kv_parser_step(struct kv_parser *parser, char *region, size_t available,
                             struct kv_args *args, struct kv_request *ret_request);

/* After KV_PARSE_ERROR: the text for the client, without "-ERR " and line end. */
const char *kv_parser_error(const struct kv_parser *parser);

/*
 * Bytes that the unfinished request is known to need in all, as far as headers tell (at least
 * `available`): a hint for growing the region. At most the request limit.
 */
uint32_t kv_parser_wants(const struct kv_parser *parser);

/* Splits a line at blanks, with redis-cli's quoting, appending to args; -EINVAL: unbalanced. */
int kv_inline_split(char *line, uint32_t length, uint32_t args_max, struct kv_args *args);

/* Strict decimal: optional '-', no '+', no blanks, no leading zeros, in range. */
bool kv_parse_int64(const char *text, size_t length, int64_t *ret_value);

int kv_args_push(struct kv_args *args, uint32_t offset, uint32_t length);

#endif

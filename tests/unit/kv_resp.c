/* The example server's request parser: what it takes, what it refuses, and that pieces of any size
   give what the whole gives. */
#include "tests/support/lx_test.h"

#include "resp.h"

#define REGION_MAX 4096u

TestSuite(kv_resp, .timeout = 60);

/* Parses text that stands whole in memory; the first step's result. */
static enum kv_parse parse_limited(const char *text, size_t length, const struct kv_limits *limits,
                                   char *region, struct kv_args *args, struct kv_request *request,
                                   struct kv_parser *parser)
{
    memcpy(region, text, length);
    kv_parser_init(parser, limits);
    return kv_parser_step(parser, region, length, args, request);
}

static void expect_error(const char *text, const char *message)
{
    char region[REGION_MAX];
    struct kv_args args = {0};
    struct kv_request request;
    struct kv_parser parser;
    enum kv_parse rc =
        parse_limited(text, strlen(text), &kv_limits_default, region, &args, &request, &parser);
    cr_assert_eq(rc, KV_PARSE_ERROR, "accepted: %s", text);
    cr_assert_str_eq(kv_parser_error(&parser), message);
    kv_args_free(&args);
}

/* Feeds text in pieces of `piece` bytes and joins the arguments of all its requests as a|b;c; */
static void parse_in_pieces(const char *text, size_t length, size_t piece, char *out)
{
    char region[REGION_MAX];
    struct kv_args args = {0};
    struct kv_request request;
    struct kv_parser parser;
    size_t begin = 0, shown = 0, at = 0;
    memcpy(region, text, length);
    kv_parser_init(&parser, &kv_limits_default);
    while (begin < length) {
        enum kv_parse rc = kv_parser_step(&parser, region + begin, shown - begin, &args, &request);
        cr_assert_neq(rc, KV_PARSE_ERROR, "%s", kv_parser_error(&parser));
        if (rc == KV_PARSE_MORE) {
            cr_assert_lt(shown, length, "wants more than there is");
            shown = shown + piece < length ? shown + piece : length;
            continue;
        }
        for (uint32_t i = 0; i < request.argc; i++) {
            const struct kv_arg *arg = &args.items[request.args_from + i];
            memcpy(out + at, region + begin + arg->offset, arg->length);
            at += arg->length;
            out[at++] = i + 1 < request.argc ? '|' : ';';
        }
        begin += request.size;
        args.count = 0;
    }
    out[at] = '\0';
    kv_args_free(&args);
}

static void expect_requests(const char *text, const char *want)
{
    size_t length = strlen(text);
    for (size_t piece = 1; piece <= length; piece++) {
        char out[REGION_MAX];
        parse_in_pieces(text, length, piece, out);
        cr_assert_str_eq(out, want, "pieces of %zu: %s", piece, out);
    }
}

Test(kv_resp, multibulk_in_pieces_of_every_size)
{
    expect_requests("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n", "SET|k|;PING;");
}

Test(kv_resp, line_ends_inside_an_argument_are_data)
{
    expect_requests("*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\r\n\r\n", "ECHO|\r\n\r\n;");
}

Test(kv_resp, empty_requests_have_no_arguments)
{
    expect_requests("\r\n*0\r\n*-1\r\n\nPING\r\n", "PING;");
}

Test(kv_resp, inline_words_and_quotes)
{
    expect_requests("set  a\tb\r\nget \"x y\\x41\\n\\\"\" 'it\\'s'\n",
                    "set|a|b;get|x yA\n\"|it's;");
    expect_requests("SET k \"\"\r\n", "SET|k|;");
}

Test(kv_resp, errors_in_the_words_that_clients_know)
{
    expect_error("*abc\r\n", "Protocol error: invalid multibulk length");
    expect_error("*1048577\r\n", "Protocol error: invalid multibulk length");
    expect_error("*99999999999999999999999999999999999",
                 "Protocol error: invalid multibulk length");
    expect_error("*1\r\nPING\r\n", "Protocol error: expected '$', got 'P'");
    expect_error("*1\r\n\1", "Protocol error: expected '$', got '?'");
    expect_error("*1\r\n$-1\r\n", "Protocol error: invalid bulk length");
    expect_error("*1\r\n$+4\r\nPING\r\n", "Protocol error: invalid bulk length");
    expect_error("*1\r\n$536870913\r\n", "Protocol error: invalid bulk length");
    expect_error("*1\r\n$4\r\nPINGxx", "Protocol error: invalid bulk length");
    expect_error("*1\r\n$4\rxPING", "Protocol error: invalid bulk length");
    expect_error("get \"abc\r\n", "Protocol error: unbalanced quotes in request");
    expect_error("get \"abc\"d\r\n", "Protocol error: unbalanced quotes in request");
    expect_error("get 'abc\r\n", "Protocol error: unbalanced quotes in request");
}

Test(kv_resp, a_line_without_end_is_refused_at_its_limit)
{
    char *region = malloc(KV_INLINE_MAX);
    struct kv_args args = {0};
    struct kv_request request;
    struct kv_parser parser;
    memset(region, 'x', KV_INLINE_MAX);
    kv_parser_init(&parser, &kv_limits_default);
    cr_assert_eq(kv_parser_step(&parser, region, KV_INLINE_MAX - 1, &args, &request),
                 KV_PARSE_MORE);
    cr_assert_eq(kv_parser_step(&parser, region, KV_INLINE_MAX, &args, &request), KV_PARSE_ERROR);
    cr_assert_str_eq(kv_parser_error(&parser), "Protocol error: too big inline request");
    free(region);
}

Test(kv_resp, huge_headers_take_no_memory)
{
    char region[64];
    struct kv_args args = {0};
    struct kv_request request;
    struct kv_parser parser;
    const char *text = "*1048576\r\n$67108864\r\n";
    cr_assert_eq(
        parse_limited(text, strlen(text), &kv_limits_default, region, &args, &request, &parser),
        KV_PARSE_MORE);
    cr_assert_eq(args.capacity, 0, "room was made for %zu arguments", args.capacity);
    cr_assert_eq(kv_parser_wants(&parser), strlen(text) + 67108864u + 2);
}

Test(kv_resp, limits_are_the_callers)
{
    char region[64];
    struct kv_args args = {0};
    struct kv_request request;
    struct kv_parser parser;
    struct kv_limits limits = {.args_max = 2, .bulk_max = 4, .request_max = 20};
    static const struct {
        const char *text;
        enum kv_parse want;
    } cases[] = {
        {"*2\r\n$1\r\na\r\n$1\r\nb\r\n", KV_PARSE_ERROR}, /* the request: 20 bytes do not do */
        {"*1\r\n$4\r\nabcd\r\n", KV_PARSE_COMMAND},
        {"*1\r\n$5\r\nabcde\r\n", KV_PARSE_ERROR},
        {"*3\r\n", KV_PARSE_ERROR},
        {"a b\r\n", KV_PARSE_COMMAND},
        {"a b c\r\n", KV_PARSE_ERROR},
    };
    limits.request_max = 17;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        args.count = 0;
        cr_assert_eq(parse_limited(cases[i].text, strlen(cases[i].text), &limits, region, &args,
                                   &request, &parser),
                     cases[i].want, "case %zu", i);
    }
    kv_args_free(&args);
}

Test(kv_resp, numbers_are_strict)
{
    static const struct {
        const char *text;
        bool fits;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-1", true, -1},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"-0", false, 0},
        {"01", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"99999999999999999999", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = 0;
        bool fits = kv_parse_int64(cases[i].text, strlen(cases[i].text), &value);
        cr_assert_eq(fits, cases[i].fits, "\"%s\"", cases[i].text);
        cr_assert_eq(value, cases[i].value, "\"%s\"", cases[i].text);
    }
}

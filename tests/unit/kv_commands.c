/* The example server's database commands, each by its answer in the protocol. */
#include "tests/support/lx_test.h"

#include "command.h"
#include "glob.h"
#include "hash.h"

#define REPLY_MAX 65536u
#define NOW_MS    INT64_C(1000000)

TestSuite(kv_commands, .timeout = 60);

static struct kv_store *store;
static struct kv_reply reply;
static int64_t now_ms;

static void begin(void)
{
    cr_assert_eq(kv_hash_init(), 0);
    cr_assert_eq(kv_store_create(&store), 0);
    kv_reply_init(&reply, REPLY_MAX);
    now_ms = NOW_MS;
}

static void end(void)
{
    kv_store_destroy(store);
    kv_reply_free(&reply);
}

/* Runs an inline command; the answer is NUL-terminated in reply.data. */
static const char *run(const char *line)
{
    struct kv_args args = {0};
    char region[512];
    size_t length = strlen(line);
    memcpy(region, line, length + 1);
    cr_assert_eq(kv_inline_split(region, (uint32_t)length, KV_ARGS_MAX, &args), 0);
    struct kv_call call = {.store = store,
                           .base = region,
                           .args = args.items,
                           .argc = (uint32_t)args.count,
                           .reply = &reply,
                           .now_ms = now_ms};
    const struct kv_command *command =
        kv_command_find(kv_store_commands, kv_store_commands_count, kv_call_arg(&call, 0));
    kv_reply_cut(&reply, 0);
    if (!command)
        kv_reply_unknown_command(&call);
    else if (!kv_command_arity_fits(command, call.argc))
        kv_reply_wrong_arity(&reply, command->name);
    else
        command->run(&call);
    kv_args_free(&args);
    cr_assert_not(reply.failed);
    kv_reply_bytes(&reply, "", 1);
    return reply.data;
}

static void expect(const char *line, const char *want)
{
    const char *got = run(line);
    cr_assert_str_eq(got, want, "%s gives %s", line, got);
}

#define OK             "+OK\r\n"
#define NONE           "$-1\r\n"
#define SYNTAX         "-ERR syntax error\r\n"
#define NOT_AN_INTEGER "-ERR value is not an integer or out of range\r\n"

Test(kv_commands, the_table_is_sorted, .init = begin, .fini = end)
{
    for (size_t i = 1; i < kv_store_commands_count; i++)
        cr_assert_lt(strcmp(kv_store_commands[i - 1].name, kv_store_commands[i].name), 0);
    for (size_t i = 0; i < kv_store_commands_count; i++)
        cr_assert(strlen(kv_store_commands[i].name) <= KV_COMMAND_NAME_MAX);
}

Test(kv_commands, unknown_commands_and_wrong_arity, .init = begin, .fini = end)
{
    expect("frob", "-ERR unknown command 'frob', with args beginning with: \r\n");
    expect("FROB a b", "-ERR unknown command 'FROB', with args beginning with: 'a' 'b' \r\n");
    expect("get", "-ERR wrong number of arguments for 'get' command\r\n");
    expect("GeT a b", "-ERR wrong number of arguments for 'get' command\r\n");
    expect("mset a", "-ERR wrong number of arguments for 'mset' command\r\n");
    expect("mset a 1 b", "-ERR wrong number of arguments for 'mset' command\r\n");
}

Test(kv_commands, strings, .init = begin, .fini = end)
{
    expect("get a", NONE);
    expect("set a 1", OK);
    expect("get a", "$1\r\n1\r\n");
    expect("mset b 22 c 333", OK);
    expect("mget a b nope c", "*4\r\n$1\r\n1\r\n$2\r\n22\r\n$-1\r\n$3\r\n333\r\n");
    expect("strlen c", ":3\r\n");
    expect("strlen nope", ":0\r\n");
    expect("exists a a nope c", ":3\r\n");
    expect("type a", "+string\r\n");
    expect("type nope", "+none\r\n");
    expect("dbsize", ":3\r\n");
    expect("del a nope b", ":2\r\n");
    expect("dbsize", ":1\r\n");
    expect("flushdb", OK);
    expect("flushdb now", SYNTAX);
    expect("dbsize", ":0\r\n");
    expect("set \"\" \"\"", OK);
    expect("get \"\"", "$0\r\n\r\n");
}

Test(kv_commands, counters, .init = begin, .fini = end)
{
    expect("incr n", ":1\r\n");
    expect("incrby n 9", ":10\r\n");
    expect("decr n", ":9\r\n");
    expect("decrby n 10", ":-1\r\n");
    expect("get n", "$2\r\n-1\r\n");
    expect("incrby n x", NOT_AN_INTEGER);
    expect("decrby n -9223372036854775808", "-ERR decrement would overflow\r\n");
    expect("set n 9223372036854775807", OK);
    expect("incr n", "-ERR increment or decrement would overflow\r\n");
    expect("set n 1x", OK);
    expect("incr n", NOT_AN_INTEGER);
    expect("set n 5 ex 100", OK);
    expect("incr n", ":6\r\n");
    expect("ttl n", ":100\r\n");
}

Test(kv_commands, set_with_options, .init = begin, .fini = end)
{
    expect("set k v xx", NONE);
    expect("set k v nx", OK);
    expect("set k w nx", NONE);
    expect("set k w xx", OK);
    expect("set k x get", "$1\r\nw\r\n");
    expect("set new x get", NONE);
    expect("set k y nx get", "$1\r\nx\r\n");
    expect("get k", "$1\r\nx\r\n");
    expect("set k v nx xx", SYNTAX);
    expect("set k v ex 10 px 10", SYNTAX);
    expect("set k v ex", SYNTAX);
    expect("set k v frob", SYNTAX);
    expect("set k v ex 10 keepttl", SYNTAX);
    expect("set k v ex 0", "-ERR invalid expire time in 'set' command\r\n");
    expect("set k v px -5", "-ERR invalid expire time in 'set' command\r\n");
    expect("set k v ex 9223372036854775807", "-ERR invalid expire time in 'set' command\r\n");
    expect("set k v ex ten", NOT_AN_INTEGER);
    expect("set k v PX 1500", OK);
    expect("pttl k", ":1500\r\n");
    expect("set k w keepttl", OK);
    expect("pttl k", ":1500\r\n");
    expect("set k w", OK);
    expect("pttl k", ":-1\r\n");
    expect("set k v pxat 1", OK);
    expect("get k", NONE);
}

Test(kv_commands, expiry, .init = begin, .fini = end)
{
    expect("ttl nope", ":-2\r\n");
    expect("expire nope 10", ":0\r\n");
    expect("set k v", OK);
    expect("ttl k", ":-1\r\n");
    expect("persist k", ":0\r\n");
    expect("expire k 10", ":1\r\n");
    expect("ttl k", ":10\r\n");
    expect("expire k 20 nx", ":0\r\n");
    expect("expire k 5 gt", ":0\r\n");
    expect("expire k 20 gt", ":1\r\n");
    expect("expire k 30 lt", ":0\r\n");
    expect("expire k 20 maybe", "-ERR Unsupported option maybe\r\n");
    expect("expire k 9223372036854775807", "-ERR invalid expire time in 'expire' command\r\n");
    now_ms += 19999;
    expect("pttl k", ":1\r\n");
    expect("get k", "$1\r\nv\r\n");
    now_ms += 1;
    expect("get k", NONE);
    expect("exists k", ":0\r\n");
    expect("keys *", "*0\r\n");
    expect("persist k", ":0\r\n");
    expect("del k", ":0\r\n");
    expect("set k v px 5", OK);
    expect("persist k", ":1\r\n");
    expect("pttl k", ":-1\r\n");
    expect("pexpire k -1", ":1\r\n");
    expect("exists k", ":0\r\n");
}

Test(kv_commands, keys_and_patterns, .init = begin, .fini = end)
{
    expect("mset one 1 two 2", OK);
    expect("keys t?o", "*1\r\n$3\r\ntwo\r\n");
    expect("keys [n-p]*", "*1\r\n$3\r\none\r\n");
    expect("keys x*", "*0\r\n");
    cr_assert_eq(strncmp(run("keys *"), "*2\r\n", 4), 0);
}

Test(kv_commands, scan_meets_all_keys, .init = begin, .fini = end)
{
    for (int i = 0; i < 300; i++) {
        char line[64];
        snprintf(line, sizeof line, "set k%d %d", i, i);
        run(line);
    }
    char line[64] = "scan 0 count 7";
    unsigned found = 0, calls = 0;
    for (;;) {
        char cursor[32];
        unsigned keys = 0;
        const char *got = run(line);
        cr_assert_eq(sscanf(got, "*2\r\n$%*u\r\n%31[0-9]\r\n*%u\r\n", cursor, &keys), 2, "%s", got);
        found += keys;
        calls++;
        if (strcmp(cursor, "0") == 0)
            break;
        snprintf(line, sizeof line, "scan %s count 7", cursor);
    }
    cr_assert_eq(found, 300);
    cr_assert(calls > 10 && calls < 300, "%u calls", calls);
    expect("scan x", "-ERR invalid cursor\r\n");
    expect("scan -1", "-ERR invalid cursor\r\n");
    expect("scan 0 count 0", SYNTAX);
    expect("scan 0 count x", NOT_AN_INTEGER);
    expect("scan 0 frob 1", SYNTAX);
    expect("scan 0 match", SYNTAX);
    expect("scan 0 match k7 count 1000", "*2\r\n$1\r\n0\r\n*1\r\n$2\r\nk7\r\n");
    expect("scan 0 count 1000 type list", "*2\r\n$1\r\n0\r\n*0\r\n");
}

Test(kv_commands, an_answer_over_the_limit_fails_whole, .init = begin, .fini = end)
{
    struct kv_reply small;
    kv_reply_init(&small, 64);
    kv_reply_status(&small, "OK");
    kv_reply_bulk(&small, "0123456789012345678901234567890123456789", 40);
    cr_assert(small.failed);
    cr_assert_eq(small.length, 5);
    kv_reply_int(&small, 1);
    cr_assert_eq(small.length, 5, "nothing is added behind a failure");
    kv_reply_cut(&small, 5);
    kv_reply_error(&small, "ERR two\r\nlines");
    cr_assert_eq(small.length, 5 + 17);
    cr_assert_eq(memcmp(small.data, "+OK\r\n-ERR two  lines\r\n", 22), 0);
    kv_reply_free(&small);
}

Test(kv_commands, glob)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        {"*", "", true},         {"", "", true},           {"", "a", false},
        {"a*c", "abbc", true},   {"a*c", "abbd", false},   {"a?c", "abc", true},
        {"a?c", "ac", false},    {"[abc]x", "bx", true},   {"[^abc]x", "bx", false},
        {"[^abc]x", "dx", true}, {"[a-c]x", "bx", true},   {"[c-a]x", "bx", true},
        {"[a-]x", "-x", true},   {"\\*", "*", true},       {"\\*", "a", false},
        {"[\\]]", "]", true},    {"a*b*c", "aXbYc", true}, {"a*b*c", "acb", false},
        {"**a", "ba", true},     {"[a", "a", true},        {"a\\", "a\\", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_eq(kv_glob_match(cases[i].pattern, strlen(cases[i].pattern), cases[i].text,
                                   strlen(cases[i].text)),
                     cases[i].matches, "%s on %s", cases[i].pattern, cases[i].text);
    /* What is exponential where each star is tried anew at each place. */
    char pattern[64], text[4096];
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = i % 2 ? 'a' : '*';
    pattern[sizeof pattern - 1] = 'b';
    memset(text, 'a', sizeof text);
    cr_assert_not(kv_glob_match(pattern, sizeof pattern, text, sizeof text));
}

/* Commands that only look. They run beside one another: none writes to the store. */
#include "command.h"
#include "glob.h"

/* SCAN's COUNT by default, and the buckets it may look at per element asked for. */
#define SCAN_COUNT_DEFAULT      10
#define SCAN_BUCKETS_PER_RESULT 10
/* Cursors leave the process as 48 bits: walk positions have zeros below. */
#define CURSOR_SHIFT 16u
#define CURSOR_MAX   ((INT64_C(1) << 48) - 1)
/* Lookups whose memory is asked for ahead. */
#define MGET_AHEAD 8u

static const struct kv_entry *lookup(const struct kv_call *call, uint32_t index)
{
    return kv_store_get(call->store, kv_call_arg(call, index), call->now_ms);
}

static void reply_value(struct kv_reply *reply, const struct kv_entry *entry)
{
    if (entry)
        kv_reply_bulk(reply, kv_entry_value(entry), entry->value_length);
    else
        kv_reply_null(reply);
}

void kv_cmd_get(const struct kv_call *call)
{
    reply_value(call->reply, lookup(call, 1));
}

void kv_cmd_mget(const struct kv_call *call)
{
    kv_reply_array(call->reply, call->argc - 1);
    for (uint32_t i = 1; i < call->argc && !call->reply->failed; i++) {
        if (i + MGET_AHEAD < call->argc)
            kv_store_prefetch(call->store, kv_call_arg(call, i + MGET_AHEAD));
        reply_value(call->reply, lookup(call, i));
    }
}

void kv_cmd_exists(const struct kv_call *call)
{
    int64_t found = 0;
    for (uint32_t i = 1; i < call->argc; i++)
        found += lookup(call, i) != NULL;
    kv_reply_int(call->reply, found);
}

void kv_cmd_strlen(const struct kv_call *call)
{
    const struct kv_entry *entry = lookup(call, 1);
    kv_reply_int(call->reply, entry ? entry->value_length : 0);
}

void kv_cmd_type(const struct kv_call *call)
{
    kv_reply_status(call->reply, lookup(call, 1) ? "string" : "none");
}

/* -2: no such key; -1: it never expires. */
static void reply_ttl(const struct kv_call *call, int64_t unit_ms)
{
    const struct kv_entry *entry = lookup(call, 1);
    if (!entry)
        kv_reply_int(call->reply, -2);
    else if (entry->expire_at_ms == KV_TIME_NEVER)
        kv_reply_int(call->reply, -1);
    else
        kv_reply_int(call->reply, (entry->expire_at_ms - call->now_ms + unit_ms / 2) / unit_ms);
}

void kv_cmd_ttl(const struct kv_call *call)
{
    reply_ttl(call, 1000);
}

void kv_cmd_pttl(const struct kv_call *call)
{
    reply_ttl(call, 1);
}

void kv_cmd_dbsize(const struct kv_call *call)
{
    kv_reply_int(call->reply, (int64_t)kv_store_count(call->store));
}

/* Appends the keys that a walk meets and a pattern lets through. */
struct collect {
    struct kv_str pattern;
    bool all;
    struct kv_reply *reply;
    uint64_t count;
};

static void collect_key(const struct kv_entry *entry, void *arg)
{
    struct collect *collect = arg;
    if (!collect->all && !kv_glob_match(collect->pattern.bytes, collect->pattern.length,
                                        kv_entry_key(entry), entry->key_length))
        return;
    kv_reply_bulk(collect->reply, kv_entry_key(entry), entry->key_length);
    collect->count++;
}

static bool is_star(struct kv_str pattern)
{
    return pattern.length == 1 && pattern.bytes[0] == '*';
}

bool kv_keys_slice(const struct kv_store *store, struct kv_str pattern, uint64_t *cursor,
                   uint32_t max_buckets, int64_t now_ms, struct kv_reply *reply, uint64_t *count)
{
    struct collect collect = {.pattern = pattern, .all = is_star(pattern), .reply = reply};
    bool more = kv_store_walk(store, cursor, max_buckets, now_ms, collect_key, &collect);
    *count += collect.count;
    return more && !reply->failed;
}

/* Puts what was collected behind an array header of its number. */
static void reply_collected(struct kv_reply *reply, const struct kv_reply *keys, uint64_t count)
{
    if (keys->failed) {
        reply->failed = true;
        return;
    }
    kv_reply_array(reply, count);
    kv_reply_bytes(reply, keys->data, keys->length);
}

void kv_cmd_keys(const struct kv_call *call)
{
    struct kv_reply keys;
    kv_reply_init(&keys, call->reply->limit);
    uint64_t cursor = 0, count = 0;
    while (kv_keys_slice(call->store, kv_call_arg(call, 1), &cursor, KV_SEGMENT_BUCKETS,
                         call->now_ms, &keys, &count))
        ;
    reply_collected(call->reply, &keys, count);
    kv_reply_free(&keys);
}

/* SCAN's options. */
struct scan {
    uint64_t cursor;
    int64_t count;
    struct kv_str pattern;
    bool only_strings; /* false if TYPE names something that no key here is */
};

static bool parse_scan(const struct kv_call *call, struct scan *scan)
{
    struct kv_str cursor = kv_call_arg(call, 1);
    int64_t number = 0;
    if (!kv_parse_int64(cursor.bytes, cursor.length, &number) || number < 0 ||
        number > CURSOR_MAX) {
        kv_reply_error(call->reply, "ERR invalid cursor");
        return false;
    }
    *scan = (struct scan){.cursor = (uint64_t)number << CURSOR_SHIFT,
                          .count = SCAN_COUNT_DEFAULT,
                          .pattern = {"*", 1},
                          .only_strings = true};
    for (uint32_t i = 2; i < call->argc; i += 2) {
        struct kv_str option = kv_call_arg(call, i);
        if (i + 1 == call->argc) {
            kv_reply_syntax_error(call->reply);
            return false;
        }
        struct kv_str value = kv_call_arg(call, i + 1);
        if (kv_str_is(option, "match")) {
            scan->pattern = value;
        } else if (kv_str_is(option, "type")) {
            scan->only_strings = kv_str_is(value, "string");
        } else if (!kv_str_is(option, "count")) {
            kv_reply_syntax_error(call->reply);
            return false;
        } else if (!kv_parse_int64(value.bytes, value.length, &scan->count)) {
            kv_reply_not_an_integer(call->reply);
            return false;
        } else if (scan->count < 1) {
            kv_reply_syntax_error(call->reply);
            return false;
        }
    }
    return true;
}

void kv_cmd_scan(const struct kv_call *call)
{
    struct scan scan;
    if (!parse_scan(call, &scan))
        return;
    struct collect collect = {.pattern = scan.pattern, .all = is_star(scan.pattern)};
    struct kv_reply keys;
    kv_reply_init(&keys, call->reply->limit);
    collect.reply = &keys;
    int64_t buckets = scan.count > INT64_MAX / SCAN_BUCKETS_PER_RESULT
                          ? INT64_MAX
                          : scan.count * SCAN_BUCKETS_PER_RESULT;
    bool more = true;
    for (; more && buckets > 0 && collect.count < (uint64_t)scan.count && !keys.failed; buckets--)
        more = kv_store_walk(call->store, &scan.cursor, 1, call->now_ms, collect_key, &collect);
    if (!scan.only_strings) {
        kv_reply_cut(&keys, 0);
        collect.count = 0;
    }
    char number[24];
    size_t at = sizeof number;
    uint64_t cursor = scan.cursor >> CURSOR_SHIFT;
    do {
        number[--at] = (char)('0' + cursor % 10);
        cursor /= 10;
    } while (cursor);
    kv_reply_array(call->reply, 2);
    kv_reply_bulk(call->reply, number + at, sizeof number - at);
    reply_collected(call->reply, &keys, collect.count);
    kv_reply_free(&keys);
}

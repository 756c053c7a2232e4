/* SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] */
#include "command.h"

struct set_options {
    bool if_absent;
    bool if_present;
    bool get;
    bool keep_ttl;
    bool has_expiry;
    int64_t expire_at_ms;
};

/* An expiry option, whose time is argument `at` + 1; false: not one, or answered with an error. */
static bool parse_expiry(const struct kv_call *call, uint32_t at, struct set_options *options,
                         bool *ret_answered)
{
    static const struct {
        const char *name;
        int64_t unit_ms;
        bool relative;
    } kinds[] = {{"ex", 1000, true}, {"px", 1, true}, {"exat", 1000, false}, {"pxat", 1, false}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kv_str_is(kv_call_arg(call, at), kinds[i].name))
            continue;
        if (at + 1 >= call->argc || options->has_expiry || options->keep_ttl)
            return false;
        struct kv_str text = kv_call_arg(call, at + 1);
        int64_t amount = 0, at_ms = 0;
        *ret_answered = true;
        if (!kv_parse_int64(text.bytes, text.length, &amount)) {
            kv_reply_not_an_integer(call->reply);
            return false;
        }
        if (amount <= 0 || __builtin_mul_overflow(amount, kinds[i].unit_ms, &at_ms) ||
            __builtin_add_overflow(at_ms, kinds[i].relative ? call->now_ms : 0, &at_ms) ||
            at_ms == KV_TIME_NEVER) {
            kv_reply_error(call->reply, "ERR invalid expire time in 'set' command");
            return false;
        }
        *ret_answered = false;
        options->has_expiry = true;
        options->expire_at_ms = at_ms;
        return true;
    }
    return false;
}

/* One option at argument `at`; returns how many arguments it is, 0 if it is none. */
static uint32_t parse_option(const struct kv_call *call, uint32_t at, struct set_options *options,
                             bool *ret_answered)
{
    struct kv_str option = kv_call_arg(call, at);
    if (kv_str_is(option, "nx") && !options->if_present) {
        options->if_absent = true;
        return 1;
    }
    if (kv_str_is(option, "xx") && !options->if_absent) {
        options->if_present = true;
        return 1;
    }
    if (kv_str_is(option, "get")) {
        options->get = true;
        return 1;
    }
    if (kv_str_is(option, "keepttl") && !options->has_expiry) {
        options->keep_ttl = true;
        return 1;
    }
    return parse_expiry(call, at, options, ret_answered) ? 2 : 0;
}

static bool parse_options(const struct kv_call *call, struct set_options *options)
{
    *options = (struct set_options){.expire_at_ms = KV_TIME_NEVER};
    for (uint32_t at = 3; at < call->argc;) {
        bool answered = false;
        uint32_t used = parse_option(call, at, options, &answered);
        if (used == 0) {
            if (!answered)
                kv_reply_syntax_error(call->reply);
            return false;
        }
        at += used;
    }
    return true;
}

static void reply_old(struct kv_reply *reply, const struct kv_entry *old)
{
    if (old)
        kv_reply_bulk(reply, kv_entry_value(old), old->value_length);
    else
        kv_reply_null(reply);
}

void kv_cmd_set(const struct kv_call *call)
{
    struct set_options options;
    if (!parse_options(call, &options))
        return;
    struct kv_str key = kv_call_arg(call, 1);
    bool looks = options.get || options.if_absent || options.if_present || options.keep_ttl;
    const struct kv_entry *old = looks ? kv_store_get(call->store, key, call->now_ms) : NULL;
    if ((options.if_absent && old) || (options.if_present && !old)) {
        reply_old(call->reply, options.get ? old : NULL);
        return;
    }
    int64_t expire_at_ms = options.expire_at_ms;
    if (options.keep_ttl && old)
        expire_at_ms = old->expire_at_ms;
    size_t answer_from = call->reply->length;
    if (options.get) /* before the old value goes; no change if it cannot be told */
        reply_old(call->reply, old);
    if (call->reply->failed)
        return;
    if (expire_at_ms <= call->now_ms) { /* EXAT or PXAT in the past */
        kv_store_delete(call->store, key, call->now_ms);
    } else if (kv_store_set(call->store, key, kv_call_arg(call, 2), expire_at_ms) < 0) {
        kv_reply_cut(call->reply, answer_from);
        kv_reply_out_of_memory(call->reply);
        return;
    }
    if (!options.get)
        kv_reply_status(call->reply, "OK");
}

/* Commands that change. Each runs alone with its database. */
#include <errno.h>
#include <stdio.h>

#include "command.h"

/* Bytes of a 64-bit number in decimal, its sign included. */
#define NUMBER_MAX 24u
/* Bytes of an unknown option that its error repeats. */
#define OPTION_SHOWN 64u

void kv_cmd_del(const struct kv_call *call)
{
    int64_t removed = 0;
    for (uint32_t i = 1; i < call->argc; i++)
        removed += kv_store_delete(call->store, kv_call_arg(call, i), call->now_ms);
    kv_reply_int(call->reply, removed);
}

void kv_cmd_mset(const struct kv_call *call)
{
    if (call->argc % 2 == 0) {
        kv_reply_wrong_arity(call->reply, "mset");
        return;
    }
    for (uint32_t i = 1; i < call->argc; i += 2) {
        if (kv_store_set(call->store, kv_call_arg(call, i), kv_call_arg(call, i + 1),
                         KV_TIME_NEVER) < 0) {
            kv_reply_out_of_memory(call->reply);
            return;
        }
    }
    kv_reply_status(call->reply, "OK");
}

static void add(const struct kv_call *call, int64_t amount)
{
    struct kv_str key = kv_call_arg(call, 1);
    const struct kv_entry *entry = kv_store_get(call->store, key, call->now_ms);
    int64_t value = 0;
    if (entry && !kv_parse_int64(kv_entry_value(entry), entry->value_length, &value)) {
        kv_reply_not_an_integer(call->reply);
        return;
    }
    if (__builtin_add_overflow(value, amount, &value)) {
        kv_reply_error(call->reply, "ERR increment or decrement would overflow");
        return;
    }
    char text[NUMBER_MAX];
    int length = snprintf(text, sizeof text, "%lld", (long long)value);
    struct kv_str digits = {text, (size_t)length};
    int64_t expire_at_ms = entry ? entry->expire_at_ms : KV_TIME_NEVER;
    if (kv_store_set(call->store, key, digits, expire_at_ms) < 0)
        kv_reply_out_of_memory(call->reply);
    else
        kv_reply_int(call->reply, value);
}

void kv_cmd_incr(const struct kv_call *call)
{
    add(call, 1);
}

void kv_cmd_decr(const struct kv_call *call)
{
    add(call, -1);
}

static bool amount_of(const struct kv_call *call, int64_t *ret_amount)
{
    struct kv_str text = kv_call_arg(call, 2);
    if (kv_parse_int64(text.bytes, text.length, ret_amount))
        return true;
    kv_reply_not_an_integer(call->reply);
    return false;
}

void kv_cmd_incrby(const struct kv_call *call)
{
    int64_t amount = 0;
    if (amount_of(call, &amount))
        add(call, amount);
}

void kv_cmd_decrby(const struct kv_call *call)
{
    int64_t amount = 0;
    if (!amount_of(call, &amount))
        return;
    if (amount == INT64_MIN)
        kv_reply_error(call->reply, "ERR decrement would overflow");
    else
        add(call, -amount);
}

/* EXPIRE's condition: none, or one of NX XX GT LT. */
enum condition {
    ALWAYS,
    IF_NONE,
    IF_SET,
    IF_GREATER,
    IF_LESS,
};

static bool parse_condition(const struct kv_call *call, enum condition *ret_condition)
{
    *ret_condition = ALWAYS;
    if (call->argc == 3)
        return true;
    struct kv_str option = kv_call_arg(call, 3);
    if (call->argc == 4 && kv_str_is(option, "nx")) {
        *ret_condition = IF_NONE;
    } else if (call->argc == 4 && kv_str_is(option, "xx")) {
        *ret_condition = IF_SET;
    } else if (call->argc == 4 && kv_str_is(option, "gt")) {
        *ret_condition = IF_GREATER;
    } else if (call->argc == 4 && kv_str_is(option, "lt")) {
        *ret_condition = IF_LESS;
    } else {
        kv_reply_error(call->reply, "ERR Unsupported option %.*s",
                       (int)(option.length < OPTION_SHOWN ? option.length : OPTION_SHOWN),
                       option.bytes);
        return false;
    }
    return true;
}

static bool condition_holds(enum condition condition, int64_t old_ms, int64_t new_ms)
{
    switch (condition) {
    case IF_NONE:
        return old_ms == KV_TIME_NEVER;
    case IF_SET:
        return old_ms != KV_TIME_NEVER;
    case IF_GREATER:
        return old_ms != KV_TIME_NEVER && new_ms > old_ms;
    case IF_LESS:
        return new_ms < old_ms;
    case ALWAYS:
        break;
    }
    return true;
}

static void expire(const struct kv_call *call, int64_t unit_ms, const char *name)
{
    int64_t amount = 0, at_ms = 0;
    enum condition condition;
    if (!amount_of(call, &amount) || !parse_condition(call, &condition))
        return;
    if (__builtin_mul_overflow(amount, unit_ms, &at_ms) ||
        __builtin_add_overflow(at_ms, call->now_ms, &at_ms) || at_ms == KV_TIME_NEVER) {
        kv_reply_error(call->reply, "ERR invalid expire time in '%s' command", name);
        return;
    }
    struct kv_str key = kv_call_arg(call, 1);
    const struct kv_entry *entry = kv_store_get(call->store, key, call->now_ms);
    if (!entry || !condition_holds(condition, entry->expire_at_ms, at_ms)) {
        kv_reply_int(call->reply, 0);
        return;
    }
    if (at_ms <= call->now_ms) {
        kv_reply_int(call->reply, kv_store_delete(call->store, key, call->now_ms));
        return;
    }
    if (kv_store_set_expiry(call->store, key, at_ms, call->now_ms) == -ENOMEM)
        kv_reply_out_of_memory(call->reply);
    else
        kv_reply_int(call->reply, 1);
}

void kv_cmd_expire(const struct kv_call *call)
{
    expire(call, 1000, "expire");
}

void kv_cmd_pexpire(const struct kv_call *call)
{
    expire(call, 1, "pexpire");
}

void kv_cmd_persist(const struct kv_call *call)
{
    struct kv_str key = kv_call_arg(call, 1);
    const struct kv_entry *entry = kv_store_get(call->store, key, call->now_ms);
    if (!entry || entry->expire_at_ms == KV_TIME_NEVER)
        kv_reply_int(call->reply, 0);
    else if (kv_store_set_expiry(call->store, key, KV_TIME_NEVER, call->now_ms) < 0)
        kv_reply_out_of_memory(call->reply);
    else
        kv_reply_int(call->reply, 1);
}

void kv_cmd_flushdb(const struct kv_call *call)
{
    bool fits = call->argc == 1 || (call->argc == 2 && (kv_str_is(kv_call_arg(call, 1), "async") ||
                                                        kv_str_is(kv_call_arg(call, 1), "sync")));
    if (!fits)
        kv_reply_syntax_error(call->reply);
    else if (kv_store_flush(call->store) < 0)
        kv_reply_out_of_memory(call->reply);
    else
        kv_reply_status(call->reply, "OK");
}

#include "kv_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Where nothing overflows. */
__extension__ typedef __int128 wide;

static char *copy_of(struct bytes bytes)
{
    char *copy = malloc(bytes.length + 1);
    if (!copy)
        abort();
    if (bytes.length > 0)
        memcpy(copy, bytes.data, bytes.length);
    copy[bytes.length] = '\0';
    return copy;
}

void model_drop(struct model *model, struct model_key *key)
{
    free(key->key);
    free(key->value);
    *key = model->keys[--model->count];
}

void model_clear(struct model *model)
{
    while (model->count > 0)
        model_drop(model, &model->keys[0]);
}

void model_copy(const struct model *from, struct model *to)
{
    to->count = 0;
    for (size_t i = 0; i < from->count; i++) {
        const struct model_key *one = &from->keys[i];
        (void)model_set(to, (struct bytes){one->key, one->key_length},
                        (struct bytes){one->value, one->value_length}, one->expire_at_ms);
    }
}

void model_expire(struct model *model, int64_t now_ms)
{
    for (size_t i = model->count; i > 0; i--)
        if (model->keys[i - 1].expire_at_ms <= now_ms)
            model_drop(model, &model->keys[i - 1]);
}

struct model_key *model_find(struct model *model, struct bytes key)
{
    for (size_t i = 0; i < model->count; i++) {
        struct model_key *one = &model->keys[i];
        if (one->key_length == key.length &&
            (key.length == 0 || memcmp(one->key, key.data, key.length) == 0))
            return one;
    }
    return NULL;
}

bool model_set(struct model *model, struct bytes key, struct bytes value, int64_t expire_at_ms)
{
    char *copy = copy_of(value);
    struct model_key *one = model_find(model, key);
    if (!one) {
        if (model->count == MODEL_KEYS_MAX) {
            free(copy);
            return false;
        }
        one = &model->keys[model->count++];
        *one = (struct model_key){.key = copy_of(key), .key_length = key.length};
    }
    free(one->value);
    one->value = copy;
    one->value_length = value.length;
    one->expire_at_ms = expire_at_ms;
    return true;
}

/* ---- answers ---- */

static void put(struct expected *expected, const void *data, size_t length)
{
    while (expected->capacity - expected->length < length) {
        expected->capacity = expected->capacity * 2 + 64;
        expected->data = realloc(expected->data, expected->capacity);
        if (!expected->data)
            abort();
    }
    if (length > 0)
        memcpy(expected->data + expected->length, data, length);
    expected->length += length;
}

static void put_number(struct expected *expected, char mark, long long number)
{
    char line[32];
    put(expected, line, (size_t)snprintf(line, sizeof line, "%c%lld\r\n", mark, number));
}

static enum model_verdict integer(struct expected *expected, long long number)
{
    put_number(expected, ':', number);
    return MODEL_EXACT;
}

static enum model_verdict status(struct expected *expected, const char *text)
{
    put(expected, "+", 1);
    put(expected, text, strlen(text));
    put(expected, "\r\n", 2);
    return MODEL_EXACT;
}

static void put_value(struct expected *expected, const struct model_key *key)
{
    if (!key) {
        put(expected, "$-1\r\n", 5);
        return;
    }
    put_number(expected, '$', (long long)key->value_length);
    put(expected, key->value, key->value_length);
    put(expected, "\r\n", 2);
}

/* ---- commands ---- */

/* By printing back: what does not come out the same is no number of this protocol. */
static bool number_of(struct bytes text, long long *ret_number)
{
    char digits[32], again[32];
    if (text.length == 0 || text.length > 20)
        return false;
    memcpy(digits, text.data, text.length);
    digits[text.length] = '\0';
    long long number = strtoll(digits, NULL, 10);
    int length = snprintf(again, sizeof again, "%lld", number);
    if ((size_t)length != text.length || memcmp(again, digits, text.length) != 0)
        return false;
    *ret_number = number;
    return true;
}

static enum model_verdict run_add(struct model *model, struct bytes key, bool minus,
                                  long long amount, struct expected *expected)
{
    struct model_key *one = model_find(model, key);
    long long old = 0;
    if (one && !number_of((struct bytes){one->value, one->value_length}, &old))
        return MODEL_ERROR;
    wide sum = minus ? (wide)old - amount : (wide)old + amount;
    if (sum > INT64_MAX || sum < INT64_MIN || (minus && amount == INT64_MIN))
        return MODEL_ERROR;
    char text[32];
    int length = snprintf(text, sizeof text, "%lld", (long long)sum);
    struct bytes value = {text, (size_t)length};
    if (!model_set(model, key, value, one ? one->expire_at_ms : INT64_MAX))
        return MODEL_FULL;
    return integer(expected, (long long)sum);
}

static enum model_verdict run_expire(struct model *model, const struct bytes *args, int64_t unit,
                                     int64_t now_ms, struct expected *expected)
{
    long long amount = 0;
    if (!number_of(args[2], &amount))
        return MODEL_ERROR;
    wide span = (wide)amount * unit, at = span + now_ms;
    if (at >= INT64_MAX || at < INT64_MIN || span > INT64_MAX || span < INT64_MIN)
        return MODEL_ERROR;
    struct model_key *one = model_find(model, args[1]);
    if (!one)
        return integer(expected, 0);
    if (at <= now_ms)
        model_drop(model, one);
    else
        one->expire_at_ms = (int64_t)at;
    return integer(expected, 1);
}

static enum model_verdict run_ttl(const struct model_key *one, int64_t unit, int64_t now_ms,
                                  struct expected *expected)
{
    if (!one)
        return integer(expected, -2);
    if (one->expire_at_ms == INT64_MAX)
        return integer(expected, -1);
    return integer(expected, (one->expire_at_ms - now_ms + unit / 2) / unit); /* to the nearest */
}

/* Commands of any number of keys. */
static enum model_verdict run_many(struct model *model, const char *name, const struct bytes *args,
                                   size_t count, struct expected *expected)
{
    long long found = 0;
    bool deletes = strcmp(name, "del") == 0 || strcmp(name, "unlink") == 0;
    if (strcmp(name, "mget") == 0) {
        put_number(expected, '*', (long long)count - 1);
        for (size_t i = 1; i < count; i++)
            put_value(expected, model_find(model, args[i]));
        return MODEL_EXACT;
    }
    if (strcmp(name, "mset") == 0) {
        if (count % 2 == 0)
            return MODEL_ERROR;
        for (size_t i = 1; i < count; i += 2)
            if (!model_set(model, args[i], args[i + 1], INT64_MAX))
                return MODEL_FULL;
        return status(expected, "OK");
    }
    if (!deletes && strcmp(name, "exists") != 0)
        return MODEL_UNKNOWN;
    for (size_t i = 1; i < count; i++) {
        struct model_key *one = model_find(model, args[i]);
        found += one != NULL;
        if (one && deletes)
            model_drop(model, one);
    }
    return integer(expected, found);
}

/* Commands of one key and nothing else. */
static enum model_verdict run_one(struct model *model, const char *name, struct bytes key,
                                  int64_t now_ms, struct expected *expected)
{
    struct model_key *one = model_find(model, key);
    if (strcmp(name, "get") == 0) {
        put_value(expected, one);
        return MODEL_EXACT;
    }
    if (strcmp(name, "strlen") == 0)
        return integer(expected, one ? (long long)one->value_length : 0);
    if (strcmp(name, "type") == 0)
        return status(expected, one ? "string" : "none");
    if (strcmp(name, "ttl") == 0)
        return run_ttl(one, 1000, now_ms, expected);
    if (strcmp(name, "pttl") == 0)
        return run_ttl(one, 1, now_ms, expected);
    if (strcmp(name, "incr") == 0)
        return run_add(model, key, false, 1, expected);
    if (strcmp(name, "decr") == 0)
        return run_add(model, key, true, 1, expected);
    if (strcmp(name, "persist") == 0) {
        bool had = one && one->expire_at_ms != INT64_MAX;
        if (had)
            one->expire_at_ms = INT64_MAX;
        return integer(expected, had);
    }
    return MODEL_UNKNOWN;
}

static enum model_verdict run_two(struct model *model, const char *name, const struct bytes *args,
                                  int64_t now_ms, struct expected *expected)
{
    long long amount = 0;
    if (strcmp(name, "set") == 0)
        return model_set(model, args[1], args[2], INT64_MAX) ? status(expected, "OK") : MODEL_FULL;
    if (strcmp(name, "expire") == 0)
        return run_expire(model, args, 1000, now_ms, expected);
    if (strcmp(name, "pexpire") == 0)
        return run_expire(model, args, 1, now_ms, expected);
    if (strcmp(name, "incrby") != 0 && strcmp(name, "decrby") != 0)
        return MODEL_UNKNOWN;
    if (!number_of(args[2], &amount))
        return MODEL_ERROR;
    return run_add(model, args[1], name[0] == 'd', amount, expected);
}

enum model_verdict model_run(struct model *model, const struct bytes *args, size_t count,
                             int64_t now_ms, struct expected *expected)
{
    char name[16] = "";
    enum model_verdict verdict = MODEL_UNKNOWN;
    if (args[0].length >= sizeof name || memchr(args[0].data, '\0', args[0].length))
        return MODEL_ERROR; /* no such command */
    for (size_t i = 0; i < args[0].length; i++) {
        char c = args[0].data[i];
        name[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    expected->length = 0;
    if (count == 1 && strcmp(name, "flushdb") == 0) {
        model_clear(model);
        return status(expected, "OK");
    }
    if (count >= 2)
        verdict = run_many(model, name, args, count, expected);
    if (count == 2 && verdict == MODEL_UNKNOWN)
        verdict = run_one(model, name, args[1], now_ms, expected);
    if (count == 3 && verdict == MODEL_UNKNOWN)
        verdict = run_two(model, name, args, now_ms, expected);
    return verdict;
}

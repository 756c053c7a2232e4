/*
 * What the example server's commands do, told naively: a list of keys that is searched from its
 * front, and answers printed by snprintf. It shares no code with examples/kv.
 *
 * It says nothing of options (SET NX, EXPIRE GT): those it learns from the store afterwards.
 */
#ifndef KV_MODEL_H
#define KV_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_KEYS_MAX 128u

struct bytes {
    const char *data;
    size_t length;
};

struct model_key {
    char *key;
    size_t key_length;
    char *value;
    size_t value_length;
    int64_t expire_at_ms; /* INT64_MAX: never */
};

struct model {
    struct model_key keys[MODEL_KEYS_MAX];
    size_t count;
};

/* An answer as it should be. */
struct expected {
    char *data;
    size_t length;
    size_t capacity;
};

void model_clear(struct model *model);
void model_copy(const struct model *from, struct model *to); /* `to` holds nothing */
void model_drop(struct model *model, struct model_key *key);
/* Forgets keys that have expired. */
void model_expire(struct model *model, int64_t now_ms);
struct model_key *model_find(struct model *model, struct bytes key);
/* False: there is no room for one more. */
bool model_set(struct model *model, struct bytes key, struct bytes value, int64_t expire_at_ms);

enum model_verdict {
    MODEL_EXACT,   /* the answer is `expected`, byte by byte */
    MODEL_ERROR,   /* the answer is some error, and nothing has changed */
    MODEL_UNKNOWN, /* no word about the answer, nor about what has changed */
    MODEL_FULL,    /* too many keys for this model */
};

/* Does what the command does, as of now_ms; the expired must be forgotten. */
enum model_verdict model_run(struct model *model, const struct bytes *args, size_t count,
                             int64_t now_ms, struct expected *expected);

#endif

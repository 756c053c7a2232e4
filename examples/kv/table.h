/*
 * The table from keys to entries: linear hashing, which grows and shrinks one bucket at a time.
 *
 * Each insertion splits at most two buckets, so no write ever pays for a rehash of the whole, and
 * a lookup writes nothing: any number of threads may read at once while nobody writes (the epoch
 * of the database sees to that).
 *
 * A bucket is named by the low bits of the hash; the table is walked in the order of the hash's
 * bits reversed. In that order a split bucket's two halves stand where the whole stood, so that a
 * walk's position (kv_table_walk) stays exact through any growth and shrinkage in between: an
 * entry that is there from the beginning to the end of a walk is met exactly once.
 */
#ifndef KV_TABLE_H
#define KV_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No expiry. */
#define KV_TIME_NEVER INT64_MAX
/* An entry that is not in the expiry heap. */
#define KV_NOT_IN_HEAP UINT32_MAX

/* One key and its value, in one piece of memory. */
struct kv_entry {
    struct kv_entry *next; /* in its bucket, or on a list of retired entries */
    uint64_t hash;
    int64_t expire_at_ms; /* Unix time; KV_TIME_NEVER */
    uint32_t heap_at;     /* its place in the expiry heap */
    uint32_t generation;  /* of the store when the entry was made (store.h, images) */
    uint32_t key_length;
    uint32_t value_length;
    uint32_t room; /* bytes of data[] */
    char data[];   /* the key, then the value */
};

static inline const char *kv_entry_key(const struct kv_entry *entry)
{
    return entry->data;
}

static inline const char *kv_entry_value(const struct kv_entry *entry)
{
    return entry->data + entry->key_length;
}

#define KV_SEGMENT_BITS    12u
#define KV_SEGMENT_BUCKETS (1u << KV_SEGMENT_BITS)
/* Buckets at most: 2^30, so that a walk's position fits in 48 bits with room to spare. */
#define KV_BUCKETS_MAX (1u << 30)

struct kv_table {
    struct kv_entry ***segments; /* arrays of KV_SEGMENT_BUCKETS buckets */
    uint32_t segments_length;
    uint32_t segments_capacity;
    uint32_t buckets; /* in use; at least 1 */
    uint32_t level;   /* the greatest with 2^level <= buckets */
    uint64_t count;
};

/* Errors: -ENOMEM. */
int kv_table_init(struct kv_table *table);
/* Frees the table, and its entries too. */
void kv_table_fini(struct kv_table *table);

struct kv_entry *kv_table_find(const struct kv_table *table, uint64_t hash, const void *key,
                               size_t key_length);
/* Brings the memory that a find will look at nearer; for runs of lookups. */
void kv_table_prefetch(const struct kv_table *table, uint64_t hash);

/* The key must not be there. Never fails: without memory to grow, buckets get longer. */
void kv_table_insert(struct kv_table *table, struct kv_entry *entry);
/* Puts `entry` where `old` is, which has the same key. */
void kv_table_replace(struct kv_table *table, struct kv_entry *old, struct kv_entry *entry);
void kv_table_remove(struct kv_table *table, struct kv_entry *entry);

/* The place of a hash in the order of the walk. */
uint64_t kv_table_position(uint64_t hash);

/*
 * Visits one bucket: calls visit for each entry in it at or behind *position, and moves *position
 * to the next bucket. Returns false when that was the last one; *position is then 0. `visit` must
 * not change the table.
 */
bool kv_table_walk(const struct kv_table *table, uint64_t *position,
                   void (*visit)(struct kv_entry *entry, void *arg), void *arg);

/* Takes all entries of up to `max` buckets out from the table's end: to free it in slices. */
struct kv_entry *kv_table_take_last(struct kv_table *table, uint32_t max);

#endif

#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Entries per bucket at which the table grows; shrinks at a quarter. */
#define SPLIT_LOAD 1u
#define MERGE_LOAD 4u
/* Buckets that one insertion may split, or one removal merge. */
#define STEPS_MAX               2u
#define SEGMENTS_CAPACITY_FIRST 8u

static struct kv_entry **bucket_at(const struct kv_table *table, uint32_t index)
{
    return &table->segments[index >> KV_SEGMENT_BITS][index & (KV_SEGMENT_BUCKETS - 1)];
}

static uint32_t bucket_index(const struct kv_table *table, uint64_t hash)
{
    uint64_t index = hash & ((UINT64_C(2) << table->level) - 1);
    if (index >= table->buckets)
        index &= (UINT64_C(1) << table->level) - 1;
    return (uint32_t)index;
}

static int add_segment(struct kv_table *table)
{
    if (table->segments_length == table->segments_capacity) {
        uint32_t capacity =
            table->segments_capacity ? table->segments_capacity * 2 : SEGMENTS_CAPACITY_FIRST;
        struct kv_entry ***segments =
            reallocarray(table->segments, capacity, sizeof *table->segments);
        if (!segments)
            return -ENOMEM;
        table->segments = segments;
        table->segments_capacity = capacity;
    }
    struct kv_entry **segment = calloc(KV_SEGMENT_BUCKETS, sizeof *segment);
    if (!segment)
        return -ENOMEM;
    table->segments[table->segments_length++] = segment;
    return 0;
}

static void set_buckets(struct kv_table *table, uint32_t buckets)
{
    table->buckets = buckets;
    table->level = 31u - (uint32_t)__builtin_clz(buckets);
}

int kv_table_init(struct kv_table *table)
{
    *table = (struct kv_table){0};
    if (add_segment(table) < 0) {
        free(table->segments);
        return -ENOMEM;
    }
    set_buckets(table, 1);
    return 0;
}

void kv_table_fini(struct kv_table *table)
{
    if (!table->segments)
        return;
    while (table->buckets > 0) {
        struct kv_entry *entry = kv_table_take_last(table, KV_SEGMENT_BUCKETS);
        while (entry) {
            struct kv_entry *next = entry->next;
            free(entry);
            entry = next;
        }
    }
    for (uint32_t i = 0; i < table->segments_length; i++)
        free(table->segments[i]);
    free(table->segments);
    *table = (struct kv_table){0};
}

struct kv_entry *kv_table_find(const struct kv_table *table, uint64_t hash, const void *key,
                               size_t key_length)
{
    struct kv_entry *entry = *bucket_at(table, bucket_index(table, hash));
    while (entry && !(entry->hash == hash && entry->key_length == key_length &&
                      memcmp(entry->data, key, key_length) == 0))
        entry = entry->next;
    return entry;
}

void kv_table_prefetch(const struct kv_table *table, uint64_t hash)
{
    __builtin_prefetch(bucket_at(table, bucket_index(table, hash)));
}

/* Splits the bucket whose turn it is: the one that stands 2^level below the new one. */
static int split_one(struct kv_table *table)
{
    uint32_t fresh = table->buckets;
    if (fresh == KV_BUCKETS_MAX)
        return -ENOMEM;
    if (fresh >> KV_SEGMENT_BITS == table->segments_length && add_segment(table) < 0)
        return -ENOMEM;
    set_buckets(table, fresh + 1);
    uint32_t bit = UINT32_C(1) << (31u - (uint32_t)__builtin_clz(fresh));
    struct kv_entry **from = bucket_at(table, fresh & ~bit);
    struct kv_entry **to = bucket_at(table, fresh);
    while (*from) {
        struct kv_entry *entry = *from;
        if (entry->hash & bit) {
            *from = entry->next;
            entry->next = *to;
            *to = entry;
        } else {
            from = &entry->next;
        }
    }
    return 0;
}

/* Puts the last bucket back into the one that it was split from. */
static void merge_one(struct kv_table *table)
{
    uint32_t last = table->buckets - 1;
    uint32_t bit = UINT32_C(1) << (31u - (uint32_t)__builtin_clz(last));
    struct kv_entry **to = bucket_at(table, last & ~bit);
    struct kv_entry **from = bucket_at(table, last);
    while (*to)
        to = &(*to)->next;
    *to = *from;
    *from = NULL;
    set_buckets(table, last);
    /* One empty segment is kept, so that a count that swings about an edge allocates nothing. */
    if (table->segments_length > ((last - 1) >> KV_SEGMENT_BITS) + 2)
        free(table->segments[--table->segments_length]);
}

void kv_table_insert(struct kv_table *table, struct kv_entry *entry)
{
    struct kv_entry **bucket = bucket_at(table, bucket_index(table, entry->hash));
    entry->next = *bucket;
    *bucket = entry;
    table->count++;
    for (uint32_t i = 0; i < STEPS_MAX && table->count > (uint64_t)table->buckets * SPLIT_LOAD; i++)
        if (split_one(table) < 0)
            return;
}

/* Where the table, or the entry before it, points at `entry`. */
static struct kv_entry **link_to(struct kv_table *table, const struct kv_entry *entry)
{
    struct kv_entry **link = bucket_at(table, bucket_index(table, entry->hash));
    while (*link != entry)
        link = &(*link)->next;
    return link;
}

void kv_table_replace(struct kv_table *table, struct kv_entry *old, struct kv_entry *entry)
{
    *link_to(table, old) = entry;
    entry->next = old->next;
    old->next = NULL;
}

void kv_table_remove(struct kv_table *table, struct kv_entry *entry)
{
    *link_to(table, entry) = entry->next;
    entry->next = NULL;
    table->count--;
    for (uint32_t i = 0;
         i < STEPS_MAX && table->buckets > 1 && table->count < table->buckets / MERGE_LOAD; i++)
        merge_one(table);
}

uint64_t kv_table_position(uint64_t hash)
{
    uint64_t x = __builtin_bswap64(hash);
    x = ((x >> 4) & UINT64_C(0x0f0f0f0f0f0f0f0f)) | ((x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4);
    x = ((x >> 2) & UINT64_C(0x3333333333333333)) | ((x & UINT64_C(0x3333333333333333)) << 2);
    return ((x >> 1) & UINT64_C(0x5555555555555555)) | ((x & UINT64_C(0x5555555555555555)) << 1);
}

/* How many low bits of the hash name this bucket. */
static uint32_t bucket_bits(const struct kv_table *table, uint32_t index)
{
    uint32_t whole = UINT32_C(1) << table->level;
    bool split = index >= whole || index < table->buckets - whole;
    return table->level + (split ? 1u : 0u);
}

bool kv_table_walk(const struct kv_table *table, uint64_t *position,
                   void (*visit)(struct kv_entry *entry, void *arg), void *arg)
{
    uint64_t from = *position;
    uint32_t index = bucket_index(table, kv_table_position(from)); /* its own inverse */
    uint32_t bits = bucket_bits(table, index);
    uint64_t next = 0;
    if (bits > 0) {
        uint64_t width = UINT64_C(1) << (64 - bits);
        next = (from & ~(width - 1)) + width; /* 0 behind the last bucket */
        uint32_t after = bucket_index(table, kv_table_position(next));
        __builtin_prefetch(*bucket_at(table, after));
    }
    for (struct kv_entry *entry = *bucket_at(table, index); entry; entry = entry->next)
        if (kv_table_position(entry->hash) >= from)
            visit(entry, arg);
    *position = next;
    return next != 0;
}

struct kv_entry *kv_table_take_last(struct kv_table *table, uint32_t max)
{
    struct kv_entry *taken = NULL;
    for (; max > 0 && table->buckets > 0; max--) {
        struct kv_entry **bucket = bucket_at(table, table->buckets - 1);
        while (*bucket) {
            struct kv_entry *entry = *bucket;
            *bucket = entry->next;
            entry->next = taken;
            taken = entry;
            table->count--;
        }
        if (--table->buckets > 0)
            set_buckets(table, table->buckets);
    }
    return taken;
}

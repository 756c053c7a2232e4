#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "store_internal.h"

/* Entries are made in steps of this many bytes, so that small changes of length stay in place. */
#define ENTRY_STEP 16u
/* An entry whose value got this many bytes smaller is made anew, to give the memory back. */
#define SLACK_MAX 128u

int kv_store_create(struct kv_store **ret_store)
{
    struct kv_store *store = calloc(1, sizeof *store);
    if (!store)
        return -ENOMEM;
    if (kv_table_init(&store->table) < 0) {
        free(store);
        return -ENOMEM;
    }
    store->generation = 1;
    *ret_store = store;
    return 0;
}

void kv_store_destroy(struct kv_store *store)
{
    if (!store)
        return;
    while (kv_store_free_trash(store, KV_SEGMENT_BUCKETS))
        ;
    kv_table_fini(&store->table);
    kv_ttl_heap_fini(&store->ttl);
    free(store);
}

void kv_store_swap(struct kv_store *a, struct kv_store *b)
{
    struct kv_store t = *a;
    *a = *b;
    *b = t;
}

uint64_t kv_store_count(const struct kv_store *store)
{
    return store->table.count;
}

static bool expired(const struct kv_entry *entry, int64_t now_ms)
{
    return entry->expire_at_ms <= now_ms;
}

static struct kv_entry *find(const struct kv_store *store, struct kv_str key)
{
    return kv_table_find(&store->table, kv_hash(key.bytes, key.length), key.bytes, key.length);
}

const struct kv_entry *kv_store_get(const struct kv_store *store, struct kv_str key, int64_t now_ms)
{
    const struct kv_entry *entry = find(store, key);
    return entry && !expired(entry, now_ms) ? entry : NULL;
}

void kv_store_prefetch(const struct kv_store *store, struct kv_str key)
{
    kv_table_prefetch(&store->table, kv_hash(key.bytes, key.length));
}

static size_t entry_bytes(const struct kv_entry *entry)
{
    return sizeof *entry + entry->room;
}

static struct kv_entry *entry_make(const struct kv_store *store, uint64_t hash, struct kv_str key,
                                   struct kv_str value)
{
    if (key.length > UINT32_MAX / 4 || value.length > UINT32_MAX / 4)
        return NULL;
    size_t bytes = sizeof(struct kv_entry) + key.length + value.length;
    bytes = (bytes + ENTRY_STEP - 1) / ENTRY_STEP * ENTRY_STEP;
    struct kv_entry *entry = malloc(bytes);
    if (!entry)
        return NULL;
    *entry = (struct kv_entry){
        .hash = hash,
        .expire_at_ms = KV_TIME_NEVER,
        .heap_at = KV_NOT_IN_HEAP,
        .generation = store->generation,
        .key_length = (uint32_t)key.length,
        .value_length = (uint32_t)value.length,
        .room = (uint32_t)(bytes - sizeof *entry),
    };
    if (key.length)
        memcpy(entry->data, key.bytes, key.length);
    if (value.length)
        memcpy(entry->data + key.length, value.bytes, value.length);
    return entry;
}

/* The end of an entry that is out of the table and the heap. */
static void retire(struct kv_store *store, struct kv_entry *entry)
{
    store->bytes -= entry_bytes(entry);
    if (!store->image || !kv_image_keep(store->image, entry))
        free(entry);
}

/* Puts the entry into the heap under its expiry; room was reserved. */
static void schedule(struct kv_store *store, struct kv_entry *entry, int64_t expire_at_ms)
{
    kv_ttl_heap_remove(&store->ttl, entry);
    entry->expire_at_ms = expire_at_ms;
    if (expire_at_ms != KV_TIME_NEVER)
        kv_ttl_heap_add(&store->ttl, entry);
}

static bool fits_in_place(const struct kv_store *store, const struct kv_entry *entry, size_t length)
{
    size_t bytes = entry->key_length + length;
    return bytes <= entry->room && entry->room - bytes <= SLACK_MAX &&
           !(store->image && kv_image_needs(store->image, entry));
}

static void replace(struct kv_store *store, struct kv_entry *old, struct kv_entry *entry)
{
    kv_table_replace(&store->table, old, entry);
    kv_ttl_heap_remove(&store->ttl, old);
    store->bytes += entry_bytes(entry);
    retire(store, old);
}

int kv_store_set(struct kv_store *store, struct kv_str key, struct kv_str value,
                 int64_t expire_at_ms)
{
    uint64_t hash = kv_hash(key.bytes, key.length);
    struct kv_entry *old = kv_table_find(&store->table, hash, key.bytes, key.length);
    if (expire_at_ms != KV_TIME_NEVER && kv_ttl_heap_reserve(&store->ttl) < 0)
        return -ENOMEM;
    if (old && fits_in_place(store, old, value.length)) {
        if (value.length)
            memmove(old->data + old->key_length, value.bytes, value.length);
        old->value_length = (uint32_t)value.length;
        schedule(store, old, expire_at_ms);
        store->changes++;
        return 0;
    }
    struct kv_entry *entry = entry_make(store, hash, key, value);
    if (!entry)
        return -ENOMEM;
    if (old) {
        replace(store, old, entry);
    } else {
        kv_table_insert(&store->table, entry);
        store->bytes += entry_bytes(entry);
    }
    schedule(store, entry, expire_at_ms);
    store->changes++;
    return 0;
}

static void remove_entry(struct kv_store *store, struct kv_entry *entry)
{
    kv_table_remove(&store->table, entry);
    kv_ttl_heap_remove(&store->ttl, entry);
    retire(store, entry);
    store->changes++;
}

bool kv_store_delete(struct kv_store *store, struct kv_str key, int64_t now_ms)
{
    struct kv_entry *entry = find(store, key);
    if (!entry)
        return false;
    bool was_there = !expired(entry, now_ms);
    remove_entry(store, entry);
    return was_there;
}

int kv_store_set_expiry(struct kv_store *store, struct kv_str key, int64_t expire_at_ms,
                        int64_t now_ms)
{
    struct kv_entry *entry = find(store, key);
    if (!entry || expired(entry, now_ms))
        return -ENOENT;
    if (kv_ttl_heap_reserve(&store->ttl) < 0)
        return -ENOMEM;
    if (store->image && kv_image_needs(store->image, entry)) {
        struct kv_str same_key = {kv_entry_key(entry), entry->key_length};
        struct kv_str value = {kv_entry_value(entry), entry->value_length};
        struct kv_entry *copy = entry_make(store, entry->hash, same_key, value);
        if (!copy)
            return -ENOMEM;
        replace(store, entry, copy);
        entry = copy;
    }
    schedule(store, entry, expire_at_ms);
    store->changes++;
    return 0;
}

int kv_store_flush(struct kv_store *store)
{
    if (store->table.count == 0)
        return 0;
    struct kv_trash *trash = malloc(sizeof *trash);
    struct kv_table fresh;
    if (!trash || kv_table_init(&fresh) < 0) {
        free(trash);
        return -ENOMEM;
    }
    if (store->image && kv_image_adopt(store->image, &store->table)) {
        free(trash);
    } else {
        trash->table = store->table;
        trash->next = store->trash;
        store->trash = trash;
    }
    store->table = fresh;
    kv_ttl_heap_fini(&store->ttl);
    store->bytes = 0;
    store->changes++;
    return 0;
}

int64_t kv_store_next_expiry(const struct kv_store *store)
{
    const struct kv_entry *first = kv_ttl_heap_first(&store->ttl);
    return first ? first->expire_at_ms : KV_TIME_NEVER;
}

uint32_t kv_store_expire_due(struct kv_store *store, int64_t now_ms, uint32_t max)
{
    uint32_t removed = 0;
    for (; removed < max; removed++) {
        struct kv_entry *first = kv_ttl_heap_first(&store->ttl);
        if (!first || !expired(first, now_ms))
            break;
        remove_entry(store, first);
    }
    return removed;
}

bool kv_store_has_trash(const struct kv_store *store)
{
    return store->trash != NULL;
}

bool kv_store_free_trash(struct kv_store *store, uint32_t max)
{
    struct kv_trash *trash = store->trash;
    if (!trash)
        return false;
    struct kv_entry *entry = kv_table_take_last(&trash->table, max);
    while (entry) {
        struct kv_entry *next = entry->next;
        free(entry);
        entry = next;
    }
    if (trash->table.buckets == 0) {
        store->trash = trash->next;
        kv_table_fini(&trash->table);
        free(trash);
    }
    return store->trash != NULL;
}

/* Hands the walk's unexpired entries on. */
struct walk {
    int64_t now_ms;
    void (*visit)(const struct kv_entry *entry, void *arg);
    void *arg;
};

static void walk_entry(struct kv_entry *entry, void *arg)
{
    const struct walk *walk = arg;
    if (!expired(entry, walk->now_ms))
        walk->visit(entry, walk->arg);
}

bool kv_store_walk(const struct kv_store *store, uint64_t *cursor, uint32_t max_buckets,
                   int64_t now_ms, void (*visit)(const struct kv_entry *entry, void *arg),
                   void *arg)
{
    struct walk walk = {.now_ms = now_ms, .visit = visit, .arg = arg};
    bool more = true;
    for (uint32_t i = 0; i < max_buckets && more; i++)
        more = kv_table_walk(&store->table, cursor, walk_entry, &walk);
    return more;
}

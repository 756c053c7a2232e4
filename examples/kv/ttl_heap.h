/* The entries that expire, the next one first: a binary heap whose entries know their place. */
#ifndef KV_TTL_HEAP_H
#define KV_TTL_HEAP_H

#include "table.h"

struct kv_ttl_heap {
    struct kv_entry **items;
    uint32_t count;
    uint32_t capacity;
};

void kv_ttl_heap_fini(struct kv_ttl_heap *heap);
/* Makes room for one more, so that the next add cannot fail. Errors: -ENOMEM. */
int kv_ttl_heap_reserve(struct kv_ttl_heap *heap);
/* Behind a reserve. */
void kv_ttl_heap_add(struct kv_ttl_heap *heap, struct kv_entry *entry);
/* An entry that is not in the heap is left alone. */
void kv_ttl_heap_remove(struct kv_ttl_heap *heap, struct kv_entry *entry);
/* The entry that expires first, or NULL. */
struct kv_entry *kv_ttl_heap_first(const struct kv_ttl_heap *heap);

#endif

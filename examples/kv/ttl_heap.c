#include "ttl_heap.h"

#include <errno.h>
#include <stdlib.h>

#define CAPACITY_FIRST 16u

void kv_ttl_heap_fini(struct kv_ttl_heap *heap)
{
    free(heap->items);
    *heap = (struct kv_ttl_heap){0};
}

int kv_ttl_heap_reserve(struct kv_ttl_heap *heap)
{
    if (heap->count < heap->capacity)
        return 0;
    if (heap->capacity > KV_NOT_IN_HEAP / 2)
        return -ENOMEM;
    uint32_t capacity = heap->capacity ? heap->capacity * 2 : CAPACITY_FIRST;
    struct kv_entry **items = reallocarray(heap->items, capacity, sizeof(struct kv_entry *));
    if (!items)
        return -ENOMEM;
    heap->items = items;
    heap->capacity = capacity;
    return 0;
}

static void put(struct kv_ttl_heap *heap, uint32_t at, struct kv_entry *entry)
{
    heap->items[at] = entry;
    entry->heap_at = at;
}

static void rise(struct kv_ttl_heap *heap, uint32_t at, struct kv_entry *entry)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        if (heap->items[parent]->expire_at_ms <= entry->expire_at_ms)
            break;
        put(heap, at, heap->items[parent]);
        at = parent;
    }
    put(heap, at, entry);
}

static void sink(struct kv_ttl_heap *heap, uint32_t at, struct kv_entry *entry)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count &&
            heap->items[child + 1]->expire_at_ms < heap->items[child]->expire_at_ms)
            child++;
        if (heap->items[child]->expire_at_ms >= entry->expire_at_ms)
            break;
        put(heap, at, heap->items[child]);
        at = child;
    }
    put(heap, at, entry);
}

void kv_ttl_heap_add(struct kv_ttl_heap *heap, struct kv_entry *entry)
{
    rise(heap, heap->count++, entry);
}

void kv_ttl_heap_remove(struct kv_ttl_heap *heap, struct kv_entry *entry)
{
    uint32_t at = entry->heap_at;
    if (at == KV_NOT_IN_HEAP)
        return;
    entry->heap_at = KV_NOT_IN_HEAP;
    struct kv_entry *last = heap->items[--heap->count];
    if (last == entry)
        return;
    if (at > 0 && heap->items[(at - 1) / 2]->expire_at_ms > last->expire_at_ms)
        rise(heap, at, last);
    else
        sink(heap, at, last);
}

struct kv_entry *kv_ttl_heap_first(const struct kv_ttl_heap *heap)
{
    return heap->count ? heap->items[0] : NULL;
}

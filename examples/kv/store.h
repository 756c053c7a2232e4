/*
 * One database: keys with values and times of expiry, in memory.
 *
 * Access follows the epoch of the actor that owns it. Functions that take a const store are reads:
 * they write nothing at all, and any number may run at once. All others are writes and must be
 * alone. An expired key looks absent to every function from its time on; its memory goes with the
 * next write to it or with kv_store_expire_due.
 *
 * Work that grows with the database comes in slices: walking it, expiring, freeing what was
 * flushed, imaging it for a snapshot.
 */
#ifndef KV_STORE_H
#define KV_STORE_H

#include "table.h"
#include "ttl_heap.h"

struct kv_str {
    const char *bytes;
    size_t length;
};

struct kv_image;
struct kv_trash;

struct kv_store {
    struct kv_table table;
    struct kv_ttl_heap ttl;
    uint32_t generation;    /* entries made now carry it; images count it up */
    struct kv_image *image; /* the one that is being taken, or NULL */
    struct kv_trash *trash; /* flushed tables that wait for kv_store_free_trash */
    uint64_t bytes;         /* of the entries */
    uint64_t changes;       /* writes that changed something, ever */
};

/* Errors: -ENOMEM. */
int kv_store_create(struct kv_store **ret_store);
/* NULL is fine. No image may be under way. */
void kv_store_destroy(struct kv_store *store);
/* Exchanges the contents of two stores, of which none is being imaged. */
void kv_store_swap(struct kv_store *a, struct kv_store *b);

/* Keys, those included that have expired and are not removed yet. */
uint64_t kv_store_count(const struct kv_store *store);

/* NULL if absent or expired. Valid until the next write. */
const struct kv_entry *kv_store_get(const struct kv_store *store, struct kv_str key,
                                    int64_t now_ms);
void kv_store_prefetch(const struct kv_store *store, struct kv_str key);

/* Sets value and expiry, whatever was there. Errors: -ENOMEM, and nothing is changed. */
int kv_store_set(struct kv_store *store, struct kv_str key, struct kv_str value,
                 int64_t expire_at_ms);
/* True if the key was there. */
bool kv_store_delete(struct kv_store *store, struct kv_str key, int64_t now_ms);
/* Sets the expiry of an existing key. Errors: -ENOENT, -ENOMEM. */
int kv_store_set_expiry(struct kv_store *store, struct kv_str key, int64_t expire_at_ms,
                        int64_t now_ms);
/* Takes everything out, in O(1); the memory goes with kv_store_free_trash. Errors: -ENOMEM. */
int kv_store_flush(struct kv_store *store);

/* When the next key expires; KV_TIME_NEVER. */
int64_t kv_store_next_expiry(const struct kv_store *store);
/* Removes up to `max` expired keys; returns how many. */
uint32_t kv_store_expire_due(struct kv_store *store, int64_t now_ms, uint32_t max);

bool kv_store_has_trash(const struct kv_store *store);
/*
 * Frees up to `max` buckets of what was flushed; true while more is left. Touches nothing that
 * reads look at: it may run beside reads, but neither beside writes nor beside itself.
 */
bool kv_store_free_trash(struct kv_store *store, uint32_t max);

/*
 * Visits the entries of the next `max_buckets` buckets that have not expired. *cursor begins as 0;
 * false when the end was reached. Cursors stay good across writes: an entry that is there all the
 * while is visited exactly once. Only the upper 48 bits are ever set.
 */
bool kv_store_walk(const struct kv_store *store, uint64_t *cursor, uint32_t max_buckets,
                   int64_t now_ms, void (*visit)(const struct kv_entry *entry, void *arg),
                   void *arg);

/*
 * Images: all entries as of one instant, visited in slices while writes go on in between.
 *
 * From kv_image_begin on, a write that would change or free an entry which the image has not met
 * yet leaves that entry to the image. The order of a snapshot is
 *     begin (alone) { slice (a read) } until it returns false, detach (alone), image_free (no gate)
 * and may be cut short by detach at any point. One image per store at a time: -EBUSY.
 */
int kv_image_begin(struct kv_store *store, struct kv_image **ret_image);
bool kv_image_slice(struct kv_image *image, uint32_t max_buckets,
                    void (*visit)(const struct kv_entry *entry, void *arg), void *arg);
void kv_image_detach(struct kv_store *store, struct kv_image *image);
void kv_image_free(struct kv_image *image);

#endif

/*
 * Slabs: objects of one size that are allocated and freed by any thread without a system call or an
 * allocation once warm. Memory is type-stable until the slab ends: a freed object's memory stays an
 * object's memory, so that a stale look at one (by number, in a cancel) reads something sane.
 *
 * How it works
 *   Per-CPU magazines, each behind a try-lock, serve almost every call. A thread that is moved
 * between reading the CPU and taking the lock uses another CPU's magazine, which is slower and
 * nothing else. Full and empty magazines exchange batches of LX_SLAB_BATCH objects with a shared
 * stack behind a mutex that is held for a few instructions, once in LX_SLAB_BATCH calls. New
 * objects are cut from chunks under the same mutex: the only place that allocates.
 */
#ifndef LX_SLAB_H
#define LX_SLAB_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "sync/futex.h"

#define LX_SLAB_CHUNK (256u * 1024u) /* bytes; also their alignment */
/*
 * Bytes that are mapped at once when a slab has become large: a huge page. With small ones each
 * object of a long queue costs a walk through the page tables, which is more than the rest of what
 * a job costs.
 */
#define LX_SLAB_REGION   (2u * 1024u * 1024u)
#define LX_SLAB_CACHES   64u /* magazines at most */
#define LX_SLAB_BATCH    64u /* objects exchanged with the shared stack at once */
#define LX_SLAB_MAGAZINE (2 * LX_SLAB_BATCH)
#define LX_SLAB_INDEX_MAX                                                                          \
    (UINT32_C(1) << 28) /* objects at most: what a job number has room for                         \
                         */
#define LX_SLAB_DIRECTORY 512u

/* The head of a free object; the rest of it is left as it was. */
struct lx_slab_free {
    struct lx_slab_free *next;       /* in a magazine or batch */
    struct lx_slab_free *next_batch; /* first of a batch: the next batch in the shared stack */
};

struct lx_slab_magazine {
    _Atomic uint32_t lock; /* 1: somebody is in it */
    uint32_t count;
    struct lx_slab_free *head;
    char pad[112];
};

struct lx_slab_chunk {
    struct lx_slab *slab;
    uint32_t first_index;
    uint32_t cut;    /* objects handed out of this chunk so far; under `shared` */
    uint32_t mapped; /* bytes of the mapping that begins here; 0: it began with an earlier chunk */
};

struct lx_slab {
    size_t object_size;
    uint32_t per_chunk;   /* objects in a chunk */
    uint32_t index_shift; /* a chunk's objects have indices from (number of the chunk) << shift */
    uint32_t caches;      /* power of two */
    struct lx_slab_magazine *magazines;
    struct lx_mutex shared;       /* guards batches, chunks and the cutting of chunks */
    struct lx_slab_free *batches; /* the shared stack */
    struct lx_slab_free *loose; /* a batch that is taken one by one, when no magazine is to be had;
                                 * under `shared` */
    uint32_t loose_count;
    uint32_t batch_count;
    uint64_t cut; /* objects cut from all chunks */
    _Atomic uint32_t chunks;
    char *region; /* where the next chunk lies, while region_left is not 0; under `shared` */
    uint32_t region_left; /* chunks */
    struct lx_slab_chunk **directory[LX_SLAB_DIRECTORY];
};

/* object_size: a multiple of 8, at least 32. 0 or -ENOMEM. */
int lx_slab_init(struct lx_slab *slab, size_t object_size);
void lx_slab_fini(struct lx_slab *slab);

/* NULL: out of memory. The contents are those of its last use, or zero, but for the first 16 bytes.
 */
void *lx_slab_alloc(struct lx_slab *slab);
void lx_slab_free(struct lx_slab *slab, void *memory);

/* Any index below lx_slab_limit names an object's memory, used or free. */
uint32_t lx_slab_limit(const struct lx_slab *slab);
/* NULL for an index outside every chunk. What was never cut is all zero. */
void *lx_slab_at(const struct lx_slab *slab, uint32_t index);
uint32_t lx_slab_index(const struct lx_slab *slab, const void *object);
/* Objects that exist, used and free. */
uint64_t lx_slab_objects(const struct lx_slab *slab);
/*
 * Objects that are in use, or that somebody is just allocating or freeing. Exact once nobody does;
 * never less than what is in use. Waits for each magazine.
 */
uint64_t lx_slab_in_use(struct lx_slab *slab);

#endif

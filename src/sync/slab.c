#include "sync/slab.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
/* The simulator has CPUs of its own, behind a macro. */
#if __has_include(<sys/rseq.h>) && !defined(sched_getcpu)
#include <sys/rseq.h>
#define HAVE_RSEQ 1
#else
#define HAVE_RSEQ 0
#endif

#include "sync/assert.h"
#include "sync/seams.h"

#define CHUNK_HEADER                                                                               \
    64u /* bytes of a chunk before its first object: keeps objects on cache lines */
#define REGION_CHUNKS (LX_SLAB_REGION / LX_SLAB_CHUNK)
#define LOCK_TRIES    4u /* magazines tried before going to the shared stack */

static uint32_t ceil_log2(uint32_t value)
{
    return value <= 1 ? 0 : 32u - (uint32_t)__builtin_clz(value - 1);
}

int lx_slab_init(struct lx_slab *slab, size_t object_size)
{
    int saved = errno;
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    uint32_t wanted = cpus < 1 ? 1 : cpus > LX_SLAB_CACHES ? LX_SLAB_CACHES : (uint32_t)cpus;

    errno = saved; /* sysconf reads files for that */
    LX_ASSERT(object_size >= 32 && object_size % 8 == 0);
    memset(slab, 0, sizeof *slab);
    slab->object_size = object_size;
    slab->per_chunk = (uint32_t)((LX_SLAB_CHUNK - CHUNK_HEADER) / object_size);
    slab->index_shift = ceil_log2(slab->per_chunk);
    slab->caches = UINT32_C(1) << ceil_log2(wanted);
    slab->magazines = lx_allocate_zeroed(slab->caches * sizeof *slab->magazines);
    return slab->magazines != NULL ? 0 : -ENOMEM;
}

static struct lx_slab_chunk *chunk_number(const struct lx_slab *slab, uint32_t number)
{
    return slab->directory[number / LX_SLAB_DIRECTORY][number % LX_SLAB_DIRECTORY];
}

void lx_slab_fini(struct lx_slab *slab)
{
    uint32_t chunks = atomic_load_explicit(&slab->chunks, memory_order_acquire);

    /* Backwards: a mapping goes when its first chunk does. */
    for (uint32_t i = chunks; i-- > 0;) {
        struct lx_slab_chunk *chunk = chunk_number(slab, i);
        if (chunk->mapped != 0)
            lx_seams.unmap(chunk, chunk->mapped);
    }
    for (uint32_t i = 0; i < LX_SLAB_DIRECTORY; i++)
        lx_release(slab->directory[i]);
    lx_release(slab->magazines);
    memset(slab, 0, sizeof *slab);
}

static void *object_of(const struct lx_slab *slab, struct lx_slab_chunk *chunk, uint32_t position)
{
    return (char *)chunk + CHUNK_HEADER + position * slab->object_size;
}

uint32_t lx_slab_limit(const struct lx_slab *slab)
{
    /* acquire: partner is the release in add_chunk, so that the directory shows the chunks. */
    return atomic_load_explicit(&slab->chunks, memory_order_acquire) << slab->index_shift;
}

void *lx_slab_at(const struct lx_slab *slab, uint32_t index)
{
    uint32_t position = index & ((UINT32_C(1) << slab->index_shift) - 1);

    if (index >= lx_slab_limit(slab) || position >= slab->per_chunk)
        return NULL;
    return object_of(slab, chunk_number(slab, index >> slab->index_shift), position);
}

static struct lx_slab_chunk *chunk_of(const void *object)
{
    return (struct lx_slab_chunk *)((uintptr_t)object & ~(uintptr_t)(LX_SLAB_CHUNK - 1));
}

uint32_t lx_slab_index(const struct lx_slab *slab, const void *object)
{
    const struct lx_slab_chunk *chunk = chunk_of(object);
    size_t offset = (size_t)((const char *)object - (const char *)chunk) - CHUNK_HEADER;

    LX_ASSERT(chunk->slab == slab);
    return chunk->first_index + (uint32_t)(offset / slab->object_size);
}

uint64_t lx_slab_objects(const struct lx_slab *slab)
{
    return (uint64_t)atomic_load_explicit(&slab->chunks, memory_order_acquire) * slab->per_chunk;
}

/* Memory for the chunk of that number: single ones at first, then regions. Under `shared`. */
static struct lx_slab_chunk *map_chunk(struct lx_slab *slab, uint32_t number)
{
    struct lx_slab_chunk *chunk = NULL;
    uint32_t mapped = LX_SLAB_CHUNK;

    if (slab->region_left > 0) {
        chunk = (struct lx_slab_chunk *)(void *)slab->region;
        slab->region += LX_SLAB_CHUNK;
        slab->region_left--;
        return chunk;
    }
    if (number >= REGION_CHUNKS && (chunk = lx_seams.map(LX_SLAB_REGION)) != NULL) {
        mapped = LX_SLAB_REGION;
        slab->region = (char *)chunk + LX_SLAB_CHUNK;
        slab->region_left = REGION_CHUNKS - 1;
    }
    if (chunk == NULL)
        chunk = lx_seams.map(LX_SLAB_CHUNK);
    if (chunk != NULL)
        chunk->mapped = mapped;
    return chunk;
}

/* Adds a chunk. Under `shared`. */
static struct lx_slab_chunk *add_chunk(struct lx_slab *slab)
{
    uint32_t number = atomic_load_explicit(&slab->chunks, memory_order_relaxed);
    struct lx_slab_chunk ***row = &slab->directory[number / LX_SLAB_DIRECTORY];
    struct lx_slab_chunk *chunk;

    if (number >= LX_SLAB_DIRECTORY * LX_SLAB_DIRECTORY ||
        (uint64_t)(number + 1) << slab->index_shift > LX_SLAB_INDEX_MAX)
        return NULL;
    if (*row == NULL && (*row = lx_allocate_zeroed(LX_SLAB_DIRECTORY * sizeof **row)) == NULL)
        return NULL;
    chunk = map_chunk(slab, number);
    if (chunk == NULL)
        return NULL;
    chunk->slab = slab;
    chunk->first_index = number << slab->index_shift;
    (*row)[number % LX_SLAB_DIRECTORY] = chunk;
    /* release: partner is the acquire in lx_slab_limit. */
    atomic_store_explicit(&slab->chunks, number + 1, memory_order_release);
    return chunk;
}

/* Cuts up to `wanted` new objects, linked; returns how many. Under `shared`. */
static uint32_t cut_objects(struct lx_slab *slab, uint32_t wanted, struct lx_slab_free **ret_head)
{
    uint32_t chunks = atomic_load_explicit(&slab->chunks, memory_order_relaxed), count = 0;
    struct lx_slab_chunk *chunk = chunks > 0 ? chunk_number(slab, chunks - 1) : NULL;

    if (chunk == NULL || chunk->cut == slab->per_chunk)
        chunk = add_chunk(slab);
    *ret_head = NULL;
    for (; chunk != NULL && count < wanted && chunk->cut < slab->per_chunk; count++) {
        struct lx_slab_free *object = object_of(slab, chunk, chunk->cut++);
        object->next = *ret_head;
        *ret_head = object;
    }
    slab->cut += count;
    return count;
}

/* Takes a whole batch off the shared stack; NULL if there is none. Under `shared`. */
static struct lx_slab_free *pop_batch(struct lx_slab *slab)
{
    struct lx_slab_free *batch = slab->batches;

    if (batch != NULL) {
        slab->batches = batch->next_batch;
        slab->batch_count--;
    }
    return batch;
}

/* A magazine's worth: a batch that somebody gave back, or new objects. Returns how many. */
static uint32_t take_batch(struct lx_slab *slab, struct lx_slab_free **ret_head)
{
    uint32_t count = LX_SLAB_BATCH;

    lx_mutex_lock(&slab->shared);
    *ret_head = pop_batch(slab);
    if (*ret_head == NULL)
        count = cut_objects(slab, LX_SLAB_BATCH, ret_head);
    if (count == 0 && slab->loose != NULL) {
        *ret_head = slab->loose;
        count = slab->loose_count;
        slab->loose = NULL;
        slab->loose_count = 0;
    }
    lx_mutex_unlock(&slab->shared);
    return count;
}

/* One object without a magazine. What was given back goes first here too: else each such call would
 * make the slab larger for ever. */
static struct lx_slab_free *take_one(struct lx_slab *slab)
{
    struct lx_slab_free *object = NULL;

    lx_mutex_lock(&slab->shared);
    if (slab->loose == NULL && (slab->loose = pop_batch(slab)) != NULL)
        slab->loose_count = LX_SLAB_BATCH;
    if (slab->loose != NULL) {
        object = slab->loose;
        slab->loose = object->next;
        slab->loose_count--;
    } else {
        cut_objects(slab, 1, &object);
    }
    lx_mutex_unlock(&slab->shared);
    return object;
}

/*
 * A hint, wrong by the time that it is used if the thread was moved. The C library registers each
 * thread's area of restartable sequences with the kernel, which keeps the CPU's number there:
 * reading that is a tenth of the call. Where there is none (an old kernel, valgrind), its size is
 * 0.
 */
static int current_cpu(void)
{
#if HAVE_RSEQ
    if (__rseq_size != 0) {
        const volatile struct rseq *area =
            (const volatile struct rseq *)((const char *)__builtin_thread_pointer() +
                                           __rseq_offset);

        return (int)area->cpu_id;
    }
#endif
    return sched_getcpu();
}

/* The magazine of this CPU, or a near one if that is in use; NULL if all tried are. */
static struct lx_slab_magazine *lock_magazine(struct lx_slab *slab)
{
    int cpu = current_cpu();
    uint32_t at = cpu > 0 ? (uint32_t)cpu : 0;

    for (uint32_t i = 0; i < LOCK_TRIES; i++) {
        struct lx_slab_magazine *magazine = &slab->magazines[(at + i) & (slab->caches - 1)];
        /* acquire: partner is the release in unlock_magazine. */
        if (atomic_exchange_explicit(&magazine->lock, 1, memory_order_acquire) == 0)
            return magazine;
    }
    return NULL;
}

static void unlock_magazine(struct lx_slab_magazine *magazine)
{
    atomic_store_explicit(&magazine->lock, 0, memory_order_release);
}

/* With many objects in use the next one is in no cache; it will be when its turn comes. */
static void prefetch_next(const struct lx_slab *slab, const struct lx_slab_free *object)
{
    if (object == NULL)
        return;
    for (size_t at = 0; at < slab->object_size; at += CHUNK_HEADER)
        __builtin_prefetch((const char *)object + at, 1);
    __builtin_prefetch((const char *)object + slab->object_size - 1, 1);
}

void *lx_slab_alloc(struct lx_slab *slab)
{
    struct lx_slab_magazine *magazine = lock_magazine(slab);
    struct lx_slab_free *object = NULL;

    if (magazine == NULL)
        return take_one(slab);
    if (magazine->count == 0)
        magazine->count = take_batch(slab, &magazine->head);
    if (magazine->count > 0) {
        object = magazine->head;
        magazine->head = object->next;
        magazine->count--;
        prefetch_next(slab, magazine->head);
    }
    unlock_magazine(magazine);
    return object;
}

/* Gives one batch of a full magazine to the shared stack. */
static void spill(struct lx_slab *slab, struct lx_slab_magazine *magazine)
{
    struct lx_slab_free *first = magazine->head, *last = first;

    for (uint32_t i = 1; i < LX_SLAB_BATCH; i++)
        last = last->next;
    magazine->head = last->next;
    magazine->count -= LX_SLAB_BATCH;
    last->next = NULL;
    lx_mutex_lock(&slab->shared);
    first->next_batch = slab->batches;
    slab->batches = first;
    slab->batch_count++;
    lx_mutex_unlock(&slab->shared);
}

void lx_slab_free(struct lx_slab *slab, void *memory)
{
    struct lx_slab_free *object = memory;
    struct lx_slab_magazine *magazine;

    /* Magazines are held for a few instructions, so that one is free soon; freeing must not lose
     * it. */
    while ((magazine = lock_magazine(slab)) == NULL)
        sched_yield();
    if (magazine->count >= LX_SLAB_MAGAZINE)
        spill(slab, magazine);
    object->next = magazine->head;
    magazine->head = object;
    magazine->count++;
    unlock_magazine(magazine);
}

uint64_t lx_slab_in_use(struct lx_slab *slab)
{
    uint64_t cut, idle;

    /* All are held at once, so that no object moves between them and the shared stack meanwhile. */
    for (uint32_t i = 0; i < slab->caches; i++) {
        while (atomic_exchange_explicit(&slab->magazines[i].lock, 1, memory_order_acquire) != 0)
            sched_yield();
    }
    lx_mutex_lock(&slab->shared);
    cut = slab->cut;
    idle = (uint64_t)slab->batch_count * LX_SLAB_BATCH + slab->loose_count;
    lx_mutex_unlock(&slab->shared);
    for (uint32_t i = 0; i < slab->caches; i++) {
        idle += slab->magazines[i].count;
        unlock_magazine(&slab->magazines[i]);
    }
    return cut - idle;
}

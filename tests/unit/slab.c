/* The slab: each object has one owner, memory is used again, and failures of memory are passed on.
 */
#include "tests/support/lx_test.h"

#include "sync/inbox.h"
#include "sync/seams.h"
#include "sync/slab.h"

#include <pthread.h>
#include <sched.h>

TestSuite(slab, .timeout = 60);

#define OBJECT  128u
#define THREADS 4u
#define HELD    300u /* objects that a thread holds at most: more than a magazine has */

struct object {
    struct lx_slab_free head; /* the slab's while it is free */
    uint64_t kept;            /* never touched by the slab */
    _Atomic uint32_t owners;
};

Test(slab, hands_out_each_object_once)
{
    struct lx_slab slab;
    struct object *objects[1000];

    cr_assert_eq(lx_slab_init(&slab, OBJECT), 0);
    for (unsigned i = 0; i < 1000; i++) {
        objects[i] = lx_slab_alloc(&slab);
        cr_assert_not_null(objects[i]);
        cr_assert_eq(objects[i]->owners, 0);
        objects[i]->owners = 1;
        cr_assert_eq(lx_slab_at(&slab, lx_slab_index(&slab, objects[i])), objects[i]);
        cr_assert_lt(lx_slab_index(&slab, objects[i]), lx_slab_limit(&slab));
    }
    cr_assert_eq(lx_slab_in_use(&slab), 1000);
    cr_assert_null(lx_slab_at(&slab, lx_slab_limit(&slab)));
    for (unsigned i = 0; i < 1000; i++)
        lx_slab_free(&slab, objects[i]);
    cr_assert_eq(lx_slab_in_use(&slab), 0);
    lx_slab_fini(&slab);
}

Test(slab, keeps_what_is_behind_the_first_16_bytes)
{
    struct lx_slab slab;

    cr_assert_eq(lx_slab_init(&slab, OBJECT), 0);
    struct object *object = lx_slab_alloc(&slab);
    uint32_t index = lx_slab_index(&slab, object);
    object->kept = 42;
    lx_slab_free(&slab, object);
    cr_assert_eq(((struct object *)lx_slab_at(&slab, index))->kept, 42);
    lx_slab_fini(&slab);
}

struct shared {
    struct lx_slab slab;
    struct lx_inbox handed; /* objects that another thread frees */
    uint64_t rounds;
    struct latch go;
};

struct worker {
    struct shared *shared;
    struct lx_rng rng;
};

static void take(struct shared *shared, struct object **held, unsigned *count)
{
    struct object *object = lx_slab_alloc(&shared->slab);

    LX_REQUIRE(object != NULL);
    LX_REQUIRE(atomic_fetch_add(&object->owners, 1) == 0);
    held[(*count)++] = object;
}

static void give(struct shared *shared, struct object *object)
{
    LX_REQUIRE(atomic_fetch_sub(&object->owners, 1) == 1);
    lx_slab_free(&shared->slab, object);
}

static void free_handed(struct shared *shared)
{
    uintptr_t link = lx_inbox_take(&shared->handed, LX_INBOX_EMPTY);

    while (link != LX_INBOX_EMPTY) {
        struct lx_inbox_node *node = lx_inbox_node_of(link);
        link = node->next;
        give(shared, (struct object *)node);
    }
}

static void *churn(void *arg)
{
    struct worker *worker = arg;
    struct shared *shared = worker->shared;
    struct object *held[HELD];
    unsigned count = 0;

    latch_arrive(&shared->go);
    latch_wait(&shared->go, THREADS);
    for (uint64_t i = 0; i < shared->rounds; i++) {
        if (count < HELD && (count == 0 || lx_rng_percent(&worker->rng, 50)))
            take(shared, held, &count);
        else if (lx_rng_percent(&worker->rng, 20))
            lx_inbox_push(&shared->handed, (struct lx_inbox_node *)held[--count], 0);
        else
            give(shared, held[--count]);
        if (i % 64 == 0)
            free_handed(shared);
    }
    while (count > 0)
        give(shared, held[--count]);
    return NULL;
}

Test(slab, one_owner_under_threads_and_bounded_memory)
{
    struct shared shared = {.rounds = lx_test_scaled(400000)};
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    cr_assert_eq(lx_slab_init(&shared.slab, OBJECT), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){&shared, lx_rng_seeded(lx_rng_next(&rng))};
        cr_assert_eq(pthread_create(&threads[i], NULL, churn, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    free_handed(&shared);
    cr_assert_eq(lx_slab_in_use(&shared.slab), 0);
    /* Held by threads, on the way to another thread, and in magazines; the rest is slack. */
    uint64_t most =
        THREADS * (2 * HELD + 64) + shared.slab.caches * LX_SLAB_MAGAZINE + 2 * LX_SLAB_BATCH;
    cr_assert_leq(shared.slab.cut, 2 * most, "%lu objects for at most %lu at once",
                  (unsigned long)shared.slab.cut, (unsigned long)most);
    lx_slab_fini(&shared.slab);
}

/* No magazine can be had: they all belong to threads that do not run. */
Test(slab, without_magazines_it_uses_memory_again)
{
    struct lx_slab slab;
    void *objects[200];

    cr_assert_eq(lx_slab_init(&slab, OBJECT), 0);
    for (unsigned round = 0; round < 50; round++) {
        for (uint32_t i = 0; i < slab.caches; i++)
            slab.magazines[i].lock = 1;
        for (unsigned i = 0; i < 200; i++)
            cr_assert_not_null(objects[i] = lx_slab_alloc(&slab));
        for (uint32_t i = 0; i < slab.caches; i++)
            slab.magazines[i].lock = 0;
        for (unsigned i = 0; i < 200; i++)
            lx_slab_free(&slab, objects[i]);
    }
    cr_assert_leq(slab.cut, 200 + (uint64_t)slab.caches * LX_SLAB_MAGAZINE + LX_SLAB_BATCH);
    cr_assert_eq(lx_slab_in_use(&slab), 0);
    lx_slab_fini(&slab);
}

static void *no_map(size_t size)
{
    (void)size;
    return NULL;
}

Test(slab, says_when_memory_is_out_and_goes_on_with_what_it_has)
{
    struct lx_slab slab;
    void *first;
    uint64_t held = 1;
    cpu_set_t here;

    /* What lies in another CPU's magazine is not found: the thread must not be moved. */
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    cr_assert_eq(sched_setaffinity(0, sizeof here, &here), 0);
    cr_assert_eq(lx_slab_init(&slab, OBJECT), 0);
    cr_assert_not_null(first = lx_slab_alloc(&slab));
    void *(*map)(size_t) = lx_seams.map;
    lx_seams.map = no_map;
    while (lx_slab_alloc(&slab) != NULL)
        held++;
    cr_assert_eq(held, lx_slab_objects(&slab));
    lx_slab_free(&slab, first);
    cr_assert_eq(lx_slab_alloc(&slab), first);
    cr_assert_null(lx_slab_alloc(&slab));
    lx_seams.map = map;
    cr_assert_not_null(lx_slab_alloc(&slab));
    cr_assert_eq(lx_slab_in_use(&slab), held + 1);
    lx_slab_fini(&slab);
}

/* ---- a large slab is mapped in regions ---- */

static void *(*real_map)(size_t size);
static void (*real_unmap)(void *memory, size_t size);
static size_t mapped_bytes, largest_map;
static bool regions_refused;

static void *counting_map(size_t size)
{
    void *memory;

    if (regions_refused && size > LX_SLAB_CHUNK)
        return NULL;
    memory = real_map(size);
    if (memory != NULL)
        mapped_bytes += size;
    if (size > largest_map)
        largest_map = size;
    return memory;
}

static void counting_unmap(void *memory, size_t size)
{
    mapped_bytes -= size;
    real_unmap(memory, size);
}

static void grow_large(void)
{
    struct lx_slab slab;
    uint32_t chunks = 3 * LX_SLAB_REGION / LX_SLAB_CHUNK + 3;

    cr_assert_eq(lx_slab_init(&slab, OBJECT), 0);
    for (uint64_t i = 0; i < (uint64_t)chunks * slab.per_chunk; i++) {
        void *object = lx_slab_alloc(&slab);
        LX_REQUIRE(object != NULL);
        LX_REQUIRE(lx_slab_at(&slab, lx_slab_index(&slab, object)) == object);
        memset(object, 0xa5, OBJECT);
    }
    cr_assert_geq(lx_slab_objects(&slab), (uint64_t)chunks * slab.per_chunk);
    cr_assert_leq(mapped_bytes,
                  lx_slab_objects(&slab) / slab.per_chunk * LX_SLAB_CHUNK + LX_SLAB_REGION,
                  "no more than a region beyond what is used");
    lx_slab_fini(&slab);
    cr_assert_eq(mapped_bytes, 0, "all was given back");
}

Test(slab, grows_by_regions_once_it_is_large)
{
    real_map = lx_seams.map;
    real_unmap = lx_seams.unmap;
    lx_seams.map = counting_map;
    lx_seams.unmap = counting_unmap;
    grow_large();
    cr_assert_eq(largest_map, LX_SLAB_REGION);
    largest_map = 0;
    regions_refused = true;
    grow_large();
    cr_assert_eq(largest_map, LX_SLAB_CHUNK, "small ones do where there is no region to be had");
}

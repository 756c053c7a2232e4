/* The epoch lock under all mixes of calls: exclusion holds, nothing wedges. */
#include "tests/support/lx_test.h"

#include "sync/cancel.h"
#include "sync/epoch.h"

#include <errno.h>
#include <pthread.h>

TestSuite(epoch_mix); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define MAX_THREADS     5
#define MAX_TIMED_NS    50000 /* timed calls wait 0 to 50 us */
#define LAST_ROUNDS     20    /* blocking calls at the end of each mix */
#define DOWNGRADE_EVERY 8

enum call {
    READ,
    TRY_READ,
    TIMED_READ,
    WRITE,
    TRY_WRITE,
    TIMED_WRITE,
    CANCELLED_READ,
    CANCELLED_WRITE,
    CALLS
};

/* What the lock protects: two plain words that a writer keeps equal. */
struct guarded {
    lanex_epoch epoch;
    uint64_t a;
    uint64_t b;
    _Atomic unsigned inside_readers;
    _Atomic unsigned inside_writers;
};

static void look(struct guarded *g)
{
    atomic_fetch_add_explicit(&g->inside_readers, 1, memory_order_relaxed);
    LX_REQUIRE(atomic_load_explicit(&g->inside_writers, memory_order_relaxed) == 0);
    LX_REQUIRE(g->a == g->b);
    atomic_fetch_sub_explicit(&g->inside_readers, 1, memory_order_relaxed);
    lanex_epoch_read_release(&g->epoch);
}

static void change(struct guarded *g, bool downgrade)
{
    LX_REQUIRE(atomic_fetch_add_explicit(&g->inside_writers, 1, memory_order_relaxed) == 0);
    LX_REQUIRE(atomic_load_explicit(&g->inside_readers, memory_order_relaxed) == 0);
    g->a++;
    LX_REQUIRE(g->a == g->b + 1);
    g->b++;
    atomic_fetch_sub_explicit(&g->inside_writers, 1, memory_order_relaxed);
    if (!downgrade) {
        lanex_epoch_write_release(&g->epoch);
        return;
    }
    uint64_t mine = g->a;
    lanex_epoch_write_downgrade(&g->epoch);
    LX_REQUIRE(g->a == mine);
    look(g);
}

struct actor {
    struct guarded *guarded;
    struct actor *all;
    unsigned threads;
    struct lx_rng rng;
    enum call call;
    uint64_t times;
    uint64_t entered;
    struct latch *go;
    _Atomic(lanex_cancellation *) token; /* of the call under way: neighbours cancel it */
};

/* Cancels the call that a random thread is in, if it has one. */
static void cancel_somebody(struct actor *a)
{
    struct actor *other = &a->all[lx_rng_below(&a->rng, a->threads)];
    lanex_cancellation *t = atomic_exchange(&other->token, NULL);
    if (t) {
        lanex_cancellation_cancel(t);
        lanex_cancellation_unref(t);
    }
}

/* A wait that others cancel. One that nobody cancels must end when the lock is free. */
static int cancelled_acquire(struct actor *a, bool write)
{
    lanex_cancellation *t = NULL;
    LX_REQUIRE(lanex_cancellation_create(&t) == 0);
    atomic_store(&a->token, lanex_cancellation_ref(t));
    lanex_epoch *e = &a->guarded->epoch;
    int r = write ? lanex_epoch_write_acquire_until(e, LANEX_TIME_NEVER, t)
                  : lanex_epoch_read_acquire_until(e, LANEX_TIME_NEVER, t);
    LX_REQUIRE(r == 0 || r == -ECANCELED);
    lanex_cancellation_unref(atomic_exchange(&a->token, NULL));
    lanex_cancellation_unref(t);
    return r;
}

static int acquire(struct actor *a)
{
    lanex_epoch *e = &a->guarded->epoch;
    uint64_t until = 0;
    if (a->call == TIMED_READ || a->call == TIMED_WRITE)
        until = lx_test_now_ns() + lx_rng_below(&a->rng, MAX_TIMED_NS + 1);
    switch (a->call) {
    case READ:
        lanex_epoch_read_acquire(e);
        return 0;
    case TRY_READ:
        return lanex_epoch_read_try_acquire(e);
    case TIMED_READ:
        return lanex_epoch_read_acquire_until(e, until, NULL);
    case WRITE:
        lanex_epoch_write_acquire(e);
        return 0;
    case TRY_WRITE:
        return lanex_epoch_write_try_acquire(e);
    case TIMED_WRITE:
        return lanex_epoch_write_acquire_until(e, until, NULL);
    case CANCELLED_READ:
    case CANCELLED_WRITE:
        return cancelled_acquire(a, a->call == CANCELLED_WRITE);
    default:
        break;
    }
    lx_test_die(__FILE__, __LINE__, "no such call: %d", (int)a->call);
}

static bool writes(enum call call)
{
    return call == WRITE || call == TRY_WRITE || call == TIMED_WRITE || call == CANCELLED_WRITE;
}

static void *act(void *argument)
{
    struct actor *a = argument;
    latch_wait(a->go, 1);
    for (uint64_t i = 0; i < a->times; i++) {
        if (lx_rng_percent(&a->rng, 20))
            cancel_somebody(a);
        if (acquire(a) != 0)
            continue;
        a->entered++;
        if (writes(a->call))
            change(a->guarded, lx_rng_below(&a->rng, DOWNGRADE_EVERY) == 0);
        else
            look(a->guarded);
    }
    /* Without the calls that give up, blocking ones must all come to an end. */
    for (unsigned i = 0; i < LAST_ROUNDS; i++) {
        lanex_epoch_read_acquire(&a->guarded->epoch);
        look(a->guarded);
        lanex_epoch_write_acquire(&a->guarded->epoch);
        change(a->guarded, false);
    }
    return NULL;
}

static uint64_t mix(struct lx_rng *rng, enum call x, enum call y, unsigned threads, uint64_t times)
{
    struct guarded g = {.epoch = LANEX_EPOCH_INIT};
    struct latch go = LATCH_INIT;
    struct actor actors[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    for (unsigned i = 0; i < threads; i++) {
        actors[i] = (struct actor){.guarded = &g,
                                   .all = actors,
                                   .threads = threads,
                                   .rng = lx_rng_seeded(lx_rng_next(rng)),
                                   .call = i % 2 ? y : x,
                                   .times = times,
                                   .go = &go};
    }
    for (unsigned i = 0; i < threads; i++)
        cr_assert_eq(pthread_create(&ids[i], NULL, act, &actors[i]), 0);
    latch_arrive(&go);
    uint64_t writes_done = 0;
    uint64_t entered = 0;
    for (unsigned i = 0; i < threads; i++) {
        cr_assert_eq(pthread_join(ids[i], NULL), 0);
        entered += actors[i].entered;
        writes_done += LAST_ROUNDS + (writes(actors[i].call) ? actors[i].entered : 0);
    }
    cr_assert_eq(g.a, writes_done, "a write was lost: %d with %d", (int)x, (int)y);
    cr_assert_eq(g.b, writes_done);
    lanex_epoch_fini(&g.epoch); /* nothing is left of anybody */
    return entered;
}

static void all_pairs(struct lx_rng *rng, uint64_t times)
{
    for (int x = 0; x < CALLS; x++) {
        for (int y = x; y < CALLS; y++) {
            for (unsigned threads = 3; threads <= MAX_THREADS; threads++) {
                uint64_t entered = mix(rng, (enum call)x, (enum call)y, threads, times);
                cr_assert_gt(entered, 0, "nobody ever entered: %d with %d", x, y);
            }
        }
    }
}

static void soak(void)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    const uint64_t end = lx_test_now_ns() + lx_test_soak_seconds() * UINT64_C(1000000000);
    do
        all_pairs(&rng, lx_test_scaled(1000));
    while (lx_test_now_ns() < end);
}

Test(epoch_mix, no_mix_of_blocking_timed_and_try_calls_wedges)
{
    soak();
}

Test(epoch_mix, nor_where_waitv_is_refused)
{
    lx_cancellation_force_slices(true);
    soak();
}

/* One blocking writer among writers and readers that never rest. */
struct hammer {
    struct guarded *guarded;
    _Atomic bool *stop;
    bool write;
};

static void *hammer(void *argument)
{
    struct hammer *h = argument;
    while (!atomic_load_explicit(h->stop, memory_order_relaxed)) {
        if (h->write) {
            lanex_epoch_write_acquire(&h->guarded->epoch);
            change(h->guarded, false);
        } else {
            lanex_epoch_read_acquire(&h->guarded->epoch);
            look(h->guarded);
        }
    }
    return NULL;
}

Test(epoch_mix, nobody_starves)
{
    struct guarded g = {.epoch = LANEX_EPOCH_INIT};
    _Atomic bool stop = false;
    struct hammer hammers[4];
    pthread_t ids[4];
    for (unsigned i = 0; i < 4; i++) {
        hammers[i] = (struct hammer){.guarded = &g, .stop = &stop, .write = i < 2};
        cr_assert_eq(pthread_create(&ids[i], NULL, hammer, &hammers[i]), 0);
    }
    const uint64_t rounds = lx_test_scaled(500);
    for (uint64_t i = 0; i < rounds; i++) {
        lanex_epoch_write_acquire(&g.epoch);
        change(&g, false);
        lanex_epoch_read_acquire(&g.epoch);
        look(&g);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(pthread_join(ids[i], NULL), 0);
    cr_assert_geq(g.a, rounds);
    lanex_epoch_fini(&g.epoch);
}

/* A release is the last use: the one who knows that he is the last frees the lock at once. The
 * address sanitizer sees a touch too many. */
struct mortal {
    lanex_epoch epoch;
    unsigned left;
};

static void *last_one_frees(void *argument)
{
    struct mortal *m = argument;
    lanex_epoch_read_acquire(&m->epoch);
    LX_REQUIRE(m->left > 0);
    lanex_epoch_read_release(&m->epoch);
    lanex_epoch_write_acquire(&m->epoch);
    unsigned left = --m->left;
    lanex_epoch_write_release(&m->epoch);
    if (left == 0) {
        memset(m, 0xdb, sizeof *m);
        free(m);
    }
    return NULL;
}

Test(epoch_mix, the_last_holder_may_free_the_lock)
{
    const uint64_t rounds = lx_test_scaled(3000);
    for (uint64_t i = 0; i < rounds; i++) {
        struct mortal *m = malloc(sizeof *m);
        cr_assert_not_null(m);
        *m = (struct mortal){.epoch = LANEX_EPOCH_INIT, .left = 3};
        pthread_t ids[2];
        for (unsigned k = 0; k < 2; k++)
            cr_assert_eq(pthread_create(&ids[k], NULL, last_one_frees, m), 0);
        last_one_frees(m);
        for (unsigned k = 0; k < 2; k++)
            cr_assert_eq(pthread_join(ids[k], NULL), 0);
    }
}

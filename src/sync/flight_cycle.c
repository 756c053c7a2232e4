/*
 * Who waits for whom, so that a circle of builders is an error and not a hang.
 *
 * The graph: a build points to the build that its thread sleeps for. A thread that builds nothing
 * is waited for by nobody and has no part in it. All builds of one thread point to the same build,
 * so a walk needs nothing of the threads: from the target along `waits_for` until it ends, or meets
 * a build of the calling thread. Every edge is made under one mutex after such a walk, so the graph
 * has no circle, and the walk ends.
 *
 * An edge may be old: its target has ended, and the sleeper has not woken yet. That one points
 * nowhere itself and is on no thread's stack, so a walk that meets it finds nothing.
 */
#include "sync/single_flight.h"

#include "sync/assert.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/* One for all flights: a circle may go through several. Taken only by threads that wait inside a
 * builder. */
static struct lx_mutex graph_mutex;

/*
 * The process whose threads use graph_mutex. A fork can come while another thread holds it; that
 * thread is not in the child, so the first flight that is made there frees it. 0: none yet;
 * ADOPTING: being freed.
 */
#define ADOPTING (-1)
static _Atomic int64_t graph_owner;

static _Thread_local struct lx_flight_build *innermost __attribute__((tls_model("initial-exec")));

void lx_flight_graph_adopt(int64_t pid)
{
    /* acquire: partner is the release below; the mutex is free once the owner is seen */
    int64_t owner = atomic_load_explicit(&graph_owner, memory_order_acquire);

    while (owner != pid) {
        if (owner == ADOPTING) {
            (void)sched_yield(); /* two threads of a child make their first flights at once */
            owner = atomic_load_explicit(&graph_owner, memory_order_acquire);
        } else if (atomic_compare_exchange_weak_explicit(&graph_owner, &owner, ADOPTING,
                                                         memory_order_acquire,
                                                         memory_order_acquire)) {
            atomic_store_explicit(&graph_mutex.word, 0, memory_order_relaxed);
            /* release: partners are the acquires above */
            atomic_store_explicit(&graph_owner, pid, memory_order_release);
            return;
        }
    }
}

void lx_flight_stack_push(struct lx_flight_build *build)
{
    build->outer = innermost;
    innermost = build;
}

void lx_flight_stack_pop(struct lx_flight_build *build)
{
    LX_ASSERT(innermost == build);
    innermost = build->outer;
}

bool lx_flight_stack_has(const struct lanex_flight *flight, uint64_t hash, const void *key,
                         size_t key_length)
{
    for (const struct lx_flight_build *b = innermost; b != NULL; b = b->outer) {
        if (b->flight == flight && b->hash == hash && b->request->key_length == key_length &&
            memcmp(b->request->key, key, key_length) == 0)
            return true;
    }
    return false;
}

static bool is_mine(const struct lx_flight_build *build)
{
    for (const struct lx_flight_build *b = innermost; b != NULL; b = b->outer) {
        if (b == build)
            return true;
    }
    return false;
}

static void point_to(struct lx_flight_build *target)
{
    for (struct lx_flight_build *b = innermost; b != NULL; b = b->outer)
        b->waits_for = target;
}

int lx_flight_wait_begin(struct lx_flight_build *target)
{
    int result = 0;

    if (innermost == NULL)
        return 0;
    lx_mutex_lock(&graph_mutex);
    for (const struct lx_flight_build *b = target; b != NULL && result == 0; b = b->waits_for) {
        if (is_mine(b))
            result = -EDEADLK;
    }
    if (result == 0)
        point_to(target);
    lx_mutex_unlock(&graph_mutex);
    return result;
}

void lx_flight_wait_end(void)
{
    if (innermost == NULL)
        return;
    lx_mutex_lock(&graph_mutex);
    point_to(NULL);
    lx_mutex_unlock(&graph_mutex);
}

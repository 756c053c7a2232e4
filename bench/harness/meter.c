#include "meter.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "futex.h"

#define COARSE 2048u /* completions before the end from which on the wait is exact */

/* Written by its own thread alone; next_check and generation are read by no other. */
struct counter {
    _Atomic uint64_t count;
    uint64_t next_check;
    uint32_t generation;
} __attribute__((aligned(2 * BENCH_LINE)));

struct counters {
    struct counter of[BENCH_SUBMITTERS_MAX];
    struct counters *next;
};

/* Written by its submitter when it is about to sleep. */
struct waiter {
    _Atomic uint32_t waiting;
    _Atomic uint32_t generation;
    _Atomic uint64_t target, margin;
} __attribute__((aligned(2 * BENCH_LINE)));

static struct waiter waiters[BENCH_SUBMITTERS_MAX];
static _Atomic(struct counters *) all;
static _Atomic uint32_t threads;
static _Thread_local struct counters *mine;

static __attribute__((noinline)) struct counters *add_thread(void)
{
    struct counters *new = aligned_alloc(2 * BENCH_LINE, sizeof *new);
    struct counters *head = atomic_load(&all);

    if (new == NULL)
        bench_die("counters", ENOMEM);
    memset(new, 0, sizeof *new);
    do {
        new->next = head;
    } while (!atomic_compare_exchange_weak(&all, &head, new));
    atomic_fetch_add(&threads, 1);
    mine = new;
    return new;
}

uint64_t bench_meter_sum(unsigned submitter)
{
    uint64_t sum = 0;

    for (struct counters *each = atomic_load(&all); each != NULL; each = each->next)
        sum += atomic_load(&each->of[submitter].count);
    return sum;
}

static __attribute__((noinline)) void look(unsigned submitter, struct counter *counter)
{
    struct waiter *waiter = &waiters[submitter];
    uint32_t generation = atomic_load(&waiter->generation);
    uint64_t margin = atomic_load(&waiter->margin), target, sum, steps;
    uint64_t count = atomic_load_explicit(&counter->count, memory_order_relaxed);

    if (counter->generation != generation) {
        counter->generation = generation;
        counter->next_check = 0;
    }
    if (margin != 0 && count < counter->next_check)
        return;
    target = atomic_load(&waiter->target);
    sum = bench_meter_sum(submitter);
    if (sum >= target) {
        if (atomic_exchange(&waiter->waiting, 0) != 0)
            bench_futex_wake(&waiter->waiting, 1);
        return;
    }
    /*
     * Each of k threads looks at the sum at least once in margin / k completions of its own, so
     * within `margin` completions after the target one of them has looked.
     */
    steps = (target - sum < margin ? target - sum : margin) / atomic_load(&threads);
    counter->next_check = count + (steps != 0 ? steps : 1);
}

void bench_meter_add(unsigned submitter)
{
    struct counters *counters = mine != NULL ? mine : add_thread();
    struct counter *counter = &counters->of[submitter];

    /* Sequentially consistent, as the submitter's store to `waiting` is: either it sees this
       completion, or this thread sees that it waits. */
    atomic_fetch_add(&counter->count, 1);
    if (__builtin_expect(atomic_load(&waiters[submitter].waiting) != 0, 0))
        look(submitter, counter);
}

void bench_meter_wait(unsigned submitter, uint64_t target, uint64_t margin)
{
    struct waiter *waiter = &waiters[submitter];

    if (bench_traits.wait_some != NULL) {
        while (bench_meter_sum(submitter) < target)
            bench_traits.wait_some();
        return;
    }
    while (bench_meter_sum(submitter) < target) {
        atomic_store(&waiter->target, target);
        atomic_store(&waiter->margin, margin);
        atomic_fetch_add(&waiter->generation, 1);
        atomic_store(&waiter->waiting, 1);
        if (bench_meter_sum(submitter) >= target) {
            atomic_store(&waiter->waiting, 0);
            return;
        }
        while (atomic_load(&waiter->waiting) != 0)
            bench_futex_wait(&waiter->waiting, 1);
    }
}

void bench_meter_wait_all(unsigned submitter, uint64_t target)
{
    if (target > COARSE && bench_meter_sum(submitter) + 2 * COARSE < target)
        bench_meter_wait(submitter, target - COARSE, COARSE);
    bench_meter_wait(submitter, target, 0);
}

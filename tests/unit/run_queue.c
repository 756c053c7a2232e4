/* The run queue: in order, each job to one worker, over the wrap of its indices. */
#include "tests/support/lx_test.h"

#include "runtime/run_queue.h"

#include <pthread.h>
#include <sched.h>

TestSuite(run_queue, .timeout = 60);

#define WORKERS 4u

static struct lanex_job *job_numbered(uint64_t number)
{
    return (struct lanex_job *)(uintptr_t)(number * 16);
}

Test(run_queue, in_order_across_the_wrap)
{
    struct lx_run_queue queue;

    cr_assert_eq(lx_run_queue_init(&queue, 2), 0);
    queue.head = queue.tail = UINT32_MAX - 5;
    cr_assert(lx_run_queue_empty(&queue));
    for (uint64_t i = 1; i < 100; i += 2) {
        lx_run_queue_push(&queue, job_numbered(i));
        lx_run_queue_push(&queue, job_numbered(i + 1));
        cr_assert_not(lx_run_queue_empty(&queue));
        cr_assert_eq(lx_run_queue_pop(&queue), job_numbered(i));
        cr_assert_eq(lx_run_queue_pop(&queue), job_numbered(i + 1));
        cr_assert_null(lx_run_queue_pop(&queue));
    }
    lx_run_queue_fini(&queue);
}

Test(run_queue, a_sleeper_knows_whether_it_was_chosen)
{
    struct lx_run_queue queue;

    cr_assert_eq(lx_run_queue_init(&queue, 130), 0);
    cr_assert_eq(queue.sleeper_words, 3);
    lx_sleeper_announce(&queue, 129);
    cr_assert_eq(queue.sleepers[2], 2);
    cr_assert_not(lx_sleeper_retract(&queue, 129));
    /* What a waker does: takes the bit and the right to wake. */
    lx_sleeper_announce(&queue, 129);
    queue.sleepers[2] = 0;
    queue.waking = 1;
    cr_assert(lx_sleeper_retract(&queue, 129));
    cr_assert_eq(queue.waking, 0);
    lx_run_queue_fini(&queue);
}

struct shared {
    struct lx_run_queue queue;
    uint64_t jobs;
    _Atomic uint64_t taken;
    _Atomic uint8_t *seen;
};

static void *take_all(void *arg)
{
    struct shared *shared = arg;

    while (atomic_load(&shared->taken) < shared->jobs) {
        struct lanex_job *job = lx_run_queue_pop(&shared->queue);
        if (job == NULL) {
            sched_yield();
            continue;
        }
        LX_REQUIRE(atomic_fetch_add(&shared->seen[(uintptr_t)job / 16 - 1], 1) == 0);
        atomic_fetch_add(&shared->taken, 1);
    }
    return NULL;
}

Test(run_queue, each_job_goes_to_one_worker)
{
    struct shared shared = {.jobs = lx_test_scaled(200000)};
    pthread_t threads[WORKERS];

    cr_assert_eq(lx_run_queue_init(&shared.queue, WORKERS), 0);
    shared.seen = calloc(shared.jobs, sizeof *shared.seen);
    for (unsigned i = 0; i < WORKERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, take_all, &shared), 0);
    for (uint64_t i = 1; i <= shared.jobs; i++) {
        /* Never more than one for each worker: what admission sees to. */
        while (i - 1 - atomic_load(&shared.taken) >= WORKERS)
            sched_yield();
        lx_run_queue_push(&shared.queue, job_numbered(i));
    }
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (uint64_t i = 0; i < shared.jobs; i++)
        cr_assert_eq(shared.seen[i], 1);
    free((void *)shared.seen);
    lx_run_queue_fini(&shared.queue);
}

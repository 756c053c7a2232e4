#include "runtime/run_queue.h"

#include <errno.h>
#include <string.h>

#include "runtime/executor.h"
#include "runtime/nap.h"
#include "sync/assert.h"
#include "sync/seams.h"

int lx_run_queue_init(struct lx_run_queue *queue, uint32_t workers)
{
    uint32_t places = 4;

    while (places < 2 * workers)
        places *= 2;
    LX_ASSERT(places <= LX_QUEUE_PLACES);
    memset(queue, 0, sizeof *queue);
    queue->places = lx_allocate_zeroed(places * sizeof *queue->places);
    if (queue->places == NULL)
        return -ENOMEM;
    queue->mask = places - 1;
    queue->sleeper_words = (workers + 63) / 64;
    return 0;
}

void lx_run_queue_fini(struct lx_run_queue *queue)
{
    lx_release((void *)queue->places);
    queue->places = NULL;
}

void lx_run_queue_push(struct lx_run_queue *queue, struct lanex_job *job)
{
    uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);

    /* acquire on head is not needed: a place is reused only after `places` pushes, and admission
     * has by then seen the end of the job that was there. */
    LX_ASSERT(tail - atomic_load_explicit(&queue->head, memory_order_relaxed) <= queue->mask);
    atomic_store_explicit(&queue->places[tail & queue->mask], job, memory_order_relaxed);
    /* release: the place and the job; partner is the acquire in lx_run_queue_pop. */
    atomic_store_explicit(&queue->tail, tail + 1, memory_order_release);
}

struct lanex_job *lx_run_queue_pop(struct lx_run_queue *queue)
{
    uint32_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);

    for (;;) {
        struct lanex_job *job;

        /* acquire: partner is the release in lx_run_queue_push. */
        if (head == atomic_load_explicit(&queue->tail, memory_order_acquire))
            return NULL;
        job = atomic_load_explicit(&queue->places[head & queue->mask], memory_order_relaxed);
        /* The place may have been reused if another worker took it: then head has moved, and this
         * fails. */
        if (atomic_compare_exchange_weak_explicit(&queue->head, &head, head + 1,
                                                  memory_order_acq_rel, memory_order_relaxed))
            return job;
    }
}

bool lx_run_queue_empty(const struct lx_run_queue *queue)
{
    return atomic_load_explicit(&queue->head, memory_order_seq_cst) ==
           atomic_load_explicit(&queue->tail, memory_order_seq_cst);
}

/* Chooses a sleeper and takes its bit; false if nobody sleeps. The lowest: it ran last most often.
 */
static bool claim_sleeper(struct lx_run_queue *queue, uint32_t *ret_worker)
{
    for (uint32_t word = 0; word < queue->sleeper_words; word++) {
        uint64_t bits = atomic_load_explicit(&queue->sleepers[word], memory_order_seq_cst);
        while (bits != 0) {
            uint64_t bit = bits & (~bits + 1);
            bits = atomic_fetch_and_explicit(&queue->sleepers[word], ~bit, memory_order_seq_cst);
            if ((bits & bit) != 0) {
                *ret_worker = word * 64 + (uint32_t)__builtin_ctzll(bit);
                return true;
            }
            bits &= ~bit;
        }
    }
    return false;
}

static bool anybody_sleeps(const struct lx_run_queue *queue)
{
    for (uint32_t word = 0; word < queue->sleeper_words; word++) {
        if (atomic_load_explicit(&queue->sleepers[word], memory_order_seq_cst) != 0)
            return true;
    }
    return false;
}

/*
 * Whether a job is in the queue that no watching worker will come for (spin.h). Each of them takes
 * one job and then, counted no more, passes on what is left. What is pushed meanwhile is the
 * pusher's to look after; and who has taken itself off the count has moved the head before.
 */
static bool more_than_watched(const struct lanex_executor *ex)
{
    const struct lx_run_queue *queue = &ex->run_queue;
    uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_seq_cst);
    uint32_t watchers = atomic_load_explicit(&ex->watchers, memory_order_seq_cst);
    uint32_t head = atomic_load_explicit(&queue->head, memory_order_seq_cst);

    /* Signed: the head may have passed that tail. */
    return (int32_t)(tail - head) > (int32_t)watchers;
}

uint32_t lx_sleepers(const struct lx_run_queue *queue)
{
    uint32_t count = 0;

    for (uint32_t word = 0; word < queue->sleeper_words; word++)
        count += (uint32_t)__builtin_popcountll(
            atomic_load_explicit(&queue->sleepers[word], memory_order_seq_cst));
    return count;
}

void lx_wake_one(struct lanex_executor *ex)
{
    struct lx_run_queue *queue = &ex->run_queue;

    /* Between the push (or the clearing of `waking`) and these looks: partner is the fence in
     * lx_sleeper_announce, and the one below. */
    atomic_thread_fence(memory_order_seq_cst);
    if (lx_nap_others_come(ex))
        return;
    while (more_than_watched(ex) && anybody_sleeps(queue)) {
        uint32_t worker, expected = 0;

        if (!atomic_compare_exchange_strong_explicit(&queue->waking, &expected, 1,
                                                     memory_order_seq_cst, memory_order_seq_cst))
            return; /* whoever cleared it next looks again */
        if (claim_sleeper(queue, &worker)) {
            lx_threads_ring(ex, &ex->workers[worker].door);
            return;
        }
        atomic_store_explicit(&queue->waking, 0, memory_order_seq_cst);
        atomic_thread_fence(memory_order_seq_cst);
    }
}

void lx_sleeper_announce(struct lx_run_queue *queue, uint32_t worker)
{
    atomic_fetch_or_explicit(&queue->sleepers[worker / 64], UINT64_C(1) << (worker % 64),
                             memory_order_seq_cst);
    /* Partner: the fence in lx_wake_one. */
    atomic_thread_fence(memory_order_seq_cst);
}

bool lx_sleeper_retract(struct lx_run_queue *queue, uint32_t worker)
{
    uint64_t bit = UINT64_C(1) << (worker % 64);
    uint64_t bits =
        atomic_fetch_and_explicit(&queue->sleepers[worker / 64], ~bit, memory_order_seq_cst);

    if ((bits & bit) != 0)
        return false;
    atomic_store_explicit(&queue->waking, 0, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
    return true;
}

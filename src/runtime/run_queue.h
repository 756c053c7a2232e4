/*
 * Admitted jobs on their way to workers, and which workers sleep.
 *
 * The queue: a ring of job pointers, written by the holder of the seat alone, read by workers.
 * Admission never hands out more jobs than there are workers, so it cannot overflow, and no job in
 * it waits behind a body.
 *
 * Sleepers: one bit a worker. A worker sets its bit, then looks at the queue again, then sleeps; a
 * waker has put the job there, then looks at the bits, and clears the bit of the one it wakes. Both
 * have a full fence between store and load, so that one of them sees the other.
 *
 * One wake at a time: `waking` is 1 from the choice of a sleeper until that one runs and has
 * cleared it. Wakers that find it set leave it at that: the woken worker takes one job and wakes
 * the next if more are left. Whoever clears it looks again at queue and bits after a full fence,
 * since others may have relied on it.
 */
#ifndef LX_RUNTIME_RUN_QUEUE_H
#define LX_RUNTIME_RUN_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lanex/executor.h>

struct lanex_job;
struct lanex_executor;

#define LX_QUEUE_PLACES  (2 * LANEX_POOL_MAX_MANY_CORE) /* power of two, more than workers */
#define LX_SLEEPER_WORDS (LANEX_POOL_MAX_MANY_CORE / 64)

struct lx_run_queue {
    /* Written by the holder of the seat. */
    _Atomic uint32_t tail;
    char pad_head[60];
    /* Written by workers. */
    _Atomic uint32_t head;
    char pad_sleepers[60];
    _Atomic uint64_t sleepers[LX_SLEEPER_WORDS];
    _Atomic uint32_t waking;
    char pad_places[60];
    struct lanex_job *_Atomic *places;
    uint32_t mask;
    uint32_t sleeper_words; /* of them in use */
};

int lx_run_queue_init(struct lx_run_queue *queue, uint32_t workers);
void lx_run_queue_fini(struct lx_run_queue *queue);

/* By the holder of the seat. */
void lx_run_queue_push(struct lx_run_queue *queue, struct lanex_job *job);
/* NULL when it is empty. */
struct lanex_job *lx_run_queue_pop(struct lx_run_queue *queue);
bool lx_run_queue_empty(const struct lx_run_queue *queue);

/* Workers whose bit is set. */
uint32_t lx_sleepers(const struct lx_run_queue *queue);
/* After a push: sees to it that a worker will come for the job. */
void lx_wake_one(struct lanex_executor *ex);
/* The worker is about to sleep: sets its bit. The caller must look at the queue after that. */
void lx_sleeper_announce(struct lx_run_queue *queue, uint32_t worker);
/* It is awake: clears its bit. True if a waker had chosen it: then `waking` is cleared too. */
bool lx_sleeper_retract(struct lx_run_queue *queue, uint32_t worker);

#endif

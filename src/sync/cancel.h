/*
 * The cancellation token (include/lanex/cancel.h, SPEC 7), and waits that it ends.
 */
#ifndef LX_CANCEL_H
#define LX_CANCEL_H

#include "lanex/cancel.h"

#include <stdatomic.h>

/*
 * The word.
 *
 * STATE (bits 0-1): pending, running, committed or cancelled. It moves only forward, by
 * compare-exchange: pending -> running (lx_cancellation_start), pending|running -> committed
 * (seal), pending|running -> cancelled (cancel). Committed and cancelled are final, so whoever
 * reads one of them may act on it without looking again.
 *
 * WATCHED (bit 2): some thread sleeps, or is about to sleep, with the word as one of its futexes.
 * It is set before the look at STATE that precedes the sleep, and the cancel that finds it set
 * wakes. It is never cleared: a token serves one job, so a stale mark costs one system call at
 * most.
 *
 * BOUND (bit 3): the token has been given to a submission. It is set by lx_cancellation_bind, and
 * cleared only if that submission failed: a second job must not share the race of the first.
 */
#define LX_CANCELLATION_PENDING    0u
#define LX_CANCELLATION_RUNNING    1u
#define LX_CANCELLATION_COMMITTED  2u
#define LX_CANCELLATION_CANCELLED  3u
#define LX_CANCELLATION_STATE_MASK 3u
#define LX_CANCELLATION_WATCHED    4u
#define LX_CANCELLATION_BOUND      8u

/* `refs` of a token that is embedded in a job: not counted, ends with the job. */
#define LX_CANCELLATION_EMBEDDED 0u

/* One slice of a cancellable wait where the kernel refuses futex_waitv: how late a cancellation may
 * be noticed there. */
#define LX_CANCELLATION_SLICE_NS 1000000u

struct lanex_cancellation {
    _Atomic uint32_t word;
    _Atomic uint32_t refs;
};

_Static_assert(sizeof(struct lanex_cancellation) == 8, "a token is embedded in each job");

/* initial-exec: one load off the thread pointer, also from the shared library. */
extern _Thread_local lanex_cancellation *lx_cancellation_current
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

static inline void lx_cancellation_init_embedded(lanex_cancellation *t)
{
    atomic_init(&t->word, LX_CANCELLATION_PENDING);
    atomic_init(&t->refs, LX_CANCELLATION_EMBEDDED);
}

static inline uint32_t lx_cancellation_load(const lanex_cancellation *t)
{
    /* acquire: partner is the compare-exchange in lx_cancellation_move: what the canceller wrote
     * before it cancelled is seen by whoever sees it cancelled. */
    return atomic_load_explicit(&t->word, memory_order_acquire) & LX_CANCELLATION_STATE_MASK;
}

static inline void lx_cancellation_set_current(lanex_cancellation *t)
{
    lx_cancellation_current = t;
}

/* pending -> running. False if it was cancelled before: the job must not run. */
bool lx_cancellation_start(lanex_cancellation *t);

/* Marks the token as given to a job. -EBUSY if it already was. */
int lx_cancellation_bind(lanex_cancellation *t);

/* Takes the mark back: the job was not submitted after all. */
void lx_cancellation_unbind(lanex_cancellation *t);

/*
 * Sleeps while *word == expected, until woken, cancelled or timed out; `t` may be NULL.
 *   1            woken
 *   0            the word differs, or nothing in particular: look again
 *   -ETIMEDOUT   the deadline has passed
 *   -ECANCELED   the token is cancelled
 * A wake of the word may have been consumed in every case: the caller must look at its condition,
 * or pass the wake on. Nothing polls: one futex_waitv watches both words; where that is refused,
 * the wait is cut into slices of LX_CANCELLATION_SLICE_NS.
 */
int lx_cancellation_wait(lanex_cancellation *t, const void *word, uint32_t expected,
                         uint64_t deadline_ns);

/* For tests: true makes lx_cancellation_wait behave as where futex_waitv is refused. */
void lx_cancellation_force_slices(bool on);

#endif

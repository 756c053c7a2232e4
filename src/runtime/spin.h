/*
 * Spinning before sleeping, with lanex_executor_options.spin_us: by workers that have run out of
 * work, and by threads that wait for a ticket.
 *
 * Watching (tests/model/watch.pml)
 *   A worker that spins is counted in `watchers`: it will look at the inbox and at the run queue
 * once more after it has taken itself off the count, and before it sleeps or runs a job. Who pushes
 * a job may leave it lying for a watcher (see seat.c), so that the turn runs on the CPU that has
 * the admission state at hand; not where lanex-sched runs the turns, which then has to be told. And
 * who hands out a job need not wake anybody for it. Both sides are
 * sequentially consistent: of {push; look at watchers} and {take oneself off; look at inbox and
 * queue} at least one sees the other. So the watch ends in lx_watch_end alone, and whoever calls it
 * looks again: before the sleep at the inbox, and at the queue as park does in any case; with a job
 * in hand, what is left is passed on as any pusher would. A worker that tells of a ticket watches
 * already then, since whoever waits for that may submit at once. No user code runs in a watch.
 *
 * The count is bounded, so that workers never spin on more than half of the CPUs. It stays at 0
 * without spin_us, so that nothing of this is then done.
 */
#ifndef LX_RUNTIME_SPIN_H
#define LX_RUNTIME_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lanex_executor;
struct lx_worker;

/* Who spins in vain spins for less: by half each time, but for one in a few. */
struct lx_spin_history {
    uint8_t misses; /* in a row, up to LX_SPIN_HALVINGS */
    uint8_t tries;
};

void lx_spin_init(struct lanex_executor *ex);

static inline bool lx_watched(const _Atomic uint32_t *watchers)
{
    /* seq_cst: must not move before the push. Partner: the subtraction in lx_watch_end. */
    return atomic_load_explicit(watchers, memory_order_seq_cst) != 0;
}

/* False if enough others watch. */
bool lx_watch_begin(struct lx_worker *worker);
/* The worker watches. The caller has to look at inbox and run queue after it. */
void lx_watch_end(struct lx_worker *worker);
/* The worker has a job in hand, and watches no more: what is left is for others. */
void lx_watch_pass_on(struct lx_worker *worker);

/*
 * The worker has found nothing: true if there is something to look for now, and the worker watches.
 * False once it has looked for as long as it should; then it does not.
 */
bool lx_spin_for_work(struct lx_worker *worker);

/* Until `word` has the bit, but no longer than it should and not beyond `latest_ns`. */
void lx_spin_for_bit(struct lanex_executor *ex, const _Atomic uint32_t *word, uint32_t bit,
                     uint64_t latest_ns);

#endif

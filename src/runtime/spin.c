#include "runtime/spin.h"

#include <sched.h>

#include "runtime/executor.h"
#include "sync/assert.h"
#include "sync/futex.h"
#include "sync/seams.h"

#define LX_SPIN_LOOKS     16u /* between two looks at the clock: about a microsecond */
#define LX_SPIN_YIELD     64u /* looks between two offers of the CPU to others; a multiple of it */
#define LX_SPIN_HALVINGS  5u  /* the shortest spin is 1/32 of the whole */
#define LX_SPIN_FULL_EACH 16u /* after misses: one spin of so many is whole */
#define LX_NS_PER_US      UINT64_C(1000)

struct spin {
    uint64_t length_ns, until_ns, latest_ns;
    uint32_t looks;
};

void lx_spin_init(struct lanex_executor *ex)
{
    uint32_t half = ex->config.usable_cpus / 2;

    ex->spin_ns = ex->config.spin_us * LX_NS_PER_US;
    ex->spin_limit = half > 0 ? half : 1;
}

static struct spin spin_begin(struct lx_spin_history *history, uint64_t whole_ns,
                              uint64_t latest_ns)
{
    struct spin spin = {.length_ns = whole_ns, .latest_ns = latest_ns};

    if (history->misses > 0 && ++history->tries % LX_SPIN_FULL_EACH != 0)
        spin.length_ns >>= history->misses;
    return spin;
}

static void spin_end(struct lx_spin_history *history, bool hit)
{
    if (hit)
        history->misses = 0;
    else if (history->misses < LX_SPIN_HALVINGS)
        history->misses++;
}

/*
 * Between two looks. The first looks do without the clock: most that hit, hit then. Later ones
 * offer the CPU to others now and then: the thread that is waited for may have been woken onto it.
 */
static bool spin_on(struct spin *spin, bool *ret_clock)
{
    uint64_t now;

    lx_spin_pause();
    *ret_clock = ++spin->looks % LX_SPIN_LOOKS == 0;
    if (!*ret_clock)
        return true;
    if (spin->looks % LX_SPIN_YIELD == 0)
        sched_yield();
    now = lx_now_ns();
    if (spin->until_ns == 0) {
        spin->until_ns = now + spin->length_ns;
        if (spin->until_ns > spin->latest_ns)
            spin->until_ns = spin->latest_ns;
    }
    return now < spin->until_ns;
}

static bool join(_Atomic uint32_t *count, uint32_t limit)
{
    uint32_t before = atomic_load_explicit(count, memory_order_relaxed);

    do {
        if (before >= limit)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(count, &before, before + 1,
                                                    memory_order_seq_cst, memory_order_relaxed));
    return true;
}

bool lx_watch_begin(struct lx_worker *worker)
{
    struct lanex_executor *ex = worker->executor;

    if (!worker->watches)
        worker->watches = join(&ex->watchers, ex->spin_limit);
    return worker->watches;
}

void lx_watch_end(struct lx_worker *worker)
{
    LX_ASSERT(worker->watches);
    worker->watches = false;
    /* seq_cst: between this and the looks that follow; partners are lx_watched and the fence in
     * lx_wake_one. */
    atomic_fetch_sub_explicit(&worker->executor->watchers, 1, memory_order_seq_cst);
}

void lx_watch_pass_on(struct lx_worker *worker)
{
    struct lanex_executor *ex = worker->executor;

    lx_watch_end(worker);
    if (lx_inbox_has(&ex->inbox))
        lx_seat_notify(ex);
    if (!lx_run_queue_empty(&ex->run_queue))
        lx_wake_one(ex);
}

/* In the inbox only if the worker can run the turn: a holder of the seat looks there itself. */
static bool sees_work(const struct lanex_executor *ex)
{
    return !lx_run_queue_empty(&ex->run_queue) ||
           (lx_inbox_has(&ex->inbox) && ex->config.dispatch == LANEX_DISPATCH_SEAT &&
            atomic_load_explicit(&ex->seat, memory_order_seq_cst) == 0);
}

bool lx_spin_for_work(struct lx_worker *worker)
{
    struct lanex_executor *ex = worker->executor;
    struct spin spin;
    bool hit = false, clock = false;

    if (ex->spin_ns == 0 || !lx_watch_begin(worker))
        return false;
    spin = spin_begin(&worker->spins, ex->spin_ns, LANEX_TIME_NEVER);
    do {
        hit = sees_work(ex);
        if (clock && atomic_load_explicit(&ex->stop, memory_order_relaxed) != 0)
            break;
    } while (!hit && spin_on(&spin, &clock));
    spin_end(&worker->spins, hit);
    if (hit)
        return true;
    lx_watch_end(worker);
    /* What was left lying for us; the run queue is looked at by park. */
    return lx_inbox_has(&ex->inbox);
}

void lx_spin_for_bit(struct lanex_executor *ex, const _Atomic uint32_t *word, uint32_t bit,
                     uint64_t latest_ns)
{
    struct spin spin;
    bool hit, clock;

    if (ex->spin_ns == 0 || !join(&ex->ticket_spinners, ex->spin_limit))
        return;
    spin = spin_begin(&lx_self.spins, ex->spin_ns, latest_ns);
    do {
        /* relaxed: the caller looks again, with acquire. */
        hit = (atomic_load_explicit(word, memory_order_relaxed) & bit) != 0;
    } while (!hit && spin_on(&spin, &clock));
    spin_end(&lx_self.spins, hit);
    atomic_fetch_sub_explicit(&ex->ticket_spinners, 1, memory_order_relaxed);
}

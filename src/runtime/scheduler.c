/*
 * lanex-sched: sleeps until a turn is due by time, or until somebody left work to it. In scheduler
 * mode it runs every turn.
 *
 * Told: pushers set scheduler_told and ring only if it was 0; the thread clears it before it looks.
 * The timer: a turn stores timer_ns, passes a full fence (leaving the seat) and loads armed_ns;
 * this thread stores armed_ns, passes a full fence and loads timer_ns. So either the turn sees for
 * how long we sleep, or we see the new time.
 */
#include "runtime/executor.h"
#include "sync/seams.h"

void lx_scheduler_tell(struct lanex_executor *ex)
{
    /* acq_rel: ordered after the push that it tells of; partner is the exchange in
     * lx_scheduler_main. */
    if (atomic_exchange_explicit(&ex->scheduler_told, 1, memory_order_seq_cst) == 0)
        lx_threads_ring(ex, &ex->scheduler_door);
}

void *lx_scheduler_main(void *arg)
{
    struct lanex_executor *ex = arg;

    lx_self =
        (struct lx_self){.executor = ex, .door = &ex->scheduler_door, .role = LX_ROLE_SCHEDULER};
    lx_thread_name("lanex-sched");
    lx_thread_report(ex, lx_door_enable(&ex->scheduler_door));
    for (;;) {
        uint64_t until;
        bool told;

        atomic_store_explicit(&ex->armed_ns, 0, memory_order_relaxed);
        told = atomic_exchange_explicit(&ex->scheduler_told, 0, memory_order_seq_cst) != 0;
        until = atomic_load_explicit(&ex->timer_ns, memory_order_relaxed);
        if (told || (until != LANEX_TIME_NEVER && until <= lx_now_ns()))
            lx_seat_visit(ex, LX_SEAT_SCHEDULER);
        if (atomic_load_explicit(&ex->scheduler_stop, memory_order_acquire) != 0)
            return NULL;
        until = atomic_load_explicit(&ex->timer_ns, memory_order_relaxed);
        atomic_store_explicit(&ex->armed_ns, until, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load_explicit(&ex->timer_ns, memory_order_relaxed) < until ||
            atomic_load_explicit(&ex->scheduler_told, memory_order_relaxed) != 0)
            continue;
        lx_door_wait(&ex->scheduler_door, until);
    }
}

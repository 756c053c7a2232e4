#include "runtime/nap.h"

#include "runtime/executor.h"
#include "sync/seams.h"

void lx_nap_note_pace(struct lx_worker *worker, uint64_t now_ns)
{
    uint64_t freed, took_ns = now_ns - worker->pace_ns;

    if (took_ns < LX_PACE_NS)
        return;
    freed = atomic_load_explicit(&worker->freed, memory_order_relaxed);
    worker->brisk = (freed - worker->pace_freed) * lx_seams.brisk_ns >= took_ns;
    worker->pace_freed = freed;
    worker->pace_ns = now_ns;
}

static bool somebody_is_awake(const struct lanex_executor *ex, uint32_t nappers)
{
    return ex->config.pool_size - lx_sleepers(&ex->run_queue) > nappers;
}

bool lx_nap_others_come(const struct lanex_executor *ex)
{
    /* seq_cst: after the caller's fence; partner is the count out in lx_nap. */
    uint32_t nappers = atomic_load_explicit(&ex->nappers, memory_order_seq_cst);

    return nappers > 0 && somebody_is_awake(ex, nappers);
}

/*
 * False if the others do not get on: a brisk one does LX_NAP_NS / brisk_ns jobs meanwhile, half of
 * them from the run queue (the others are what turns hand to who runs them), and half of that will
 * do.
 */
static bool sleep_once(struct lx_worker *worker)
{
    const _Atomic uint32_t *head = &worker->executor->run_queue.head;
    uint32_t before = atomic_load_explicit(head, memory_order_relaxed), taken;

    lx_door_wait(&worker->door, lx_now_ns() + LX_NAP_NS);
    taken = atomic_load_explicit(head, memory_order_relaxed) - before;
    return taken * 4 * lx_seams.brisk_ns >= LX_NAP_NS;
}

struct lanex_job *lx_nap_end(struct lanex_executor *ex)
{
    struct lanex_job *job;

    if (lx_inbox_has(&ex->inbox))
        lx_seat_notify(ex);
    job = lx_run_queue_pop(&ex->run_queue);
    if (job != NULL)
        lx_wake_one(ex);
    return job;
}

bool lx_nap(struct lx_worker *worker)
{
    struct lanex_executor *ex = worker->executor;
    uint32_t nappers;
    bool naps;

    if (!worker->brisk)
        return false;
    nappers = atomic_fetch_add_explicit(&ex->nappers, 1, memory_order_seq_cst) + 1;
    naps = somebody_is_awake(ex, nappers);
    if (naps) {
        /* release: deliveries are done; partner is the acquire in drain. */
        atomic_store_explicit(&worker->busy, 0, memory_order_release);
        while (atomic_load_explicit(&ex->stop, memory_order_acquire) == 0 && sleep_once(worker))
            ;
        atomic_store_explicit(&worker->busy, 1, memory_order_relaxed);
    }
    /* seq_cst: before the looks that follow; partner is the load in lx_nap_others_come. */
    atomic_fetch_sub_explicit(&ex->nappers, 1, memory_order_seq_cst);
    /* Somebody may have counted on it meanwhile; the caller looks at the queue in any case. */
    if (!naps && lx_inbox_has(&ex->inbox))
        lx_seat_notify(ex);
    return naps;
}

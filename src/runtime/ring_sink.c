/*
 * The ring sink: one CQE per job in the caller's io_uring.
 */
#include "runtime/ring_sink.h"

#include <errno.h>

#include "runtime/executor.h"
#include "runtime/ticket.h"
#include "sync/assert.h"
#include "sync/seams.h"

int lanex_ring_attach(lanex_executor *executor, int ring_fd, lanex_ring **ret_ring)
{
    lanex_ring *ring;
    int rc = lx_executor_check(executor);

    if (rc < 0)
        return rc;
    if (ret_ring == NULL)
        return -EINVAL;
    ring = lx_allocate_zeroed(sizeof *ring);
    if (ring == NULL)
        return -ENOMEM;
    rc = lx_foreign_ring_open(&executor->backend, ring_fd, &ring->foreign);
    if (rc < 0) {
        lx_release(ring);
        return rc;
    }
    ring->executor = executor;
    atomic_init(&ring->refs, 1);
    lx_executor_hold_memory(executor);
    *ret_ring = ring;
    return 0;
}

lanex_ring *lanex_ring_ref(lanex_ring *ring)
{
    if (ring != NULL)
        atomic_fetch_add_explicit(&ring->refs, 1, memory_order_relaxed);
    return ring;
}

void lanex_ring_unref(lanex_ring *ring)
{
    struct lanex_executor *ex;

    if (ring == NULL || lx_executor_forked(ring->executor) ||
        atomic_fetch_sub_explicit(&ring->refs, 1, memory_order_acq_rel) != 1)
        return;
    ex = ring->executor;
    lx_foreign_ring_close(&ring->foreign);
    lx_release(ring);
    lx_executor_drop_memory(ex);
}

int lx_ring_post(struct lanex_ring *ring, uint64_t user_data, int32_t res)
{
    struct lx_door *own = lx_own_door();
    int rc = lx_foreign_ring_post(own, &ring->foreign, user_data, res);

    /* A thread with a door counts its own. */
    if (rc == 0 && own == NULL)
        atomic_fetch_add_explicit(&ring->executor->foreign_messages, 1, memory_order_relaxed);
    return rc;
}

bool lx_ring_can_retry(int error)
{
    switch (error) {
    case -EOPNOTSUPP: /* this thread cannot send; lanex-reap can */
    case -EAGAIN:
    case -EBUSY:
    case -EINTR:
    case -ENOMEM:
    case -EOVERFLOW:
    case -EBADFD: /* not enabled yet */
        return true;
    default:
        return false;
    }
}

bool lx_ring_retry(struct lx_post_retry *retry)
{
    int rc;

    /* seq_cst: before the message; partner is the exchange in ring_bell (port.c). */
    if (retry->flag != NULL)
        atomic_store_explicit(retry->flag, 0, memory_order_seq_cst);
    rc = lx_ring_post(retry->ring, retry->user_data, retry->res);
    if (rc < 0 && lx_ring_can_retry(rc) && rc != -EOPNOTSUPP) {
        /* If the flag is set again, a second request for the same is in the inbox. */
        if (retry->flag == NULL ||
            atomic_exchange_explicit(retry->flag, 1, memory_order_seq_cst) == 0)
            return false;
    }
    retry->done(retry);
    return true;
}

static void job_posted(struct lx_post_retry *retry)
{
    lanex_ring_unref(retry->ring);
    lx_release(retry);
}

void lx_ring_deliver(struct lanex_job *job)
{
    struct lanex_ring *ring = job->target.ring;
    struct lanex_executor *ex = ring->executor;
    uint64_t user_data = job->sink.user_data;
    int32_t res = -(int32_t)job->entry.status;
    struct lx_post_retry *retry;
    int rc;

    /* The response first: whoever sees the CQE finds the ticket done. */
    lx_ticket_complete(job);
    lx_job_release(job, LX_WORD_HOLD);
    rc = lx_ring_post(ring, user_data, res);
    if (rc == 0 || !lx_ring_can_retry(rc)) {
        lanex_ring_unref(ring);
        return;
    }
    retry = lx_allocate_zeroed(sizeof *retry);
    if (retry == NULL) {
        /* No memory here and none in the kernel: the ticket still says that the job is over. */
        lanex_ring_unref(ring);
        return;
    }
    retry->ring = ring;
    retry->user_data = user_data;
    retry->res = res;
    retry->done = job_posted;
    if (lx_reaper_push(ex, &retry->node, LX_REAP_POST))
        lx_reaper_tell(ex);
    else
        job_posted(retry); /* the executor has ended: nobody is left to try again */
}

/*
 * The ring sink: one CQE per job in the caller's io_uring.
 */
#include "runtime/ring_sink.h"

#include <errno.h>

#include "runtime/executor.h"
#include "runtime/ticket.h"
#include "sync/seams.h"

static int post_waiting(struct lx_post_retry *retry);
static void waiting_posted(struct lx_post_retry *retry, bool given_up);

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
    ring->retry.post = post_waiting;
    ring->retry.done = waiting_posted;
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

bool lx_ring_ask_retry(struct lanex_executor *ex, struct lx_post_retry *retry, bool *ret_ended)
{
    *ret_ended = false;
    /* seq_cst: after what is to be sent was filed; partner is the store in lx_ring_retry. */
    if (atomic_exchange_explicit(&retry->flag, 1, memory_order_seq_cst) != 0)
        return false;
    if (lx_reaper_push(ex, &retry->node, LX_REAP_POST)) {
        lx_reaper_tell(ex);
        return true;
    }
    atomic_store_explicit(&retry->flag, 0, memory_order_seq_cst);
    *ret_ended = true;
    return false;
}

bool lx_ring_retry(struct lx_post_retry *retry)
{
    int rc;

    /* seq_cst: before the look at what is to be sent; partner is the exchange above. */
    atomic_store_explicit(&retry->flag, 0, memory_order_seq_cst);
    rc = retry->post(retry);
    if (rc < 0 && lx_ring_can_retry(rc) && rc != -EOPNOTSUPP) {
        /* If the flag is set again, a second request for the same is in the inbox or about to be:
         * whoever sets it for jobs that wait is through before this thread ends
         * (tests/model/ring_sink.pml), and a port's bell may be lost then. */
        if (atomic_exchange_explicit(&retry->flag, 1, memory_order_seq_cst) == 0)
            return false;
    }
    retry->done(retry, false);
    return true;
}

/* ---- jobs whose message could not be sent ---- */

static void job_over(struct lanex_ring *ring, struct lanex_job *job)
{
    lx_job_release(job, LX_WORD_HOLD);
    lanex_ring_unref(ring);
}

/* In order of arrival. */
static struct lanex_job *take_waiting(struct lanex_ring *ring)
{
    /* acquire: partner is the release in keep_for_later. */
    uintptr_t link = atomic_exchange_explicit(&ring->waiting, 0, memory_order_seq_cst);
    struct lanex_job *job = (struct lanex_job *)link, *first = NULL;

    while (job != NULL) {
        struct lanex_job *older = job->delivery_next;
        job->delivery_next = first;
        first = job;
        job = older;
    }
    return first;
}

static void drop_all(struct lanex_ring *ring, struct lanex_job *job)
{
    while (job != NULL) {
        struct lanex_job *next = job->delivery_next;
        job_over(ring, job);
        job = next;
    }
}

static int post_waiting(struct lx_post_retry *retry)
{
    struct lanex_ring *ring =
        (struct lanex_ring *)(void *)((char *)retry - offsetof(struct lanex_ring, retry));
    struct lanex_job **last = &ring->unposted;

    while (*last != NULL)
        last = &(*last)->delivery_next;
    *last = take_waiting(ring);
    while (ring->unposted != NULL) {
        struct lanex_job *job = ring->unposted;
        int rc = lx_ring_post(ring, job->sink.user_data, -(int32_t)job->entry.status);
        if (rc < 0 && lx_ring_can_retry(rc) && rc != -EOPNOTSUPP)
            return rc;
        ring->unposted = job->delivery_next;
        job_over(ring, job);
    }
    return 0;
}

static void waiting_posted(struct lx_post_retry *retry, bool given_up)
{
    struct lanex_ring *ring =
        (struct lanex_ring *)(void *)((char *)retry - offsetof(struct lanex_ring, retry));

    if (given_up) {
        struct lanex_job *unposted = ring->unposted;
        ring->unposted = NULL;
        drop_all(ring, unposted);
        /* Before the look, so that who finds the flag set had filed its job by then. */
        atomic_store_explicit(&retry->flag, 0, memory_order_seq_cst);
        drop_all(ring, take_waiting(ring));
    }
    lanex_ring_unref(ring);
}

static void keep_for_later(struct lanex_ring *ring, struct lanex_job *job)
{
    uintptr_t head = atomic_load_explicit(&ring->waiting, memory_order_relaxed);
    bool ended;

    /* For the request: the job's own reference may be gone as soon as it is filed. */
    lanex_ring_ref(ring);
    do {
        job->delivery_next = (struct lanex_job *)head;
        /* release: the job; partner is the exchange in take_waiting. */
    } while (!atomic_compare_exchange_weak_explicit(&ring->waiting, &head, (uintptr_t)job,
                                                    memory_order_seq_cst, memory_order_relaxed));
    if (lx_ring_ask_retry(ring->executor, &ring->retry, &ended))
        return;
    /* Nobody is left to try again: the tickets still say that the jobs are over. */
    if (ended)
        drop_all(ring, take_waiting(ring));
    lanex_ring_unref(ring);
}

void lx_ring_deliver(struct lanex_job *job)
{
    struct lanex_ring *ring = job->target.ring;
    int rc;

    /* The response first: whoever sees the CQE finds the ticket done. */
    lx_ticket_complete(job);
    rc = lx_ring_post(ring, job->sink.user_data, -(int32_t)job->entry.status);
    if (rc < 0 && lx_ring_can_retry(rc))
        keep_for_later(ring, job);
    else
        job_over(ring, job);
}

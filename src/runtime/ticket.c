/*
 * Tickets: a job's receipt. The word that is waited for is the job's own (job.h).
 */
#include "runtime/ticket.h"

#include <errno.h>

#include "runtime/executor.h"
#include "sync/assert.h"
#include "sync/futex.h"
#include "sync/seams.h"

static struct lanex_job *job_of(const lanex_ticket *ticket)
{
    return (struct lanex_job *)(uintptr_t)ticket;
}

/* Its destructor is the user's, and may take its time: jobs that wait for us to come are passed on.
 */
static void destroy_unwanted(struct lanex_job *job)
{
    if (lx_self.worker != NULL && lx_self.worker->watches)
        lx_watch_pass_on(lx_self.worker);
    lx_job_clear_response(job);
}

void lx_ticket_complete(struct lanex_job *job)
{
    /* release: the response; partner is the acquire in the ticket's calls. */
    uint32_t before =
        atomic_fetch_or_explicit(&job->entry.word, LX_WORD_DONE, memory_order_acq_rel);

    LX_ASSERT((before & LX_WORD_DONE) == 0);
    if ((before & LX_WORD_WAITER) != 0)
        lx_futex_wake(&job->entry.word, LX_FUTEX_ALL);
    if ((before & LX_WORD_HAS_TICKET) == 0 || (before & LX_WORD_DROPPED) != 0)
        destroy_unwanted(job);
}

static bool is_done(const struct lanex_job *job)
{
    return (atomic_load_explicit(&job->entry.word, memory_order_acquire) & LX_WORD_DONE) != 0;
}

int lanex_ticket_poll(const lanex_ticket *ticket)
{
    if (ticket == NULL)
        return -EINVAL;
    if (is_done(job_of(ticket)))
        return 1;
    return lx_executor_forked(lx_job_executor(job_of(ticket))) ? -ECHILD : 0;
}

uint64_t lanex_ticket_job(const lanex_ticket *ticket)
{
    return atomic_load_explicit(&job_of(ticket)->number, memory_order_relaxed);
}

lanex_completion *lanex_ticket_completion(lanex_ticket *ticket)
{
    struct lanex_job *job = job_of(ticket);

    return job != NULL && is_done(job) ? lx_completion_of(job) : NULL;
}

static int wait_done(struct lanex_job *job, uint64_t deadline)
{
    for (;;) {
        uint32_t word = atomic_load_explicit(&job->entry.word, memory_order_acquire);

        if ((word & LX_WORD_DONE) != 0)
            return 0;
        if ((word & LX_WORD_WAITER) == 0 &&
            !atomic_compare_exchange_weak_explicit(&job->entry.word, &word, word | LX_WORD_WAITER,
                                                   memory_order_acquire, memory_order_acquire))
            continue;
        /* Other bits and holds may change meanwhile: then the wait does not begin, and we look
         * again. */
        if (lx_futex_wait(&job->entry.word, word | LX_WORD_WAITER, deadline) == -ETIMEDOUT)
            return is_done(job) ? 0 : -ETIMEDOUT;
    }
}

int lanex_ticket_wait(lanex_ticket *ticket, uint64_t timeout_ns)
{
    struct lanex_job *job = job_of(ticket);
    uint64_t deadline = LANEX_TIME_NEVER;
    int rc;

    if (ticket == NULL)
        return -EINVAL;
    if (is_done(job))
        return 0;
    if (lx_executor_forked(lx_job_executor(job)))
        return -ECHILD;
    if (timeout_ns == 0)
        return -ETIMEDOUT;
    if (timeout_ns != LANEX_TIME_NEVER) {
        uint64_t now = lx_now_ns();
        deadline = timeout_ns < LANEX_TIME_NEVER - now ? now + timeout_ns : LANEX_TIME_NEVER;
    }
    rc = lx_wait_guard_begin(job, deadline == LANEX_TIME_NEVER);
    if (rc < 0)
        return rc;
    lx_spin_for_bit(lx_job_executor(job), &job->entry.word, LX_WORD_DONE, deadline);
    rc = wait_done(job, deadline);
    lx_wait_guard_end(job, deadline == LANEX_TIME_NEVER);
    return rc;
}

void lanex_ticket_drop(lanex_ticket *ticket)
{
    struct lanex_job *job = job_of(ticket);
    uint32_t word;

    if (ticket == NULL || lx_executor_forked(lx_job_executor(job)))
        return;
    word = atomic_load_explicit(&job->entry.word, memory_order_acquire);
    while ((word & LX_WORD_DONE) == 0) {
        /* Not the last hold: the delivery's is there as long as DONE is clear. */
        if (atomic_compare_exchange_weak_explicit(&job->entry.word, &word,
                                                  (word - LX_WORD_HOLD) | LX_WORD_DROPPED,
                                                  memory_order_acq_rel, memory_order_acquire))
            return;
    }
    lx_job_clear_response(job);
    lx_job_release(job, LX_WORD_HOLD);
}

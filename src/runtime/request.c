/*
 * Requests: calls that need an answer from the turn, and the one that most users know: cancel by
 * number.
 */
#include <errno.h>

#include "runtime/executor.h"
#include "sync/futex.h"

enum request_done {
    REQUEST_PENDING = 0,
    REQUEST_SLEEPING = 1, /* pending, and the caller sleeps on the word */
    REQUEST_ANSWERED = 2,
};

void lx_request_answer(struct lx_request *request)
{
    /* release: the result; partner is the acquire in lx_request_wait. */
    if (atomic_exchange_explicit(&request->done, REQUEST_ANSWERED, memory_order_acq_rel) ==
        REQUEST_SLEEPING)
        lx_futex_wake(&request->done, 1);
}

void lx_request_wait(struct lx_request *request)
{
    for (;;) {
        uint32_t pending = REQUEST_PENDING;

        /* acquire: partner is the release in lx_request_answer. */
        if (atomic_load_explicit(&request->done, memory_order_acquire) == REQUEST_ANSWERED)
            return;
        atomic_compare_exchange_strong_explicit(&request->done, &pending, REQUEST_SLEEPING,
                                                memory_order_acquire, memory_order_acquire);
        lx_futex_wait(&request->done, REQUEST_SLEEPING, LANEX_TIME_NEVER);
    }
}

/*
 * The job with this number, if it is one that the turn still holds; NULL if it is over or never
 * was. The object may be freed and used anew at any time before its state is known to be one that
 * only a turn ends; so the number is read again after the state.
 */
struct lanex_job *lx_job_find(struct lanex_executor *ex, uint64_t number,
                              enum lx_job_state *ret_state)
{
    struct lanex_job *job = lx_slab_at(&ex->jobs, (uint32_t)(number & LX_NUMBER_INDEX_MASK));

    if (job == NULL || atomic_load_explicit(&job->number, memory_order_relaxed) != number)
        return NULL;
    /* acquire: partner is the release in fill_entry (job.c), which follows the new number: if the
     * state is that of a later use of the object, so is the number that is read next. */
    *ret_state = atomic_load_explicit(&job->entry.state, memory_order_acquire);
    if (atomic_load_explicit(&job->number, memory_order_relaxed) != number)
        return NULL;
    return *ret_state == LX_JOB_NEW || *ret_state == LX_JOB_OVER ? NULL : job;
}

static int outcome_of_running(lanex_cancellation *token)
{
    if (token == NULL)
        return LANEX_CANCEL_NOT_FOUND;
    return lanex_cancellation_cancel(token) == LANEX_CANCELLATION_COMMITTED
               ? LANEX_CANCEL_RUNNING_COMMITTED
               : LANEX_CANCEL_RUNNING_SIGNALLED;
}

static void apply_cancel(struct lanex_executor *ex, struct lx_request *request)
{
    enum lx_job_state state;
    struct lanex_job *job = lx_job_find(ex, request->number, &state);
    lanex_cancellation *token;

    request->result = LANEX_CANCEL_NOT_FOUND;
    if (job == NULL)
        return;
    token = lx_job_token(job);
    if (state != LX_JOB_QUEUED) {
        request->result = outcome_of_running(token);
    } else if (lx_admission_is_queued(&job->entry)) {
        if (token != NULL)
            lanex_cancellation_cancel(token);
        lx_admission_cancel(&ex->admission, &job->entry);
        request->result = LANEX_CANCEL_QUEUED_REMOVED;
    }
}

int lanex_cancel(lanex_executor *executor, uint64_t job)
{
    struct lx_request request = {.apply = apply_cancel, .number = job};
    int rc = lx_executor_check(executor);

    return rc < 0 ? rc : lx_seat_request(executor, &request);
}

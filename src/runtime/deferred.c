/*
 * Deferred answers: a completion kept as a handle. The executor lists what is outstanding, so that
 * shutdown can answer it; the handle itself is the user's and may outlive the executor (it holds
 * its memory).
 */
#include <errno.h>

#include "runtime/executor.h"
#include "runtime/probe.h"
#include "sync/assert.h"
#include "sync/futex.h"
#include "sync/seams.h"

/*
 * An answer that comes while the body still runs is kept in the job, and the worker delivers it
 * once it has filed the end: who sees the completion finds the job's slot free, as always.
 */
enum deferred_state {
    DEFERRED_OPEN,     /* listed: nobody has answered */
    DEFERRED_ANSWERED, /* the response is in the job, or on its way to the sink */
    DEFERRED_INERT,    /* a panic or shutdown has answered instead */
};

struct lanex_deferred {
    struct lanex_executor *executor;
    struct lanex_job *job; /* its delivery's hold is ours while the handle is open */
    /* Under the list's mutex, up to `next`. */
    enum deferred_state state;
    bool body_runs;
    unsigned refs; /* the user's, and the worker's while the body runs */
    struct lanex_deferred *prev, *next;
};

struct lx_deferred_list {
    struct lx_mutex mutex;
    struct lanex_deferred *first;
    _Atomic uint32_t answering; /* answered and not delivered yet; shutdown waits for 0 */
};

int lx_deferred_list_create(struct lanex_executor *ex)
{
    ex->deferred = lx_allocate_zeroed(sizeof *ex->deferred);
    return ex->deferred != NULL ? 0 : -ENOMEM;
}

void lx_deferred_list_destroy(struct lanex_executor *ex)
{
    lx_release(ex->deferred);
    ex->deferred = NULL;
}

/* Out of the list, into a state that is final. Under the mutex. */
static void close_handle(struct lx_deferred_list *list, struct lanex_deferred *deferred,
                         enum deferred_state state)
{
    LX_ASSERT(deferred->state == DEFERRED_OPEN);
    if (deferred->prev != NULL)
        deferred->prev->next = deferred->next;
    else
        list->first = deferred->next;
    if (deferred->next != NULL)
        deferred->next->prev = deferred->prev;
    deferred->state = state;
}

/* Gives a reference to the handle back and unlocks the list's mutex. */
static void unlock_and_drop(struct lanex_deferred *deferred)
{
    struct lanex_executor *ex = deferred->executor;
    bool last = --deferred->refs == 0;

    lx_mutex_unlock(&ex->deferred->mutex);
    if (last) {
        lx_release(deferred);
        lx_executor_drop_memory(ex);
    }
}

/* The caller holds the executor's memory. */
static void answered(struct lanex_executor *ex)
{
    struct lx_deferred_list *list = ex->deferred;

    /* release: the delivery; partner is the acquire in count_answering. seq_cst: before the look at
     * ends_by_itself in lx_ending_notify. */
    if (atomic_fetch_sub_explicit(&list->answering, 1, memory_order_seq_cst) == 1) {
        lx_futex_wake(&list->answering, LX_FUTEX_ALL);
        lx_ending_notify(ex);
    }
}

/* ---- the body's side ---- */

int lanex_job_defer(lanex_job *job, lanex_deferred **ret_deferred)
{
    struct lx_worker *worker = lx_self.worker;
    struct lanex_executor *ex;
    lanex_deferred *deferred;

    if (ret_deferred == NULL || worker == NULL || job == NULL || worker->job != job ||
        worker->phase != LX_PHASE_BODY ||
        ((job->entry.flags & LX_JOB_FLAG_HAS_INSTALL) != 0 && !worker->installing))
        return -EINVAL;
    if (worker->deferred != NULL)
        return -EALREADY;
    /* Memory first: without it the answer that the body gave before still counts. */
    if (worker->spare_deferred == NULL)
        worker->spare_deferred = lx_allocate_zeroed(sizeof *deferred);
    if (worker->spare_deferred == NULL)
        return -ENOMEM;
    /* That answer's destructor may panic: the spare then stays for the next job. */
    lx_job_set_ok(job, NULL, NULL);
    ex = worker->executor;
    deferred = worker->spare_deferred;
    worker->spare_deferred = NULL;
    deferred->executor = ex;
    deferred->job = job;
    deferred->state = DEFERRED_OPEN;
    deferred->body_runs = true;
    deferred->refs = 2;
    lx_executor_hold_memory(ex);
    lx_mutex_lock(&ex->deferred->mutex);
    deferred->next = ex->deferred->first;
    if (deferred->next != NULL)
        deferred->next->prev = deferred;
    ex->deferred->first = deferred;
    lx_mutex_unlock(&ex->deferred->mutex);
    worker->deferred = deferred;
    *ret_deferred = deferred;
    return 0;
}

bool lx_deferred_disarm(struct lanex_deferred *deferred)
{
    struct lx_deferred_list *list = deferred->executor->deferred;
    bool ours;

    lx_mutex_lock(&list->mutex);
    ours = deferred->state == DEFERRED_OPEN;
    if (ours)
        close_handle(list, deferred, DEFERRED_INERT);
    unlock_and_drop(deferred);
    return ours;
}

bool lx_deferred_leave(struct lanex_deferred *deferred)
{
    bool was_answered;

    lx_mutex_lock(&deferred->executor->deferred->mutex);
    deferred->body_runs = false;
    was_answered = deferred->state == DEFERRED_ANSWERED;
    unlock_and_drop(deferred);
    return was_answered;
}

/* ---- the holder's side ---- */

struct answer {
    enum lanex_status status;
    const char *code, *message;
    bool retryable;
    void *data;
    void (*destroy)(void *data);
};

static void destroy_data(const struct answer *answer)
{
    if (answer->destroy != NULL && answer->data != NULL)
        answer->destroy(answer->data);
}

/* The thread may be anybody's: a callback or destructor that destroys the executor from here would
 * wait for itself, as on a worker. */
static void deliver_here(struct lanex_job *job, struct lanex_executor *ex)
{
    struct lanex_executor *outer = lx_self.answers;

    lx_self.answers = ex;
    lx_deliver(job);
    lx_self.answers = outer;
}

/* The handle is gone after this, but in a forked child. */
static int give(lanex_deferred *deferred, const struct answer *answer)
{
    struct lanex_executor *ex = deferred->executor;
    struct lx_deferred_list *list = ex->deferred;
    struct lanex_job *job = deferred->job;
    bool ours, deliver;

    if (lx_executor_forked(ex))
        return -ECHILD;
    lx_executor_hold_memory(
        ex); /* the handle's may end here, and the answer is still to be given */
    lx_mutex_lock(&list->mutex);
    ours = deferred->state == DEFERRED_OPEN;
    if (ours) {
        close_handle(list, deferred, DEFERRED_ANSWERED);
        /* Under the mutex, as the worker must find it; no destructor can run: there was no data. */
        if (answer->status == LANEX_STATUS_OK)
            lx_job_set_ok(job, answer->data, answer->destroy);
        else
            lx_job_set_error(job, answer->status, answer->code, answer->message, answer->retryable);
    }
    deliver = ours && !deferred->body_runs;
    if (deliver)
        atomic_fetch_add_explicit(&list->answering, 1, memory_order_relaxed);
    unlock_and_drop(deferred);
    if (deliver) {
        deliver_here(job, ex);
        answered(ex);
    }
    if (!ours)
        destroy_data(answer);
    lx_executor_drop_memory(ex);
    return ours ? 0 : -EALREADY;
}

int lanex_deferred_respond(lanex_deferred *deferred, void *data, void (*destroy)(void *data))
{
    const struct answer answer = {.status = LANEX_STATUS_OK, .data = data, .destroy = destroy};

    return deferred != NULL ? give(deferred, &answer) : -EINVAL;
}

int lanex_deferred_respond_error(lanex_deferred *deferred, const char *code, const char *message,
                                 bool retryable)
{
    const struct answer answer = {
        .status = LANEX_STATUS_JOB_FAILED,
        .code = code,
        .message = message,
        .retryable = retryable,
    };

    if (deferred == NULL || code == NULL)
        return -EINVAL;
    lx_probe_text(code); /* give() reads them with the mutex locked */
    lx_probe_text(message);
    return give(deferred, &answer);
}

void lanex_deferred_drop(lanex_deferred *deferred)
{
    static const struct answer answer = {
        .status = LANEX_STATUS_JOB_ABANDONED,
        .code = "job_abandoned",
        .message = "the deferred answer was dropped",
    };

    if (deferred != NULL)
        (void)give(deferred, &answer);
}

/* ---- the end ---- */

void lx_deferred_shutdown(struct lanex_executor *ex)
{
    struct lx_deferred_list *list = ex->deferred;

    /* The workers have ended, so that no body runs. */
    for (;;) {
        struct lanex_job *job = NULL;

        lx_mutex_lock(&list->mutex);
        if (list->first != NULL) {
            job = list->first->job;
            close_handle(list, list->first, DEFERRED_INERT);
        }
        lx_mutex_unlock(&list->mutex);
        if (job == NULL)
            break;
        job->entry.status = LANEX_STATUS_EXECUTOR_SHUTDOWN;
        deliver_here(job, ex);
    }
}

static uint32_t count_answering(const struct lanex_executor *ex)
{
    /* acquire: partner is the release in answered(). seq_cst: lanex-reap looks here after
     * ends_by_itself was set, so that of the two at least one sees the other. */
    return atomic_load_explicit(&ex->deferred->answering, memory_order_seq_cst);
}

bool lx_deferred_answering(const struct lanex_executor *ex)
{
    return count_answering(ex) != 0;
}

void lx_deferred_wait(struct lanex_executor *ex)
{
    uint32_t answering;

    while ((answering = count_answering(ex)) != 0)
        lx_futex_wait(&ex->deferred->answering, answering, LANEX_TIME_NEVER);
}

/*
 * Deferred answers: a completion kept as a handle. The executor lists what is outstanding, so that
 * shutdown can answer it; the handle itself is the user's and may outlive the executor (it holds
 * its memory).
 */
#include <errno.h>

#include "runtime/executor.h"
#include "sync/assert.h"
#include "sync/futex.h"
#include "sync/seams.h"

struct lanex_deferred {
    struct lanex_executor *executor;
    struct lanex_job *job; /* its delivery's hold is ours while the handle is listed */
    /* In the list while nobody has claimed it; under the list's mutex. */
    bool listed;
    struct lanex_deferred *prev, *next;
};

struct lx_deferred_list {
    struct lx_mutex mutex;
    struct lanex_deferred *first;
    _Atomic uint32_t answering; /* claimed and not delivered yet; shutdown waits for 0 */
    bool closed;
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

static void unlist(struct lx_deferred_list *list, struct lanex_deferred *deferred)
{
    if (deferred->prev != NULL)
        deferred->prev->next = deferred->next;
    else
        list->first = deferred->next;
    if (deferred->next != NULL)
        deferred->next->prev = deferred->prev;
    deferred->listed = false;
}

/* True for exactly one caller: the right and the duty to answer. Followed by answered(). */
static bool claim(struct lanex_deferred *deferred)
{
    struct lx_deferred_list *list = deferred->executor->deferred;
    bool ours;

    lx_mutex_lock(&list->mutex);
    ours = deferred->listed;
    if (ours) {
        unlist(list, deferred);
        atomic_fetch_add_explicit(&list->answering, 1, memory_order_relaxed);
    }
    lx_mutex_unlock(&list->mutex);
    return ours;
}

static void answered(struct lx_deferred_list *list)
{
    /* release: partner is the acquire in lx_deferred_shutdown. */
    if (atomic_fetch_sub_explicit(&list->answering, 1, memory_order_release) == 1)
        lx_futex_wake(&list->answering, LX_FUTEX_ALL);
}

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
    ex = worker->executor;
    deferred = lx_allocate_zeroed(sizeof *deferred);
    if (deferred == NULL)
        return -ENOMEM;
    deferred->executor = ex;
    deferred->job = job;
    deferred->listed = true;
    lx_executor_hold_memory(ex);
    lx_mutex_lock(&ex->deferred->mutex);
    deferred->next = ex->deferred->first;
    if (deferred->next != NULL)
        deferred->next->prev = deferred;
    ex->deferred->first = deferred;
    lx_mutex_unlock(&ex->deferred->mutex);
    /* From now on the handle may be answered by anybody; the worker only remembers that it exists.
     */
    lx_job_clear_response(job);
    worker->deferred = deferred;
    *ret_deferred = deferred;
    return 0;
}

static void free_handle(lanex_deferred *deferred)
{
    struct lanex_executor *ex = deferred->executor;

    lx_release(deferred);
    lx_executor_drop_memory(ex);
}

int lanex_deferred_respond(lanex_deferred *deferred, void *data, void (*destroy)(void *data))
{
    struct lx_deferred_list *list;

    if (deferred == NULL)
        return -EINVAL;
    list = deferred->executor->deferred;
    if (!claim(deferred)) {
        if (destroy != NULL && data != NULL)
            destroy(data);
        free_handle(deferred);
        return -EALREADY;
    }
    lx_job_set_ok(deferred->job, data, destroy);
    lx_deliver(deferred->job);
    answered(list);
    free_handle(deferred);
    return 0;
}

static int answer_error(lanex_deferred *deferred, enum lanex_status status, const char *code,
                        const char *message, bool retryable)
{
    struct lx_deferred_list *list = deferred->executor->deferred;

    if (!claim(deferred)) {
        free_handle(deferred);
        return -EALREADY;
    }
    lx_job_set_error(deferred->job, status, code, message, retryable);
    lx_deliver(deferred->job);
    answered(list);
    free_handle(deferred);
    return 0;
}

int lanex_deferred_respond_error(lanex_deferred *deferred, const char *code, const char *message,
                                 bool retryable)
{
    if (deferred == NULL || code == NULL)
        return -EINVAL;
    return answer_error(deferred, LANEX_STATUS_JOB_FAILED, code, message, retryable);
}

void lanex_deferred_drop(lanex_deferred *deferred)
{
    if (deferred != NULL)
        answer_error(deferred, LANEX_STATUS_JOB_ABANDONED, "job_abandoned",
                     "the deferred answer was dropped", false);
}

bool lx_deferred_disarm(struct lanex_deferred *deferred)
{
    struct lx_deferred_list *list = deferred->executor->deferred;
    bool ours;

    lx_mutex_lock(&list->mutex);
    ours = deferred->listed;
    if (ours)
        unlist(list, deferred);
    lx_mutex_unlock(&list->mutex);
    return ours;
}

void lx_deferred_shutdown(struct lanex_executor *ex)
{
    struct lx_deferred_list *list = ex->deferred;
    uint32_t answering;

    for (;;) {
        struct lanex_job *job = NULL;

        lx_mutex_lock(&list->mutex);
        if (list->first != NULL) {
            job = list->first->job;
            unlist(list, list->first);
        }
        lx_mutex_unlock(&list->mutex);
        if (job == NULL)
            break;
        lx_job_clear_response(job);
        job->entry.status = LANEX_STATUS_EXECUTOR_SHUTDOWN;
        lx_deliver(job);
    }
    /* acquire: partner is the release in answered(). */
    while ((answering = atomic_load_explicit(&list->answering, memory_order_acquire)) != 0)
        lx_futex_wait(&list->answering, answering, LANEX_TIME_NEVER);
}

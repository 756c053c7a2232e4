/*
 * Waits for jobs on lanex's own threads: what cannot end is refused before it begins.
 */
#include <errno.h>

#include "runtime/executor.h"
#include "runtime/ticket.h"

struct wait_request {
    struct lx_request request; /* first: what the turn gets */
    const struct lx_job_entry *waiter, *target;
    bool forever;
};

static void apply_begin(struct lanex_executor *ex, struct lx_request *request)
{
    const struct wait_request *wait = (const struct wait_request *)(const void *)request;

    request->result =
        lx_admission_wait_begin(&ex->admission, wait->waiter, wait->target, wait->forever)
            ? 0
            : -EDEADLK;
}

static void apply_end(struct lanex_executor *ex, struct lx_request *request)
{
    const struct wait_request *wait = (const struct wait_request *)(const void *)request;

    lx_admission_wait_end(&ex->admission, wait->waiter);
    request->result = 0;
}

/* The job whose body runs on this thread, if its executor is the one of `job`. */
static const struct lanex_job *waiting_body(const struct lanex_job *job)
{
    const struct lx_worker *worker = lx_self.worker;

    return worker != NULL && worker->phase != LX_PHASE_NONE &&
                   worker->executor == lx_job_executor(job)
               ? worker->job
               : NULL;
}

int lx_wait_guard_begin(struct lanex_job *job, bool forever)
{
    const struct lanex_job *body = waiting_body(job);
    struct wait_request wait = {.request = {.apply = apply_begin}, .forever = forever};

    if (body == NULL) {
        /* Outside a body our threads deliver: a wait there stops the answers of others. */
        bool delivers = lx_self.role != LX_ROLE_NONE &&
                        (lx_self.worker == NULL || lx_self.worker->phase == LX_PHASE_NONE);
        return delivers ? -EDEADLK : 0;
    }
    wait.waiter = &body->entry;
    wait.target = &job->entry;
    return lx_seat_request(lx_self.executor, &wait.request);
}

void lx_wait_guard_end(struct lanex_job *job, bool forever)
{
    const struct lanex_job *body = waiting_body(job);
    struct wait_request wait = {.request = {.apply = apply_end}};

    if (body == NULL || !forever)
        return; /* was not noted */
    wait.waiter = &body->entry;
    lx_seat_request(lx_self.executor, &wait.request);
}

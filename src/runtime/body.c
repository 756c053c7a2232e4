/*
 * What a job's body may call.
 */
#include <errno.h>

#include "runtime/actor.h"
#include "runtime/executor.h"

uint64_t lanex_job_number(const lanex_job *job)
{
    return atomic_load_explicit(&job->number, memory_order_relaxed);
}

const char *lanex_job_request_id(const lanex_job *job)
{
    return lx_job_request_id(job);
}

const char *lanex_job_label(const lanex_job *job)
{
    return lx_job_label(job);
}

lanex_actor *lanex_job_actor(const lanex_job *job)
{
    return lx_actor_of(job->entry.actor);
}

lanex_job *lanex_current_job(void)
{
    const struct lx_worker *worker = lx_self.worker;

    return worker != NULL && worker->phase != LX_PHASE_NONE ? worker->job : NULL;
}

/* The body that runs `job` on this thread may answer it, unless it has given its completion away.
 */
static bool may_answer(const lanex_job *job)
{
    const struct lx_worker *worker = lx_self.worker;

    return worker != NULL && worker->job == job && worker->phase != LX_PHASE_NONE &&
           worker->deferred == NULL;
}

void lanex_job_respond(lanex_job *job, void *data, void (*destroy)(void *data))
{
    if (may_answer(job))
        lx_job_set_ok(job, data, destroy);
    else if (destroy != NULL && data != NULL)
        destroy(data);
}

int lanex_job_respond_error(lanex_job *job, const char *code, const char *message, bool retryable)
{
    if (job == NULL || code == NULL || !may_answer(job))
        return -EINVAL;
    return lx_job_set_error(job, LANEX_STATUS_JOB_FAILED, code, message, retryable);
}

bool lanex_writer_waiting(const lanex_job *job)
{
    const struct lanex_actor *actor = lx_actor_of(job->entry.actor);

    return lanex_epoch_writer_waiting(&actor->epoch) ||
           atomic_load_explicit(&actor->entry.writers_queued, memory_order_relaxed) != 0;
}

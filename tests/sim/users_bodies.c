/* What the jobs of the full users do, and who is told of their ends. */
#include "users.h"

static void destroy_data(void *data)
{
    (void)data;
    check_data_gone(&users.check);
}

static void respond(lanex_job *handle, struct users_job *job)
{
    check_data_made(&users.check);
    lanex_job_respond(handle, job, destroy_data);
}

static bool defer(lanex_job *handle, struct users_job *job)
{
    struct check_job *known = &users.check.jobs[job->index];
    lanex_deferred *deferred;

    if (lanex_job_defer(handle, &deferred) != 0)
        return false;
    /* From here on others may answer it. */
    known->deferred = true;
    job->handle = deferred;
    users.owed[users.owed_count++] = job->index;
    return true;
}

static void end(struct users_job *job, bool install, enum check_end how)
{
    check_body_end(&users.check, job->index, install, how);
}

static void take_time(const struct users_job *job)
{
    for (uint32_t i = 0; i < job->yields; i++)
        sim_yield();
    if (job->sleep_ns != 0)
        sim_sleep_ns(job->sleep_ns);
}

static enum check_end fail(lanex_job *handle)
{
    int rc = lanex_job_respond_error(handle, "no", "not today", false);

    (void)rc; /* -ENOMEM: an error without its text */
    return CHECK_END_ERROR;
}

static enum check_end seal(lanex_job *handle, struct users_job *job)
{
    bool won;

    if (job->index % 4 < 2 && lanex_cancelled())
        return fail(handle);
    check_seal_begin(&users.check, job->index);
    won = lanex_seal();
    check_seal_end(&users.check, job->index, won);
    sim_note("seal %u: %d", job->index, won);
    take_time(job); /* others find it sealed */
    return won ? CHECK_END_OK : fail(handle);
}

static void behave(lanex_job *handle, const struct users_context *context, struct users_job *job,
                   bool install)
{
    enum check_end how = CHECK_END_OK;

    sim_note("begin %u%s", job->index, install ? " install" : "");
    check_body_begin(&users.check, job->index, context->actor, install);
    /* Half of those that seal do so at once: cancels then find them sealed. */
    if (job->conduct != USERS_SEALS || job->index % 2 == 0)
        take_time(job);
    (void)lanex_writer_waiting(handle);
    switch (job->conduct) {
    case USERS_RESPONDS_TWICE:
        respond(handle, job);
        /* fallthrough */
    case USERS_RESPONDS:
        respond(handle, job);
        break;
    case USERS_FAILS:
        how = fail(handle);
        break;
    case USERS_SEALS:
        how = seal(handle, job);
        break;
    case USERS_DEFERS_AND_PANICS:
        defer(handle, job);
        sim_yield();
        end(job, install, CHECK_END_PANIC);
        lanex_panic("after deferring");
    case USERS_DEFERS:
        if (defer(handle, job))
            how = CHECK_END_DEFERRED;
        sim_yield();
        break;
    case USERS_PANICS_WITH_DATA:
        respond(handle, job);
        /* fallthrough */
    case USERS_PANICS:
        end(job, install, CHECK_END_PANIC);
        lanex_panic("as asked");
    default:
        break;
    }
    sim_note("end %u", job->index);
    end(job, install, how);
}

void users_run(lanex_job *handle, void *context, void *arg)
{
    behave(handle, context, arg, false);
}

void users_install(lanex_job *handle, void *context, void *arg)
{
    behave(handle, context, arg, true);
}

void users_told(lanex_completion *completion, void *arg)
{
    struct users_job *job = arg;
    int status = lanex_completion_status(completion);
    lanex_refusal refusal;
    bool pressure = lanex_completion_refusal(completion, &refusal) == 0;

    sim_note("completion of %u: %s", job->index, lanex_completion_code(completion));
    SIM_CHECK(lanex_completion_arg(completion) == arg);
    if (job->told_by_ring)
        SIM_CHECK(job->ring_result == -status);
    check_completed_with(&users.check, job->index, status, lanex_completion_retryable(completion),
                         pressure ? &refusal : NULL);
    if (job->index % 3 == 0 && lanex_completion_take_data(completion) != NULL)
        check_data_gone(&users.check);
}

bool users_answer_one(uint64_t dice)
{
    struct users_job *job;
    int rc = 0;

    if (users.owed_first == users.owed_count)
        return false;
    job = &users.job[users.owed[users.owed_first++]];
    sim_note("answer %u", job->index);
    switch (dice % 3) {
    case 0:
        check_answer_begin(&users.check, job->index, CHECK_ANSWER_OK);
        check_data_made(&users.check);
        rc = lanex_deferred_respond(job->handle, job, destroy_data);
        break;
    case 1:
        check_answer_begin(&users.check, job->index, CHECK_ANSWER_ERROR);
        rc = lanex_deferred_respond_error(job->handle, "late", NULL, false);
        break;
    default:
        check_answer_begin(&users.check, job->index, CHECK_ANSWER_DROP);
        lanex_deferred_drop(job->handle);
        return true; /* it says nothing */
    }
    check_answer_end(&users.check, job->index, rc);
    return true;
}

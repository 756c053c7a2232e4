/* The checker: cancels, seals, deferred answers, drain and destroy. SPEC 6, 7 and 12. */
#include "check_internal.h"

#include <errno.h>
#include <inttypes.h>

void check_cancel_begin(struct check *check, uint32_t number)
{
    struct check_job *job;

    check_enter(check);
    job = check_job_at(check, number);
    job->cancel_begun = true;
    job->cancel_early |= !job->returned;
    job->cancel_ns = check->now_ns;
    check_leave(check);
}

static void cancel_signalled(struct check *check, uint32_t number, struct check_job *job)
{
    CHECK_THAT(check, CHECK_CANCEL, job->facts.token,
               "job %u has no token, and was signalled by a cancel", number);
    CHECK_THAT(check, CHECK_CANCEL, !job->removed, "job %u was removed, and signalled later",
               number);
    CHECK_THAT(check, CHECK_SEAL, !job->sealed && !job->committed,
               "job %u was sealed, and signalled", number);
    job->signalled = true;
}

static void cancel_not_found(struct check *check, uint32_t number, struct check_job *job)
{
    if (!job->facts.token || job->cancel_early)
        return; /* it may have begun, or be about to be submitted */
    CHECK_THAT(check, CHECK_CANCEL, !job->running, "job %u runs, and a cancel did not find it",
               number);
    job->gone = true;
}

void check_cancel_end(struct check *check, uint32_t number, int outcome)
{
    struct check_job *job;

    check_enter(check);
    job = check_job_at(check, number);
    switch (outcome) {
    case LANEX_CANCEL_QUEUED_REMOVED:
        CHECK_THAT(check, CHECK_CANCEL, !job->begun, "job %u was removed, and had begun", number);
        CHECK_THAT(check, CHECK_CANCEL,
                   !job->completed || job->status == LANEX_STATUS_REQUEST_CANCELLED,
                   "job %u was removed, and answered with status %d", number, job->status);
        CHECK_THAT(check, CHECK_CANCEL, !job->removed, "job %u was removed twice", number);
        job->removed = true;
        break;
    case LANEX_CANCEL_RUNNING_SIGNALLED:
        cancel_signalled(check, number, job);
        break;
    case LANEX_CANCEL_RUNNING_COMMITTED:
        CHECK_THAT(check, CHECK_CANCEL, job->sealing || job->sealed,
                   "job %u was never sealed, and is said to be committed", number);
        CHECK_THAT(check, CHECK_SEAL, !job->seal_failed && !job->signalled,
                   "job %u: both its seal and a cancel lost", number);
        job->committed = true;
        break;
    case LANEX_CANCEL_NOT_FOUND:
        cancel_not_found(check, number, job);
        break;
    default:
        CHECK_THAT(check, CHECK_CANCEL,
                   outcome == -ENOMEM || (outcome == -ESHUTDOWN && check->destroy_begun),
                   "cancelling job %u gave %d", number, outcome);
    }
    check_leave(check);
}

void check_token_cancel_end(struct check *check, uint32_t number, int met)
{
    struct check_job *job;

    check_enter(check);
    job = check_job_at(check, number);
    switch (met) {
    case LANEX_CANCELLATION_PENDING:
        CHECK_THAT(check, CHECK_CANCEL, !job->begun,
                   "the token of job %u was pending although it had begun", number);
        job->met_pending = true;
        break;
    case LANEX_CANCELLATION_RUNNING:
        CHECK_THAT(check, CHECK_SEAL, !job->sealed, "the token of job %u was sealed and cancelled",
                   number);
        job->signalled = true;
        break;
    case LANEX_CANCELLATION_COMMITTED:
        CHECK_THAT(check, CHECK_CANCEL, job->sealing || job->sealed,
                   "the token of job %u is committed, and was never sealed", number);
        job->committed = true;
        break;
    default:
        CHECK_THAT(check, CHECK_CANCEL, met == LANEX_CANCELLATION_CANCELLED,
                   "cancelling the token of job %u gave %d", number, met);
        CHECK_THAT(check, CHECK_SEAL, !job->sealed, "the token of job %u was sealed and cancelled",
                   number);
    }
    check_leave(check);
}

void check_seal_begin(struct check *check, uint32_t number)
{
    check_enter(check);
    check_job_at(check, number)->sealing = true;
    check_leave(check);
}

void check_seal_end(struct check *check, uint32_t number, bool won)
{
    struct check_job *job;

    check_enter(check);
    job = check_job_at(check, number);
    if (won && job->facts.token)
        CHECK_THAT(check, CHECK_SEAL,
                   !job->signalled && !job->met_pending && !job->removed && !job->seal_failed,
                   "job %u: a cancel won, and its seal too", number);
    if (!won)
        CHECK_THAT(check, CHECK_SEAL,
                   job->facts.token && job->cancel_begun && !job->committed && !job->sealed,
                   "job %u: its seal lost to nobody", number);
    *(won ? &job->sealed : &job->seal_failed) = true;
    check_leave(check);
}

/* ---- deferred answers ---- */

void check_answer_begin(struct check *check, uint32_t number, enum check_answer answer)
{
    struct check_job *job;

    check_enter(check);
    job = check_job_at(check, number);
    CHECK_THAT(check, CHECK_DEFERRED, !job->answer_begun, "job %u: two answers to one handle",
               number);
    job->deferred = true;
    job->answer_begun = true;
    job->answer = answer;
    check_leave(check);
}

void check_answer_end(struct check *check, uint32_t number, int rc)
{
    struct check_job *job;

    check_enter(check);
    job = check_job_at(check, number);
    job->answer_ended = true;
    job->answer_rc = rc;
    CHECK_THAT(check, CHECK_DEFERRED, rc == 0 || rc == -EALREADY, "answering job %u gave %d",
               number, rc);
    if (rc == -EALREADY)
        CHECK_THAT(check, CHECK_DEFERRED, job->panicked || job->running || check->destroy_begun,
                   "the handle of job %u is inert without a reason", number);
    job->answer_ns = check->now_ns;
    check_leave(check);
}

/* ---- drain and destroy ---- */

void check_drain_begin(struct check *check)
{
    check_enter(check);
    if (!check->drain_begun)
        check->drain_seq = check->seq;
    check->drain_begun = true;
    check->drain_open += check->open_count;
    check_leave(check);
}

void check_drain_end(struct check *check, int rc, size_t left, uint64_t began_ns,
                     uint64_t timeout_ns)
{
    unsigned all;

    check_enter(check);
    all = check->running[0] + check->running[1];
    if (rc == 0) {
        CHECK_THAT(check, CHECK_DRAIN, all == 0, "drained, and %u bodies run", all);
        for (uint32_t i = 0; i < check->open_count; i++) {
            const struct check_job *job = &check->jobs[check->open[i]];
            CHECK_THAT(check, CHECK_DRAIN,
                       !check_waits(job) || job->untold || !job->facts.prompt ||
                           job->return_seq > check->drain_seq,
                       "drained, and job %u is not over", check->open[i]);
        }
        check->drained = true;
    }
    if (rc == -ETIMEDOUT) {
        /* 0 if the rest ended while the time-out was being reported. */
        CHECK_THAT(check, CHECK_DRAIN, left <= check->drain_open,
                   "drain says that %zu are left, of %u at most", left, check->drain_open);
        CHECK_THAT(check, CHECK_DRAIN,
                   timeout_ns != LANEX_TIME_NEVER &&
                       check->now_ns + check->limits.clock_ns >= began_ns + timeout_ns,
                   "drain timed out too early");
    }
    CHECK_THAT(check, CHECK_DRAIN,
               rc == 0 || rc == -ETIMEDOUT || (rc == -ESHUTDOWN && check->destroy_begun),
               "drain gave %d", rc);
    check->drain_done |= rc == 0 || rc == -ETIMEDOUT;
    check_leave(check);
}

void check_destroy_begin(struct check *check)
{
    check_enter(check);
    check->destroy_begun = true;
    check_leave(check);
}

void check_destroy_end(struct check *check, int rc)
{
    unsigned all;

    check_enter(check);
    all = check->running[0] + check->running[1];
    CHECK_THAT(check, CHECK_DESTROY, rc == 0, "destroy gave %d", rc);
    CHECK_THAT(check, CHECK_DESTROY, all == 0, "destroyed, and %u bodies run", all);
    for (uint32_t i = 0; i < check->open_count; i++) {
        const struct check_job *job = &check->jobs[check->open[i]];
        CHECK_THAT(check, CHECK_DESTROY,
                   !job->returned || job->untold || !job->facts.prompt || job->completed ||
                       (job->deferred && job->answer_begun),
                   "destroyed, and job %u was not answered", check->open[i]);
    }
    check->destroyed = true;
    check_leave(check);
}

bool check_ended(struct check *check)
{
    bool ended;

    check_enter(check);
    ended = check->destroyed;
    check_leave(check);
    return ended;
}

void check_call_result(struct check *check, bool began_ended, int rc)
{
    check_enter(check);
    CHECK_THAT(check, CHECK_DESTROY, !began_ended || rc == -ESHUTDOWN,
               "a call after destroy gave %d", rc);
    CHECK_THAT(check, CHECK_DESTROY, rc != -ESHUTDOWN || check->destroy_begun,
               "-ESHUTDOWN before destroy");
    check_leave(check);
}

/* The checker: submissions, completions, and the end of all. */
#include "check_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const rule_names[CHECK_RULES] = {
    [CHECK_NONE] = "none",
    [CHECK_POOL] = "pool",
    [CHECK_EXCLUSION] = "exclusion",
    [CHECK_SERIAL] = "serial_status",
    [CHECK_COMMIT] = "maintenance_commit",
    [CHECK_READ_CAP] = "read_cap",
    [CHECK_ACTOR_CAP] = "actor_cap",
    [CHECK_PERMITS] = "heavy_permits",
    [CHECK_MAINTENANCE_CAP] = "maintenance_cap",
    [CHECK_RESERVE] = "interactive_reserve",
    [CHECK_ORDER] = "order",
    [CHECK_PROMOTION] = "promotion",
    [CHECK_WRITER_FIRST] = "writer_first",
    [CHECK_TWICE] = "twice",
    [CHECK_NEVER] = "never",
    [CHECK_NOT_ACCEPTED] = "not_accepted",
    [CHECK_STATUS] = "status",
    [CHECK_DETAILS] = "details",
    [CHECK_RAN_AFTER] = "ran_after",
    [CHECK_LATE_ANSWER] = "late_answer",
    [CHECK_DEADLINE] = "deadline",
    [CHECK_CANCEL] = "cancel",
    [CHECK_SEAL] = "seal",
    [CHECK_DEFERRED] = "deferred",
    [CHECK_FATAL] = "fatal",
    [CHECK_REMOVED] = "removed",
    [CHECK_INCARNATION] = "incarnation",
    [CHECK_CONTEXT] = "context",
    [CHECK_RETIRE] = "retire",
    [CHECK_HOOK] = "hook",
    [CHECK_DATA] = "data",
    [CHECK_DRAIN] = "drain",
    [CHECK_DESTROY] = "destroy",
    [CHECK_PROGRESS] = "progress",
    [CHECK_COUNTERS] = "counters",
    [CHECK_PHANTOM] = "phantom",
};

const char *check_rule_name(enum check_rule rule)
{
    return rule_names[rule];
}

void check_init(struct check *check, const lanex_config *config, const struct check_limits *limits,
                uint64_t (*now)(void))
{
    memset(check, 0, sizeof *check);
    check->config = *config;
    check->limits = *limits;
    check->now = now;
    for (unsigned i = 0; i < CHECK_KEYS_MAX; i++) {
        check->current[i] = CHECK_NO_ACTOR;
        check->ready_since_ns[i] = UINT64_MAX;
    }
}

void check_enter(struct check *check)
{
    if (check->lock != NULL)
        check->lock();
    check->now_ns = check->now();
    check->seq++;
    check->events++;
}

void check_leave(struct check *check)
{
    bool broken = check->rule != CHECK_NONE;

    if (check->unlock != NULL)
        check->unlock();
    if (broken && check->on_fail != NULL)
        check->on_fail(check);
}

void check_broken(struct check *check, enum check_rule rule, const char *format, ...)
{
    va_list list;
    int length;

    if (check->rule != CHECK_NONE)
        return;
    check->rule = rule;
    length = snprintf(check->error, sizeof check->error,
                      "[%s] at %" PRIu64 " ns: ", check_rule_name(rule), check->now_ns);
    va_start(list, format);
    vsnprintf(check->error + length, sizeof check->error - (size_t)length, format, list);
    va_end(list);
}

struct check_job *check_job_at(struct check *check, uint32_t job)
{
    if (job >= CHECK_JOBS_MAX || !check->jobs[job].used) {
        check_broken(check, CHECK_NOT_ACCEPTED, "job %u was never submitted", job);
        return &check->jobs[0]; /* an answer is needed: the run has failed */
    }
    return &check->jobs[job];
}

struct check_actor *check_actor_at(struct check *check, uint32_t actor)
{
    if (actor >= CHECK_ACTORS_MAX || !check->actors[actor].used) {
        check_broken(check, CHECK_INCARNATION, "actor %u was never registered", actor);
        return &check->actors[0];
    }
    return &check->actors[actor];
}

/* ---- submitting ---- */

static void note_reasons(struct check *check, struct check_job *job)
{
    const struct check_actor *actor;

    job->must_not_run = check->drain_done || check->destroyed;
    if (job->actor == CHECK_NO_ACTOR)
        return;
    actor = check_actor_at(check, job->actor);
    job->after_fatal = actor->fatal_told;
    job->after_removal = actor->gone;
    job->must_not_run |= actor->fatal_told || actor->gone;
}

void check_submit_begin(struct check *check, uint32_t number, const struct check_facts *facts)
{
    struct check_job *job = &check->jobs[number];

    check_enter(check);
    CHECK_THAT(check, CHECK_TWICE, !job->used, "job %u was submitted twice: a fault of the users",
               number);
    *job = (struct check_job){.used = true,
                              .facts = *facts,
                              .actor = facts->actor,
                              .call_seq = check->seq,
                              .return_seq = UINT64_MAX,
                              .call_ns = check->now_ns,
                              .return_ns = UINT64_MAX};
    job->untold = !facts->told;
    /* What has a name before the call may be told of before it returns. */
    job->accepted = true;
    note_reasons(check, job);
    if (facts->deadline_ns != 0 && facts->lane == LANEX_LANE_MUTATING)
        check->deadline_writers[facts->key] = true;
    check->open[check->open_count++] = number;
    check->drain_open += check->drain_begun;
    check->calls++;
    check_leave(check);
}

static void close_job(struct check *check, uint32_t number)
{
    for (uint32_t i = 0; i < check->open_count; i++) {
        if (check->open[i] == number) {
            check->open[i] = check->open[--check->open_count];
            return;
        }
    }
}

void check_submit_end(struct check *check, uint32_t number, int rc)
{
    struct check_job *job;

    check_enter(check);
    job = check_job_at(check, number);
    check->calls--;
    job->returned = true;
    job->return_seq = check->seq;
    job->return_ns = check->now_ns;
    job->accepted = rc == 0;
    if (rc != 0) {
        CHECK_THAT(check, CHECK_NOT_ACCEPTED, !job->begun && !job->completed,
                   "job %u was refused with %d, and ran or was answered", number, rc);
        close_job(check, number);
    }
    if (rc == -ESHUTDOWN)
        CHECK_THAT(check, CHECK_DESTROY, check->destroy_begun,
                   "job %u was refused with -ESHUTDOWN before destroy", number);
    check_leave(check);
}

void check_untold(struct check *check, uint32_t number)
{
    check_enter(check);
    check_job_at(check, number)->untold = true;
    check_leave(check);
}

/* ---- completions ---- */

static bool ran(const struct check_job *job)
{
    return job->ended && !job->running;
}

/* Built, and the second step was not begun. */
static bool built(const struct check_job *job)
{
    return job->facts.install && ran(job) && job->end == CHECK_END_OK && !job->install_begun;
}

static int status_of_answer(enum check_answer answer)
{
    switch (answer) {
    case CHECK_ANSWER_OK:
        return LANEX_STATUS_OK;
    case CHECK_ANSWER_ERROR:
        return LANEX_STATUS_JOB_FAILED;
    default:
        return LANEX_STATUS_JOB_ABANDONED;
    }
}

static int status_of_panic(const struct check_job *job)
{
    return job->facts.lane == LANEX_LANE_MUTATING || job->install_begun ? LANEX_STATUS_ACTOR_FATAL
                                                                        : LANEX_STATUS_JOB_PANICKED;
}

/* Does the status fit how the body ended? */
static bool fits_end(const struct check *check, const struct check_job *job, int status)
{
    bool answered = job->deferred && job->answer_begun && status == status_of_answer(job->answer) &&
                    !(job->answer_ended && job->answer_rc != 0);

    if (job->panicked)
        return answered || (status == status_of_panic(job) &&
                            !(job->answer_ended && job->answer_rc == 0 && job->deferred));
    if (job->deferred)
        return answered || (status == LANEX_STATUS_EXECUTOR_SHUTDOWN && check->destroy_begun);
    if (job->end == CHECK_END_ERROR)
        return status == LANEX_STATUS_JOB_FAILED;
    return status == LANEX_STATUS_OK;
}

static bool same_key_before(const struct check *check, const struct check_job *job)
{
    for (uint32_t i = 0; i < CHECK_JOBS_MAX; i++) {
        const struct check_job *other = &check->jobs[i];
        if (other != job && other->used && other->facts.key == job->facts.key &&
            other->facts.job_class == LANEX_CLASS_MAINTENANCE &&
            other->facts.coalesce_key == job->facts.coalesce_key &&
            other->call_seq < job->return_seq)
            return true;
    }
    return false;
}

/* Is there a reason for this status in a job that did not run? */
static bool has_reason(const struct check *check, const struct check_job *job, int status)
{
    const struct check_actor *actor =
        job->actor != CHECK_NO_ACTOR ? &check->actors[job->actor] : NULL;
    bool background = job->facts.job_class == LANEX_CLASS_MAINTENANCE;

    switch (status) {
    case LANEX_STATUS_ACTOR_FATAL:
        return actor == NULL || actor->fatal || actor->removing || actor->retiring;
    case LANEX_STATUS_ACTOR_NOT_REGISTERED:
        return actor == NULL || actor->removing || actor->retiring || !actor->live;
    case LANEX_STATUS_REQUEST_CANCELLED:
        return job->cancel_begun;
    case LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED:
        return job->facts.deadline_ns != 0;
    case LANEX_STATUS_MAINTENANCE_CANCELLED:
        return background && ((job->facts.coalesce_key != 0 && same_key_before(check, job)) ||
                              check->maintenance_cancelling[job->facts.key] != 0 ||
                              check->maintenance_cancels[job->facts.key] > job->call_seq);
    case LANEX_STATUS_MAINTENANCE_BACKPRESSURE:
        return background;
    case LANEX_STATUS_EXECUTOR_BACKPRESSURE:
        return !background && (check->config.interactive_actor_queue_cap != 0 ||
                               check->config.interactive_queue_cap != 0);
    case LANEX_STATUS_EXECUTOR_SHUTDOWN:
        return check->drain_begun || check->destroy_begun;
    default:
        return false;
    }
}

static void check_reason(struct check *check, uint32_t number, const struct check_job *job,
                         int status)
{
    if (job->begun && !built(job)) {
        CHECK_THAT(check, CHECK_STATUS, fits_end(check, job, status),
                   "job %u ended with status %d, which its body did not give", number, status);
        return;
    }
    CHECK_THAT(check, CHECK_STATUS, has_reason(check, job, status),
               "job %u was answered with status %d without a reason", number, status);
    if (built(job))
        CHECK_THAT(check, CHECK_STATUS,
                   status == LANEX_STATUS_ACTOR_FATAL || status == LANEX_STATUS_REQUEST_CANCELLED ||
                       status == LANEX_STATUS_EXECUTOR_SHUTDOWN,
                   "job %u had been built, and was answered with status %d", number, status);
    if (status == LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED)
        CHECK_THAT(check, CHECK_DEADLINE,
                   check->now_ns + check->limits.clock_ns >= job->facts.deadline_ns,
                   "job %u was answered before its deadline", number);
    if (job->removed)
        CHECK_THAT(check, CHECK_CANCEL, status == LANEX_STATUS_REQUEST_CANCELLED,
                   "job %u was removed by a cancel, and answered with status %d", number, status);
    if (job->after_fatal && !job->after_removal)
        CHECK_THAT(
            check, CHECK_FATAL,
            status == LANEX_STATUS_ACTOR_FATAL || status == LANEX_STATUS_ACTOR_NOT_REGISTERED ||
                (status == LANEX_STATUS_EXECUTOR_SHUTDOWN && check->destroy_begun),
            "job %u was submitted to a fatal actor, and answered with status %d", number, status);
    if (job->after_removal)
        CHECK_THAT(check, CHECK_REMOVED,
                   status == LANEX_STATUS_ACTOR_NOT_REGISTERED ||
                       (status == LANEX_STATUS_EXECUTOR_SHUTDOWN && check->destroy_begun),
                   "job %u was submitted to a removed actor, and answered with status %d", number,
                   status);
}

static void completed(struct check *check, uint32_t number, int status)
{
    struct check_job *job = check_job_at(check, number);

    CHECK_THAT(check, CHECK_NOT_ACCEPTED, job->accepted, "job %u was refused, and answered",
               number);
    CHECK_THAT(check, CHECK_TWICE, !job->completed, "job %u was answered twice, %d and %d", number,
               job->status, status);
    CHECK_THAT(check, CHECK_STATUS, !job->running, "job %u was answered while its body still runs",
               number);
    CHECK_THAT(check, CHECK_DESTROY, !(job->facts.prompt && check->destroyed && !job->deferred),
               "job %u was answered after destroy had returned", number);
    check_reason(check, number, job, status);
    job->completed = true;
    job->status = status;
    if (job->panicked && status == LANEX_STATUS_ACTOR_FATAL && job->actor != CHECK_NO_ACTOR)
        check_actor_at(check, job->actor)->fatal_told = true;
    close_job(check, number);
}

void check_completed(struct check *check, uint32_t number, int status)
{
    check_enter(check);
    completed(check, number, status);
    check_leave(check);
}

static void check_refusal(struct check *check, uint32_t number, const struct check_job *job,
                          const lanex_refusal *refusal)
{
    const lanex_config *config = &check->config;
    bool background = job->facts.job_class == LANEX_CLASS_MAINTENANCE;
    bool own = refusal->scope == LANEX_SCOPE_ACTOR;
    uint32_t cap =
        background ? (own ? config->maintenance_queue_cap : config->maintenance_total_queue_cap)
                   : (own ? config->interactive_actor_queue_cap : config->interactive_queue_cap);

    CHECK_THAT(check, CHECK_DETAILS,
               refusal->queue_class == job->facts.job_class && cap != 0 && refusal->cap == cap &&
                   refusal->depth >= cap,
               "job %u: refused with class %u, scope %u, depth %" PRIu64 ", cap %" PRIu64, number,
               refusal->queue_class, refusal->scope, refusal->depth, refusal->cap);
}

void check_completed_with(struct check *check, uint32_t number, int status, bool retryable,
                          const lanex_refusal *refusal)
{
    bool pressure = status == LANEX_STATUS_MAINTENANCE_BACKPRESSURE ||
                    status == LANEX_STATUS_EXECUTOR_BACKPRESSURE;

    check_enter(check);
    completed(check, number, status);
    CHECK_THAT(check, CHECK_DETAILS, pressure == (refusal != NULL),
               "job %u, status %d: details of a refusal, or none", number, status);
    if (pressure)
        CHECK_THAT(check, CHECK_DETAILS, retryable, "job %u: backpressure is retryable", number);
    if (status == LANEX_STATUS_OK || status == LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED)
        CHECK_THAT(check, CHECK_DETAILS, !retryable, "job %u: status %d is not retryable", number,
                   status);
    if (refusal != NULL)
        check_refusal(check, number, check_job_at(check, number), refusal);
    check_leave(check);
}

void check_data_made(struct check *check)
{
    check_enter(check);
    check->live_data++;
    check_leave(check);
}

void check_data_gone(struct check *check)
{
    check_enter(check);
    check->live_data--;
    CHECK_THAT(check, CHECK_DATA, check->live_data >= 0, "response data was destroyed twice");
    check_leave(check);
}

/* ---- the end ---- */

static void finish_job(struct check *check, uint32_t number, const struct check_job *job)
{
    CHECK_THAT(check, CHECK_NEVER, !job->running, "the body of job %u never ended", number);
    if (!job->accepted)
        return;
    CHECK_THAT(check, CHECK_NEVER, job->completed || job->untold,
               "job %u has no completion; begun %d, ended %d", number, job->begun, job->ended);
    if (job->completed && job->deferred && job->answer_ended) {
        bool own = job->status == status_of_answer(job->answer);
        CHECK_THAT(check, CHECK_DEFERRED, own == (job->answer_rc == 0),
                   "job %u: its deferred answer %d gave %d, its completion is %d", number,
                   job->answer, job->answer_rc, job->status);
    }
}

void check_finish(struct check *check)
{
    check_enter(check);
    for (uint32_t i = 0; i < CHECK_JOBS_MAX; i++) {
        if (check->jobs[i].used)
            finish_job(check, i, &check->jobs[i]);
    }
    for (uint32_t i = 0; i < CHECK_ACTORS_MAX; i++) {
        const struct check_actor *actor = &check->actors[i];
        if (!actor->used || !actor->live)
            continue;
        CHECK_THAT(check, CHECK_CONTEXT, actor->released, "actor %u: its context was not released",
                   i);
        CHECK_THAT(check, CHECK_CONTEXT, actor->torn_down == actor->retired,
                   "actor %u: retired %d, torn down %d", i, actor->retired, actor->torn_down);
        CHECK_THAT(check, CHECK_HOOK, actor->hooked == actor->unhooked,
                   "actor %u: its hooks were not both called", i);
    }
    CHECK_THAT(check, CHECK_DATA, check->live_data == 0, "%lld pieces of response data are left",
               (long long)check->live_data);
    check_leave(check);
}

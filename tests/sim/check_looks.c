/* The checker: time, stillness, and the views against recounts. SPEC 5, 9, 11 and 15. */
#include "check_internal.h"

#include <inttypes.h>

static bool age_over(const struct check *check, uint64_t since_ns, uint64_t limit_ns)
{
    return check->now_ns > since_ns && check->now_ns - since_ns > limit_ns;
}

/* ---- what should have happened by now ---- */

static void check_answers(struct check *check, uint32_t number, const struct check_job *job)
{
    const struct check_limits *limits = &check->limits;
    bool built = job->facts.install && job->end == CHECK_END_OK && !job->install_begun;

    if (job->completed || job->untold || !job->facts.prompt)
        return;
    if (job->ended && !job->running && !job->deferred && !built)
        CHECK_THAT(check, CHECK_LATE_ANSWER, !age_over(check, job->end_ns, limits->progress_ns),
                   "job %u ended at %" PRIu64 ", and nobody was told", number, job->end_ns);
    if (job->removed)
        CHECK_THAT(check, CHECK_LATE_ANSWER, !age_over(check, job->cancel_ns, limits->progress_ns),
                   "job %u was removed, and nobody was told", number);
    if (job->deferred && job->answer_ended && job->ended && !job->running)
        CHECK_THAT(check, CHECK_LATE_ANSWER,
                   !age_over(check, job->answer_ns > job->end_ns ? job->answer_ns : job->end_ns,
                             limits->progress_ns),
                   "the answer of job %u was taken, and nobody was told", number);
    if (check_waits(job) && job->facts.deadline_ns != 0)
        CHECK_THAT(check, CHECK_DEADLINE,
                   !age_over(check,
                             job->facts.deadline_ns > job->return_ns ? job->facts.deadline_ns
                                                                     : job->return_ns,
                             limits->deadline_ns + limits->clock_ns),
                   "job %u was not answered at its deadline", number);
}

struct need {
    bool waits[2];      /* a job that is known to be queued */
    bool heavy, writer; /* one that is perhaps queued */
};

/* What is queued of an actor, as far as can be known; false where it cannot. */
static bool find_need(const struct check *check, uint32_t number, struct need *need)
{
    *need = (struct need){.heavy = false};
    for (uint32_t i = 0; i < check->open_count; i++) {
        const struct check_job *job = &check->jobs[check->open[i]];
        bool perhaps = job->actor == CHECK_NO_ACTOR &&
                       job->facts.key == check->actors[number].key; /* submitted by key */
        if ((job->actor != number && !perhaps) || job->completed)
            continue;
        if (!job->returned || job->running || (job->ended && !job->deferred))
            return false; /* perhaps in flight */
        if (!check_waits(job))
            continue;
        need->heavy |= job->facts.lane == LANEX_LANE_HEAVY_INIT;
        need->writer |= job->facts.lane == LANEX_LANE_MUTATING &&
                        job->facts.job_class == LANEX_CLASS_INTERACTIVE;
        if (!perhaps && !job->untold && job->facts.prompt && !job->cancel_begun)
            need->waits[job->facts.job_class] = true;
    }
    return true;
}

/* A heavy_init holds its permit also while it waits for its install step. */
static bool permit_perhaps_taken(const struct check *check)
{
    if (check->heavies > 0)
        return true;
    for (uint32_t i = 0; i < check->open_count; i++) {
        const struct check_job *job = &check->jobs[check->open[i]];
        if (job->facts.install && job->begun && !job->completed)
            return true;
    }
    return false;
}

/* Nothing of the actor is in flight, and there is a worker: whatever is next of it could start. */
static bool could_start(const struct check *check, uint32_t number)
{
    const struct check_actor *actor = &check->actors[number];
    const lanex_config *config = &check->config;
    unsigned all = check->running[0] + check->running[1];
    struct need need;

    if (!actor->live || actor->gone || actor->removing || actor->retiring || actor->fatal ||
        actor->running != 0 || all >= config->pool_size || check->destroy_begun ||
        !find_need(check, number, &need))
        return false;
    if (need.heavy && permit_perhaps_taken(check))
        return false;
    return need.waits[0] ||
           (need.waits[1] && !need.writer && check->running[1] < config->maintenance_cap &&
            all + config->interactive_reserve < config->pool_size);
}

void check_note_ready(struct check *check)
{
    for (uint32_t key = 0; key < CHECK_KEYS_MAX; key++) {
        uint32_t number = check->current[key];
        if (number == CHECK_NO_ACTOR)
            continue;
        if (!could_start(check, number))
            check->ready_since_ns[key] = UINT64_MAX;
        else if (check->ready_since_ns[key] == UINT64_MAX)
            check->ready_since_ns[key] = check->now_ns;
    }
}

static void check_progress(struct check *check, uint64_t patience_ns)
{
    check_note_ready(check);
    for (uint32_t key = 0; key < CHECK_KEYS_MAX; key++) {
        if (check->current[key] == CHECK_NO_ACTOR || check->ready_since_ns[key] == UINT64_MAX)
            continue;
        CHECK_THAT(check, CHECK_PROGRESS, !age_over(check, check->ready_since_ns[key], patience_ns),
                   "actor %u has had work that could start since %" PRIu64
                   ", nothing of it runs, %u and %u of %u workers run",
                   check->current[key], check->ready_since_ns[key], check->running[0],
                   check->running[1], check->config.pool_size);
    }
}

static void check_times(struct check *check, uint64_t patience_ns)
{
    if (check->destroy_begun)
        return;
    for (uint32_t i = 0; i < check->open_count; i++)
        check_answers(check, check->open[i], &check->jobs[check->open[i]]);
    check_progress(check, patience_ns);
}

void check_tick(struct check *check)
{
    check_enter(check);
    check_times(check, check->limits.progress_ns);
    check_leave(check);
}

/* ---- views ---- */

static void check_phantoms(struct check *check, const lanex_liveness *live)
{
    CHECK_THAT(check, CHECK_PHANTOM,
               live->phantom_workers == 0 && live->phantom_slots[0] == 0 &&
                   live->phantom_slots[1] == 0 && live->phantom_permits == 0,
               "phantoms: workers %" PRId64 ", slots %" PRId64 " and %" PRId64 ", permits %" PRId64,
               live->phantom_workers, live->phantom_slots[0], live->phantom_slots[1],
               live->phantom_permits);
}

void check_liveness(struct check *check, const lanex_liveness *live)
{
    const lanex_config *config = &check->config;

    check_enter(check);
    check_phantoms(check, live);
    CHECK_THAT(check, CHECK_COUNTERS,
               live->running[0] <= config->pool_size && live->running[1] <= config->pool_size &&
                   live->idle_workers <= config->pool_size &&
                   live->interactive_reserve == config->interactive_reserve &&
                   live->maintenance_cap == config->maintenance_cap,
               "liveness beyond the configuration: running %" PRIu64 " and %" PRIu64
               ", idle %" PRIu64,
               live->running[0], live->running[1], live->idle_workers);
    CHECK_THAT(check, CHECK_COUNTERS,
               live->queued[0] <= check->open_count + check->calls + CHECK_JOBS_MAX / 2 &&
                   live->queued[1] <= check->open_count + check->calls + CHECK_JOBS_MAX / 2,
               "more jobs queued than were submitted");
    check_leave(check);
}

/* Jobs that are surely, and jobs that are perhaps queued. */
static void count_queued(const struct check *check, unsigned job_class, uint64_t *ret_least,
                         uint64_t *ret_most)
{
    *ret_least = *ret_most = 0;
    for (uint32_t i = 0; i < check->open_count; i++) {
        const struct check_job *job = &check->jobs[check->open[i]];
        if (job->facts.job_class != job_class || job->begun || job->completed || !job->accepted)
            continue;
        *ret_most += 1;
        *ret_least += job->returned && !job->untold && job->facts.prompt;
    }
}

void check_still(struct check *check, const lanex_liveness *live)
{
    check_enter(check);
    check_times(check, 0);
    if (!check->destroy_begun) {
        check_phantoms(check, live);
        for (unsigned kind = 0; kind < 2; kind++) {
            uint64_t least, most;
            count_queued(check, kind, &least, &most);
            CHECK_THAT(check, CHECK_COUNTERS, live->running[kind] == check->running[kind],
                       "class %u: liveness says %" PRIu64 " running, recounted %u", kind,
                       live->running[kind], check->running[kind]);
            CHECK_THAT(
                check, CHECK_COUNTERS, live->queued[kind] >= least && live->queued[kind] <= most,
                "class %u: liveness says %" PRIu64 " queued, recounted %" PRIu64 " to %" PRIu64,
                kind, live->queued[kind], least, most);
        }
        CHECK_THAT(check, CHECK_COUNTERS,
                   live->idle_workers + check->running[0] + check->running[1] ==
                       check->config.pool_size,
                   "%" PRIu64 " workers idle, %u of %u run", live->idle_workers,
                   check->running[0] + check->running[1], check->config.pool_size);
        check->recounts++;
    }
    check_leave(check);
}

bool check_is_quiet(struct check *check)
{
    bool quiet;

    check_enter(check);
    quiet = check->calls == 0 && check->open_count == 0;
    check_leave(check);
    return quiet;
}

void check_quiet(struct check *check, const lanex_liveness *live, const lanex_counters *counters)
{
    uint64_t over[2] = {0, 0}, panicked = 0, actors = 0;

    check_enter(check);
    check_phantoms(check, live);
    for (uint32_t i = 0; i < CHECK_JOBS_MAX; i++) {
        const struct check_job *job = &check->jobs[i];
        if (job->used && job->accepted)
            over[job->facts.job_class]++;
        panicked += job->used && job->panicked;
    }
    for (uint32_t i = 0; i < check->actor_count; i++)
        actors += check->actors[i].live && !check->actors[i].gone;
    for (unsigned kind = 0; kind < 2; kind++) {
        CHECK_THAT(check, CHECK_COUNTERS, live->queued[kind] == 0 && live->running[kind] == 0,
                   "class %u: all is over, and %" PRIu64 " queued, %" PRIu64 " running", kind,
                   live->queued[kind], live->running[kind]);
        CHECK_THAT(check, CHECK_COUNTERS,
                   counters->completed[kind] + counters->refused[kind] == over[kind],
                   "class %u: completed %" PRIu64 ", refused %" PRIu64 ", recounted %" PRIu64, kind,
                   counters->completed[kind], counters->refused[kind], over[kind]);
    }
    CHECK_THAT(check, CHECK_COUNTERS,
               live->idle_workers == check->config.pool_size && counters->panicked == panicked &&
                   counters->actors == actors && counters->non_runnable_dispatches == 0,
               "idle %" PRIu64 ", panicked %" PRIu64 " (%" PRIu64 "), actors %" PRIu64 " (%" PRIu64
               "), non-runnable %" PRIu64,
               live->idle_workers, counters->panicked, panicked, counters->actors, actors,
               counters->non_runnable_dispatches);
    check->recounts++;
    check_leave(check);
}

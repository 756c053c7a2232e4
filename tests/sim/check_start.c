/* The checker: a body begins or ends. SPEC 3 to 6. */
#include "check_internal.h"

#define GATED(lane) ((lane) != LANEX_LANE_HEAVY_INIT)

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- SPEC 3: who may be beside whom ---- */

static void check_exclusion(struct check *check, uint32_t number, const struct check_job *job,
                            const struct check_actor *actor, bool writes)
{
    bool reads = !writes && GATED(job->facts.lane);

    if (writes)
        CHECK_THAT(check, CHECK_EXCLUSION,
                   actor->writers + actor->reads + actor->serials + actor->commits == 0,
                   "job %u writes beside %u writers, %u reads, %u serials and %u commits", number,
                   actor->writers, actor->reads, actor->serials, actor->commits);
    if (reads)
        CHECK_THAT(check, CHECK_EXCLUSION, actor->writers == 0, "job %u reads beside a writer",
                   number);
    if (job->facts.lane == LANEX_LANE_SERIAL_STATUS)
        CHECK_THAT(check, CHECK_SERIAL, actor->serials == 0, "job %u: a second serial_status",
                   number);
    if (job->facts.lane == LANEX_LANE_MAINTENANCE_COMMIT)
        CHECK_THAT(check, CHECK_COMMIT, actor->commits == 0, "job %u: a second commit", number);
    if (job->facts.lane == LANEX_LANE_PURE_READ)
        CHECK_THAT(check, CHECK_READ_CAP, actor->reads < check->config.read_cap,
                   "job %u: %u reads run, read_cap is %u", number, actor->reads,
                   check->config.read_cap);
}

/* A commit takes none of the actor's slots, unless the switch says so. */
static bool counts_toward_cap(const struct check *check, const struct check_job *job)
{
    return job->facts.lane != LANEX_LANE_MAINTENANCE_COMMIT ||
           check_switch(check, LANEX_EXECUTOR_COMMIT_COUNTS_TOWARD_CAP);
}

static void check_caps(struct check *check, uint32_t number, const struct check_job *job,
                       const struct check_actor *actor)
{
    unsigned all = check->running[0] + check->running[1];

    CHECK_THAT(check, CHECK_POOL, all < check->config.pool_size, "job %u: %u bodies run already",
               number, all);
    if (counts_toward_cap(check, job))
        CHECK_THAT(check, CHECK_ACTOR_CAP, actor->counted < check->config.actor_cap,
                   "job %u: %u jobs of the actor run, actor_cap is %u", number, actor->counted,
                   check->config.actor_cap);
    if (job->facts.lane == LANEX_LANE_HEAVY_INIT)
        CHECK_THAT(check, CHECK_PERMITS,
                   check->heavies < check->config.heavy_permits &&
                       job->heavy_peak < check->config.heavy_permits,
                   "job %u: %u heavy_init run, %u since it was built; %u permits", number,
                   check->heavies, job->heavy_peak, check->config.heavy_permits);
}

/* Bodies that ran already when the job was submitted: they were in flight when it was chosen. */
static unsigned running_before(const struct check *check, const struct check_job *job,
                               unsigned *ret_overdue)
{
    unsigned count = 0;

    *ret_overdue = 0;
    for (uint32_t i = 0; i < check->open_count; i++) {
        const struct check_job *other = &check->jobs[check->open[i]];
        if (!other->running)
            continue;
        *ret_overdue += other->overdue && !other->install_begun;
        count += other->begin_seq < job->call_seq;
    }
    return count;
}

/*
 * Install steps are left out: they are admitted in the interactive round, where the cap does not
 * hold, and one that was admitted after this job may have begun before it.
 */
static unsigned maintenance_building(const struct check *check)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < check->open_count; i++) {
        const struct check_job *other = &check->jobs[check->open[i]];
        count += other->running && other->facts.job_class == LANEX_CLASS_MAINTENANCE &&
                 !other->install_begun;
    }
    return count;
}

static void check_maintenance(struct check *check, uint32_t number, struct check_job *job)
{
    const lanex_config *config = &check->config;
    unsigned overdue, before = running_before(check, job, &overdue);
    unsigned count = maintenance_building(check);

    job->overdue = !check_switch(check, LANEX_EXECUTOR_NO_MAINTENANCE_MAX_WAIT) &&
                   check->now_ns - job->call_ns + check->limits.clock_ns >=
                       config->maintenance_max_wait_ms * CHECK_MS;
    if (job->overdue)
        overdue++;
    CHECK_THAT(check, CHECK_MAINTENANCE_CAP, count < config->maintenance_cap + (overdue != 0),
               "job %u: %u maintenance jobs run, the cap is %u", number, count,
               config->maintenance_cap);
    if (!job->overdue)
        CHECK_THAT(check, CHECK_RESERVE, before + config->interactive_reserve < config->pool_size,
                   "job %u: maintenance began beside %u older jobs, pool %u, reserve %u", number,
                   before, config->pool_size, config->interactive_reserve);
}

/* ---- SPEC 4: what may overtake ---- */

static bool exclusive(const struct check *check, uint32_t lane)
{
    return lane == LANEX_LANE_SERIAL_STATUS || lane == LANEX_LANE_MUTATING ||
           lane == LANEX_LANE_MAINTENANCE_COMMIT ||
           (lane == LANEX_LANE_PURE_READ && check->config.read_cap == 1);
}

/* From when on a queued writer is urgent, at the latest. */
static uint64_t urgent_from(const struct check *check, const struct check_job *job)
{
    uint64_t promotion_ns = check->config.promotion_age_ms * CHECK_MS;
    uint64_t from_ns = job->return_ns;

    if (from_ns == UINT64_MAX)
        return from_ns;
    if (job->facts.deadline_ns == 0)
        from_ns += promotion_ns;
    else if (job->facts.deadline_ns > promotion_ns)
        from_ns = later(from_ns, job->facts.deadline_ns - promotion_ns);
    return from_ns + check->limits.clock_ns;
}

static void check_writer_order(struct check *check, uint32_t number, const struct check_job *job,
                               const struct check_actor *actor)
{
    unsigned kind = job->facts.job_class;
    bool strict = check->config.policy == LANEX_POLICY_ARRIVAL || kind == LANEX_CLASS_MAINTENANCE;
    uint64_t urgent_ns = urgent_from(check, job);

    if (strict)
        CHECK_THAT(check, CHECK_ORDER, actor->begun_gated[kind] <= job->return_seq,
                   "writer %u began after a later job of its class", number);
    else if (!actor->stuck && job->facts.deadline_ns == 0)
        CHECK_THAT(check, CHECK_ORDER, actor->begun_status[kind] <= job->return_seq,
                   "writer %u began after a later status or commit job", number);
    if (kind != LANEX_CLASS_INTERACTIVE)
        return;
    if (!strict && !actor->stuck && urgent_ns != UINT64_MAX)
        CHECK_THAT(check, CHECK_PROMOTION, actor->begun_interactive_ns <= urgent_ns,
                   "a job submitted after writer %u had become urgent began before it", number);
    if (!strict)
        CHECK_THAT(check, CHECK_WRITER_FIRST, actor->begun_maintenance <= job->return_seq,
                   "maintenance submitted while writer %u was queued began before it", number);
}

static void check_order(struct check *check, uint32_t number, const struct check_job *job,
                        const struct check_actor *actor)
{
    unsigned kind = job->facts.job_class, lane = job->facts.lane;

    if (exclusive(check, lane))
        CHECK_THAT(check, CHECK_ORDER, actor->begun_lane[kind][lane] <= job->return_seq,
                   "job %u began after a later job of its lane", number);
    if (lane == LANEX_LANE_MUTATING)
        check_writer_order(check, number, job, actor);
    else if (GATED(lane) &&
             (check->config.policy == LANEX_POLICY_ARRIVAL || kind == LANEX_CLASS_MAINTENANCE))
        CHECK_THAT(check, CHECK_ORDER, actor->begun_writer[kind] <= job->return_seq,
                   "job %u began after a later writer of its class", number);
    else if (GATED(lane) && !check->deadline_writers[actor->key])
        CHECK_THAT(check, CHECK_ORDER, actor->begun_plain_writer[kind] <= job->return_seq,
                   "job %u began after a later writer that was not urgent", number);
}

static void note_order(const struct check *check, const struct check_job *job,
                       struct check_actor *actor)
{
    unsigned kind = job->facts.job_class, lane = job->facts.lane;
    uint64_t age_ns = check->now_ns - job->call_ns + check->limits.clock_ns;

    actor->begun_lane[kind][lane] = later(actor->begun_lane[kind][lane], job->call_seq);
    if (lane == LANEX_LANE_MUTATING) {
        actor->begun_writer[kind] = later(actor->begun_writer[kind], job->call_seq);
        if (age_ns < check->config.promotion_age_ms * CHECK_MS)
            actor->begun_plain_writer[kind] = later(actor->begun_plain_writer[kind], job->call_seq);
    }
    if (GATED(lane))
        actor->begun_gated[kind] = later(actor->begun_gated[kind], job->call_seq);
    if (lane == LANEX_LANE_SERIAL_STATUS || lane == LANEX_LANE_MAINTENANCE_COMMIT)
        actor->begun_status[kind] = later(actor->begun_status[kind], job->call_seq);
    if (kind == LANEX_CLASS_MAINTENANCE)
        actor->begun_maintenance = later(actor->begun_maintenance, job->call_seq);
    else if (lane != LANEX_LANE_MUTATING)
        actor->begun_interactive_ns = later(actor->begun_interactive_ns, job->call_ns);
}

/* ---- SPEC 6, 7, 9, 10: may it run at all ---- */

static void check_may_run(struct check *check, uint32_t number, const struct check_job *job,
                          bool install)
{
    CHECK_THAT(check, CHECK_NOT_ACCEPTED, job->accepted, "job %u was refused, and runs", number);
    CHECK_THAT(check, CHECK_TWICE, !job->running && !(install ? job->install_begun : job->begun),
               "job %u runs twice", number);
    CHECK_THAT(check, CHECK_RAN_AFTER, !job->completed, "job %u was answered with %d, and runs",
               number, job->status);
    CHECK_THAT(check, CHECK_RAN_AFTER, !job->removed && !job->met_pending && !job->gone,
               "job %u runs after a cancel: removed %d, pending %d, not found %d", number,
               job->removed, job->met_pending, job->gone);
    CHECK_THAT(check, CHECK_FATAL, !job->after_fatal,
               "job %u was submitted to an actor that is known to be fatal", number);
    CHECK_THAT(check, CHECK_REMOVED, !job->after_removal,
               "job %u was submitted to an actor that was removed", number);
    CHECK_THAT(check, CHECK_DRAIN, !job->must_not_run && !check->drained && !check->destroyed,
               "job %u runs after drain or destroy", number);
    CHECK_THAT(check, CHECK_STATUS,
               !install ||
                   (job->facts.install && job->ended && job->end == CHECK_END_OK && !job->deferred),
               "job %u is installed and was not built", number);
    if (!install && job->facts.deadline_ns != 0)
        CHECK_THAT(check, CHECK_DEADLINE,
                   check->now_ns <= later(job->facts.deadline_ns, job->call_ns) +
                                        check->limits.deadline_ns + check->limits.clock_ns,
                   "job %u began after its deadline", number);
}

static void check_life(struct check *check, uint32_t number, const struct check_job *job,
                       struct check_actor *actor, bool install)
{
    bool in_flight_before = job->facts.lane == LANEX_LANE_HEAVY_INIT && !install;

    CHECK_THAT(check, CHECK_CONTEXT, !actor->released && !actor->torn_down,
               "job %u runs on a context that was released", number);
    CHECK_THAT(check, CHECK_FATAL, !actor->fatal || in_flight_before,
               "job %u began after its actor had become fatal", number);
    CHECK_THAT(check, CHECK_RETIRE, !actor->retired, "job %u runs on a retired actor", number);
    if (!actor->gone)
        return;
    actor->starts_after_removal++;
    CHECK_THAT(check, CHECK_REMOVED, actor->starts_after_removal <= actor->starts_allowed,
               "job %u: the %u. start after its actor's removal, %u workers were free", number,
               actor->starts_after_removal, actor->starts_allowed);
}

static void check_context_of(struct check *check, uint32_t number, struct check_job *job,
                             uint32_t context)
{
    if (job->actor == CHECK_NO_ACTOR) {
        CHECK_THAT(check, CHECK_INCARNATION, check_actor_at(check, context)->key == job->facts.key,
                   "job %u runs on actor %u, which has another key", number, context);
        job->actor = context;
    }
    CHECK_THAT(check, CHECK_INCARNATION, job->actor == context,
               "job %u of actor %u runs on actor %u's context", number, job->actor, context);
}

/* ---- the events ---- */

static void count_in(struct check *check, const struct check_job *job, struct check_actor *actor,
                     bool install, int sign)
{
    unsigned one = (unsigned)sign; /* wraps to a subtraction */
    bool writes = install || job->facts.lane == LANEX_LANE_MUTATING;

    check->running[job->facts.job_class] += one;
    actor->running += one;
    actor->writers += writes ? one : 0;
    actor->reads += job->facts.lane == LANEX_LANE_PURE_READ ? one : 0;
    actor->serials += job->facts.lane == LANEX_LANE_SERIAL_STATUS ? one : 0;
    actor->commits += job->facts.lane == LANEX_LANE_MAINTENANCE_COMMIT ? one : 0;
    if (job->facts.lane == LANEX_LANE_HEAVY_INIT) {
        check->heavies += one;
        actor->heavies += one;
    }
    actor->counted += counts_toward_cap(check, job) ? one : 0;
}

/* Built jobs hold their permits until they are installed: how many others ran meanwhile? */
static void raise_peaks(struct check *check)
{
    for (uint32_t i = 0; i < check->open_count; i++) {
        struct check_job *job = &check->jobs[check->open[i]];
        if (job->facts.install && job->ended && !job->install_begun && !job->running &&
            job->heavy_peak < check->heavies)
            job->heavy_peak = check->heavies;
    }
}

void check_body_begin(struct check *check, uint32_t number, uint32_t context, bool install)
{
    struct check_job *job;
    struct check_actor *actor;

    check_enter(check);
    job = check_job_at(check, number);
    check_context_of(check, number, job, context);
    actor = check_actor_at(check, job->actor);
    check_may_run(check, number, job, install);
    check_life(check, number, job, actor, install);
    check_exclusion(check, number, job, actor, install || job->facts.lane == LANEX_LANE_MUTATING);
    check_caps(check, number, job, actor);
    if (!install) {
        if (job->facts.job_class == LANEX_CLASS_MAINTENANCE)
            check_maintenance(check, number, job);
        check_order(check, number, job, actor);
        note_order(check, job, actor);
    }
    *(install ? &job->install_begun : &job->begun) = true;
    job->running = true;
    job->ended = false;
    job->begin_seq = check->seq;
    job->begin_ns = check->now_ns;
    count_in(check, job, actor, install, 1);
    if (job->facts.lane == LANEX_LANE_HEAVY_INIT)
        raise_peaks(check);
    check_note_ready(check);
    check_leave(check);
}

void check_body_end(struct check *check, uint32_t number, bool install, enum check_end end)
{
    struct check_job *job;
    struct check_actor *actor;

    check_enter(check);
    job = check_job_at(check, number);
    actor = check_actor_at(check, job->actor);
    CHECK_THAT(check, CHECK_TWICE, job->running, "job %u ends and does not run", number);
    count_in(check, job, actor, install, -1);
    job->running = false;
    job->ended = true;
    job->install_ended |= install;
    job->end = end;
    job->end_ns = check->now_ns;
    job->panicked = end == CHECK_END_PANIC;
    job->heavy_peak = check->heavies;
    if (check->now_ns - job->begin_ns + check->limits.clock_ns >= LANEX_STUCK_READER_MS * CHECK_MS)
        actor->stuck = true;
    if (job->panicked && (install || job->facts.lane == LANEX_LANE_MUTATING))
        actor->fatal = true;
    check->panics += job->panicked;
    check_note_ready(check);
    check_leave(check);
}

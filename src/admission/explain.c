/*
 * What a job waits for: the same rules that decide (lane_rules.c, rounds.c), asked who stands in
 * the way.
 */
#include "admission/views.h"

#define LANE(lane) (1u << (lane))
#define ALL_LANES  ((1u << LX_LANES) - 1)
#define ALL_LISTS  ((1u << LX_LISTS) - 1)
#define READERS                                                                                    \
    (LANE(LANEX_LANE_PURE_READ) | LANE(LANEX_LANE_SERIAL_STATUS) |                                 \
     LANE(LANEX_LANE_MAINTENANCE_COMMIT))

static bool waits(const struct lx_admission *adm, const struct lx_job_entry *running)
{
    return adm->waits_for != NULL && adm->waits_for[running->cost] != NULL;
}

/*
 * The job that has been on a worker longest, of the actor (NULL: any) and of these lanes. Where the
 * end of any one of them will do, one that waits for another job itself is named only if all do:
 * else two jobs that wait for each other would be shown where a third can end.
 */
static struct lx_job_entry *longest_of(const struct lx_admission *adm,
                                       const struct lx_actor_entry *actor, unsigned lanes,
                                       unsigned classes, bool any_will_do)
{
    struct lx_job_entry *found = NULL;

    for (uint32_t place = 0; place < adm->config.pool_size; place++) {
        struct lx_job_entry *job = adm->running_jobs[place];
        if (job == NULL || (actor != NULL && job->actor != actor) ||
            ((lanes >> job->lane) & 1) == 0 || ((classes >> job->job_class) & 1) == 0)
            continue;
        if (found != NULL && any_will_do && waits(adm, job) != waits(adm, found)) {
            if (waits(adm, found))
                found = job;
        } else if (found == NULL || job->since_ns < found->since_ns) {
            found = job;
        }
    }
    return found;
}

static struct lx_job_entry *longest(const struct lx_admission *adm,
                                    const struct lx_actor_entry *actor, unsigned lanes,
                                    unsigned classes)
{
    return longest_of(adm, actor, lanes, classes, false);
}

static struct lx_job_entry *longest_of_any(const struct lx_admission *adm,
                                           const struct lx_actor_entry *actor, unsigned lanes,
                                           unsigned classes)
{
    return longest_of(adm, actor, lanes, classes, true);
}

#define ANY_CLASS 3u

static struct lx_job_entry *writer_in_flight(const struct lx_admission *adm,
                                             const struct lx_actor_entry *actor)
{
    struct lx_job_entry *writer = longest(adm, actor, LANE(LANEX_LANE_MUTATING), ANY_CLASS);

    for (uint32_t place = 0; writer == NULL && place < adm->config.pool_size; place++) {
        struct lx_job_entry *job = adm->running_jobs[place];
        if (job != NULL && job->actor == actor &&
            atomic_load_explicit(&job->state, memory_order_relaxed) == LX_JOB_INSTALLING)
            writer = job;
    }
    return writer;
}

static struct lx_wait held_by(const struct lx_admission *adm, const struct lx_actor_entry *actor,
                              enum lanex_wait_reason reason, unsigned lane)
{
    struct lx_wait wait = {.reason = reason};

    switch (reason) {
    case LANEX_WAIT_WRITER:
        wait.holder = writer_in_flight(adm, actor);
        break;
    case LANEX_WAIT_READERS:
        wait.holder = longest(adm, actor, READERS, ANY_CLASS);
        break;
    case LANEX_WAIT_LANE:
        wait.holder = longest_of_any(adm, actor, LANE(lane), ANY_CLASS);
        break;
    case LANEX_WAIT_SLOT:
        wait.holder = longest_of_any(adm, actor, ALL_LANES, ANY_CLASS);
        if (wait.holder == NULL)
            wait.holder = actor->built;
        break;
    case LANEX_WAIT_PERMIT:
        wait.holder = longest_of_any(adm, NULL, LANE(LANEX_LANE_HEAVY_INIT), ANY_CLASS);
        if (wait.holder == NULL)
            wait.holder = adm->built;
        break;
    default:
        break;
    }
    return wait;
}

/* The actor would let the job start. */
static struct lx_wait for_a_worker(const struct lx_admission *adm, unsigned job_class)
{
    struct lx_wait wait = {.reason = LANEX_WAIT_TURN};

    if (adm->idle_workers == 0) {
        wait.reason = LANEX_WAIT_WORKERS;
        wait.holder = longest_of_any(adm, NULL, ALL_LANES, ANY_CLASS);
    } else if (job_class == LANEX_CLASS_MAINTENANCE &&
               (adm->running[job_class] >= adm->config.maintenance_cap ||
                adm->idle_workers <= adm->config.interactive_reserve)) {
        wait.reason = LANEX_WAIT_CLASS;
        wait.holder = longest_of_any(adm, NULL, ALL_LANES, 1u << LANEX_CLASS_MAINTENANCE);
        if (wait.holder == NULL)
            wait.holder = longest_of_any(adm, NULL, ALL_LANES, ANY_CLASS);
    }
    return wait;
}

static struct lx_wait for_install(const struct lx_admission *adm, const struct lx_job_entry *job)
{
    struct lx_actor_entry *actor = job->actor;

    if (actor->built != job)
        return (struct lx_wait){.reason = LANEX_WAIT_INSTALL, .holder = actor->built};
    if (lx_actor_writes(actor))
        return held_by(adm, actor, LANEX_WAIT_WRITER, job->lane);
    if (actor->reads != 0 || actor->serials != 0 || actor->commits != 0)
        return held_by(adm, actor, LANEX_WAIT_READERS, job->lane);
    return for_a_worker(adm, LANEX_CLASS_INTERACTIVE);
}

/* Another job of the actor goes first. */
static struct lx_wait behind(const struct lx_admission *adm, const struct lx_job_entry *job,
                             struct lx_job_entry *first)
{
    const struct lx_actor_entry *actor = job->actor;
    struct lx_wait wait = {.reason = LANEX_WAIT_OLDER, .holder = first};

    if (first == actor->built)
        wait.reason = LANEX_WAIT_INSTALL;
    else if (job->job_class == LANEX_CLASS_MAINTENANCE &&
             first->job_class == LANEX_CLASS_INTERACTIVE)
        wait.reason = LANEX_WAIT_QUEUED_WRITER;
    else if (first->arrival < job->arrival && first->lane == job->lane)
        wait.reason = LANEX_WAIT_OLDER;
    else if (first->lane == LANEX_LANE_MUTATING && adm->config.policy == LANEX_POLICY_READS_FIRST &&
             job->job_class == LANEX_CLASS_INTERACTIVE && lx_writer_is_urgent(adm, actor))
        wait.reason = LANEX_WAIT_PROMOTED_WRITER;
    else if (first->lane == LANEX_LANE_PURE_READ && first->arrival > job->arrival)
        wait.reason = LANEX_WAIT_READS;
    return wait;
}

static struct lx_wait for_start(struct lx_admission *adm, const struct lx_job_entry *job)
{
    struct lx_actor_entry *actor = job->actor;
    struct lx_pick pick = lx_pick_job(adm, actor, job->job_class);
    enum lanex_wait_reason lane;

    if (pick.job == NULL)
        return (struct lx_wait){.reason = LANEX_WAIT_ANSWER};
    lane = lx_lane_wait(adm, actor, job->lane);
    if (pick.job != job) {
        /* A heavy_init is stepped over by younger jobs only while it lacks a permit. */
        if (lane == LANEX_WAIT_PERMIT && job->arrival < pick.job->arrival &&
            pick.job != actor->built && pick.job->lane != LANEX_LANE_HEAVY_INIT)
            return held_by(adm, actor, lane, job->lane);
        return behind(adm, job, pick.job);
    }
    if (lane != LANEX_WAIT_NONE)
        return held_by(adm, actor, lane, job->lane);
    return for_a_worker(adm, job->job_class);
}

static struct lx_wait on_worker(const struct lx_admission *adm, const struct lx_job_entry *job)
{
    const struct lx_job_entry *awaited = adm->waits_for != NULL ? adm->waits_for[job->cost] : NULL;
    struct lx_wait wait = {.reason = LANEX_WAIT_NONE};

    if (!lx_job_has_mark(job, LX_JOB_MARK_BEGUN)) {
        wait.reason = LANEX_WAIT_GATE;
    } else if (awaited != NULL) {
        unsigned state = atomic_load_explicit(&awaited->state, memory_order_relaxed);
        wait.reason = LANEX_WAIT_TICKET;
        /* One that no turn has seen yet, or that is over, is about to tell. */
        if (state != LX_JOB_NEW && state != LX_JOB_OVER)
            wait.holder = (struct lx_job_entry *)(uintptr_t)awaited;
    }
    return wait;
}

struct lx_wait lx_view_wait(struct lx_admission *adm, const struct lx_job_entry *job)
{
    switch (atomic_load_explicit(&job->state, memory_order_relaxed)) {
    case LX_JOB_ADMITTED:
    case LX_JOB_INSTALLING:
        return on_worker(adm, job);
    case LX_JOB_BUILT:
        return for_install(adm, job);
    case LX_JOB_QUEUED:
        if (lx_admission_is_queued(job) && !adm->closed)
            return for_start(adm, job);
        return (struct lx_wait){.reason = LANEX_WAIT_ANSWER};
    default:
        return (struct lx_wait){.reason = LANEX_WAIT_ANSWER};
    }
}

struct lx_job_entry *lx_view_actor_front(const struct lx_admission *adm,
                                         const struct lx_actor_entry *actor)
{
    for (unsigned job_class = 0; job_class < LX_CLASSES; job_class++) {
        struct lx_job_entry *job = lx_queue_oldest(actor, job_class, ALL_LISTS);
        if (job != NULL)
            return job;
    }
    return actor->built != NULL ? actor->built : longest(adm, actor, ALL_LANES, ANY_CLASS);
}

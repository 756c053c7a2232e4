/*
 * Jobs that wait for jobs: does a wait end by itself? SPEC 15.
 *
 * The bodies that wait without a limit for other jobs are known (waits_for). A set of them is
 * deadlocked if each waits for a job that cannot go on before one of the set has ended. The largest
 * such set is found by taking all waiting bodies and dropping those whose wait can end, until none
 * is dropped any more. What is found is certain as far as the rules of this folder go: only
 * somebody outside who cancels, removes or drops a deadline on a job could end it.
 *
 * Not seen here: waits by other means (a port, a lock of the program's), and what only time would
 * show. They stand in the census and in explain.
 */
#include "admission/admission.h"
#include "sync/assert.h"

/* With more waiting bodies than this only the new wait itself is looked at: keeps a turn short. */
#define LX_WAITS_EXAMINED 64u

#define ALL_LISTS   ((1u << LX_LISTS) - 1)
#define WRITERS     ((1u << LANEX_LANE_MUTATING) | (1u << LX_LIST_MUTATING_TIMED))
#define LATER_LANES (ALL_LISTS & ~(1u << LANEX_LANE_PURE_READ)) /* what reads may overtake */

/* By place in running_jobs: the job is taken to be unable to end. */
struct stuck {
    bool at[LANEX_POOL_MAX_MANY_CORE];
};

static enum lx_job_state state_of(const struct lx_job_entry *job)
{
    return atomic_load_explicit(&job->state, memory_order_relaxed);
}

static bool has_install(const struct lx_job_entry *job)
{
    return (job->flags & LX_JOB_FLAG_HAS_INSTALL) != 0;
}

static bool writes(const struct lx_job_entry *running)
{
    return running->lane == LANEX_LANE_MUTATING || state_of(running) == LX_JOB_INSTALLING;
}

static bool holds_gate(const struct lx_job_entry *running)
{
    return running->lane != LANEX_LANE_HEAVY_INIT || writes(running);
}

static bool takes_slot(const struct lx_admission *adm, unsigned lane)
{
    return lane != LANEX_LANE_MAINTENANCE_COMMIT ||
           (adm->config.flags & LANEX_EXECUTOR_COMMIT_COUNTS_TOWARD_CAP) != 0;
}

/* No job of `lane` of the same actor starts while this one runs, whatever the caps are. */
static bool excludes(const struct lx_job_entry *running, unsigned lane)
{
    if (writes(running))
        return true;
    switch (lane) {
    case LANEX_LANE_MUTATING:
        return holds_gate(running);
    case LANEX_LANE_SERIAL_STATUS:
    case LANEX_LANE_MAINTENANCE_COMMIT:
        return running->lane == lane;
    default:
        return false;
    }
}

/* A job older than `job`, of these lists of its class, is excluded by the running one. */
static bool older_is_excluded(const struct lx_job_entry *running, const struct lx_job_entry *job,
                              unsigned lists)
{
    for (; lists != 0; lists &= lists - 1) {
        const struct lx_job_entry *head =
            job->actor->queue->lists[job->job_class][__builtin_ctz(lists)];
        if (head != NULL && head->arrival < job->arrival && excludes(running, head->lane))
            return true;
    }
    return false;
}

/*
 * A job of the same actor goes first that the running one excludes. Of reads_first's interactive
 * lanes only writers count: what else is ahead may be passed in time.
 */
static bool stands_behind(const struct lx_admission *adm, const struct lx_job_entry *running,
                          const struct lx_job_entry *job)
{
    const struct lx_actor_entry *actor = job->actor;
    bool reads_first = adm->config.policy == LANEX_POLICY_READS_FIRST;

    if (job->job_class == LANEX_CLASS_MAINTENANCE) {
        const struct lx_job_entry *first =
            lx_queue_oldest(actor, LANEX_CLASS_INTERACTIVE, reads_first ? WRITERS : ALL_LISTS);
        if (first != NULL && first->lane == LANEX_LANE_MUTATING && excludes(running, first->lane))
            return true;
        return older_is_excluded(running, job, ALL_LISTS);
    }
    if (!reads_first)
        return older_is_excluded(running, job, ALL_LISTS);
    if (job->lane != LANEX_LANE_PURE_READ && older_is_excluded(running, job, LATER_LANES & WRITERS))
        return true;
    return excludes(running, LANEX_LANE_MUTATING) && lx_writer_keeps_others_out(adm, actor);
}

/* An install step of the actor cannot come: a stuck job is in its gate. */
static bool gate_is_stuck(const struct lx_admission *adm, const struct stuck *stuck,
                          const struct lx_actor_entry *actor)
{
    for (uint32_t place = 0; place < adm->config.pool_size; place++) {
        const struct lx_job_entry *running = adm->running_jobs[place];
        if (stuck->at[place] && running->actor == actor && holds_gate(running))
            return true;
    }
    return false;
}

/* What stuck jobs hold of what a queued job would need. */
struct held {
    uint32_t workers, permits, slots, reads;
};

static bool queued_is_stuck(const struct lx_admission *adm, const struct stuck *stuck,
                            const struct lx_job_entry *job)
{
    const struct lx_actor_entry *actor = job->actor;
    struct held held = {0};

    for (uint32_t place = 0; place < adm->config.pool_size; place++) {
        const struct lx_job_entry *running = adm->running_jobs[place];
        if (!stuck->at[place])
            continue;
        held.workers++;
        held.permits += running->lane == LANEX_LANE_HEAVY_INIT;
        if (running->actor != actor)
            continue;
        held.slots += takes_slot(adm, running->lane);
        held.reads += running->lane == LANEX_LANE_PURE_READ;
        if (excludes(running, job->lane) || (has_install(job) && holds_gate(running)) ||
            stands_behind(adm, running, job))
            return true;
    }
    return held.workers == adm->config.pool_size ||
           (job->lane == LANEX_LANE_HEAVY_INIT && held.permits == adm->config.heavy_permits) ||
           (job->lane == LANEX_LANE_PURE_READ && held.reads >= adm->config.read_cap) ||
           (takes_slot(adm, job->lane) && held.slots >= adm->config.actor_cap);
}

static bool is_stuck(const struct lx_admission *adm, const struct stuck *stuck,
                     const struct lx_job_entry *job)
{
    LX_ASSERT(job != NULL); /* stuck->at holds places alone whose job waits for one */
    switch (state_of(job)) {
    case LX_JOB_QUEUED:
        return lx_admission_is_queued(job) && queued_is_stuck(adm, stuck, job);
    case LX_JOB_BUILT:
        return gate_is_stuck(adm, stuck, job->actor);
    case LX_JOB_ADMITTED:
        return stuck->at[job->cost] || (has_install(job) && gate_is_stuck(adm, stuck, job->actor));
    case LX_JOB_INSTALLING:
        return stuck->at[job->cost];
    default:
        return false; /* it is over; perhaps somebody outside still has its answer */
    }
}

bool lx_admission_wait_begin(struct lx_admission *adm, const struct lx_job_entry *waiter,
                             const struct lx_job_entry *target, bool forever)
{
    struct stuck stuck = {{false}};
    uint32_t waiting = 0;
    bool dropped;

    LX_ASSERT(adm->running_jobs[waiter->cost] == waiter);
    for (uint32_t place = 0; place < adm->config.pool_size; place++)
        waiting += adm->waits_for[place] != NULL;
    for (uint32_t place = 0; place < adm->config.pool_size && waiting <= LX_WAITS_EXAMINED; place++)
        stuck.at[place] = adm->waits_for[place] != NULL;
    stuck.at[waiter->cost] = true;
    do {
        dropped = false;
        for (uint32_t place = 0; place < adm->config.pool_size; place++) {
            if (!stuck.at[place] ||
                is_stuck(adm, &stuck, place == waiter->cost ? target : adm->waits_for[place]))
                continue;
            stuck.at[place] = false;
            dropped = true;
        }
        if (!stuck.at[waiter->cost]) {
            if (forever)
                adm->waits_for[waiter->cost] = target;
            return true;
        }
    } while (dropped);
    return false;
}

void lx_admission_wait_end(struct lx_admission *adm, const struct lx_job_entry *waiter)
{
    adm->waits_for[waiter->cost] = NULL;
}

/*
 * Which job of an actor is next, and may its lane start: SPEC 3 and 4.
 */
#include "admission/views.h"
#include "sync/assert.h"

#define BIT(list) (1u << (list))
#define ALL_LISTS ((1u << LX_LISTS) - 1)
#define WRITERS   (BIT(LANEX_LANE_MUTATING) | BIT(LX_LIST_MUTATING_TIMED))
#define AGED_LANES                                                                                 \
    (BIT(LANEX_LANE_SERIAL_STATUS) | BIT(LANEX_LANE_HEAVY_INIT) |                                  \
     BIT(LANEX_LANE_MAINTENANCE_COMMIT))
#define NS_PER_MS UINT64_C(1000000)

/* What keeps a lane of an actor from starting now. The first that holds. */
enum obstacle {
    OBSTACLE_NONE,
    OBSTACLE_WRITER,  /* a writer is in flight */
    OBSTACLE_READERS, /* a writer must wait for the readers in flight */
    OBSTACLE_LANE,    /* the lane itself is full */
    OBSTACLE_SLOT,    /* actor_cap jobs are in flight */
    OBSTACLE_PERMIT,  /* no heavy permit is free: the only one that lies outside the actor */
};

static enum obstacle lane_obstacle(const struct lx_admission *adm,
                                   const struct lx_actor_entry *actor, unsigned lane)
{
    bool needs_slot = true;

    if (lx_actor_writes(actor))
        return OBSTACLE_WRITER;
    switch (lane) {
    case LANEX_LANE_PURE_READ:
        if (actor->reads >= adm->config.read_cap)
            return OBSTACLE_LANE;
        break;
    case LANEX_LANE_SERIAL_STATUS:
        if (actor->serials != 0)
            return OBSTACLE_LANE;
        break;
    case LANEX_LANE_MAINTENANCE_COMMIT:
        if (actor->commits != 0)
            return OBSTACLE_LANE;
        needs_slot = (adm->config.flags & LANEX_EXECUTOR_COMMIT_COUNTS_TOWARD_CAP) != 0;
        break;
    case LANEX_LANE_MUTATING:
        if (actor->reads != 0 || actor->serials != 0 || actor->commits != 0)
            return OBSTACLE_READERS;
        break;
    default:
        LX_ASSERT(lane == LANEX_LANE_HEAVY_INIT);
        break;
    }
    if (needs_slot && actor->in_flight >= adm->config.actor_cap)
        return OBSTACLE_SLOT;
    if (lane == LANEX_LANE_HEAVY_INIT && adm->free_permits == 0)
        return OBSTACLE_PERMIT;
    return OBSTACLE_NONE;
}

static struct lx_pick pick_or_wait(const struct lx_admission *adm,
                                   const struct lx_actor_entry *actor, struct lx_job_entry *job)
{
    struct lx_pick pick = {.job = job, .why = LX_PICK_BLOCKED};

    if (job == NULL)
        return pick;
    switch (lane_obstacle(adm, actor, job->lane)) {
    case OBSTACLE_NONE:
        pick.why = LX_PICK_START;
        break;
    case OBSTACLE_PERMIT:
        pick.why = LX_PICK_PERMIT;
        break;
    default:
        break;
    }
    return pick;
}

/*
 * The oldest job of the lists in `mask`; one step past a heavy_init that waits only for a permit,
 * since that is a resource of the whole executor and must not hold up this actor's other lanes.
 */
static struct lx_pick pick_oldest(const struct lx_admission *adm,
                                  const struct lx_actor_entry *actor, unsigned job_class,
                                  unsigned mask)
{
    struct lx_pick pick = pick_or_wait(adm, actor, lx_queue_oldest(actor, job_class, mask));

    if (pick.why == LX_PICK_PERMIT &&
        (adm->config.flags & LANEX_EXECUTOR_NO_PERMIT_STEP_OVER) == 0) {
        mask &= ~BIT(LANEX_LANE_HEAVY_INIT);
        struct lx_pick next = pick_or_wait(adm, actor, lx_queue_oldest(actor, job_class, mask));
        if (next.why == LX_PICK_START)
            return next;
    }
    return pick;
}

static uint64_t promotion_ns(const struct lx_admission *adm)
{
    return adm->config.promotion_age_ms * NS_PER_MS;
}

static bool is_reader(const struct lx_job_entry *job)
{
    return job->lane == LANEX_LANE_PURE_READ || job->lane == LANEX_LANE_SERIAL_STATUS ||
           job->lane == LANEX_LANE_MAINTENANCE_COMMIT;
}

/* When the newest of the actor's readers in flight was dispatched; LANEX_TIME_NEVER if there is
 * none. */
static uint64_t newest_reader_ns(const struct lx_admission *adm, const struct lx_actor_entry *actor)
{
    uint64_t newest = LANEX_TIME_NEVER;

    for (uint32_t place = 0; place < adm->config.pool_size; place++) {
        const struct lx_job_entry *job = adm->running_jobs[place];
        if (job == NULL || job->actor != actor || !is_reader(job))
            continue;
        if (newest == LANEX_TIME_NEVER || job->since_ns > newest)
            newest = job->since_ns;
    }
    return newest;
}

/*
 * Promotion is suspended while the writer waits only for readers that started before it was queued
 * and the newest of those has run for LANEX_STUCK_READER_MS: one stuck reader must not take the
 * whole actor down. Otherwise *ret_at says when time alone would suspend it (LANEX_TIME_NEVER if it
 * would not).
 */
static bool promotion_suspended(const struct lx_admission *adm, const struct lx_actor_entry *actor,
                                const struct lx_job_entry *writer, uint64_t *ret_at)
{
    uint64_t newest;

    *ret_at = LANEX_TIME_NEVER;
    if ((adm->config.flags & LANEX_EXECUTOR_NO_PROMOTION_SUSPENSION) != 0 ||
        lane_obstacle(adm, actor, LANEX_LANE_MUTATING) != OBSTACLE_READERS)
        return false;
    newest = newest_reader_ns(adm, actor);
    if (newest == LANEX_TIME_NEVER || newest > writer->since_ns)
        return false;
    *ret_at = newest + LANEX_STUCK_READER_MS * NS_PER_MS;
    return *ret_at <= adm->now_ns;
}

enum lanex_wait_reason lx_lane_wait(const struct lx_admission *adm,
                                    const struct lx_actor_entry *actor, unsigned lane)
{
    static const enum lanex_wait_reason reasons[] = {
        [OBSTACLE_NONE] = LANEX_WAIT_NONE,       [OBSTACLE_WRITER] = LANEX_WAIT_WRITER,
        [OBSTACLE_READERS] = LANEX_WAIT_READERS, [OBSTACLE_LANE] = LANEX_WAIT_LANE,
        [OBSTACLE_SLOT] = LANEX_WAIT_SLOT,       [OBSTACLE_PERMIT] = LANEX_WAIT_PERMIT,
    };

    return reasons[lane_obstacle(adm, actor, lane)];
}

bool lx_writer_is_urgent(const struct lx_admission *adm, const struct lx_actor_entry *actor)
{
    const struct lx_job_entry *plain =
        actor->queue->lists[LANEX_CLASS_INTERACTIVE][LANEX_LANE_MUTATING];

    return actor->queue->urgent_timed > 0 ||
           (plain != NULL && adm->now_ns - plain->since_ns >= promotion_ns(adm));
}

bool lx_writer_keeps_others_out(const struct lx_admission *adm, const struct lx_actor_entry *actor)
{
    const struct lx_job_entry *writer = lx_queue_oldest(actor, LANEX_CLASS_INTERACTIVE, WRITERS);
    uint64_t suspended_at;

    return writer != NULL && lx_writer_is_urgent(adm, actor) &&
           !promotion_suspended(adm, actor, writer, &suspended_at) &&
           suspended_at == LANEX_TIME_NEVER;
}

/*
 * Jobs of the other lanes that have waited for the promotion age go before reads. One that waits
 * for its own lane (a serial_status behind a running one) is not starved by reads, so it does not
 * hold them.
 */
static bool pick_aged(const struct lx_admission *adm, const struct lx_actor_entry *actor,
                      struct lx_pick *ret_pick, bool *ret_wants_permit)
{
    struct lx_job_entry *const *lists = actor->queue->lists[LANEX_CLASS_INTERACTIVE];
    unsigned mask = AGED_LANES;

    *ret_wants_permit = false;
    if ((adm->config.flags & LANEX_EXECUTOR_NO_AGED_LANES) != 0 ||
        lists[LANEX_LANE_PURE_READ] == NULL)
        return false;
    if (lists[LANEX_LANE_SERIAL_STATUS] == NULL && lists[LANEX_LANE_HEAVY_INIT] == NULL &&
        lists[LANEX_LANE_MAINTENANCE_COMMIT] == NULL)
        return false; /* what most look like */
    for (;;) {
        struct lx_job_entry *job = lx_queue_oldest(actor, LANEX_CLASS_INTERACTIVE, mask);
        if (job == NULL || adm->now_ns - job->since_ns < promotion_ns(adm))
            return false;
        enum obstacle obstacle = lane_obstacle(adm, actor, job->lane);
        if (obstacle != OBSTACLE_LANE && obstacle != OBSTACLE_PERMIT) {
            *ret_pick = pick_or_wait(adm, actor, job);
            return true;
        }
        *ret_wants_permit |= obstacle == OBSTACLE_PERMIT;
        mask &= ~BIT(job->lane);
    }
}

static struct lx_pick pick_reads_first(const struct lx_admission *adm,
                                       const struct lx_actor_entry *actor)
{
    struct lx_job_entry *const *lists = actor->queue->lists[LANEX_CLASS_INTERACTIVE];
    struct lx_pick pick;
    bool wants_permit;

    if (lx_writer_is_urgent(adm, actor)) {
        struct lx_job_entry *writer = lx_queue_oldest(actor, LANEX_CLASS_INTERACTIVE, WRITERS);
        uint64_t suspended_at;
        if (!promotion_suspended(adm, actor, writer, &suspended_at))
            return pick_or_wait(adm, actor, writer);
    }
    if (pick_aged(adm, actor, &pick, &wants_permit))
        return pick;
    if (lists[LANEX_LANE_PURE_READ] != NULL) {
        pick = pick_or_wait(adm, actor, lists[LANEX_LANE_PURE_READ]);
        if (pick.why == LX_PICK_BLOCKED && wants_permit)
            pick.why = LX_PICK_PERMIT; /* a permit alone would let the aged heavy_init start */
        return pick;
    }
    return pick_oldest(adm, actor, LANEX_CLASS_INTERACTIVE, ALL_LISTS & ~BIT(LANEX_LANE_PURE_READ));
}

/* The interactive writer that keeps the actor's maintenance from starting, or NULL. */
static struct lx_job_entry *writer_barring_maintenance(const struct lx_admission *adm,
                                                       const struct lx_actor_entry *actor)
{
    struct lx_job_entry *job;

    if (adm->config.policy == LANEX_POLICY_READS_FIRST)
        return lx_queue_oldest(actor, LANEX_CLASS_INTERACTIVE, WRITERS);
    job = lx_queue_oldest(actor, LANEX_CLASS_INTERACTIVE, ALL_LISTS);
    return job != NULL && job->lane == LANEX_LANE_MUTATING ? job : NULL;
}

struct lx_pick lx_pick_job(struct lx_admission *adm, struct lx_actor_entry *actor,
                           unsigned job_class)
{
    struct lx_pick blocked = {.job = actor->built, .why = LX_PICK_BLOCKED};

    if (actor->built != NULL) {
        /* An install step goes before everything of its actor, as a writer, in the interactive
         * round whatever its class: while it waits it keeps people's reads out. */
        if (job_class == LANEX_CLASS_INTERACTIVE && !lx_actor_writes(actor) && actor->reads == 0 &&
            actor->serials == 0 && actor->commits == 0)
            return (struct lx_pick){.job = actor->built, .why = LX_PICK_START};
        return blocked;
    }
    if (adm->closed)
        return blocked;
    if (job_class == LANEX_CLASS_MAINTENANCE) {
        blocked.job = writer_barring_maintenance(adm, actor);
        if (blocked.job != NULL)
            return blocked;
        if (adm->config.policy == LANEX_POLICY_READS_FIRST)
            return pick_oldest(adm, actor, job_class, ALL_LISTS);
    } else if (adm->config.policy == LANEX_POLICY_READS_FIRST) {
        return pick_reads_first(adm, actor);
    }
    return pick_or_wait(adm, actor, lx_queue_oldest(actor, job_class, ALL_LISTS));
}

static void earlier(uint64_t *when, uint64_t candidate, uint64_t now_ns)
{
    if (candidate > now_ns && candidate < *when)
        *when = candidate;
}

/* A timer that is early enough stays: it is moved when it fires, not at every change. */
void lx_actor_arm_at(struct lx_admission *adm, struct lx_actor_entry *actor, uint64_t when_ns)
{
    if (actor->timer.armed && actor->timer.when_ns <= when_ns)
        return;
    lx_timer_disarm(&adm->timers, &actor->timer);
    lx_timer_arm(&adm->timers, &actor->timer, LX_TIMER_ACTOR, when_ns,
                 (UINT64_C(1) << 59) + actor->slot);
}

/*
 * When the next maintenance job of the actor becomes overdue: the oldest, or the one that may step
 * over a heavy_init without a permit. LANEX_TIME_NEVER: none, or both are already.
 */
static uint64_t next_overdue_ns(const struct lx_admission *adm, const struct lx_actor_entry *actor)
{
    uint64_t when = LANEX_TIME_NEVER;
    const struct lx_job_entry *job;

    if ((adm->config.flags & LANEX_EXECUTOR_NO_MAINTENANCE_MAX_WAIT) != 0 ||
        actor->queued[LANEX_CLASS_MAINTENANCE] == 0)
        return when;
    job = lx_queue_oldest(actor, LANEX_CLASS_MAINTENANCE, ALL_LISTS);
    earlier(&when, job->since_ns + lx_max_wait_ns(adm), adm->now_ns);
    if (job->lane == LANEX_LANE_HEAVY_INIT) {
        job = lx_queue_oldest(actor, LANEX_CLASS_MAINTENANCE, ALL_LISTS & ~BIT(job->lane));
        if (job != NULL)
            earlier(&when, job->since_ns + lx_max_wait_ns(adm), adm->now_ns);
    }
    return when;
}

void lx_actor_arm_timer(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    struct lx_job_entry *const *lists = actor->queue->lists[LANEX_CLASS_INTERACTIVE];
    uint64_t when = LANEX_TIME_NEVER;

    if ((actor->flags & LX_ACTOR_DETACHED) != 0)
        return; /* its queue is on the way out: time changes nothing for it */
    if (adm->config.policy == LANEX_POLICY_READS_FIRST && actor->queued[0] > 0) {
        if (lists[LANEX_LANE_MUTATING] != NULL)
            earlier(&when, lists[LANEX_LANE_MUTATING]->since_ns + promotion_ns(adm), adm->now_ns);
        for (unsigned mask = AGED_LANES; mask != 0; mask &= mask - 1) {
            const struct lx_job_entry *head = lists[__builtin_ctz(mask)];
            if (head != NULL)
                earlier(&when, head->since_ns + promotion_ns(adm), adm->now_ns);
        }
        if (lx_writer_is_urgent(adm, actor)) {
            uint64_t suspended_at;
            promotion_suspended(adm, actor,
                                lx_queue_oldest(actor, LANEX_CLASS_INTERACTIVE, WRITERS),
                                &suspended_at);
            earlier(&when, suspended_at, adm->now_ns);
        }
    }
    earlier(&when, next_overdue_ns(adm, actor), adm->now_ns);
    if (when != LANEX_TIME_NEVER)
        lx_actor_arm_at(adm, actor, when);
}

void lx_actor_watch_overdue(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    const struct lx_job_entry *head;
    uint64_t when;

    if ((adm->config.flags & LANEX_EXECUTOR_NO_MAINTENANCE_MAX_WAIT) != 0 ||
        actor->queued[LANEX_CLASS_MAINTENANCE] == 0)
        return;
    head = lx_queue_oldest(actor, LANEX_CLASS_MAINTENANCE, ALL_LISTS);
    if (head->since_ns + lx_max_wait_ns(adm) <= adm->now_ns) {
        lx_order_set_remove(&adm->space.overdue_permit, actor->slot);
        lx_order_set_add(&adm->space.overdue, actor->slot);
    }
    when = next_overdue_ns(adm, actor);
    if (when != LANEX_TIME_NEVER)
        lx_actor_arm_at(adm, actor, when);
}

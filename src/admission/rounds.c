/*
 * Which actor is next: SPEC 5. One cursor walks the actors in registration order, shared by both
 * classes. Actors with nothing to start are not visited: the sets name those that may have
 * something, in rotation order, so that the order of what starts is the same as if every actor had
 * been looked at.
 *
 * A visit that stops for want of a worker, before it has started `weight` jobs, goes on when the
 * next worker is free: the cursor stays, and the deficit does not grow again. Workers become free
 * one at a time, so if each visit ended with the first job, actors of cheap jobs would all get the
 * same share, whatever their weights. With weight 1 there is no such visit.
 *
 * Two points differ from a walk over all actors, on purpose. A visit adds to the deficit only if a
 * job of the class could start but for its cost: an actor that is blocked does not come back with a
 * credit that it could not have used, and how often it was looked at meanwhile does not matter. And
 * the deficit's limit knows the largest cost since the actor's queue was last empty, not the
 * largest of those still queued, which would cost a heap an actor: it is a limit on how much credit
 * can pile up, and the job that it was raised for has been paid for. With cost 1 and weight 1
 * neither can be observed.
 */
#include "admission/admission.h"
#include "sync/assert.h"

static bool class_may_start(const struct lx_admission *adm, unsigned job_class)
{
    if (job_class == LANEX_CLASS_INTERACTIVE)
        return adm->idle_workers > 0;
    return adm->running[LANEX_CLASS_MAINTENANCE] < adm->config.maintenance_cap &&
           adm->idle_workers > adm->config.interactive_reserve;
}

static void take_worker(struct lx_admission *adm, struct lx_job_entry *job)
{
    LX_ASSERT(adm->idle_workers > 0);
    job->cost = adm->free_places[--adm->idle_workers];
    LX_ASSERT(adm->running_jobs[job->cost] == NULL);
    adm->running_jobs[job->cost] = job;
    lx_place_set(&adm->occupied[job->job_class], job->cost);
    if (job->lane == LANEX_LANE_HEAVY_INIT)
        lx_place_set(&adm->heavy_places, job->cost);
    adm->running[job->job_class]++;
    job->since_ns = adm->now_ns;
    lx_job_list_push(&adm->dispatched, job);
}

static void count_in_flight(struct lx_admission *adm, struct lx_actor_entry *actor, unsigned lane)
{
    switch (lane) {
    case LANEX_LANE_PURE_READ:
        actor->reads++;
        break;
    case LANEX_LANE_SERIAL_STATUS:
        actor->serials++;
        break;
    case LANEX_LANE_HEAVY_INIT:
        LX_ASSERT(adm->free_permits > 0);
        adm->free_permits--;
        actor->heavies++;
        break;
    case LANEX_LANE_MUTATING:
        lx_actor_set_writers(actor, 1);
        break;
    default:
        actor->commits++;
        if ((adm->config.flags & LANEX_EXECUTOR_COMMIT_COUNTS_TOWARD_CAP) == 0)
            return;
        break;
    }
    actor->in_flight++;
}

/* For the diagnosis of a writer that does not get its turn. */
static void count_read_past_promoted(const struct lx_admission *adm, struct lx_actor_entry *actor)
{
    uint64_t since_ns = lx_oldest_writer_ns(actor);

    if (since_ns != LANEX_TIME_NEVER &&
        adm->now_ns - since_ns >= adm->config.promotion_age_ms * UINT64_C(1000000) &&
        actor->reads_past_promoted != UINT32_MAX)
        actor->reads_past_promoted++;
}

static void start_job(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_actor_entry *actor = job->actor;

    if (job == actor->built) {
        actor->built = job->next;
        lx_built_leave(adm, job);
        lx_actor_set_writers(actor, 1);
        atomic_store_explicit(&job->state, LX_JOB_INSTALLING, memory_order_relaxed);
        lx_job_drop_mark(job, LX_JOB_MARK_BEGUN);
        if (actor->built == NULL && actor->queued[LANEX_CLASS_INTERACTIVE] == 0)
            lx_order_set_remove(&adm->space.ready[LANEX_CLASS_INTERACTIVE], actor->slot);
        take_worker(adm, job);
        return;
    }
    if (atomic_load_explicit(&job->state, memory_order_relaxed) != LX_JOB_QUEUED)
        adm->non_runnable_dispatches++;
    lx_queue_remove(adm, job);
    if (job->lane == LANEX_LANE_PURE_READ || job->lane == LANEX_LANE_SERIAL_STATUS)
        count_read_past_promoted(adm, actor);
    count_in_flight(adm, actor, job->lane);
    atomic_store_explicit(&job->state, LX_JOB_ADMITTED, memory_order_relaxed);
    take_worker(adm, job);
}

static void grow_deficit(const struct lx_admission *adm, struct lx_actor_entry *actor,
                         uint64_t visits)
{
    uint64_t cap = (uint64_t)adm->config.deficit_cap * actor->weight, deficit = actor->deficit;

    if (cap < actor->queue->largest_cost)
        cap = actor->queue->largest_cost;
    deficit += visits * adm->config.drr_quantum * actor->weight;
    actor->deficit = (uint32_t)(deficit < cap ? deficit : cap);
}

/* The actor cannot start anything of the class: it is not visited again before something happens
 * there. */
static void set_aside(struct lx_admission *adm, struct lx_actor_entry *actor, unsigned job_class,
                      enum lx_pick_why why)
{
    lx_order_set_remove(&adm->space.ready[job_class], actor->slot);
    if (why == LX_PICK_PERMIT)
        lx_order_set_add(&adm->space.permit[job_class], actor->slot);
    else
        lx_order_set_remove(&adm->space.permit[job_class], actor->slot);
    lx_actor_arm_timer(adm, actor);
}

struct visit_result {
    bool started;
    bool held; /* only the deficit held a job back */
};

/*
 * Deadlines are handled in slices before the rounds, so a queued job may still be there although
 * its deadline has passed: it is answered, never started.
 */
static bool answer_expired(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_actor_entry *actor = job->actor;

    if (job == actor->built || job->extra == NULL || job->extra->deadline_ns > adm->now_ns)
        return false;
    lx_queue_remove(adm, job);
    lx_settle(adm, job, LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
    lx_actor_wake(adm, actor); /* it may have been what held the other class up */
    return true;
}

/* What the actor could start; LX_PICK_START never with a job whose deadline has passed. */
static struct lx_pick pick_living(struct lx_admission *adm, struct lx_actor_entry *actor,
                                  unsigned job_class)
{
    struct lx_pick pick;

    do {
        pick = lx_pick_job(adm, actor, job_class);
    } while (pick.why == LX_PICK_START && answer_expired(adm, pick.job));
    return pick;
}

static bool is_open(const struct lx_admission *adm, const struct lx_actor_entry *actor,
                    unsigned job_class)
{
    return adm->open_visit.actor == actor && adm->open_visit.job_class == job_class;
}

static void visit(struct lx_admission *adm, struct lx_actor_entry *actor, unsigned job_class,
                  struct visit_result *result)
{
    struct lx_open_visit now = {.actor = actor, .job_class = job_class};

    adm->visits++;
    if (is_open(adm, actor, job_class)) {
        now = adm->open_visit;
        adm->open_visit.actor = NULL;
    }
    do {
        struct lx_pick pick = pick_living(adm, actor, job_class);
        if (pick.why != LX_PICK_START) {
            set_aside(adm, actor, job_class, pick.why);
            return;
        }
        /* An install step was paid for when its build started. */
        if (pick.job != actor->built) {
            if (!now.grown)
                grow_deficit(adm, actor, 1);
            now.grown = true;
            if (pick.job->cost > actor->deficit) {
                result->held = true;
                /* Held, not blocked: from the permit set it comes back to the ready one. */
                lx_actor_ready(adm, actor, job_class);
                return;
            }
            actor->deficit -= pick.job->cost;
        }
        start_job(adm, pick.job);
        result->started = true;
        if (actor->queued[job_class] > 0)
            lx_actor_ready(adm, actor, job_class); /* it may have come from the permit set */
        if (job_class == LANEX_CLASS_MAINTENANCE)
            lx_actor_watch_overdue(adm, actor);
        now.starts++;
    } while (now.starts < actor->weight && actor->queued[job_class] > 0 &&
             class_may_start(adm, job_class));
    if (now.starts < actor->weight && actor->queued[job_class] > 0) {
        adm->open_visit = now;
        adm->cursor = actor->slot;
    }
}

static uint32_t next_candidate(const struct lx_admission *adm, unsigned job_class, uint32_t from)
{
    uint32_t slot = lx_order_set_next(&adm->space.ready[job_class], from);

    if (adm->free_permits > 0 && !lx_order_set_empty(&adm->space.permit[job_class])) {
        uint32_t waiting = lx_order_set_next(&adm->space.permit[job_class], from);
        if (waiting < slot)
            slot = waiting;
    }
    return slot;
}

/* The slot after `slot` in the rotation; from the last actor straight to the first. */
static uint32_t cursor_after(const struct lx_admission *adm, uint32_t slot)
{
    return slot + 1 >= adm->next_slot ? 0 : slot + 1;
}

static void walk_round(struct lx_admission *adm, unsigned job_class, struct visit_result *result)
{
    uint32_t start = adm->cursor, at = start;
    bool wrapped = false;

    while (class_may_start(adm, job_class)) {
        uint32_t slot = next_candidate(adm, job_class, at);

        if (!wrapped && slot == LX_ORDER_NONE) {
            wrapped = true;
            at = 0;
            continue;
        }
        if (slot == LX_ORDER_NONE || (wrapped && slot >= start)) {
            adm->cursor = start; /* once round: every actor was passed */
            return;
        }
        adm->cursor = cursor_after(adm, slot);
        at = slot + 1;
        visit(adm, adm->space.by_slot[slot], job_class, result);
    }
}

static void run_round(struct lx_admission *adm, unsigned job_class, struct visit_result *result)
{
    const struct lx_actor_entry *open = adm->open_visit.actor;

    /* A visit is over when its actor has nothing to start, and when the cursor has left it. */
    if (open != NULL && is_open(adm, open, job_class) && class_may_start(adm, job_class) &&
        next_candidate(adm, job_class, open->slot) != open->slot)
        adm->open_visit.actor = NULL;
    walk_round(adm, job_class, result);
    open = adm->open_visit.actor;
    if (open != NULL && open->slot != lx_order_set_next(&adm->space.registered, adm->cursor))
        adm->open_visit.actor = NULL;
}

/* True if the actor's next maintenance job was overdue and has been started. */
static bool start_overdue(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    struct lx_pick pick = pick_living(adm, actor, LANEX_CLASS_MAINTENANCE);

    adm->visits++;
    lx_order_set_remove(&adm->space.overdue, actor->slot);
    lx_order_set_remove(&adm->space.overdue_permit, actor->slot);
    if (pick.why == LX_PICK_PERMIT)
        lx_order_set_add(&adm->space.overdue_permit, actor->slot);
    if (pick.why != LX_PICK_START) {
        set_aside(adm, actor, LANEX_CLASS_MAINTENANCE, pick.why);
        return false;
    }
    if (adm->now_ns - pick.job->since_ns < lx_max_wait_ns(adm)) {
        /* Perhaps a heavy_init without a permit is overdue, but not what comes after it. */
        if (pick.job != lx_queue_oldest(actor, LANEX_CLASS_MAINTENANCE, (1u << LX_LISTS) - 1))
            lx_order_set_add(&adm->space.overdue_permit, actor->slot);
        lx_actor_arm_at(adm, actor, pick.job->since_ns + lx_max_wait_ns(adm));
        return false;
    }
    pick.job->flags |= LX_JOB_FLAG_OVERDUE;
    adm->overdue_running++;
    start_job(adm, pick.job);
    lx_actor_wake(adm, actor);
    return true;
}

/*
 * A maintenance job that has waited for maintenance_max_wait may use a worker of the reserve, one
 * such job at a time. The rotation does not move for it: these jobs have one of their own, or one
 * actor's backlog would take every turn.
 */
static void run_overdue(struct lx_admission *adm, struct visit_result *result)
{
    uint32_t start = adm->overdue_cursor, at = start;
    bool wrapped = false;

    while (adm->overdue_running == 0 && adm->idle_workers > 0 &&
           !class_may_start(adm, LANEX_CLASS_MAINTENANCE)) {
        uint32_t slot = lx_order_set_next(&adm->space.overdue, at);
        uint32_t waiting = adm->free_permits > 0 ? lx_order_set_next(&adm->space.overdue_permit, at)
                                                 : LX_ORDER_NONE;

        if (waiting < slot)
            slot = waiting;
        if (!wrapped && slot == LX_ORDER_NONE) {
            wrapped = true;
            at = 0;
            continue;
        }
        if (slot == LX_ORDER_NONE || (wrapped && slot >= start))
            return;
        at = slot + 1;
        if (start_overdue(adm, adm->space.by_slot[slot])) {
            adm->overdue_cursor = slot + 1;
            result->started = true;
        }
    }
}

static uint64_t passes_until_affordable(struct lx_admission *adm, struct lx_actor_entry *actor,
                                        unsigned job_class, uint64_t growth)
{
    struct lx_pick pick = lx_pick_job(adm, actor, job_class);

    if (pick.why != LX_PICK_START || pick.job == actor->built || pick.job->cost <= actor->deficit)
        return 1;
    return (pick.job->cost - actor->deficit + growth - 1) / growth;
}

/*
 * A whole pass started nothing, and only deficits held jobs back. The passes until the first of
 * them can be paid are added up instead of walked. Everyone in the ready sets is held now, the
 * others are set aside.
 */
static void skip_fruitless_passes(struct lx_admission *adm)
{
    uint64_t passes = UINT64_MAX;

    for (int apply = 0; apply < 2; apply++) {
        for (unsigned job_class = 0; job_class < LX_CLASSES; job_class++) {
            const struct lx_order_set *ready = &adm->space.ready[job_class];
            if (!class_may_start(adm, job_class))
                continue;
            for (uint32_t slot = lx_order_set_next(ready, 0); slot != LX_ORDER_NONE;
                 slot = lx_order_set_next(ready, slot + 1)) {
                struct lx_actor_entry *actor = adm->space.by_slot[slot];
                uint64_t growth = (uint64_t)adm->config.drr_quantum * actor->weight;
                bool both = class_may_start(adm, LANEX_CLASS_MAINTENANCE) &&
                            lx_order_set_has(&adm->space.ready[!job_class], slot);
                if (apply != 0) {
                    /* Once a class, so an actor that is held in both grows twice a pass. */
                    grow_deficit(adm, actor, passes - 1);
                    continue;
                }
                uint64_t needed =
                    passes_until_affordable(adm, actor, job_class, both ? 2 * growth : growth);
                if (needed < passes)
                    passes = needed;
            }
        }
        if (passes == UINT64_MAX || passes <= 1)
            return;
    }
}

void lx_admission_schedule(struct lx_admission *adm)
{
    while (adm->idle_workers > 0) {
        struct visit_result result = {false, false};

        run_round(adm, LANEX_CLASS_INTERACTIVE, &result);
        if (adm->idle_workers > 0 && class_may_start(adm, LANEX_CLASS_MAINTENANCE))
            run_round(adm, LANEX_CLASS_MAINTENANCE, &result);
        if ((adm->config.flags & LANEX_EXECUTOR_NO_MAINTENANCE_MAX_WAIT) == 0)
            run_overdue(adm, &result);
        if (result.started)
            continue;
        if (!result.held)
            return;
        skip_fruitless_passes(adm);
    }
}

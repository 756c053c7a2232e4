/*
 * What happens to jobs from outside: submitted, ended, cancelled, expired. SPEC 6 to 9.
 */
#include "admission/admission.h"
#include "sync/assert.h"

void lx_settle(struct lx_admission *adm, struct lx_job_entry *job, enum lanex_status status)
{
    atomic_store_explicit(&job->state, LX_JOB_OVER, memory_order_relaxed);
    job->status = (uint8_t)status;
    adm->refused[job->job_class]++;
    lx_job_list_push(&adm->settled, job);
}

void lx_actor_ready(struct lx_admission *adm, struct lx_actor_entry *actor, unsigned job_class)
{
    /* Mostly it is there already. */
    if (!lx_order_set_has(&adm->space.ready[job_class], actor->slot))
        lx_order_set_add(&adm->space.ready[job_class], actor->slot);
    if (lx_order_set_has(&adm->space.permit[job_class], actor->slot))
        lx_order_set_remove(&adm->space.permit[job_class], actor->slot);
}

void lx_actor_wake(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    if ((actor->flags & LX_ACTOR_REGISTERED) == 0)
        return;
    if (actor->flags & LX_ACTOR_DETACHED) {
        if (actor->built != NULL)
            lx_actor_ready(adm, actor, LANEX_CLASS_INTERACTIVE);
        return;
    }
    if (actor->queued[LANEX_CLASS_INTERACTIVE] > 0 || actor->built != NULL)
        lx_actor_ready(adm, actor, LANEX_CLASS_INTERACTIVE);
    if (actor->queued[LANEX_CLASS_MAINTENANCE] > 0) {
        lx_actor_ready(adm, actor, LANEX_CLASS_MAINTENANCE);
        lx_actor_watch_overdue(adm, actor);
    }
}

static void refuse_full(struct lx_admission *adm, struct lx_job_entry *job, uint64_t depth,
                        uint64_t cap, enum lanex_scope scope)
{
    enum lanex_status status = job->job_class == LANEX_CLASS_MAINTENANCE
                                   ? LANEX_STATUS_MAINTENANCE_BACKPRESSURE
                                   : LANEX_STATUS_EXECUTOR_BACKPRESSURE;

    job->response[0] = depth;
    job->response[1] = cap;
    /* Once it is settled nobody asks for the key; the byte carries the scope to the completion. */
    job->coalesce_key = (uint8_t)scope;
    lx_settle(adm, job, status);
}

/* Interactive, then maintenance; 0 = no limit. */
static uint32_t actor_queue_cap(const struct lx_admission *adm, unsigned job_class)
{
    return job_class == LANEX_CLASS_MAINTENANCE ? adm->config.maintenance_queue_cap
                                                : adm->config.interactive_actor_queue_cap;
}

static uint32_t total_queue_cap(const struct lx_admission *adm, unsigned job_class)
{
    return job_class == LANEX_CLASS_MAINTENANCE ? adm->config.maintenance_total_queue_cap
                                                : adm->config.interactive_queue_cap;
}

/* SPEC 8, "order of checks at submission". LANEX_STATUS_OK: the job may be queued. */
static enum lanex_status refusal_of(const struct lx_admission *adm, const struct lx_job_entry *job)
{
    const struct lx_actor_entry *actor = job->actor;

    if (actor == NULL || (actor->flags & LX_ACTOR_REGISTERED) == 0)
        return LANEX_STATUS_ACTOR_NOT_REGISTERED;
    if ((actor->flags & LX_ACTOR_FATAL) != 0)
        return LANEX_STATUS_ACTOR_FATAL;
    if (adm->draining)
        return LANEX_STATUS_EXECUTOR_SHUTDOWN;
    if ((job->flags & LX_JOB_FLAG_CANCELLED) != 0)
        return LANEX_STATUS_REQUEST_CANCELLED;
    if (job->job_class == LANEX_CLASS_MAINTENANCE && job->coalesce_key != LANEX_COALESCE_NONE &&
        ((actor->queue->coalesced >> job->coalesce_key) & 1) != 0)
        return LANEX_STATUS_MAINTENANCE_CANCELLED;
    return LANEX_STATUS_OK;
}

/*
 * A turn takes several events before it schedules, so a queue may look full that has been given a
 * worker since: then what can start does so first, as if each event had a turn of its own. Else a
 * client that submits again upon a completion would be told "full" because of the very job it got.
 */
static void start_waiting(struct lx_admission *adm)
{
    /* With more to expire than fits a slice, a job whose deadline has passed might start. */
    if (adm->idle_workers > 0 && !lx_admission_expire(adm))
        lx_admission_schedule(adm);
}

void lx_admission_submit(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_actor_entry *actor = job->actor;
    unsigned job_class = job->job_class;
    enum lanex_status refusal = refusal_of(adm, job);
    uint32_t cap;

    if (refusal != LANEX_STATUS_OK) {
        if (refusal == LANEX_STATUS_MAINTENANCE_CANCELLED)
            job->coalesce_key = LX_CANCELLED_COALESCED;
        lx_settle(adm, job, refusal);
        return;
    }
    cap = actor_queue_cap(adm, job_class);
    if (cap != 0 && actor->queued[job_class] >= cap)
        start_waiting(adm);
    if (cap != 0 && actor->queued[job_class] >= cap) {
        if (job_class == LANEX_CLASS_MAINTENANCE)
            lx_queue_drop_duplicates(adm, actor);
        if (actor->queued[job_class] >= cap) {
            refuse_full(adm, job, actor->queued[job_class], cap, LANEX_SCOPE_ACTOR);
            return;
        }
    }
    if (job->extra != NULL && job->extra->deadline_ns <= adm->now_ns) {
        lx_settle(adm, job, LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
        return;
    }
    cap = total_queue_cap(adm, job_class);
    if (cap != 0 && adm->queued[job_class] >= cap)
        start_waiting(adm);
    if (cap != 0 && adm->queued[job_class] >= cap) {
        refuse_full(adm, job, adm->queued[job_class], cap, LANEX_SCOPE_GLOBAL);
        return;
    }
    lx_queue_append(adm, job);
    lx_actor_ready(adm, actor, job_class);
    /* Only the first of a maintenance queue can be the next to become overdue, or the first that
     * may step over a heavy_init. */
    if (job_class == LANEX_CLASS_MAINTENANCE &&
        (actor->queued[job_class] == 1 ||
         actor->queue->lists[job_class][LANEX_LANE_HEAVY_INIT] != NULL))
        lx_actor_watch_overdue(adm, actor);
}

/* The worker of a dispatched job is idle again. */
static void give_worker_back(struct lx_admission *adm, struct lx_job_entry *job)
{
    LX_ASSERT(adm->idle_workers < adm->config.pool_size);
    LX_ASSERT(adm->running_jobs[job->cost] == job);
    adm->running_jobs[job->cost] = NULL;
    if (adm->waits_for != NULL)
        adm->waits_for[job->cost] = NULL; /* a contained signal may have ended the wait */
    lx_place_clear(&adm->occupied[job->job_class], job->cost);
    if (job->lane == LANEX_LANE_HEAVY_INIT)
        lx_place_clear(&adm->heavy_places, job->cost);
    adm->free_places[adm->idle_workers++] = (uint16_t)job->cost;
    LX_ASSERT(adm->running[job->job_class] > 0);
    adm->running[job->job_class]--;
    if ((job->flags & LX_JOB_FLAG_OVERDUE) != 0) {
        job->flags &= (uint8_t)~LX_JOB_FLAG_OVERDUE;
        adm->overdue_running--;
    }
}

/* What the job's lane took of its actor and of the executor. */
static void give_lane_back(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_actor_entry *actor = job->actor;

    switch (job->lane) {
    case LANEX_LANE_PURE_READ:
        LX_ASSERT(actor->reads > 0);
        actor->reads--;
        break;
    case LANEX_LANE_SERIAL_STATUS:
        LX_ASSERT(actor->serials == 1);
        actor->serials = 0;
        break;
    case LANEX_LANE_HEAVY_INIT:
        LX_ASSERT(actor->heavies > 0 && adm->free_permits < adm->config.heavy_permits);
        actor->heavies--;
        adm->free_permits++;
        if (atomic_load_explicit(&job->state, memory_order_relaxed) == LX_JOB_INSTALLING)
            lx_actor_set_writers(actor, 0);
        break;
    case LANEX_LANE_MUTATING:
        LX_ASSERT(lx_actor_writes(actor));
        lx_actor_set_writers(actor, 0);
        break;
    default:
        LX_ASSERT(actor->commits == 1);
        actor->commits = 0;
        if ((adm->config.flags & LANEX_EXECUTOR_COMMIT_COUNTS_TOWARD_CAP) == 0)
            return;
        break;
    }
    LX_ASSERT(actor->in_flight > 0);
    actor->in_flight--;
}

void lx_built_leave(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_job_entry **link = &adm->built;

    /* At most as many as there are heavy permits. */
    while (*link != job)
        link = &(*link)->extra->next_built;
    *link = job->extra->next_built;
    adm->built_jobs--;
}

/* A job that waits for its install step will not get it: its actor is fatal or gone. */
static void drop_built(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    while (actor->built != NULL) {
        struct lx_job_entry *job = actor->built;
        actor->built = job->next;
        lx_built_leave(adm, job);
        give_lane_back(adm, job);
        lx_settle(adm, job, LANEX_STATUS_ACTOR_FATAL);
    }
}

void lx_admission_end(struct lx_admission *adm, struct lx_job_entry *job, bool panicked)
{
    struct lx_actor_entry *actor = job->actor;
    bool wrote = job->lane == LANEX_LANE_MUTATING ||
                 atomic_load_explicit(&job->state, memory_order_relaxed) == LX_JOB_INSTALLING;

    give_worker_back(adm, job);
    give_lane_back(adm, job);
    atomic_store_explicit(&job->state, LX_JOB_OVER, memory_order_relaxed);
    adm->completed[job->job_class]++;
    if (panicked) {
        adm->panicked++;
        if (wrote && (actor->flags & LX_ACTOR_FATAL) == 0) {
            actor->flags |= LX_ACTOR_FATAL;
            /* One that was removed has no queue any more, and its slot may be another's by now. */
            if ((actor->flags & LX_ACTOR_REGISTERED) != 0) {
                lx_queue_detach(adm, actor);
                drop_built(adm, actor);
            }
        }
    }
    lx_actor_wake(adm, actor);
}

bool lx_admission_built(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_actor_entry *actor = job->actor;
    struct lx_job_entry **tail = &actor->built;

    give_worker_back(adm, job);
    if ((actor->flags & LX_ACTOR_REGISTERED) == 0 || (actor->flags & LX_ACTOR_FATAL) != 0) {
        give_lane_back(adm, job);
        lx_settle(adm, job, LANEX_STATUS_ACTOR_FATAL);
        lx_actor_wake(adm, actor);
        return false;
    }
    /* As long as the executor has heavy permits: at most LANEX_POOL_MAX_MANY_CORE, and mostly one.
     */
    while (*tail != NULL)
        tail = &(*tail)->next;
    job->next = NULL;
    *tail = job;
    job->extra->next_built = adm->built;
    adm->built = job;
    adm->built_jobs++;
    atomic_store_explicit(&job->state, LX_JOB_BUILT, memory_order_relaxed);
    lx_actor_wake(adm, actor);
    return true;
}

bool lx_admission_is_queued(const struct lx_job_entry *job)
{
    return atomic_load_explicit(&job->state, memory_order_relaxed) == LX_JOB_QUEUED &&
           (job->actor->flags & LX_ACTOR_DETACHED) == 0;
}

void lx_admission_cancel(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_actor_entry *actor = job->actor;

    LX_ASSERT(lx_admission_is_queued(job));
    lx_queue_remove(adm, job);
    lx_settle(adm, job, LANEX_STATUS_REQUEST_CANCELLED);
    lx_actor_wake(adm, actor);
}

uint32_t lx_admission_cancel_maintenance(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    uint32_t count = 0;
    struct lx_job_entry *job;

    if ((actor->flags & LX_ACTOR_DETACHED) != 0)
        return 0;
    while ((job = lx_queue_oldest(actor, LANEX_CLASS_MAINTENANCE, (1u << LX_LISTS) - 1)) != NULL) {
        lx_queue_remove(adm, job);
        job->coalesce_key = LX_CANCELLED_NO_ROUTES;
        lx_settle(adm, job, LANEX_STATUS_MAINTENANCE_CANCELLED);
        count++;
    }
    return count;
}

static struct lx_job_entry *job_of_timer(struct lx_timer *timer)
{
    return ((struct lx_job_extra *)(void *)timer)->job;
}

static void fire_timer(struct lx_admission *adm, struct lx_timer *timer)
{
    struct lx_job_entry *job;

    if (timer->kind == LX_TIMER_ACTOR) {
        struct lx_actor_entry *actor = lx_actor_of_timer(timer);
        lx_actor_wake(adm, actor);
        lx_actor_arm_timer(adm, actor);
        return;
    }
    job = job_of_timer(timer);
    if (!lx_admission_is_queued(job))
        return; /* its queue is detached: it is about to be answered */
    if (timer->kind == LX_TIMER_URGENT) {
        job->actor->queue->urgent_timed++;
        lx_timer_arm(&adm->timers, timer, LX_TIMER_DEADLINE, job->extra->deadline_ns, job->arrival);
        lx_actor_wake(adm, job->actor);
        return;
    }
    struct lx_actor_entry *actor = job->actor;
    lx_queue_remove(adm, job);
    lx_settle(adm, job, LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
    lx_actor_wake(adm, actor);
}

bool lx_admission_expire(struct lx_admission *adm)
{
    for (unsigned left = LX_TIMER_SLICE; left > 0; left--) {
        struct lx_timer *timer = lx_timers_take_due(&adm->timers, adm->now_ns);
        if (timer == NULL)
            return false;
        fire_timer(adm, timer);
    }
    return lx_timers_next(&adm->timers) <= adm->now_ns;
}

void lx_admission_remove(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    LX_ASSERT((actor->flags & LX_ACTOR_REGISTERED) != 0);
    lx_queue_detach(adm, actor);
    drop_built(adm, actor);
    /* Its queue may have been detached before, by a panic or by close, and an install step may have
     * put it back into a set since; nothing may stand for its slot any more. */
    lx_actor_leave_sets(adm, actor);
    lx_timer_disarm(&adm->timers, &actor->timer);
    actor->flags &= (uint8_t)~LX_ACTOR_REGISTERED;
    if (adm->closing == actor)
        adm->closing = lx_actor_after(adm, actor);
    lx_actor_leave_rotation(adm, actor);
}

void lx_admission_drain(struct lx_admission *adm)
{
    adm->draining = true;
}

void lx_admission_close(struct lx_admission *adm)
{
    if (adm->closed)
        return;
    adm->draining = true;
    adm->closed = true;
    adm->closing = lx_actor_after(adm, NULL);
}

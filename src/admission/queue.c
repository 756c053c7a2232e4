/*
 * The queue of an actor: one list a lane and class, an arrival number a job. The oldest of several
 * lanes is the least of their heads, so no second list is needed and a cancelled job leaves no
 * trace.
 */
#include "admission/admission.h"
#include "sync/assert.h"

void lx_job_list_push(struct lx_job_list *list, struct lx_job_entry *job)
{
    job->next = NULL;
    if (list->tail != NULL)
        list->tail->next = job;
    else
        list->head = job;
    list->tail = job;
    list->count++;
}

unsigned lx_list_of(const struct lx_job_entry *job)
{
    if (job->lane == LANEX_LANE_MUTATING && job->job_class == LANEX_CLASS_INTERACTIVE &&
        job->extra != NULL && job->extra->deadline_ns != LANEX_TIME_NEVER)
        return LX_LIST_MUTATING_TIMED;
    return job->lane;
}

struct lx_job_entry *lx_queue_oldest(const struct lx_actor_entry *actor, unsigned job_class,
                                     unsigned mask)
{
    struct lx_job_entry *oldest = NULL;

    for (; mask != 0; mask &= mask - 1) {
        struct lx_job_entry *head = actor->queue->lists[job_class][__builtin_ctz(mask)];
        if (head != NULL && (oldest == NULL || head->arrival < oldest->arrival))
            oldest = head;
    }
    return oldest;
}

/* A writer is urgent once r <= max(a, P): age a, time r to the deadline d, promotion age P, queued
 * at q. */
static uint64_t urgent_at(uint64_t queued_ns, uint64_t deadline_ns, uint64_t promotion_ns)
{
    uint64_t halfway = queued_ns + (deadline_ns - queued_ns + 1) / 2;
    uint64_t close = deadline_ns > promotion_ns ? deadline_ns - promotion_ns : 0;
    return halfway < close ? halfway : close;
}

static void arm_job_timer(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_job_extra *extra = job->extra;

    if (extra == NULL || extra->deadline_ns == LANEX_TIME_NEVER)
        return;
    if (lx_list_of(job) == LX_LIST_MUTATING_TIMED) {
        uint64_t promotion_ns = adm->config.promotion_age_ms * UINT64_C(1000000);
        uint64_t when = urgent_at(job->since_ns, extra->deadline_ns, promotion_ns);
        if (when > adm->now_ns) {
            lx_timer_arm(&adm->timers, &extra->timer, LX_TIMER_URGENT, when, job->arrival);
            return;
        }
        job->actor->queue->urgent_timed++;
    }
    lx_timer_arm(&adm->timers, &extra->timer, LX_TIMER_DEADLINE, extra->deadline_ns, job->arrival);
}

static void disarm_job_timer(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_job_extra *extra = job->extra;

    if (extra == NULL || extra->deadline_ns == LANEX_TIME_NEVER)
        return;
    if (extra->timer.kind == LX_TIMER_DEADLINE && lx_list_of(job) == LX_LIST_MUTATING_TIMED)
        job->actor->queue->urgent_timed--;
    lx_timer_disarm(&adm->timers, &extra->timer);
}

/* Only the turn writes writers_queued, so that a load and a store are enough. */
static inline void count_job(const struct lx_job_entry *job, int difference)
{
    _Atomic uint32_t *count = &job->actor->writers_queued;

    if ((job->flags & LX_JOB_FLAG_CONFIGURE) != 0)
        job->actor->queue->configures += (uint32_t)difference;
    if (job->lane == LANEX_LANE_MUTATING && job->job_class == LANEX_CLASS_INTERACTIVE)
        atomic_store_explicit(
            count, atomic_load_explicit(count, memory_order_relaxed) + (uint32_t)difference,
            memory_order_relaxed);
}

/*
 * A job that lay in the inbox is as old as its submitter's clock says, within what keeps the lists
 * in order of age as well as of arrival: who reads the clock first need not be the first to push.
 */
static uint64_t queued_since(struct lx_admission *adm, const struct lx_job_entry *job)
{
    uint64_t since_ns = adm->now_ns;

    if ((job->flags & LX_JOB_FLAG_SINCE) != 0 && job->since_ns < since_ns)
        since_ns = job->since_ns;
    if (since_ns < adm->newest_since_ns)
        since_ns = adm->newest_since_ns;
    adm->newest_since_ns = since_ns;
    return since_ns;
}

void lx_queue_append(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_actor_entry *actor = job->actor;
    struct lx_job_entry **head;

    if (actor->queued[0] + actor->queued[1] == 0)
        lx_queue_lend(&adm->space.queues, actor);
    head = &actor->queue->lists[job->job_class][lx_list_of(job)];
    job->arrival = ++adm->arrivals;
    job->since_ns = queued_since(adm, job);
    if (*head == NULL) {
        job->next = job;
        job->prev = job;
        *head = job;
    } else {
        job->next = *head;
        job->prev = (*head)->prev;
        job->prev->next = job;
        (*head)->prev = job;
    }
    if (job->job_class == LANEX_CLASS_MAINTENANCE && job->coalesce_key != LANEX_COALESCE_NONE) {
        actor->queue->coalesced |= UINT64_C(1) << job->coalesce_key;
        actor->queue->coalesced_jobs++;
    }
    if (job->cost > actor->queue->largest_cost)
        actor->queue->largest_cost = job->cost;
    count_job(job, 1);
    if (adm->space.oldest_at[job->job_class][actor->slot] == 0)
        lx_oldest_join(adm, actor, job->job_class, job->since_ns);
    actor->queued[job->job_class]++;
    adm->queued[job->job_class]++;
    atomic_store_explicit(&job->state, LX_JOB_QUEUED, memory_order_relaxed);
    arm_job_timer(adm, job);
}

static void unlink_job(struct lx_job_entry **head, struct lx_job_entry *job)
{
    if (job->next == job) {
        *head = NULL;
    } else {
        job->prev->next = job->next;
        job->next->prev = job->prev;
        if (*head == job) {
            *head = job->next;
            /* In a long queue they are in no cache: the one after it comes while this one runs. */
            __builtin_prefetch(job->next->next, 1);
            __builtin_prefetch((const char *)job->next->next + sizeof *job);
        }
    }
    job->next = NULL;
}

/* Walks the actor's maintenance in arrival order: cursors start as the heads, `*at` is the next
 * one. */
struct arrival_walk {
    struct lx_job_entry *at[LX_LISTS];
};

static void walk_begin(struct arrival_walk *walk, const struct lx_actor_entry *actor)
{
    for (unsigned list = 0; list < LX_LISTS; list++)
        walk->at[list] = actor->queue->lists[LANEX_CLASS_MAINTENANCE][list];
}

static struct lx_job_entry *walk_next(struct arrival_walk *walk, const struct lx_actor_entry *actor)
{
    struct lx_job_entry *oldest = NULL;
    unsigned from = 0;

    for (unsigned list = 0; list < LX_LISTS; list++) {
        if (walk->at[list] != NULL &&
            (oldest == NULL || walk->at[list]->arrival < oldest->arrival)) {
            oldest = walk->at[list];
            from = list;
        }
    }
    if (oldest != NULL) {
        struct lx_job_entry *head = actor->queue->lists[LANEX_CLASS_MAINTENANCE][from];
        walk->at[from] = oldest->next != head ? oldest->next : NULL;
    }
    return oldest;
}

/* A keyed job has left: the key is free again, unless a duplicate of it was there. */
static void forget_key(struct lx_actor_entry *actor, const struct lx_job_entry *job)
{
    bool duplicates =
        actor->queue->coalesced_jobs > (uint32_t)__builtin_popcountll(actor->queue->coalesced);

    actor->queue->coalesced_jobs--;
    actor->queue->coalesced &= ~(UINT64_C(1) << job->coalesce_key);
    if (duplicates) {
        struct arrival_walk walk;
        struct lx_job_entry *other;

        walk_begin(&walk, actor);
        while ((other = walk_next(&walk, actor)) != NULL) {
            if (other->coalesce_key == job->coalesce_key)
                actor->queue->coalesced |= UINT64_C(1) << job->coalesce_key;
        }
    }
}

/* The part that is the same for a job that leaves alone and for a queue that leaves whole. */
static void leave_lists(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_actor_entry *actor = job->actor;

    disarm_job_timer(adm, job);
    count_job(job, -1);
    unlink_job(&actor->queue->lists[job->job_class][lx_list_of(job)], job);
    if (job->job_class == LANEX_CLASS_MAINTENANCE && job->coalesce_key != LANEX_COALESCE_NONE)
        forget_key(actor, job);
}

void lx_queue_remove(struct lx_admission *adm, struct lx_job_entry *job)
{
    struct lx_actor_entry *actor = job->actor;
    unsigned job_class = job->job_class;

    leave_lists(adm, job);
    LX_ASSERT(actor->queued[job_class] > 0 && adm->queued[job_class] > 0);
    adm->queued[job_class]--;
    actor->queued[job_class]--;
    if (adm->space.oldest_at[job_class][actor->slot] == 1 &&
        job->since_ns == adm->oldest_ns[job_class])
        adm->oldest_left[job_class] = true;
    if (actor->queued[job_class] == 0) {
        lx_order_set_remove(&adm->space.permit[job_class], actor->slot);
        if (job_class != LANEX_CLASS_INTERACTIVE || actor->built == NULL)
            lx_order_set_remove(&adm->space.ready[job_class], actor->slot);
        if (job_class == LANEX_CLASS_MAINTENANCE) {
            lx_order_set_remove(&adm->space.overdue, actor->slot);
            lx_order_set_remove(&adm->space.overdue_permit, actor->slot);
        }
        if (actor->queued[!job_class] == 0) {
            actor->deficit = 0;
            lx_queue_give_back(&adm->space.queues, actor);
        }
    }
}

void lx_queue_drop_duplicates(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    struct arrival_walk walk;
    struct lx_job_entry *job, *victims = NULL, **tail = &victims;
    uint64_t seen = 0;

    /* Coalescing at submission leaves none, so that this is one comparison. */
    if (actor->queue->coalesced_jobs == (uint32_t)__builtin_popcountll(actor->queue->coalesced))
        return;
    walk_begin(&walk, actor);
    while ((job = walk_next(&walk, actor)) != NULL) {
        uint64_t bit = UINT64_C(1) << job->coalesce_key;
        if (job->coalesce_key == LANEX_COALESCE_NONE)
            continue;
        if ((seen & bit) == 0) {
            seen |= bit;
            continue;
        }
        lx_queue_remove(adm, job);
        *tail = job;
        tail = &job->next;
    }
    while (victims != NULL) {
        job = victims;
        victims = job->next;
        job->coalesce_key = LX_CANCELLED_DUPLICATE;
        lx_settle(adm, job, LANEX_STATUS_MAINTENANCE_CANCELLED);
    }
}

void lx_queue_detach(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    if ((actor->flags & LX_ACTOR_DETACHED) != 0)
        return;
    for (unsigned job_class = 0; job_class < LX_CLASSES; job_class++)
        adm->queued[job_class] -= actor->queued[job_class];
    lx_actor_leave_sets(adm, actor);
    lx_oldest_leave(adm, actor);
    lx_timer_disarm(&adm->timers, &actor->timer);
    actor->deficit = 0;
    if (actor->queued[0] + actor->queued[1] == 0)
        return;
    actor->flags |= LX_ACTOR_DETACHED;
    actor->detached_next = NULL;
    if (adm->detached_last != NULL)
        adm->detached_last->detached_next = actor;
    else
        adm->detached = actor;
    adm->detached_last = actor;
}

static enum lanex_status detached_status(const struct lx_actor_entry *actor)
{
    if ((actor->flags & LX_ACTOR_FATAL) != 0 || (actor->flags & LX_ACTOR_REGISTERED) == 0)
        return LANEX_STATUS_ACTOR_FATAL;
    return LANEX_STATUS_EXECUTOR_SHUTDOWN;
}

bool lx_admission_answer_detached(struct lx_admission *adm)
{
    unsigned left = LX_DETACHED_SLICE;

    for (; adm->closing != NULL && left > 0; left--) {
        struct lx_actor_entry *actor = adm->closing;
        adm->closing = lx_actor_after(adm, actor);
        lx_queue_detach(adm, actor);
        if (actor->built != NULL)
            lx_actor_ready(adm, actor, LANEX_CLASS_INTERACTIVE);
    }
    while (adm->detached != NULL && left > 0) {
        struct lx_actor_entry *actor = adm->detached;
        struct lx_job_entry *a = lx_queue_oldest(actor, 0, (1u << LX_LISTS) - 1);
        struct lx_job_entry *b = lx_queue_oldest(actor, 1, (1u << LX_LISTS) - 1);
        struct lx_job_entry *job = a == NULL || (b != NULL && b->arrival < a->arrival) ? b : a;

        LX_ASSERT(job != NULL);
        leave_lists(adm, job);
        actor->queued[job->job_class]--;
        lx_settle(adm, job, detached_status(actor));
        left--;
        /* With the last job: who sees its answer finds the actor idle. */
        if (actor->queued[0] + actor->queued[1] == 0) {
            adm->detached = actor->detached_next;
            if (adm->detached == NULL)
                adm->detached_last = NULL;
            actor->flags &= (uint8_t)~LX_ACTOR_DETACHED;
            lx_queue_give_back(&adm->space.queues, actor);
            if ((actor->flags & LX_ACTOR_REGISTERED) == 0)
                adm->space.queues.users--;
        }
    }
    return adm->detached != NULL || adm->closing != NULL;
}

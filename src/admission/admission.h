/*
 * The admission state machine: SPEC's rules for which job starts when, and which is answered
 * without running. Pure: no clock (time is an argument), no thread, no system call, no allocation
 * in a turn. One caller at a time; the runtime's seat sees to that, the replay tool and the tests
 * are single threaded.
 *
 * A turn is: some of the event functions below, then lx_admission_schedule. What came of it stands
 * in two lists that the caller empties: `dispatched` (jobs to hand to workers, in order) and
 * `settled` (jobs answered without running, with their status).
 *
 *   lane_rules.c   may this lane start, and which job of an actor is next      (SPEC 3, 4)
 *   rounds.c       which actor is next                                         (SPEC 5)
 *   queue.c        the lists of an actor, coalescing, caps                     (SPEC 8)
 *   events.c       submit, end, cancel, deadlines, removal                     (SPEC 6 to 10)
 *   waits.c        jobs that wait for jobs that cannot start before them       (SPEC 15)
 *   oldest.c       how long the oldest queued job has waited                   (SPEC 11)
 *   views.h        looking inside                                              (SPEC 11, 15)
 */
#ifndef LX_ADMISSION_H
#define LX_ADMISSION_H

#include <lanex/executor.h>

#include "admission/entry.h"
#include "admission/oldest.h"
#include "admission/order_set.h"
#include "admission/queue_pool.h"

struct lx_job_list {
    struct lx_job_entry *head, *tail;
    uint32_t count;
};

/* Places of running_jobs, one bit each. */
#define LX_PLACE_WORDS (LANEX_POOL_MAX_MANY_CORE / 64)
struct lx_place_set {
    uint64_t words[LX_PLACE_WORDS];
};

/* The memory that grows with the number of actors; swapped by lx_admission_adopt_space. */
struct lx_actor_space {
    uint32_t capacity; /* slots */
    struct lx_actor_entry **by_slot;
    struct lx_order_set registered;
    struct lx_order_set ready[LX_CLASSES];  /* has queued jobs and is not known to be blocked */
    struct lx_order_set permit[LX_CLASSES]; /* blocked by nothing but the lack of a heavy permit */
    struct lx_order_set overdue;            /* its oldest maintenance has waited too long */
    struct lx_order_set overdue_permit;     /* so it has, but only a heavy permit is lacking */
    struct lx_oldest_item *oldest[LX_CLASSES]; /* heaps; see oldest.h */
    uint32_t *oldest_at[LX_CLASSES]; /* by slot: place in that heap, from 1; 0: not there */
    struct lx_queue_pool queues;
    void *memory;
};

/* A visit that stopped for want of a worker. */
struct lx_open_visit {
    struct lx_actor_entry *actor; /* NULL: there is none */
    unsigned job_class;
    uint32_t starts; /* jobs that it has started */
    bool grown;      /* it has added to the deficit */
};

/*
 * What nearly every turn writes lies together: the turn's thread fetches these cache lines from
 * whichever CPU ran the last one.
 */
struct lx_admission {
    lanex_config config; /* constant */
    /* pool_size places, NULL where free; for views and stuck readers */
    struct lx_job_entry **running_jobs;
    /* pool_size places beside running_jobs: the job that the one there waits for, NULL if none.
     * NULL as a whole where nobody asks for waits. */
    const struct lx_job_entry **waits_for;
    struct lx_actor_space space;

    /* ---- written by nearly every turn ---- */

    uint64_t now_ns; /* of this turn */
    /* What is free and what runs. */
    uint32_t idle_workers;
    uint32_t free_permits;
    uint32_t running[LX_CLASSES];
    /* Queued jobs, executor-wide. */
    uint64_t queued[LX_CLASSES];
    uint64_t arrivals;              /* arrival number of the newest job */
    uint64_t newest_since_ns;       /* its since_ns: later jobs have none that is earlier */
    uint64_t oldest_ns[LX_CLASSES]; /* what the top of space.oldest says */
    bool oldest_left[LX_CLASSES];   /* and perhaps no longer should */
    uint32_t cursor; /* slot from which the next round goes on; 0 also stands for "the first" */
    struct lx_open_visit open_visit; /* of the actor at the cursor, until another is visited */
    struct lx_job_list dispatched;
    uint64_t completed[LX_CLASSES];
    uint64_t visits; /* of actors by rounds: what a turn costs */

    /* ---- by some ---- */

    struct lx_job_list settled;
    uint32_t oldest_count[LX_CLASSES]; /* actors in space.oldest */
    uint32_t overdue_running; /* maintenance jobs that use a worker of the reserve: 0 or 1 */
    uint32_t overdue_cursor;  /* as `cursor`, for maintenance that has waited too long */
    uint32_t actors;
    uint32_t next_slot;         /* of the next actor; the last one's is just below */
    uint32_t built_jobs;        /* hold a heavy permit, and no worker while they wait to install */
    struct lx_job_entry *built; /* all of these, newest first, linked by extra->next_built */
    struct lx_timers timers;
    struct lx_actor_entry *detached,
        *detached_last;             /* actors whose queued jobs wait to be answered */
    struct lx_actor_entry *closing; /* next actor whose queue is to be detached; for close */
    bool draining;                  /* new jobs are answered `executor_shutdown` */
    bool closed;                    /* queued ones too: nothing starts any more but install steps */
    uint64_t refused[LX_CLASSES];
    uint64_t panicked;
    uint64_t non_runnable_dispatches; /* must stay 0 */

    /* Which places are taken, by class, and by jobs that hold a heavy permit: the counts above are
     * checked against these sets. */
    struct lx_place_set occupied[LX_CLASSES];
    struct lx_place_set heavy_places;
    /* Of running_jobs; idle_workers of them, a stack. */
    uint16_t free_places[LANEX_POOL_MAX_MANY_CORE];
};

/* Queued jobs that one slice of answering takes from detached actors: keeps a turn short. */
#define LX_DETACHED_SLICE 64u
/* Expired deadlines and fired timers that one turn handles. */
#define LX_TIMER_SLICE 64u

/* running_jobs: memory for config->pool_size pointers, owned by the caller, zeroed. */
void lx_admission_init(struct lx_admission *adm, const lanex_config *config,
                       struct lx_job_entry **running_jobs);

/* ---- actors ---- */

/* Allocates space for `capacity` slots. 0 or -ENOMEM. Called outside the turn. */
int lx_actor_space_create(struct lx_actor_space *space, uint32_t capacity);
void lx_actor_space_destroy(struct lx_actor_space *space);
/* True if the next registration needs lx_admission_adopt_space first; *ret_capacity: how much. */
bool lx_admission_wants_space(const struct lx_admission *adm, uint32_t *ret_capacity);
/* Moves into `space` (at least as large as the present one, which it brings more queues) and leaves
 * the old memory in it, to be destroyed. */
void lx_admission_adopt_space(struct lx_admission *adm, struct lx_actor_space *space);

void lx_actor_entry_init(struct lx_actor_entry *actor, uint32_t weight);
/* Puts the actor last in the rotation. -ENOSPC: LX_ORDER_SLOT_MAX actors, or space is wanted first.
 */
int lx_admission_register(struct lx_admission *adm, struct lx_actor_entry *actor);
/* Takes it out at once; its queued jobs are answered `actor_fatal` by lx_admission_answer_detached.
 */
void lx_admission_remove(struct lx_admission *adm, struct lx_actor_entry *actor);
/* Nothing queued and nothing in flight. */
bool lx_actor_entry_idle(const struct lx_actor_entry *actor);
/* Answers queued maintenance; returns how many. */
uint32_t lx_admission_cancel_maintenance(struct lx_admission *adm, struct lx_actor_entry *actor);

/* ---- events ---- */

/* The turn's time; called first in every turn. */
static inline void lx_admission_begin(struct lx_admission *adm, uint64_t now_ns)
{
    adm->now_ns = now_ns;
}
/* A new job: queued, or settled with its refusal. actor NULL: `actor_not_registered`. */
void lx_admission_submit(struct lx_admission *adm, struct lx_job_entry *job);
/* A dispatched job is over. */
void lx_admission_end(struct lx_admission *adm, struct lx_job_entry *job, bool panicked);
/*
 * The build of a heavy_init with an install step has returned. If the step can still come the job
 * waits for it (true); else the caller answers it with the status set in the entry (false), as it
 * then is over.
 */
bool lx_admission_built(struct lx_admission *adm, struct lx_job_entry *job);
/* A queued job is taken out and settled `request_cancelled`. Only in state LX_JOB_QUEUED. */
void lx_admission_cancel(struct lx_admission *adm, struct lx_job_entry *job);
/* True if cancel may take it: queued, and not already on its way to be answered. */
bool lx_admission_is_queued(const struct lx_job_entry *job);
/* Handles up to LX_TIMER_SLICE due timers; true if more are due. */
bool lx_admission_expire(struct lx_admission *adm);
/* New submissions are refused from now on. */
void lx_admission_drain(struct lx_admission *adm);
/* Queued jobs are answered `executor_shutdown`, in slices. */
void lx_admission_close(struct lx_admission *adm);
/* Settles up to LX_DETACHED_SLICE queued jobs of detached actors; true if there are more. */
bool lx_admission_answer_detached(struct lx_admission *adm);

/*
 * The body of `waiter` begins to wait for the end of `target`. False if that is certain not to come
 * before the body has ended: a deadlock. Else, if the wait has no limit, it is noted for those that
 * come later, until lx_admission_wait_end.
 */
bool lx_admission_wait_begin(struct lx_admission *adm, const struct lx_job_entry *waiter,
                             const struct lx_job_entry *target, bool forever);
void lx_admission_wait_end(struct lx_admission *adm, const struct lx_job_entry *waiter);

/* ---- the rest of a turn ---- */

/* Rounds until nothing more starts. */
void lx_admission_schedule(struct lx_admission *adm);
/* When time alone could start or answer something next; LANEX_TIME_NEVER if never. */
static inline uint64_t lx_admission_next_timer(const struct lx_admission *adm)
{
    return lx_timers_next(&adm->timers);
}

/* ---- between the files of this folder ---- */

enum lx_pick_why {
    LX_PICK_START,   /* the job may start */
    LX_PICK_BLOCKED, /* nothing may start until something happens at the actor */
    LX_PICK_PERMIT,  /* a heavy_init would start if a permit were free */
};
struct lx_pick {
    /* The one that may start, or the one that would be next and keeps the rest of its class from
     * starting before it; NULL: the actor has none. */
    struct lx_job_entry *job;
    enum lx_pick_why why;
};
struct lx_pick lx_pick_job(struct lx_admission *adm, struct lx_actor_entry *actor,
                           unsigned job_class);
/* A promoted writer lets no other interactive job of the actor start, and no passing of time will
 * suspend that (reads_first). */
bool lx_writer_keeps_others_out(const struct lx_admission *adm, const struct lx_actor_entry *actor);
/* Sets the actor's timer to the next moment at which time alone could change the pick. */
void lx_actor_arm_timer(struct lx_admission *adm, struct lx_actor_entry *actor);

/* Sets it no later than that. */
void lx_actor_arm_at(struct lx_admission *adm, struct lx_actor_entry *actor, uint64_t when_ns);

unsigned lx_list_of(const struct lx_job_entry *job);
void lx_queue_append(struct lx_admission *adm, struct lx_job_entry *job);
void lx_queue_remove(struct lx_admission *adm, struct lx_job_entry *job);
/* The oldest of the lists in `mask` (bit per list), or NULL. */
struct lx_job_entry *lx_queue_oldest(const struct lx_actor_entry *actor, unsigned job_class,
                                     unsigned mask);
void lx_queue_drop_duplicates(struct lx_admission *adm, struct lx_actor_entry *actor);
/* Takes the actor's whole queue out of all counts; it is answered slice by slice. */
void lx_queue_detach(struct lx_admission *adm, struct lx_actor_entry *actor);

/* The actor has something to start in that class (or its place was lost): it is looked at again. */
void lx_actor_ready(struct lx_admission *adm, struct lx_actor_entry *actor, unsigned job_class);
/* Notes that the actor's oldest maintenance job is overdue, or when it will be. */
void lx_actor_watch_overdue(struct lx_admission *adm, struct lx_actor_entry *actor);
/* The next actor in registration order, or the first for NULL; NULL at the end. */
struct lx_actor_entry *lx_actor_after(const struct lx_admission *adm,
                                      const struct lx_actor_entry *actor);
void lx_actor_leave_rotation(struct lx_admission *adm, const struct lx_actor_entry *actor);
/* Takes the actor out of every set; it may be put back. */
void lx_actor_leave_sets(struct lx_admission *adm, const struct lx_actor_entry *actor);
static inline uint64_t lx_max_wait_ns(const struct lx_admission *adm)
{
    return adm->config.maintenance_max_wait_ms * UINT64_C(1000000);
}
/* When the oldest queued mutating job of either class was queued; LANEX_TIME_NEVER: there is none.
 */
static inline uint64_t lx_oldest_writer_ns(const struct lx_actor_entry *actor)
{
    const struct lx_job_entry *const heads[] = {
        actor->queue->lists[LANEX_CLASS_INTERACTIVE][LANEX_LANE_MUTATING],
        actor->queue->lists[LANEX_CLASS_INTERACTIVE][LX_LIST_MUTATING_TIMED],
        actor->queue->lists[LANEX_CLASS_MAINTENANCE][LANEX_LANE_MUTATING],
    };
    uint64_t since_ns = LANEX_TIME_NEVER;

    for (unsigned i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (heads[i] != NULL && heads[i]->since_ns < since_ns)
            since_ns = heads[i]->since_ns;
    }
    return since_ns;
}
/* See lx_oldest_look. */
static inline bool lx_oldest_since(struct lx_admission *adm, unsigned job_class,
                                   uint64_t *ret_since_ns)
{
    *ret_since_ns = LANEX_TIME_NEVER;
    if (adm->queued[job_class] == 0)
        return true; /* whoever is in the heap is out of date, and may stay so */
    if (adm->oldest_left[job_class])
        return lx_oldest_look(adm, job_class, ret_since_ns);
    *ret_since_ns = adm->oldest_ns[job_class];
    return true;
}
static inline void lx_place_set(struct lx_place_set *set, uint32_t place)
{
    set->words[place >> 6] |= UINT64_C(1) << (place & 63);
}
static inline void lx_place_clear(struct lx_place_set *set, uint32_t place)
{
    set->words[place >> 6] &= ~(UINT64_C(1) << (place & 63));
}
/* The actor may have become startable: both classes are looked at again. */
void lx_actor_wake(struct lx_admission *adm, struct lx_actor_entry *actor);
/* The plain or the timed writers of the actor have one that has become urgent. */
bool lx_writer_is_urgent(const struct lx_admission *adm, const struct lx_actor_entry *actor);
void lx_settle(struct lx_admission *adm, struct lx_job_entry *job, enum lanex_status status);
/* The job no longer waits for its install step. */
void lx_built_leave(struct lx_admission *adm, struct lx_job_entry *job);
void lx_job_list_push(struct lx_job_list *list, struct lx_job_entry *job);

/* First member is the entry: what the timer stands in. */
static inline struct lx_actor_entry *lx_actor_of_timer(struct lx_timer *timer)
{
    return (struct lx_actor_entry *)((char *)timer - offsetof(struct lx_actor_entry, timer));
}

#endif

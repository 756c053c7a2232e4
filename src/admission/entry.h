/*
 * What the admission state machine knows of a job and of an actor.
 *
 * Both are embedded at the start of the runtime's larger structs; admission never allocates, frees
 * or looks behind them. All fields belong to whoever runs the turn, except where a comment says
 * that the runtime owns them; those lie here only because they fill a cache line that both sides
 * touch anyway.
 */
#ifndef LX_ADMISSION_ENTRY_H
#define LX_ADMISSION_ENTRY_H

#include <lanex/completion.h>
#include <lanex/job.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "admission/timer.h"

#define LX_CLASSES 2u
#define LX_LANES   5u
/*
 * Lists per class: one a lane, and one for interactive mutating jobs with a deadline. Their urgency
 * does not follow arrival order, so keeping them apart leaves the head of the plain mutating list
 * as the oldest job without a deadline: the only one whose age has to be looked at.
 */
#define LX_LISTS               (LX_LANES + 1u)
#define LX_LIST_MUTATING_TIMED LX_LANES

enum lx_job_state {
    LX_JOB_NEW = 0,    /* not seen by a turn yet */
    LX_JOB_QUEUED,     /* in a list of its actor */
    LX_JOB_ADMITTED,   /* handed to a worker; its end has not been seen yet */
    LX_JOB_BUILT,      /* heavy_init whose build has returned; waits for the write gate */
    LX_JOB_INSTALLING, /* handed to a worker a second time, for its install step */
    LX_JOB_OVER,       /* ended, or answered without running */
};

/* Bits of lx_job_entry.flags; set by the submitter before the job is pushed, constant from then on.
 */
enum {
    LX_JOB_FLAG_CONFIGURE = 1u << 0,   /* counted by the diagnosis of stuck writers */
    LX_JOB_FLAG_CANCELLED = 1u << 1,   /* its token was cancelled before it was submitted */
    LX_JOB_FLAG_HAS_INSTALL = 1u << 2, /* heavy_init with a second step */
    LX_JOB_FLAG_OVERDUE = 1u << 3,     /* set at dispatch: uses a worker of the reserve */
    LX_JOB_FLAG_SINCE = 1u << 4,       /* since_ns says when it was submitted */
};

/* Why a job was settled `maintenance_cancelled`; stands in coalesce_key then. */
enum lx_cancelled_as {
    LX_CANCELLED_COALESCED, /* behind an identical one */
    LX_CANCELLED_DUPLICATE, /* dropped to make room */
    LX_CANCELLED_NO_ROUTES, /* by lx_admission_cancel_maintenance */
};

/*
 * Bits of lx_job_entry.marks: what a job that was handed to a worker has been through. Cleared by
 * the submitter.
 *
 * BEGUN: its body runs (or has run): from here on it is running in the views. Set by the worker
 * after the gate; cleared by the turn that hands it out again, for its install step. As long as it
 * is clear nobody else writes the byte, so that the worker needs no read-modify-write.
 *
 * REPORTED: the census has named it. Set by the turn, only while BEGUN is set.
 *
 * ANSWERED: a build has returned, whose response is kept until the install step has answered. Set
 * by the worker, only while BEGUN is set; cleared by whoever takes the build's response.
 */
enum {
    LX_JOB_MARK_BEGUN = 1u << 0,
    LX_JOB_MARK_REPORTED = 1u << 1,
    LX_JOB_MARK_ANSWERED = 1u << 2,
};

/* The cold part of a job, for the few that have a deadline or an install step. */
struct lx_job_extra {
    struct lx_timer timer; /* first for urgency, then for the deadline itself */
    uint64_t deadline_ns;  /* LANEX_TIME_NEVER: none */
    lanex_job_fn install;
    struct lx_job_entry *job;        /* whose it is */
    struct lx_job_entry *next_built; /* in lx_admission.built */
};

/* 64 bytes: one cache line. */
struct lx_job_entry {
    /* In whichever single list the job stands: inbox, a list of its actor, dispatched, settled. */
    struct lx_job_entry *next;
    union {
        struct {
            struct lx_job_entry *prev; /* in a list of its actor */
            uint64_t arrival;          /* order over all lanes, classes and actors */
        };
        /* From dispatch on the turn does not need these, and the runtime keeps the response here;
         * for a backpressure answer: depth and cap. */
        uint64_t response[2];
    };
    struct lx_actor_entry *actor;
    struct lx_job_extra *extra; /* NULL for most */
    uint64_t since_ns;          /* queued: when that began; admitted: when it was dispatched */
    uint32_t cost;              /* queued: its cost; admitted: its place in running_jobs */
    uint8_t job_class;
    uint8_t lane;
    uint8_t coalesce_key; /* once settled: enum lanex_scope, or enum lx_cancelled_as */
    uint8_t flags;

    _Atomic uint32_t word; /* runtime: holds and delivery bits, see runtime/job.h */
    _Atomic uint8_t state; /* enum lx_job_state; written by the turn, read also by views */
    _Atomic uint8_t marks; /* LX_JOB_MARK_*; see there for who writes it */
    uint8_t sink_kind;     /* runtime */
    uint8_t status;        /* enum lanex_status: written at settling, else by the worker */
};
_Static_assert(sizeof(struct lx_job_entry) == 64, "a job's scheduling half is one cache line");

static inline bool lx_job_has_mark(const struct lx_job_entry *job, unsigned mark)
{
    /* relaxed, here and below: what a mark tells of is ordered by the events of the job. */
    return (atomic_load_explicit(&job->marks, memory_order_relaxed) & mark) != 0;
}

static inline void lx_job_add_mark(struct lx_job_entry *job, unsigned mark)
{
    atomic_fetch_or_explicit(&job->marks, (uint8_t)mark, memory_order_relaxed);
}

static inline void lx_job_drop_mark(struct lx_job_entry *job, unsigned mark)
{
    atomic_fetch_and_explicit(&job->marks, (uint8_t)~mark, memory_order_relaxed);
}

static inline void lx_job_begin(struct lx_job_entry *job)
{
    unsigned marks = atomic_load_explicit(&job->marks, memory_order_relaxed);

    atomic_store_explicit(&job->marks, (uint8_t)(marks | LX_JOB_MARK_BEGUN), memory_order_relaxed);
}

/* Bits of lx_actor_entry.flags. */
enum {
    LX_ACTOR_REGISTERED = 1u << 0, /* has a place in the rotation */
    LX_ACTOR_FATAL = 1u << 1,      /* a writer panicked: everything is answered `actor_fatal` */
    LX_ACTOR_DETACHED = 1u << 2,   /* its queued jobs no longer count and wait to be answered */
};

/*
 * What is known of an actor's queued jobs: only actors that have some have one, lent from a pool
 * (queue_pool.h), so that the many idle ones stay small and the few busy ones share what is in the
 * caches. All others point to lx_no_queue, which reads as an empty one.
 */
struct lx_actor_queue {
    /* Circular doubly linked lists, each head the oldest; NULL when empty. */
    union {
        struct lx_job_entry *lists[LX_CLASSES][LX_LISTS];
        struct lx_actor_queue *next_free; /* in the pool: the first head is NULL again when lent */
    };
    uint64_t coalesced; /* bit k: a maintenance job with coalesce key k is queued */
    uint32_t
        coalesced_jobs;    /* queued maintenance jobs with a key: more than bits means duplicates */
    uint32_t urgent_timed; /* queued interactive writers whose deadline has made them urgent */
    uint32_t largest_cost; /* of the jobs queued since the queue was last empty */
    uint32_t configures;   /* queued jobs with LX_JOB_FLAG_CONFIGURE, both classes */
};
_Static_assert(sizeof(struct lx_actor_queue) <= 128,
               "a lent queue is no more than two cache lines");

struct lx_actor_entry {
    struct lx_actor_queue *queue; /* never NULL */
    uint32_t queued[LX_CLASSES];
    uint32_t deficit; /* at most 4 * LANEX_POOL_MAX_MANY_CORE * LANEX_WEIGHT_MAX */
    uint32_t slot;    /* its place in the rotation: registration order */

    /* In flight, both classes together. */
    uint16_t in_flight; /* what counts toward actor_cap */
    uint16_t reads;     /* pure_read */
    uint16_t heavies;   /* heavy_init, from dispatch until build and install have returned */
    uint16_t weight;
    uint8_t serials; /* serial_status: 0 or 1 */
    uint8_t commits; /* maintenance_commit: 0 or 1 */
    /* mutating or an install step: 0 or 1. Written by the turn, read by submitters: while it is 1
     * nothing of the actor can start (runtime/seat.c). */
    _Atomic uint8_t writers;
    uint8_t flags;
    /* Queued interactive writers: for lanex_writer_waiting, which workers may ask at any time. */
    _Atomic uint32_t writers_queued;
    /* pure_read and serial_status jobs dispatched while a writer as old as the promotion age was
     * queued, over the actor's life. */
    uint32_t reads_past_promoted;
    struct lx_job_entry
        *built; /* jobs that wait for their install step, oldest first, singly linked */

    struct lx_timer timer; /* the next moment at which time alone could change what may start */
    /* In whichever single list the actor stands: of detached queues, and once that is over in one
     * of the runtime's. */
    union {
        struct lx_actor_entry *detached_next;
        uintptr_t link; /* runtime */
    };
};

static inline bool lx_actor_writes(const struct lx_actor_entry *actor)
{
    /* relaxed: for turns, which alone write it. */
    return atomic_load_explicit(&actor->writers, memory_order_relaxed) != 0;
}

static inline void lx_actor_set_writers(struct lx_actor_entry *actor, uint8_t writers)
{
    /* relaxed: ordered by the fence after the seat is left; partner in lx_seat_is_full. */
    atomic_store_explicit(&actor->writers, writers, memory_order_relaxed);
}

#endif

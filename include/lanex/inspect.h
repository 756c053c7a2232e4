/*
 * lanex/inspect.h - looking inside an executor: is it alive, what runs, what holds a job up.
 *
 * Three kinds of calls, by what they cost:
 *
 *   Published   lanex_executor_liveness, lanex_executor_counters: read what the last scheduler turn
 *               has published. No lock, no wait, nobody is made to wait; for monitoring loops.
 *   Try         lanex_*_try: look at the scheduler's own state, and never wait for it: if somebody
 *               else is in it the answer is -EBUSY, and asking again later is up to the caller. For
 *               a watchdog that must not hang with what it watches.
 *   Waiting     the same calls without _try: wait for their turn, some microseconds. Ordered after
 *               the caller's own submissions, as the try forms are.
 *
 * A try or waiting call allocates its result, which the caller frees with the matching _free; the
 * strings belong to the result, and nothing in it refers to living jobs or actors. Its work inside
 * the scheduler's state is bounded by the number of workers (and, where a request id is looked up,
 * goes over the actor's queued mutating jobs in slices); the rest is done on the calling thread.
 *
 * A job runs, in these views, once its body has begun. One that a worker has taken and that waits
 * in its actor's gate, because somebody outside the executor holds the epoch, counts as queued;
 * lanex_explain_job names it.
 *
 *     lanex_liveness live = {.size = sizeof live};
 *     lanex_executor_liveness(executor, &live);
 *     if (live.oldest_age_ms[LANEX_CLASS_INTERACTIVE] != LANEX_AGE_NONE &&
 *         live.oldest_age_ms[LANEX_CLASS_INTERACTIVE] > 5000) {
 *         lanex_running_jobs *stuck;
 *         if (lanex_executor_census_try(executor, 5000, &stuck) == 0) {
 *             ... log stuck->jobs[0 .. stuck->count) ...
 *             lanex_running_jobs_free(stuck);
 *         }
 *     }
 *
 * Errors of every try and waiting call, beside its own: -EINVAL (NULL, key or id length out of
 * range), -ENOMEM, -ESHUTDOWN (destroy has begun), -ECHILD; of the try forms also -EBUSY.
 */
#ifndef LANEX_INSPECT_H
#define LANEX_INSPECT_H

#include <lanex/base.h>
#include <lanex/executor.h>

LANEX_BEGIN_DECLS

/* No job waits in this class. */
#define LANEX_AGE_NONE UINT64_MAX

/* ---- published ---- */

typedef struct lanex_liveness {
    size_t size; /* sizeof(lanex_liveness), set by the caller */
    /* Indexed by enum lanex_class. */
    uint64_t queued[2];
    /* Since submission, of the oldest queued job; LANEX_AGE_NONE if none is. For some turns after
     * more than 64 actors' oldest jobs have left at once, this may be too high. */
    uint64_t oldest_age_ms[2];
    uint64_t running[2]; /* handed to workers and not over; jobs of removed actors too */
    uint64_t idle_workers;
    uint32_t interactive_reserve;
    uint32_t maintenance_cap;
    /* In flight minus owned: 0, or there is a bug in lanex. Recounted by every turn that leaves no
     * job on a worker, and by some others. */
    int64_t phantom_workers;
    int64_t phantom_slots[2];
    int64_t phantom_permits;
} lanex_liveness;

/*
 * The state as of the end of the last scheduler turn, ages up to now; a job that has a completion
 * no longer counts, whether a turn has seen its end or not. Takes no lock, waits for nobody and
 * makes nobody wait; the fields are each exact, not taken at one instant. Cost: about 60 ns and two
 * loads a worker, whatever the executor does. Errors: -EINVAL.
 */
LANEX_API int lanex_executor_liveness(const lanex_executor *executor, lanex_liveness *ret_liveness);

typedef struct lanex_counters {
    size_t size;           /* sizeof(lanex_counters), set by the caller */
    uint64_t completed[2]; /* jobs that ran to their end, per class */
    uint64_t refused[2];   /* jobs answered without running, per class */
    uint64_t panicked;
    uint64_t non_runnable_dispatches; /* must stay 0 */
    int64_t phantom_workers;          /* as in liveness */
    uint64_t busy_workers;            /* by the workers' own marks: awake, or with a job */
    uint64_t actors;                  /* registered */
    uint64_t turns;                   /* scheduler turns run */
    uint64_t turns_by_scheduler;      /* of these, by lanex-sched */
    uint64_t wakes;                   /* times a sleeping lanex thread was woken */
    uint64_t wakes_without_work;      /* of these, in vain */
    uint64_t ring_messages;           /* sent to lanex's and to callers' rings */
    uint64_t jobs_allocated;          /* job slots that the slab holds, used and free */
} lanex_counters;

/*
 * Exact when nothing runs; close to it otherwise. Cost: some nanoseconds a worker. Errors: -EINVAL.
 */
LANEX_API int lanex_executor_counters(const lanex_executor *executor, lanex_counters *ret_counters);

/* ---- jobs that run ---- */

typedef struct lanex_running_job {
    uint64_t job;           /* its number */
    const void *key;        /* of its actor */
    size_t key_length;      /* bytes */
    const char *request_id; /* "" if it has none */
    const char *label;
    uint32_t job_class; /* enum lanex_class */
    uint32_t lane;      /* enum lanex_lane */
    uint64_t age_ms;    /* since it was dispatched */
} lanex_running_job;

typedef struct lanex_running_jobs {
    size_t count;
    const lanex_running_job *jobs;
} lanex_running_jobs;

LANEX_API void lanex_running_jobs_free(lanex_running_jobs *jobs);

/* The running mutating jobs of registered actors, of both classes, sorted by key, bytewise. */
LANEX_API int lanex_executor_running_mutating_try(lanex_executor *executor,
                                                  lanex_running_jobs **ret_jobs);
LANEX_API int lanex_executor_running_mutating(lanex_executor *executor,
                                              lanex_running_jobs **ret_jobs);

/*
 * Interactive jobs that run for at least min_age_ms, oldest first. Each job is reported once ever:
 * by the first census that meets it, whoever asks; so let one thread ask. After -ENOMEM the jobs
 * count as reported.
 */
LANEX_API int lanex_executor_census_try(lanex_executor *executor, uint64_t min_age_ms,
                                        lanex_running_jobs **ret_jobs);
LANEX_API int lanex_executor_census(lanex_executor *executor, uint64_t min_age_ms,
                                    lanex_running_jobs **ret_jobs);

/* ---- what holds a writer up ---- */

/* The state of a request id at an actor: the first that holds. */
enum lanex_state_label {
    LANEX_STATE_ACTOR_MISSING = 1,             /* no actor has that key */
    LANEX_STATE_RUNNING = 2,                   /* a running mutating job of the actor has the id */
    LANEX_STATE_QUEUED = 3,                    /* a queued mutating job of the actor has it */
    LANEX_STATE_BLOCKED_BY_OTHER_MUTATING = 4, /* neither, but a mutating job of the actor runs */
    LANEX_STATE_NOT_FOUND = 5,
};

/* "actor_missing", "running" and so on; static storage; NULL for anything else. */
LANEX_API const char *lanex_job_state_text(int state);

/* Returns an enum lanex_state_label. request_id_length 0: strlen. */
LANEX_API int lanex_job_state_try(lanex_executor *executor, const void *key, size_t key_length,
                                  const char *request_id, size_t request_id_length);
LANEX_API int lanex_job_state(lanex_executor *executor, const void *key, size_t key_length,
                              const char *request_id, size_t request_id_length);

typedef struct lanex_reader {
    lanex_running_job job;
    bool started_before_oldest_writer; /* or when that was submitted; false without a writer */
} lanex_reader;

typedef struct lanex_blockers {
    int state; /* enum lanex_state_label of the id that was asked for */
    /* The actor's own text (lanex_executor_options.context_phase), taken after the rest; "" if
     * there is no such function, NULL if there is no such actor. */
    const char *phase;
    /* Since submission, of the actor's oldest queued mutating job of either class;
     * LANEX_AGE_NONE. */
    uint64_t oldest_queued_writer_age_ms;
    /* pure_read and serial_status jobs of the actor that were dispatched while a mutating job as
     * old as the promotion age was queued, over the actor's life. */
    uint64_t reader_admissions_while_promoted_writer_waited;
    /* Running pure_read and serial_status jobs of the actor, sorted by request id, bytewise. */
    size_t reader_count;
    const lanex_reader *readers;
    /*
     * What holds it up, as sentences, in this order:
     *   queued_behind_configure(N)       N configure jobs of the actor are running or queued, the
     *                                    one asked for included
     *   waiting_on_readers               or, once one is 60 s old, waiting_on_readers_stuck(..)
     *   queued_behind_maintenance(..)    maintenance runs somewhere in the executor
     *   idle_workers==0(..)              every worker is taken
     * All but the last only if the state is `queued`. In the lists, bytes of ids, labels and keys
     * that are no printable text stand as \xNN.
     */
    size_t sentence_count;
    const char *const *sentences;
} lanex_blockers;

LANEX_API void lanex_blockers_free(lanex_blockers *blockers);

/*
 * What holds a job up; meant for configure jobs (LANEX_JOB_CONFIGURE), answers for any request id.
 * The phase text is asked for on the calling thread, with nothing of lanex's held.
 */
LANEX_API int lanex_job_blockers_try(lanex_executor *executor, const void *key, size_t key_length,
                                     const char *request_id, size_t request_id_length,
                                     lanex_blockers **ret_blockers);
LANEX_API int lanex_job_blockers(lanex_executor *executor, const void *key, size_t key_length,
                                 const char *request_id, size_t request_id_length,
                                 lanex_blockers **ret_blockers);

/* ---- why does this wait ---- */

enum lanex_wait_reason {
    LANEX_WAIT_NONE = 0,        /* it runs: the end of the chain */
    LANEX_WAIT_TURN,            /* for nothing: it starts as soon as its actor is visited */
    LANEX_WAIT_WRITER,          /* a mutating job or an install step of the actor is in flight */
    LANEX_WAIT_READERS,         /* it writes, and readers of the actor are in flight */
    LANEX_WAIT_LANE,            /* its lane is full */
    LANEX_WAIT_SLOT,            /* actor_cap jobs of the actor are in flight */
    LANEX_WAIT_PERMIT,          /* no heavy permit is free */
    LANEX_WAIT_PROMOTED_WRITER, /* a queued mutating job of the actor is urgent and goes first */
    LANEX_WAIT_QUEUED_WRITER,   /* it is maintenance, and an interactive mutating job is queued */
    LANEX_WAIT_INSTALL,         /* an install step of the actor goes first */
    LANEX_WAIT_READS,           /* queued reads of the actor go first */
    LANEX_WAIT_OLDER,           /* an older queued job of the actor goes first */
    LANEX_WAIT_WORKERS,         /* no worker is idle */
    LANEX_WAIT_CLASS,           /* maintenance: maintenance_cap, or the reserve of workers */
    LANEX_WAIT_GATE,            /* a worker has it, and something outside the executor holds the
                                   epoch; or it is about to begin */
    LANEX_WAIT_TICKET,          /* its body waits, without a limit, for another job's ticket */
    LANEX_WAIT_ANSWER,          /* it is about to be answered without running */
};

/* "a heavy permit", and so on: what follows "waits for"; static storage. */
LANEX_API const char *lanex_wait_reason_text(int reason);

/* A job, and what it waits for. */
typedef struct lanex_wait {
    lanex_running_job job; /* age_ms: since it was submitted, or dispatched if a worker has it */
    bool on_worker;
    uint32_t reason; /* enum lanex_wait_reason */
} lanex_wait;

typedef struct lanex_explanation {
    /*
     * From the job that was asked for on: each one is what holds the one before it. The last one
     * either runs (LANEX_WAIT_NONE), or waits for something that no job of lanex holds, or closes a
     * circle.
     */
    size_t count;
    const lanex_wait *chain;
    bool circle;      /* the last one waits for one that is in the chain already: a deadlock */
    const char *text; /* the chain for a log, one line a job */
} lanex_explanation;

LANEX_API void lanex_explanation_free(lanex_explanation *explanation);

/* By the number that submit gave. -ENOENT: there is no such job, or it is over. */
LANEX_API int lanex_explain_job_try(lanex_executor *executor, uint64_t job,
                                    lanex_explanation **ret_explanation);
LANEX_API int lanex_explain_job(lanex_executor *executor, uint64_t job,
                                lanex_explanation **ret_explanation);

/*
 * For the oldest queued job of an actor, interactive first; with nothing queued, for the one that
 * has been on a worker longest. count is 0 if it has none. -ENOENT: no such actor.
 */
LANEX_API int lanex_explain_actor_try(lanex_executor *executor, const void *key, size_t key_length,
                                      lanex_explanation **ret_explanation);
LANEX_API int lanex_explain_actor(lanex_executor *executor, const void *key, size_t key_length,
                                  lanex_explanation **ret_explanation);

LANEX_END_DECLS

#endif

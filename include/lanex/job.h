/*
 * lanex/job.h - jobs: what is submitted to an actor, and what a job's body may call.
 *
 * The pattern, with a callback for the answer:
 *
 *     static void get(lanex_job *job, void *context, void *arg)
 *     {
 *         struct database *db = context;          // read gate held: no writer is inside
 *         lanex_job_respond(job, lookup(db, arg), NULL);
 *     }
 *     lanex_job_options options = {
 *         .size = sizeof options, .lane = LANEX_LANE_PURE_READ, .run = get, .arg = request,
 *         .sink = {.kind = LANEX_SINK_CALLBACK, .callback = answered, .callback_arg = request},
 *     };
 *     int rc = lanex_submit(actor, &options, NULL);
 *
 * Exactly once: if submit returns 0, the job gets exactly one completion, whatever happens: its
 * end, a panic, a fatal or removed actor, cancellation, deadline, coalescing, backpressure,
 * shutdown. If submit returns an error there is none, and nothing of the options was kept.
 *
 * The options and all that they point to (request id, label) are copied or done with when submit
 * returns; only run/install, arg, the port or ring, and the token are used later.
 *
 * Memory order: what a thread wrote before submit is seen by the body; what the body wrote is seen
 * by whoever receives the completion; what a body wrote under a gate is seen by the next body that
 * gets it.
 *
 * Cost: submit never blocks and never runs user code; about 100 ns with a free seat.
 */
#ifndef LANEX_JOB_H
#define LANEX_JOB_H

#include <lanex/actor.h>
#include <lanex/base.h>
#include <lanex/cancel.h>
#include <lanex/completion.h>

LANEX_BEGIN_DECLS

typedef struct lanex_job lanex_job;

enum lanex_class {
    LANEX_CLASS_INTERACTIVE = 0, /* somebody waits for it */
    LANEX_CLASS_MAINTENANCE = 1, /* background: never uses the last idle workers */
};

/* What a job does to its actor. */
enum lanex_lane {
    LANEX_LANE_PURE_READ = 0,     /* reads; up to read_cap at once */
    LANEX_LANE_SERIAL_STATUS = 1, /* reads, one at a time */
    LANEX_LANE_HEAVY_INIT = 2,    /* builds beside readers and a writer; takes a heavy permit */
    LANEX_LANE_MUTATING = 3,      /* changes: alone with the actor */
    LANEX_LANE_MAINTENANCE_COMMIT = 4, /* background work under the read gate, one at a time */
};

/*
 * The body of a job: runs once, on a worker, with the lane's gate held. `context` is the actor's.
 * It answers with lanex_job_respond*; a body that returns without answering answers ok with no
 * data.
 */
typedef void (*lanex_job_fn)(lanex_job *job, void *context, void *arg);

#define LANEX_COST_MAX         1000000u /* of a job */
#define LANEX_COALESCE_KEY_MAX 63u      /* coalesce keys are small integers */
#define LANEX_REQUEST_ID_MAX   4096u    /* bytes */
#define LANEX_LABEL_MAX        4096u    /* bytes */
#define LANEX_BATCH_MAX        65536u   /* jobs of one lanex_submit_batch */

/* Coalesce keys that every embedding program shares; 0 = none, 4 to 63 are its own. */
enum {
    LANEX_COALESCE_NONE = 0,
    LANEX_COALESCE_WATCHER_DRAIN = 1,
    LANEX_COALESCE_LSP_DRAIN = 2,
    LANEX_COALESCE_STANDING_PASS = 3,
};

enum {
    /* The job has a cancellation token of its own (no allocation): lanex_cancel reaches it also
       while it runs. */
    LANEX_JOB_CANCELLABLE = 1u << 0,
    /* Configuration of the actor: counted and named by the diagnosis of stuck writers. */
    LANEX_JOB_CONFIGURE = 1u << 1,
};

typedef struct lanex_job_options {
    size_t size;        /* sizeof(lanex_job_options) */
    uint32_t job_class; /* enum lanex_class */
    uint32_t lane;      /* enum lanex_lane */
    lanex_job_fn run;
    /*
     * heavy_init only, may be NULL: the second step of the job. Runs after run() returned, under
     * the write gate, admitted like a mutating job; the heavy permit is held until it has returned.
     * Skipped if run() panicked, answered an error, or was cancelled.
     */
    lanex_job_fn install;
    void *arg; /* given to run and install */

    /* What people see in logs; copied. NULL: "". Length 0: strlen. Two jobs may have the same one.
     */
    const char *request_id;
    size_t request_id_length;
    /* Command label; copied. NULL: "executor::<Class>::<Lane>". Length 0: strlen. */
    const char *label;
    size_t label_length;

    uint64_t deadline_ns;  /* CLOCK_MONOTONIC; 0 = none. Not started by then:
                              `request_deadline_exceeded` */
    uint32_t cost;         /* 1 to LANEX_COST_MAX; 0 = 1 */
    uint32_t coalesce_key; /* maintenance only (ignored on interactive); 0 = none */
    uint32_t flags;        /* LANEX_JOB_* */
    uint32_t reserved;
    /* A token of the caller's (lanex keeps a reference until the completion), or NULL. One job per
     * token. */
    lanex_cancellation *cancellation;
    lanex_sink sink; /* where the completion goes; zero = none */
} lanex_job_options;

/*
 * Submits one job. ret_job (may be NULL) receives its number: 64 bits, never used again by this
 * executor, never 0. The number is set before the job can run.
 * Errors: -EINVAL (NULL, unknown size, class, lane, flag; cost, key or lengths out of range;
 * install on another lane; a sink without its target; LANEX_SINK_TICKET, which is
 * lanex_submit_ticket's), -EBUSY (the token belongs to a job already), -ENOMEM, -ESHUTDOWN (destroy
 * has begun), -ECHILD.
 */
LANEX_API int lanex_submit(lanex_actor *actor, const lanex_job_options *options, uint64_t *ret_job);

/*
 * Submits one job whose response the caller takes from a ticket. The sink is LANEX_SINK_TICKET (or
 * zero), or LANEX_SINK_RING: then one CQE tells that the ticket is done. Errors: as lanex_submit.
 */
LANEX_API int lanex_submit_ticket(lanex_actor *actor, const lanex_job_options *options,
                                  lanex_ticket **ret_ticket);

/* Submits by key: a lookup more. An unregistered key completes `actor_not_registered`. */
LANEX_API int lanex_submit_by_key(lanex_executor *executor, const void *key, size_t key_length,
                                  const lanex_job_options *options, uint64_t *ret_job);

/* One entry of a batch. */
typedef struct lanex_submission {
    lanex_actor *actor;
    const lanex_job_options *options;
} lanex_submission;

/*
 * Submits up to LANEX_BATCH_MAX jobs, in order, all or none: after an error no job of it exists.
 * All actors must belong to one executor. One push and one turn for all. ret_jobs may be NULL.
 * Errors: as lanex_submit, -E2BIG.
 */
LANEX_API int lanex_submit_batch(const lanex_submission *submissions, size_t count,
                                 uint64_t *ret_jobs);

/* What lanex_cancel met. */
enum lanex_cancel_outcome {
    LANEX_CANCEL_QUEUED_REMOVED = 1, /* was queued: removed, completes `request_cancelled` */
    LANEX_CANCEL_RUNNING_SIGNALLED =
        2, /* runs: ends at its next checkpoint; or admitted: never runs */
    LANEX_CANCEL_RUNNING_COMMITTED = 3, /* its seal won: it runs to its end */
    LANEX_CANCEL_NOT_FOUND = 4,         /* no such job, it is over, or it runs without a token */
};

/*
 * Cancels a job by number. Returns an enum lanex_cancel_outcome. Ordered after the caller's own
 * submissions. Errors: -ESHUTDOWN, -ECHILD.
 */
LANEX_API int lanex_cancel(lanex_executor *executor, uint64_t job);

/* ---- inside a body: the functions below take the `job` that the body was given ---- */

LANEX_API uint64_t lanex_job_number(const lanex_job *job);
LANEX_API const char *lanex_job_request_id(const lanex_job *job); /* "" if none; NUL-terminated */
LANEX_API const char *lanex_job_label(const lanex_job *job);
LANEX_API lanex_actor *lanex_job_actor(const lanex_job *job); /* borrowed */

/*
 * The job that runs on the calling thread, or NULL.
 */
LANEX_API lanex_job *lanex_current_job(void);

/*
 * Answers ok with user data. `destroy` (may be NULL) is called on data that nobody took. The last
 * answer before the body returns counts; an earlier one's data is destroyed.
 */
LANEX_API void lanex_job_respond(lanex_job *job, void *data, void (*destroy)(void *data));

/*
 * Answers with an error. code and message are copied. Errors: -ENOMEM (the answer then is the error
 * `job_failed` without a message), -EINVAL (NULL code).
 */
LANEX_API int lanex_job_respond_error(lanex_job *job, const char *code, const char *message,
                                      bool retryable);

/*
 * True when an interactive writer of this job's actor is queued: long maintenance can end early and
 * submit its rest again.
 */
LANEX_API bool lanex_writer_waiting(const lanex_job *job);

/*
 * Ends the running job at once with an error; does not return. Clean-up functions run first, last
 * registered first; the gate is released. The response is `job_panicked`, or in the mutating lane
 * and in an install step `actor_fatal`: all queued jobs of the actor are then answered
 * `actor_fatal`, and so is every later one until the actor is removed and registered anew. C frames
 * between here and the body are left without returning: what they hold must be registered as a
 * clean-up. Outside a job it aborts the process.
 */
LANEX_API void lanex_panic(const char *format, ...) LANEX_PRINTF(1, 2) LANEX_NORETURN;

/* A clean-up of the running job, in memory of the body's (its stack will do). Private members. */
typedef struct lanex_cleanup {
    struct lanex_cleanup *lanex_next;
    void (*lanex_fn)(void *arg);
    void *lanex_arg;
} lanex_cleanup;

/* Registers fn(arg) to run if the job panics before the matching pop. Only inside a job body. */
LANEX_API void lanex_cleanup_push(lanex_cleanup *cleanup, void (*fn)(void *arg), void *arg);

/* Takes back the last push; runs it first if `execute`. */
LANEX_API void lanex_cleanup_pop(bool execute);

/*
 * Deferred answer: the body keeps its completion as a handle and returns; lane, gate, worker and
 * heavy permit are free at once. Whoever holds the handle answers later, from any thread, exactly
 * once; the handle is gone after the call. Dropping it answers `job_abandoned`. An answer
 * that comes while the body still runs is delivered when it has returned. After shutdown answered
 * it, or after the body panicked, the handle is inert: answering it destroys the data and returns
 * -EALREADY. A handle may outlive the executor. An install step defers only from install(),
 * not from run(): -EINVAL there. Errors of lanex_job_defer: -ENOMEM, -EINVAL (not the running job
 * of this thread), -EALREADY.
 */
typedef struct lanex_deferred lanex_deferred;
LANEX_API int lanex_job_defer(lanex_job *job, lanex_deferred **ret_deferred);
LANEX_API int lanex_deferred_respond(lanex_deferred *deferred, void *data,
                                     void (*destroy)(void *data));
LANEX_API int lanex_deferred_respond_error(lanex_deferred *deferred, const char *code,
                                           const char *message, bool retryable);
LANEX_API void lanex_deferred_drop(lanex_deferred *deferred);

LANEX_END_DECLS

#endif

/*
 * lanex/completion.h - completions, and the sinks that they are delivered to.
 *
 * A completion is the delivery of one response to one job's sink. Five sinks:
 *
 *   none      nobody is told; the response is destroyed.
 *   ticket    the submitter waits, waits with a timeout, or polls. For request/response code.
 *   callback  a function on the worker that ran the job; for jobs that never ran, on lanex-reap;
 *             for deferred answers, on the thread that answers. The cheapest. It may submit, cancel
 *             and drop references; it must not wait.
 *   port      a list of finished jobs that an event loop drains, with one doorbell: an eventfd
 *             (epoll, libuv, GLib, sd-event), or a ring message into an io_uring of the caller's.
 *             The doorbell rings once per "not yet told", not once per job.
 *   ring      one CQE per job in the caller's io_uring, with user_data chosen per job; the response
 *             is taken from the job's ticket (lanex_submit_ticket).
 *
 * What the kernel said to the sender is no receipt: a completion counts as delivered when the
 * consumer took it. The owner of an IORING_SETUP_DEFER_TASKRUN ring sees messages only when it
 * enters the kernel to get events (io_uring_enter with IORING_ENTER_GETEVENTS): a loop that only
 * peeks at the CQ sees nothing.
 */
#ifndef LANEX_COMPLETION_H
#define LANEX_COMPLETION_H

#include <lanex/base.h>
#include <lanex/executor.h>

LANEX_BEGIN_DECLS

/* Why a job ended as it did. */
enum lanex_status {
    LANEX_STATUS_OK = 0,
    LANEX_STATUS_JOB_FAILED,                /* the body answered an error; see its code */
    LANEX_STATUS_JOB_PANICKED,              /* code "job_panicked" */
    LANEX_STATUS_JOB_ABANDONED,             /* "job_abandoned": a deferred answer was dropped */
    LANEX_STATUS_ACTOR_FATAL,               /* "actor_fatal" */
    LANEX_STATUS_ACTOR_NOT_REGISTERED,      /* "actor_not_registered" */
    LANEX_STATUS_REQUEST_CANCELLED,         /* "request_cancelled" */
    LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED, /* "request_deadline_exceeded" */
    LANEX_STATUS_MAINTENANCE_CANCELLED,     /* "maintenance_cancelled" */
    LANEX_STATUS_MAINTENANCE_BACKPRESSURE,  /* "maintenance_backpressure"; retryable */
    LANEX_STATUS_EXECUTOR_BACKPRESSURE,     /* "executor_backpressure"; retryable */
    LANEX_STATUS_EXECUTOR_SHUTDOWN,         /* "executor_shutdown" */
};

typedef struct lanex_completion lanex_completion;

LANEX_API uint64_t lanex_completion_job(const lanex_completion *completion);
/* enum lanex_status */
LANEX_API int lanex_completion_status(const lanex_completion *completion);
/* "ok", the name of the status, or the code that the body gave. Lives as long as the completion. */
LANEX_API const char *lanex_completion_code(const lanex_completion *completion);
/* "" if there is none. */
LANEX_API const char *lanex_completion_message(const lanex_completion *completion);
/* Whether doing the same again later can help; false for ok. */
LANEX_API bool lanex_completion_retryable(const lanex_completion *completion);
/* Of `request_deadline_exceeded`: where the job was when its deadline passed, which is "queue", as
 * a job that has begun is never cut off. "" for all other completions. */
LANEX_API const char *lanex_completion_phase(const lanex_completion *completion);
LANEX_API const char *lanex_completion_request_id(const lanex_completion *completion);
LANEX_API const char *lanex_completion_label(const lanex_completion *completion);
/* The job's arg. */
LANEX_API void *lanex_completion_arg(const lanex_completion *completion);
/* The response's user data, borrowed. */
LANEX_API void *lanex_completion_data(const lanex_completion *completion);
/* The response's user data, taken over: the caller owns it and its destructor is not called. */
LANEX_API void *lanex_completion_take_data(lanex_completion *completion);

/* Details of a backpressure answer. */
enum lanex_scope {
    LANEX_SCOPE_ACTOR = 0,
    LANEX_SCOPE_GLOBAL = 1,
};
typedef struct lanex_refusal {
    uint32_t queue_class; /* enum lanex_class */
    uint32_t scope;       /* enum lanex_scope */
    uint64_t depth;       /* waiting jobs that were counted */
    uint64_t cap;
} lanex_refusal;
/* Errors: -ENODATA when the completion is no backpressure answer. */
LANEX_API int lanex_completion_refusal(const lanex_completion *completion,
                                       lanex_refusal *ret_refusal);

/*
 * Gives back a completion that was drained from a port; data that was not taken is destroyed.
 */
LANEX_API void lanex_completion_release(lanex_completion *completion);

/* ---- sinks ---- */

typedef struct lanex_ticket lanex_ticket;
typedef struct lanex_port lanex_port;
typedef struct lanex_ring lanex_ring;

/* Called exactly once. The completion is valid during the call; take the data to keep it. */
typedef void (*lanex_completion_fn)(lanex_completion *completion, void *arg);

enum lanex_sink_kind {
    LANEX_SINK_NONE = 0,
    LANEX_SINK_TICKET = 1,
    LANEX_SINK_PORT = 2,
    LANEX_SINK_RING = 3,
    LANEX_SINK_CALLBACK = 4,
};

typedef struct lanex_sink {
    uint32_t kind; /* enum lanex_sink_kind */
    uint32_t reserved;
    lanex_port *port;             /* PORT; kept by a reference until the completion is in it */
    lanex_ring *ring;             /* RING; likewise */
    uint64_t user_data;           /* RING: of the CQE */
    lanex_completion_fn callback; /* CALLBACK */
    void *callback_arg;
} lanex_sink;

/* ---- ticket: one job's receipt, used by one thread at a time ---- */

/*
 * Waits until the job is over or for timeout_ns (LANEX_TIME_NEVER: no limit; 0: look).
 * Returns 0 when it is over. Errors: -ETIMEDOUT, -EINVAL, -ECHILD.
 * -EDEADLK, at once, where the wait could not end (but for a timeout of 0, which never waits): in a
 * completion's callback; and inside a job, for itself, or for a job that cannot start, or get to
 * its install step, before the waiting one has ended: of the same actor, or because all jobs that
 * hold what it needs (workers, a permit, a slot) wait like that for each other.
 */
LANEX_API int lanex_ticket_wait(lanex_ticket *ticket, uint64_t timeout_ns);
/* 1 if the job is over, 0 if not. Errors: -EINVAL, -ECHILD. */
LANEX_API int lanex_ticket_poll(const lanex_ticket *ticket);
LANEX_API uint64_t lanex_ticket_job(const lanex_ticket *ticket);
/* The completion, valid until the ticket is dropped; NULL while the job is not over. */
LANEX_API lanex_completion *lanex_ticket_completion(lanex_ticket *ticket);
/* Gives the ticket back, also before the end: the response is then destroyed. NULL is fine. */
LANEX_API void lanex_ticket_drop(lanex_ticket *ticket);

/* ---- ring: a caller's io_uring as a target ---- */

/*
 * Takes a duplicate of the descriptor of an io_uring of the caller's, made with any of plain,
 * SINGLE_ISSUER, COOP_TASKRUN and DEFER_TASKRUN set-up. The caller goes on owning and reaping it.
 * Errors: -EOPNOTSUPP (this executor runs without rings), -EBADF, -EINVAL (not an io_uring),
 * -EMFILE, -ENOMEM, -ESHUTDOWN, -ECHILD.
 */
LANEX_API int lanex_ring_attach(lanex_executor *executor, int ring_fd, lanex_ring **ret_ring);
LANEX_API lanex_ring *lanex_ring_ref(lanex_ring *ring);
/* No message is sent after the last reference and the last job that has it as its sink are gone. */
LANEX_API void lanex_ring_unref(lanex_ring *ring);
/*
 * The CQE of the ring sink: user_data as given; res = 0 for ok, else -(enum lanex_status).
 */

/* ---- port ---- */

enum lanex_doorbell {
    LANEX_DOORBELL_EVENTFD = 0, /* lanex_port_fd becomes readable */
    LANEX_DOORBELL_RING = 1,    /* a CQE with ring_user_data and res 0 in `ring` */
};

typedef struct lanex_port_options {
    size_t size; /* sizeof(lanex_port_options) */
    uint32_t doorbell;
    uint32_t reserved;
    lanex_ring *ring; /* DOORBELL_RING */
    uint64_t ring_user_data;
} lanex_port_options;

/* options NULL: an eventfd doorbell. Errors: -EINVAL, -ENOMEM, -EMFILE, -ESHUTDOWN, -ECHILD. */
LANEX_API int lanex_port_create(lanex_executor *executor, const lanex_port_options *options,
                                lanex_port **ret_port);
LANEX_API lanex_port *lanex_port_ref(lanex_port *port);
/*
 * The last reference destroys what was not taken, and the responses of jobs that end later. As with
 * detach, a ring that is under way may still arrive.
 */
LANEX_API void lanex_port_unref(lanex_port *port);

/*
 * The eventfd, readable while completions may wait. Owned by the port; poll it, do not read or
 * close it (drain empties it). -EINVAL with a ring doorbell.
 */
LANEX_API int lanex_port_fd(const lanex_port *port);

/*
 * Takes up to max completions, in the order in which they were delivered; never waits. Returns how
 * many. Each is given back with lanex_completion_release. If some are left the doorbell rings
 * again. One consumer thread at a time. After it returned less than max, the next completion rings.
 */
LANEX_API int lanex_port_drain(lanex_port *port, lanex_completion **ret_completions, size_t max);

/*
 * Closes the port for delivery: responses of jobs that end from now on are destroyed, and the
 * doorbell is silent (a ring that is under way may still arrive). What was delivered and not taken
 * stays: drain hands it back. Returns how many that are.
 */
LANEX_API int lanex_port_detach(lanex_port *port);

LANEX_END_DECLS

#endif

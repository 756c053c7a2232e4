/*
 * lanex/cancel.h - cancellation tokens: stop a job, or let the job say that it is too late.
 *
 * What for
 *   A token is one atomic state that the side that wants a job stopped and the job itself race on.
 *   Exactly one wins. A job that is about to change something first seals its token; if that says
 *   false, it was cancelled and must end without the change. After a true, cancelling is too late.
 *
 *       pending --> running --> committed     (the job began; the job sealed)
 *          |           |
 *          +-----------+------> cancelled     (somebody cancelled first)
 *
 * Pattern
 *       lanex_cancellation *t;                          int body(...)
 *       lanex_cancellation_create(&t);                  {
 *       options.cancellation = t;                           while (more_to_read()) {
 *       ... submit ...                                          if (lanex_cancelled())
 *       lanex_cancellation_cancel(t);                               return stopped();
 *       lanex_cancellation_unref(t);                            read_some();
 *                                                           }
 *                                                           if (!lanex_seal())
 *                                                               return stopped();
 *                                                           write_it();
 *                                                       }
 *
 *   A token belongs to one job: giving it to a second submission is -EBUSY.
 *
 * Cost
 *   lanex_cancelled() is a thread-local load and an atomic load; seal and cancel are one
 *   compare-exchange, and cancel makes one system call more if a thread sleeps on the token.
 *
 * Threads
 *   Every call may be made from any thread. No call here sleeps or takes a lock.
 */
#ifndef LANEX_CANCEL_H
#define LANEX_CANCEL_H

#include <lanex/base.h>

LANEX_BEGIN_DECLS

typedef struct lanex_cancellation lanex_cancellation;

/* The four states of a token. All are positive, so that they can be results. */
typedef enum lanex_cancellation_phase {
    LANEX_CANCELLATION_PENDING = 1,   /* its job has not begun, or there is none yet */
    LANEX_CANCELLATION_RUNNING = 2,   /* the job's body has begun */
    LANEX_CANCELLATION_COMMITTED = 3, /* sealed: it can no longer be cancelled */
    LANEX_CANCELLATION_CANCELLED = 4  /* cancelled: it can no longer be sealed */
} lanex_cancellation_phase;

/* Makes a token in state pending, with one reference, which is the caller's. -EINVAL, -ENOMEM. */
LANEX_API int lanex_cancellation_create(lanex_cancellation **ret_token);

/*
 * Takes one more reference; returns its argument. NULL gives NULL, and so does a token that lives
 * inside a job (lanex_current_cancellation() of a job that was submitted without one): that one
 * ends with its job and cannot be kept.
 */
LANEX_API lanex_cancellation *lanex_cancellation_ref(lanex_cancellation *token);

/* Drops one reference; the last one frees the token. */
LANEX_API void lanex_cancellation_unref(lanex_cancellation *token);

/*
 * Cancels: pending or running becomes cancelled, anything else stays. Returns the state that it
 * met: PENDING or RUNNING, this call has cancelled it; COMMITTED, too late; CANCELLED, it already
 * was. A thread that waits in an epoch with this token is woken. -EINVAL for NULL.
 *
 * This needs no executor. A job that is still queued completes `request_cancelled` when its turn
 * comes; to have it answered at once, cancel the job through its executor.
 */
LANEX_API int lanex_cancellation_cancel(lanex_cancellation *token);

/*
 * Seals: pending or running becomes committed. True if it is committed now, also by an earlier
 * call; false if it was cancelled: then the caller must end without its effect. NULL is true.
 */
LANEX_API bool lanex_cancellation_seal(lanex_cancellation *token);

/* True if cancelled. NULL is false. */
LANEX_API bool lanex_cancellation_is_cancelled(const lanex_cancellation *token);

/* The state now, a lanex_cancellation_phase. -EINVAL for NULL. */
LANEX_API int lanex_cancellation_state(const lanex_cancellation *token);

/*
 * The token of the job that runs on this thread, or what was installed here; NULL outside a job and
 * in a job without one. Borrowed: valid until the job's body returns; take a reference to keep it.
 */
LANEX_API lanex_cancellation *lanex_current_cancellation(void);

/*
 * Makes `token` (or NULL) the current one of this thread and returns the one before, for a thread
 * that does part of a job's work. Borrowed: the caller keeps the token alive, and at the end
 * installs what this call returned:
 *
 *       lanex_cancellation *before = lanex_cancellation_install(token);
 *       do_the_part();
 *       lanex_cancellation_install(before);
 */
LANEX_API lanex_cancellation *lanex_cancellation_install(lanex_cancellation *token);

/* lanex_cancellation_seal() of the current token: true where there is none. */
LANEX_API bool lanex_seal(void);

/* The checkpoint of long bodies: true if the current token is cancelled. */
LANEX_API bool lanex_cancelled(void);

LANEX_END_DECLS

#endif

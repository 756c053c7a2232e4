/*
 * lanex/epoch.h - a small, fair reader/writer lock with waits that end: by time or by cancellation.
 *
 * What for
 *   Every actor has one: jobs that read run in it side by side, a job that writes runs in it alone.
 *   The executor's admission rules keep readers and writers apart anyway; the epoch makes it hard.
 *   It is public so that threads outside the executor can read or change an actor's context too,
 *   and it is usable with no executor at all.
 *
 * Pattern
 *       lanex_epoch e = LANEX_EPOCH_INIT;
 *
 *       lanex_epoch_read_acquire(&e);              if (lanex_epoch_write_acquire_until(
 *       look(shared);                                      &e, now_ns + 5000000, token) == 0) {
 *       lanex_epoch_read_release(&e);                  change(shared);
 *                                                      lanex_epoch_write_release(&e);
 *                                                  }
 *
 * Cost
 *   Eight bytes. Uncontended, one atomic read-modify-write to acquire and one to release, no system
 *   call. A waiter spins for a few microseconds, then sleeps on a futex.
 *
 * Fairness
 *   Bounded both ways, by LANEX_EPOCH_BYPASS = 1. A reader waits from its call on; a writer once it
 *   has looked a few times in vain (about a microsecond).
 *   - A reader that waits is passed by at most one writer that came later.
 *   - While a writer waits, no reader that comes later enters until a writer has. A writer that
 *     waits alone is therefore passed by no later reader; one that waits with others, by at most
 *     one group of readers, who run side by side, for each writer that enters before it.
 *   - Among writers the order is not strict, but one that was woken and found the lock taken again
 *     goes before all others.
 *
 * What it is not
 *   It is not recursive. A second read inside a read by the same thread deadlocks if a writer came
 *   between the two; use lanex_epoch_read_try_acquire() there and treat -EBUSY as an answer. There
 *   is no upgrade from read to write. Inside a job the gate that the worker holds is known, and the
 *   job's own actor's epoch then gives -EDEADLK at once instead: for a read in a read gate while a
 *   writer waits, and for everything else that could never be let in beside that gate. What a
 *   thread acquired by itself is not known. It does not inherit priority, is not shared between
 *   processes, and is not async-signal-safe. Up to 524287 read holds, 32767 waiting readers and
 *   32767 waiting writers at once; more is a bug of the program, and stops it.
 *
 * Threads
 *   Every call may be made from any thread. A hold belongs to no thread: one thread may release
 *   what another has acquired. A release is the last use of the lock by its caller: whoever knows
 *   that no one else will come may free it right after his own release.
 *
 * Results
 *   0, or: -EBUSY (try forms), -ETIMEDOUT and -ECANCELED (the `until` forms), -EDEADLK (inside a
 *   job, all but the try forms; without a job the plain forms cannot fail). On failure nothing is
 *   held. errno is untouched. Releasing what is not held is a bug, and stops the program.
 */
#ifndef LANEX_EPOCH_H
#define LANEX_EPOCH_H

#include <lanex/base.h>
#include <lanex/cancel.h>

LANEX_BEGIN_DECLS

/* How many later writers may pass a waiting reader; see "Fairness" for both directions. */
#define LANEX_EPOCH_BYPASS 1

typedef struct lanex_epoch {
    uint64_t private_state; /* all zero is free; for the library alone */
} lanex_epoch;

#define LANEX_EPOCH_INIT                                                                           \
    {                                                                                              \
        0                                                                                          \
    }

/* Same as LANEX_EPOCH_INIT, for memory that is not initialised statically. */
LANEX_API void lanex_epoch_init(lanex_epoch *epoch);

/* Asserts that nobody holds it or waits for it. Nothing needs to be freed. NULL is fine. */
LANEX_API void lanex_epoch_fini(lanex_epoch *epoch);

/* Waits as long as it takes. -EDEADLK: see "What it is not". */
LANEX_API int lanex_epoch_read_acquire(lanex_epoch *epoch);

/* -EBUSY if it would have to wait: a writer holds it, or waits for it. Never sleeps. */
LANEX_API int lanex_epoch_read_try_acquire(lanex_epoch *epoch);

/*
 * Waits until `deadline_ns` on CLOCK_MONOTONIC (LANEX_TIME_NEVER: for ever) or until `token` (may
 * be NULL) is cancelled. If the lock is free at once, a deadline in the past does not matter; a
 * cancelled token always gives -ECANCELED. A cancellation wakes the waiter at once; on kernels
 * before 5.16, within a millisecond.
 */
LANEX_API int lanex_epoch_read_acquire_until(lanex_epoch *epoch, uint64_t deadline_ns,
                                             lanex_cancellation *token);

LANEX_API void lanex_epoch_read_release(lanex_epoch *epoch);

/* The same for writers. try: -EBUSY if anybody holds it or waits for it. */
LANEX_API int lanex_epoch_write_acquire(lanex_epoch *epoch);
LANEX_API int lanex_epoch_write_try_acquire(lanex_epoch *epoch);
LANEX_API int lanex_epoch_write_acquire_until(lanex_epoch *epoch, uint64_t deadline_ns,
                                              lanex_cancellation *token);
LANEX_API void lanex_epoch_write_release(lanex_epoch *epoch);

/*
 * Turns the caller's write hold into a read hold without a gap: no writer enters between. Readers
 * that wait for the caller enter beside it. To be ended with lanex_epoch_read_release().
 */
LANEX_API void lanex_epoch_write_downgrade(lanex_epoch *epoch);

/* True if a writer waits: long readers may step aside. A hint, old when it is returned. */
LANEX_API bool lanex_epoch_writer_waiting(const lanex_epoch *epoch);

LANEX_END_DECLS

#endif

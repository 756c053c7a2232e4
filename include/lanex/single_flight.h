/*
 * lanex/single_flight.h - build the value of a key once, however many ask for it at the same time.
 *
 * What for
 *   Values that are costly to build and good for many: an index, a parsed schema, a connection's
 *   capabilities. The first who asks for a key builds its value; who asks meanwhile waits for it;
 *   who asks later gets it at once. Each request names a generation, a number that grows whenever
 *   older values are out of date: a value or a build of that generation or a newer one will do.
 *
 * Pattern
 *       static int parse(const lanex_flight_request *request, void **ret_data)
 *       {
 *           struct schema *s = schema_parse(request->arg);       // no lock is held
 *           if (!s)
 *               return -EBADMSG;
 *           *ret_data = s;
 *           return 0;
 *       }
 *       ...
 *       lanex_flight_options options = {.size = sizeof options, .destroy = schema_free};
 *       lanex_flight *schemas;
 *       lanex_flight_create(&options, &schemas);
 *       ...
 *       lanex_flight_request request = {
 *           .size = sizeof request, .key = path, .key_length = strlen(path),
 *           .generation = file_version, .build = parse, .arg = file,
 *           .cancellation = lanex_current_cancellation(),
 *       };
 *       lanex_flight_value *value;
 *       int rc = lanex_flight_get_or_build(schemas, &request, &value);
 *       if (rc < 0)
 *           return rc;
 *       use(lanex_flight_value_data(value));
 *       lanex_flight_value_unref(value);
 *
 * The rules
 *   A key is absent, or a build for some generation has the mark, or a value of some generation is
 *   ready. For generation g
 *   - a ready value of g or newer is returned;
 *   - if a build of g or newer has the mark, the call waits for it;
 *   - else the call builds for g. It takes the mark from an older build, or the place of an older
 *     value: to ask for a newer generation says that the older value is out of date.
 *   When the builder has succeeded,
 *   - if a newer build has the mark, the call waits for that one and returns its value; if that one
 *     fails, or the wait for it can not go on (time is up, a deadlock), it returns its own, which
 *     is then not installed;
 *   - if a newer value is ready, that is returned;
 *   - else its own is installed and returned.
 *   Who waited for a build gets what the one who ran it gets. A newer value that becomes ready
 *   meanwhile is returned to them at once. One call waits for at most one build newer than the one
 *   it ran or joined, so a generation that never stops growing keeps nobody for ever.
 *   When the builder has failed (a negative result, a panic), the key becomes absent, unless
 *   another build took the mark meanwhile. The error goes to the call that ran the builder alone;
 *   each waiter begins anew, so that one of them builds with its own builder, the others wait.
 *
 * Leaving
 *   The deadline and the token bound a call's waits, not its builder: a builder that should end
 *   early looks at its token itself. A waiter that leaves disturbs neither the build nor the other
 *   waiters.
 *
 * Deadlock
 *   A request for a key from inside the builder of the same key, on the same thread, also through
 *   builders of other keys in between, is -EDEADLK, whatever the generation and although the key
 *   was forgotten meanwhile. Builders may ask for other keys. If that closes a circle (the builder
 *   of A waits for B, whose builder on another thread waits for A), the call that would close it
 *   gets -EDEADLK at once, in whichever flights the keys are. Not seen are builders that wait for
 *   another thread by other means than this call: there only a deadline helps. A circle that a
 *   still newer build would have opened counts as one.
 *
 * Panics
 *   lanex_panic in a builder that runs inside a job takes the mark back and wakes the waiters. No
 *   other jump may leave a builder (longjmp, pthread_exit, C++ exceptions): its waiters would wait
 *   for ever. A destroy function must not panic.
 *
 * Cost
 *   A hit: hashing the key (SipHash with a random key: names chosen by strangers do no harm) and
 *   one short mutex, some 40 ns. A build adds about three allocations. Waiters of one key
 *   sleep on a word of that key: keys do not wait for one another. No lock is held while a builder
 *   or a destroy function runs. Memory: about 200 bytes and the key for each key that is ready or
 *   being built; nothing for absent ones. Ready values stay until a newer one replaces them or they
 *   are forgotten: whoever makes up keys without end forgets the old ones.
 *
 * Threads
 *   Every call may be made from any thread. What a builder wrote is seen by all who get its value.
 *
 * Errors
 *   -EINVAL     NULL, an unknown size, no builder, a key of length 0 or over the limit
 *   -ENOMEM     no memory; before the builder ran
 *   -ETIMEDOUT  the deadline passed in a wait
 *   -ECANCELED  the token was cancelled, before the call or in a wait
 *   -EDEADLK    see "Deadlock"
 *   -ECHILD     the flight was made by the parent of this process
 *   and whatever negative number the caller's own builder returned.
 */
#ifndef LANEX_SINGLE_FLIGHT_H
#define LANEX_SINGLE_FLIGHT_H

#include <lanex/base.h>
#include <lanex/cancel.h>

LANEX_BEGIN_DECLS

#define LANEX_FLIGHT_KEY_MAX 4096u /* bytes of a key */

typedef struct lanex_flight lanex_flight;             /* a table of keys */
typedef struct lanex_flight_value lanex_flight_value; /* one reference to a built value */

typedef struct lanex_flight_options {
    size_t size; /* sizeof(lanex_flight_options) */
    /*
     * Destroys what a builder made, once its last reference is gone, on the thread that dropped
     * it. Called once for each successful build; not for NULL data. May be NULL. It may call into
     * the flight, but for lanex_flight_destroy.
     */
    void (*destroy)(void *data);
} lanex_flight_options;

struct lanex_flight_request;

/*
 * Builds the value for request->key and request->generation; the request is the caller's own.
 * Returns 0 or more with *ret_data set (NULL is a value too), or a negative error: then *ret_data
 * is ignored. Runs on the thread of the call.
 */
typedef int (*lanex_flight_build_fn)(const struct lanex_flight_request *request, void **ret_data);

typedef struct lanex_flight_request {
    size_t size;       /* sizeof(lanex_flight_request) */
    const void *key;   /* compared bytewise; must not change during the call */
    size_t key_length; /* 1 to LANEX_FLIGHT_KEY_MAX */
    uint64_t generation;
    lanex_flight_build_fn build;
    void *arg;                        /* for the builder */
    uint64_t deadline_ns;             /* of waits, CLOCK_MONOTONIC; 0 or LANEX_TIME_NEVER: none */
    lanex_cancellation *cancellation; /* ends waits; NULL: none. Borrowed for the call. */
} lanex_flight_request;

/* Where the value came from. */
enum lanex_flight_outcome {
    LANEX_FLIGHT_BUILT = 1,  /* this call's builder */
    LANEX_FLIGHT_HIT = 2,    /* it was ready */
    LANEX_FLIGHT_JOINED = 3, /* another call's builder, during this call */
};

/* options NULL: no destroy function. Errors: -EINVAL, -ENOMEM. */
LANEX_API int lanex_flight_create(const lanex_flight_options *options, lanex_flight **ret_flight);

/*
 * Drops all values and frees the table. No other call on the flight may be under way or come later:
 * a call inside (a waiter, a builder) stops the program. Values that callers hold stay valid. In a
 * forked child it does nothing.
 */
LANEX_API void lanex_flight_destroy(lanex_flight *flight);

/*
 * Returns an enum lanex_flight_outcome and a reference to a value of request->generation or newer;
 * or an error, see the top.
 */
LANEX_API int lanex_flight_get_or_build(lanex_flight *flight, const lanex_flight_request *request,
                                        lanex_flight_value **ret_value);

/*
 * Makes later callers start anew: a ready value leaves the table; builds under way go on for those
 * who are inside, by the same rules, but nothing of theirs is seen by callers from now on (a waiter
 * whose build fails counts as a later caller). Never waits; builders may call it. Returns 1 if a
 * value was ready or a build had the mark, 0 if the key was absent. Errors: -EINVAL, -ECHILD.
 */
LANEX_API int lanex_flight_forget(lanex_flight *flight, const void *key, size_t key_length);

/* What the builder returned; the same for all references. Borrowed: valid while one is held. */
LANEX_API void *lanex_flight_value_data(const lanex_flight_value *value);

/* The generation that it was built for. */
LANEX_API uint64_t lanex_flight_value_generation(const lanex_flight_value *value);

/* One more reference, to be given back by a call of unref. Returns its argument; NULL gives NULL.
 */
LANEX_API lanex_flight_value *lanex_flight_value_ref(lanex_flight_value *value);

/* Gives a reference back, also after the flight was destroyed; the last one destroys the data. */
LANEX_API void lanex_flight_value_unref(lanex_flight_value *value);

/* Counted since create. Each request that is not -EINVAL, -ENOMEM or -ECHILD ends in one of hits,
 * joins, built, failures, timeouts, cancelled and deadlocks. */
typedef struct lanex_flight_stats {
    size_t size;         /* sizeof(lanex_flight_stats), set by the caller */
    uint64_t hits;       /* answered LANEX_FLIGHT_HIT */
    uint64_t joins;      /* answered LANEX_FLIGHT_JOINED */
    uint64_t built;      /* answered LANEX_FLIGHT_BUILT */
    uint64_t failures;   /* builders that failed or panicked */
    uint64_t timeouts;   /* answered -ETIMEDOUT */
    uint64_t cancelled;  /* answered -ECANCELED */
    uint64_t deadlocks;  /* answered -EDEADLK by the flight */
    uint64_t builds;     /* builders begun */
    uint64_t superseded; /* successful builds that were not installed: another was newer */
    uint64_t keys;       /* now: keys that are not absent, and those that calls are inside of */
    uint64_t building;   /* now: builders running */
} lanex_flight_stats;

/*
 * Takes no lock and makes nobody wait; the fields are each exact, not taken at one instant.
 * Errors: -EINVAL, -ECHILD.
 */
LANEX_API int lanex_flight_stats_read(const lanex_flight *flight, lanex_flight_stats *ret_stats);

LANEX_END_DECLS

#endif

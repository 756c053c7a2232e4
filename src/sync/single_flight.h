/*
 * Single flight inside (include/lanex/single_flight.h, SPEC 13).
 *
 * One mutex guards a flight's table and all that hangs on it; it is held for a lookup and a few
 * words, never over a user's function. Locks nest one way: a flight's mutex, then the one of the
 * wait-for graph (flight_cycle.c).
 */
#ifndef LX_SINGLE_FLIGHT_H
#define LX_SINGLE_FLIGHT_H

#include "lanex/single_flight.h"

#include "lanex/job.h"
#include "runtime/fork_guard.h"
#include "sync/futex.h"
#include "sync/hash.h"

#include <stdatomic.h>
#include <uthash.h>

struct lanex_flight_value {
    _Atomic uint32_t refs;
    uint64_t generation;
    void *data;
    void (*destroy)(void *data);
};

enum lx_build_state {
    LX_BUILD_RUNNING,
    LX_BUILD_SUCCEEDED, /* `value` is set */
    LX_BUILD_FAILED,
};

/* One run of a builder. The call that runs it and each that waits for it hold a reference. */
struct lx_flight_build {
    _Atomic uint32_t refs;
    enum lx_build_state state; /* under the flight's mutex; leaves RUNNING once */
    uint64_t generation;
    lanex_flight_value *value; /* one reference; made before the builder runs */

    /* Who builds: written and read by the building thread alone. */
    const struct lanex_flight *flight;
    uint64_t hash;
    const lanex_flight_request *request;
    struct lx_flight_build *outer; /* whose builder asked for this one */

    /* Under the graph's mutex: the build that the thread of this one sleeps for, or NULL. The
     * sleeper holds a reference to it for as long as it is named here. */
    struct lx_flight_build *waits_for;
};

/*
 * What is known of a key. The three states: absent (neither mark nor value), building (mark), ready
 * (value). Never both. Under the flight's mutex, but for the sleep on `event`.
 *
 * An entry is in the table from the first call that asks for its key until it is absent and no call
 * is inside, or until it is forgotten. A forgotten one goes on among the calls that are inside of
 * it, by the same rules, and is freed by the last of them.
 */
struct lx_flight_entry {
    UT_hash_handle hh;
    bool in_table;
    uint32_t calls;    /* inside: each keeps the entry's memory */
    uint32_t sleepers; /* of them, in or on the way into a sleep on `event` */
    /* Grows with every end of a build. Read and written under the mutex; a futex. */
    _Atomic uint32_t event;
    struct lx_flight_build *mark; /* no reference: its builder takes it away before it leaves */
    lanex_flight_value *value;    /* one reference */
    size_t key_length;
    unsigned char key[];
};

/* Relaxed counters, each on its own; changed and read by anybody. */
struct lx_flight_counters {
    _Atomic uint64_t hits, joins, built, failures, timeouts, cancelled, deadlocks;
    _Atomic uint64_t builds, superseded, keys, building;
};

struct lanex_flight {
    struct lx_fork_guard fork_guard;
    struct lx_hash_seed seed;
    void (*destroy)(void *data);
    struct lx_mutex mutex;
    uint64_t inside; /* calls that hold an entry. Under the mutex, as is the table. */
    struct lx_flight_entry *table;
    struct lx_flight_counters counters;
};

/* One get_or_build at work, on its caller's stack. */
struct lx_flight_call {
    lanex_flight *flight;
    const lanex_flight_request *request;
    uint64_t hash;
    uint64_t deadline_ns;
    struct lx_flight_entry *entry;          /* that it is inside of; NULL: none */
    struct lx_flight_build *build;          /* its own, begun or only prepared */
    struct lx_flight_build *joined, *newer; /* that it waits for: references */
    lanex_cleanup cleanup;
    int slept; /* what the last sleep said; a negative value ends all waits */
};

static inline void lx_flight_count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static inline void lx_flight_uncount(_Atomic uint64_t *counter)
{
    atomic_fetch_sub_explicit(counter, 1, memory_order_relaxed);
}

/* ---- flight_table.c ---- */

struct lx_flight_build *lx_flight_build_ref(struct lx_flight_build *build);
void lx_flight_build_unref(struct lx_flight_build *build);
/* Makes c->build, and all that its success will need: what was built can then always be returned.
 * 0 or -ENOMEM. */
int lx_flight_build_prepare(struct lx_flight_call *c);

/* Under the mutex. */
struct lx_flight_entry *lx_flight_find(lanex_flight *flight, uint64_t hash, const void *key,
                                       size_t key_length);
void lx_flight_take_out(lanex_flight *flight, struct lx_flight_entry *e);

/* Outside the mutex, for an entry that nobody else knows. */
void lx_flight_entry_free(struct lx_flight_entry *e);
/* Goes inside the key's entry in the table, making it if need be. 0 or -ENOMEM. */
int lx_flight_enter(struct lx_flight_call *c);
/* The call's last use of the flight, unless it enters again. Nothing if it is inside of none. */
void lx_flight_leave(struct lx_flight_call *c);

void *lx_flight_allocate(size_t size); /* zeroed */

/* ---- flight_cycle.c ---- */

/* To be called when a flight is made, with the number of this process. */
void lx_flight_graph_adopt(int64_t pid);

/* The builds of the calling thread, innermost first: each began inside the builder of the next. */
void lx_flight_stack_push(struct lx_flight_build *build);
void lx_flight_stack_pop(struct lx_flight_build *build);
/* Does this thread run a builder of that key, at any depth? */
bool lx_flight_stack_has(const struct lanex_flight *flight, uint64_t hash, const void *key,
                         size_t key_length);

/*
 * The calling thread is about to sleep for a running build. -EDEADLK if that one waits, perhaps
 * through others, for a build of this thread; then nothing is noted. Otherwise 0, to be followed by
 * lx_flight_wait_end; or by another begin, which takes the place of this one.
 */
int lx_flight_wait_begin(struct lx_flight_build *target);
void lx_flight_wait_end(void);

#endif

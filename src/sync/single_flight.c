/*
 * Single flight: what a call does with the state of its key.
 */
#include "sync/single_flight.h"

#include "runtime/executor.h" /* lx_self: a panic must undo a build */
#include "sync/assert.h"
#include "sync/cancel.h"
#include "sync/seams.h"

#include <errno.h>

/* Not an errno and not an outcome: look at the key again. */
enum { AGAIN = 0 };

/* ---- sleeping and waking ---- */

/* Under the mutex: a build of the entry has ended. True: the caller shall wake after unlocking. */
static bool announce(struct lx_flight_entry *e)
{
    /* relaxed: the mutex orders it. A waiter reads it under the mutex, and the kernel compares it
     * again before the sleep: an end between the two is not slept through. */
    atomic_fetch_add_explicit(&e->event, 1, memory_order_relaxed);
    return e->sleepers > 0;
}

/* The caller is inside, so the entry lives. */
static void unlock_and_wake(lanex_flight *flight, struct lx_flight_entry *e, bool wake)
{
    lx_mutex_unlock(&flight->mutex);
    if (wake)
        (void)lx_futex_wake(&e->event, LX_FUTEX_ALL);
}

/* Sleeps until something ended, the deadline or the token. The mutex is held before and after. */
static void sleep_locked(struct lx_flight_call *c)
{
    struct lx_flight_entry *e = c->entry;
    uint32_t seen = atomic_load_explicit(&e->event, memory_order_relaxed);

    e->sleepers++;
    lx_mutex_unlock(&c->flight->mutex);
    c->slept = lx_cancellation_wait(c->request->cancellation, &e->event, seen, c->deadline_ns);
    lx_mutex_lock(&c->flight->mutex);
    e->sleepers--;
}

/* Under the mutex. */
static bool ready(const struct lx_flight_entry *e, uint64_t least)
{
    return e->value != NULL && e->value->generation >= least;
}

/* Under the mutex. */
static bool ready_newer(const struct lx_flight_entry *e, uint64_t generation)
{
    return e->value != NULL && e->value->generation > generation;
}

/*
 * `b` has succeeded; this call ran it or waited for it. Returns an outcome with a reference to its
 * value or a newer one, or -ECANCELED. The mutex is held before and after.
 */
static int settle(struct lx_flight_call *c, const struct lx_flight_build *b,
                  lanex_flight_value **ret)
{
    struct lx_flight_entry *e = c->entry;
    struct lx_flight_build *newer = e->mark;

    if (newer != NULL && newer->generation > b->generation && lx_flight_wait_begin(newer) == 0) {
        c->newer = lx_flight_build_ref(newer);
        while (newer->state == LX_BUILD_RUNNING && !ready_newer(e, b->generation) && c->slept >= 0)
            sleep_locked(c);
        lx_flight_wait_end();
        if (c->slept == -ECANCELED)
            return -ECANCELED;
        if (!ready_newer(e, b->generation) && newer->state == LX_BUILD_SUCCEEDED) {
            *ret = lanex_flight_value_ref(newer->value);
            return LANEX_FLIGHT_JOINED;
        }
    }
    if (ready_newer(e, b->generation)) {
        *ret = lanex_flight_value_ref(e->value);
        return LANEX_FLIGHT_JOINED;
    }
    *ret = lanex_flight_value_ref(b->value);
    return b == c->build ? LANEX_FLIGHT_BUILT : LANEX_FLIGHT_JOINED;
}

/*
 * Waits for a build that is new enough. An outcome, a negative error, or AGAIN: it failed. The
 * mutex is held before and after.
 */
static int join(struct lx_flight_call *c, struct lx_flight_build *b, lanex_flight_value **ret)
{
    struct lx_flight_entry *e = c->entry;
    uint64_t generation = c->request->generation;
    int result = AGAIN;

    if (lx_flight_wait_begin(b) < 0)
        return -EDEADLK;
    c->joined = lx_flight_build_ref(b);
    while (b->state == LX_BUILD_RUNNING && !ready(e, generation) && c->slept >= 0)
        sleep_locked(c);
    if (c->slept == -ECANCELED) {
        result = -ECANCELED;
    } else if (ready(e, generation)) {
        *ret = lanex_flight_value_ref(e->value);
        result = LANEX_FLIGHT_JOINED;
    } else if (b->state == LX_BUILD_SUCCEEDED) {
        result = settle(c, b, ret);
    } else if (c->slept == -ETIMEDOUT) {
        result = -ETIMEDOUT;
    }
    lx_flight_wait_end();
    return result;
}

/* Outside the mutex: what a wait kept. */
static void drop_waited(struct lx_flight_call *c)
{
    lx_flight_build_unref(c->joined);
    lx_flight_build_unref(c->newer);
    c->joined = c->newer = NULL;
}

/* ---- building ---- */

/* The builder of c->build failed or panicked. */
static void build_failed(struct lx_flight_call *c)
{
    lanex_flight *flight = c->flight;
    struct lx_flight_entry *e = c->entry;
    bool wake;

    lx_mutex_lock(&flight->mutex);
    c->build->state = LX_BUILD_FAILED;
    if (e->mark == c->build)
        e->mark = NULL;
    wake = announce(e);
    unlock_and_wake(flight, e, wake);
    lx_flight_count(&flight->counters.failures);
    lx_flight_uncount(&flight->counters.building);
}

/* The clean-up of a job that panics in its builder: the call never returns, so this ends it. */
static void build_abandoned(void *arg)
{
    struct lx_flight_call *c = arg;

    lx_flight_stack_pop(c->build);
    if (lx_fork_guard_is_child(&c->flight->fork_guard))
        return;
    build_failed(c);
    lx_flight_leave(c);
    lx_flight_build_unref(c->build);
}

/*
 * Runs the builder so that a panic finds build_abandoned. Not through lanex_cleanup_push, which is
 * for bodies alone: a clean-up function may build too, and panic.
 */
static int run_builder(struct lx_flight_call *c, lanex_flight_value *old, void **ret_data)
{
    struct lx_worker *worker = lx_self.worker;
    bool in_job = worker != NULL && worker->phase != LX_PHASE_NONE;
    int rc;

    lx_flight_stack_push(c->build);
    if (in_job) {
        c->cleanup = (lanex_cleanup){worker->cleanups, build_abandoned, c};
        worker->cleanups = &c->cleanup;
    }
    /* Here, where a destroy function that asks for this key is told that it must not. */
    lanex_flight_value_unref(old);
    rc = c->request->build(c->request, ret_data);
    if (in_job) /* and with it what the builder did not take back */
        worker->cleanups = c->cleanup.lanex_next;
    lx_flight_stack_pop(c->build);
    return rc;
}

/* The builder of c->build has made `data`. An outcome, or -ECANCELED. */
static int build_succeeded(struct lx_flight_call *c, void *data, lanex_flight_value **ret)
{
    lanex_flight *flight = c->flight;
    struct lx_flight_entry *e = c->entry;
    struct lx_flight_build *b = c->build;
    lanex_flight_value *old = NULL;
    bool wake;
    int result;

    b->value->data = data;
    lx_mutex_lock(&flight->mutex);
    b->state = LX_BUILD_SUCCEEDED;
    lx_flight_uncount(&flight->counters.building);
    if ((e->mark != NULL && e->mark->generation > b->generation) || ready_newer(e, b->generation)) {
        lx_flight_count(&flight->counters.superseded);
    } else {
        /* A mark that is not its own is of no newer generation: that build is overtaken now. */
        old = e->value;
        e->value = lanex_flight_value_ref(b->value);
        e->mark = NULL;
    }
    wake = announce(e);
    unlock_and_wake(flight, e, wake);
    lanex_flight_value_unref(old);

    lx_mutex_lock(&flight->mutex);
    result = settle(c, b, ret);
    lx_mutex_unlock(&flight->mutex);
    return result;
}

/* Builds with the caller's builder. The mutex is held before, and not after. */
static int build(struct lx_flight_call *c, lanex_flight_value **ret)
{
    lanex_flight *flight = c->flight;
    lanex_flight_value *old = c->entry->value;
    void *data = NULL;
    int rc;

    c->entry->value = NULL;
    c->entry->mark = c->build;
    lx_mutex_unlock(&flight->mutex);
    lx_flight_count(&flight->counters.builds);
    lx_flight_count(&flight->counters.building);

    rc = run_builder(c, old, &data);
    if (lx_fork_guard_is_child(&flight->fork_guard))
        return -ECHILD; /* the builder forked, and this is the child: the flight is not ours */
    if (rc < 0) {
        build_failed(c);
        return rc;
    }
    return build_succeeded(c, data, ret);
}

/* ---- a call ---- */

/* Decides what the state of the key means for this call, until it has an answer. */
static int answer(struct lx_flight_call *c, lanex_flight_value **ret)
{
    uint64_t generation = c->request->generation;
    int outcome = LANEX_FLIGHT_HIT;

    for (;;) {
        int rc;

        if (lanex_cancellation_is_cancelled(c->request->cancellation))
            return -ECANCELED;
        lx_mutex_lock(&c->flight->mutex);
        if (!c->entry->in_table) {
            /* Forgotten, and nothing found in it: from here on this is a later caller. */
            lx_mutex_unlock(&c->flight->mutex);
            lx_flight_leave(c);
            rc = lx_flight_enter(c);
            if (rc < 0)
                return rc;
            continue;
        }
        if (ready(c->entry, generation)) {
            *ret = lanex_flight_value_ref(c->entry->value);
            rc = outcome;
        } else if (c->entry->mark != NULL && c->entry->mark->generation >= generation) {
            rc = join(c, c->entry->mark, ret);
        } else {
            return build(c, ret);
        }
        lx_mutex_unlock(&c->flight->mutex);
        drop_waited(c);
        if (rc != AGAIN)
            return rc;
        outcome = LANEX_FLIGHT_JOINED; /* whatever is found now was made while it waited */
    }
}

/* The short way: a ready value, without going inside. */
static bool look(const struct lx_flight_call *c, lanex_flight_value **ret)
{
    lanex_flight *flight = c->flight;
    const lanex_flight_request *request = c->request;
    const struct lx_flight_entry *e;
    bool hit;

    lx_mutex_lock(&flight->mutex);
    e = lx_flight_find(flight, c->hash, request->key, request->key_length);
    hit = e != NULL && ready(e, request->generation);
    if (hit)
        *ret = lanex_flight_value_ref(e->value);
    lx_mutex_unlock(&flight->mutex);
    return hit;
}

static int check_key(const lanex_flight *flight, const void *key, size_t key_length)
{
    if (flight == NULL || key == NULL || key_length == 0 || key_length > LANEX_FLIGHT_KEY_MAX)
        return -EINVAL;
    return lx_fork_guard_is_child(&flight->fork_guard) ? -ECHILD : 0;
}

static int run_call(struct lx_flight_call *c, lanex_flight_value **ret)
{
    const lanex_flight_request *request = c->request;
    int rc;

    if (lx_flight_stack_has(c->flight, c->hash, request->key, request->key_length))
        return -EDEADLK;
    if (lanex_cancellation_is_cancelled(request->cancellation))
        return -ECANCELED;
    if (look(c, ret))
        return LANEX_FLIGHT_HIT;
    rc = lx_flight_build_prepare(c);
    if (rc == 0)
        rc = lx_flight_enter(c);
    if (rc == 0)
        rc = answer(c, ret);
    return rc;
}

/* An error of the caller's builder is counted by build_failed, whatever its number. */
static void count_answer(const struct lx_flight_call *c, int rc)
{
    struct lx_flight_counters *n = &c->flight->counters;

    if (rc == LANEX_FLIGHT_HIT)
        lx_flight_count(&n->hits);
    else if (rc == LANEX_FLIGHT_JOINED)
        lx_flight_count(&n->joins);
    else if (rc == LANEX_FLIGHT_BUILT)
        lx_flight_count(&n->built);
    else if (c->build != NULL && c->build->state == LX_BUILD_FAILED)
        return;
    else if (rc == -ETIMEDOUT)
        lx_flight_count(&n->timeouts);
    else if (rc == -ECANCELED)
        lx_flight_count(&n->cancelled);
    else if (rc == -EDEADLK)
        lx_flight_count(&n->deadlocks);
}

int lanex_flight_get_or_build(lanex_flight *flight, const lanex_flight_request *request,
                              lanex_flight_value **ret_value)
{
    struct lx_flight_call c = {.flight = flight, .request = request};
    lanex_flight_value *value = NULL;
    int rc;

    if (request == NULL || request->size != sizeof *request || request->build == NULL ||
        ret_value == NULL)
        return -EINVAL;
    rc = check_key(flight, request->key, request->key_length);
    if (rc < 0)
        return rc;
    c.hash = lx_hash(&flight->seed, request->key, request->key_length);
    c.deadline_ns = request->deadline_ns == 0 ? LANEX_TIME_NEVER : request->deadline_ns;
    rc = run_call(&c, &value);
    if (rc == -ECHILD && lx_fork_guard_is_child(&flight->fork_guard))
        return rc; /* see build(): the table is to be left alone */
    count_answer(&c, rc);
    drop_waited(&c);
    lx_flight_leave(&c);
    lx_flight_build_unref(c.build);
    if (rc > 0)
        *ret_value = value;
    return rc;
}

int lanex_flight_forget(lanex_flight *flight, const void *key, size_t key_length)
{
    struct lx_flight_entry *e;
    bool last = false, known = false;
    int rc = check_key(flight, key, key_length);
    uint64_t hash;

    if (rc < 0)
        return rc;
    hash = lx_hash(&flight->seed, key, key_length);
    lx_mutex_lock(&flight->mutex);
    e = lx_flight_find(flight, hash, key, key_length);
    if (e != NULL) {
        /* Also of an absent key: an overtaken build may be inside that is to install later. */
        known = e->mark != NULL || e->value != NULL;
        lx_flight_take_out(flight, e);
        last = e->calls == 0;
    }
    lx_mutex_unlock(&flight->mutex);
    if (last)
        lx_flight_entry_free(e);
    return known;
}

/* ---- life ---- */

int lanex_flight_create(const lanex_flight_options *options, lanex_flight **ret_flight)
{
    lanex_flight *flight;
    int rc;

    if (ret_flight == NULL || (options != NULL && options->size != sizeof *options))
        return -EINVAL;
    flight = lx_flight_allocate(sizeof *flight);
    if (flight == NULL)
        return -ENOMEM;
    rc = lx_fork_guard_create(&flight->fork_guard);
    if (rc < 0) {
        lx_release(flight);
        return rc;
    }
    lx_flight_graph_adopt(flight->fork_guard.pid);
    lx_hash_seed_draw(&flight->seed);
    flight->destroy = options != NULL ? options->destroy : NULL;
    *ret_flight = flight;
    return 0;
}

void lanex_flight_destroy(lanex_flight *flight)
{
    struct lx_flight_entry *e, *next;

    if (flight == NULL || lx_fork_guard_is_child(&flight->fork_guard))
        return;
    lx_mutex_lock(&flight->mutex);
    LX_ASSERT(flight->inside == 0);
    lx_mutex_unlock(&flight->mutex);
    HASH_ITER(hh, flight->table, e, next)
    {
        lx_flight_take_out(flight, e);
        lx_flight_entry_free(e);
    }
    lx_fork_guard_destroy(&flight->fork_guard);
    lx_release(flight);
}

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

int lanex_flight_stats_read(const lanex_flight *flight, lanex_flight_stats *ret_stats)
{
    const struct lx_flight_counters *n;

    if (flight == NULL || ret_stats == NULL || ret_stats->size != sizeof *ret_stats)
        return -EINVAL;
    if (lx_fork_guard_is_child(&flight->fork_guard))
        return -ECHILD;
    n = &flight->counters;
    *ret_stats = (lanex_flight_stats){
        .size = sizeof *ret_stats,
        .hits = load(&n->hits),
        .joins = load(&n->joins),
        .built = load(&n->built),
        .failures = load(&n->failures),
        .timeouts = load(&n->timeouts),
        .cancelled = load(&n->cancelled),
        .deadlocks = load(&n->deadlocks),
        .builds = load(&n->builds),
        .superseded = load(&n->superseded),
        .keys = load(&n->keys),
        .building = load(&n->building),
    };
    return 0;
}

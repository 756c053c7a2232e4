/*
 * Many threads and jobs ask for few keys at random: growing generations, failures, panics,
 * deadlines, cancellations, nested requests, forgetting. A checker that knows nothing of the
 * library's inside looks at what builders and callers see:
 *   - a value is of the key and of the generation asked for or newer, and alive while it is held;
 *   - each value is destroyed exactly once;
 *   - a build begins beside another of the same key only by overtaking it, or if that one was
 *     overtaken or forgotten before;
 *   - who asks after a forget gets nothing that was begun before it;
 *   - nobody waits for ever.
 */
#include "tests/support/lx_executor.h"

#include "lanex/lanex.h"

#include <errno.h>
#include <pthread.h>

/* No .timeout: the long form takes as long as it is asked to. */
TestSuite(single_flight_stress);

enum {
    KEYS = 3,
    THREADS = 5,     /* that ask by themselves, one of them with a token that another cancels */
    JOB_THREADS = 2, /* that ask in jobs, where builders may panic */
    RUNNING_MAX = 256,
    LOG_MAX = 1 << 12, /* begins remembered of a key: more than fit into any one request */
    NEST_MAX = 3,
};

struct item {
    unsigned key;
    uint64_t generation;
    uint64_t forgets_begun; /* of its key, when its builder began */
    atomic_bool destroyed;
};

struct running {
    uint64_t generation;
    uint64_t forgets_over; /* forgets that had returned before its request began */
    bool lost;             /* it surely has lost its mark */
    bool used;
};

/* What the checker knows of a key. */
struct book {
    pthread_mutex_t mutex;
    struct running running[RUNNING_MAX];
    uint64_t begins;
    uint64_t log[LOG_MAX]; /* generation of each begin */
    uint64_t forgets_begun, forgets_over;
};

struct world {
    lanex_flight *flight;
    struct book books[KEYS];
    atomic_uint_fast64_t newest[KEYS];
    atomic_uint_fast64_t made, destroyed, builds, failures, answers[4], timeouts, cancelled,
        deadlocks, panics, requests;
    lanex_executor *executor;
    lanex_actor *actor;
    _Atomic(lanex_cancellation *) token; /* for the canceller to take and cancel */
    atomic_bool over;
    uint64_t rounds, until_ns;
};

static struct world w;

/* One request on its thread's stack. */
struct op {
    struct lx_rng *rng;
    unsigned key, depth;
    uint64_t generation;
    uint64_t begins_before, forgets_over_before;
    uint64_t forgets_begun; /* when its builder began */
    bool in_job, fails;
    struct running *mine;
};

static bool ask(struct lx_rng *rng, unsigned depth, bool in_job, bool *ret_deadlock);

/* ---- the checker ---- */

static void note_request(struct op *op)
{
    struct book *b = &w.books[op->key];

    pthread_mutex_lock(&b->mutex);
    op->begins_before = b->begins;
    op->forgets_over_before = b->forgets_over;
    pthread_mutex_unlock(&b->mutex);
}

/* A newer build began since the request did: its mark may be lost before its builder ran. */
static bool perhaps_overtaken(const struct book *b, const struct op *op)
{
    LX_REQUIRE(b->begins - op->begins_before < LOG_MAX);
    for (uint64_t i = op->begins_before; i < b->begins; i++) {
        if (b->log[i % LOG_MAX] > op->generation)
            return true;
    }
    return false;
}

static void note_begin(struct op *op)
{
    struct book *b = &w.books[op->key];
    struct running *free_one = NULL;
    bool overtaken, forgotten;

    pthread_mutex_lock(&b->mutex);
    overtaken = perhaps_overtaken(b, op);
    forgotten = b->forgets_begun > op->forgets_over_before;
    for (size_t i = 0; i < RUNNING_MAX; i++) {
        struct running *r = &b->running[i];

        if (!r->used) {
            free_one = r;
            continue;
        }
        if (!overtaken && !forgotten && !r->lost && b->forgets_begun == r->forgets_over)
            LX_REQUIRE(op->generation > r->generation);
        if (op->generation > r->generation)
            r->lost = true;
    }
    LX_REQUIRE(free_one != NULL);
    *free_one = (struct running){.generation = op->generation,
                                 .forgets_over = op->forgets_over_before,
                                 .lost = overtaken,
                                 .used = true};
    op->mine = free_one;
    op->forgets_begun = b->forgets_begun;
    b->log[b->begins++ % LOG_MAX] = op->generation;
    pthread_mutex_unlock(&b->mutex);
    atomic_fetch_add(&w.builds, 1);
}

static void note_end(void *arg)
{
    struct op *op = arg;
    struct book *b = &w.books[op->key];

    pthread_mutex_lock(&b->mutex);
    op->mine->used = false;
    pthread_mutex_unlock(&b->mutex);
    if (op->fails)
        atomic_fetch_add(&w.failures, 1);
}

static void forget(unsigned key)
{
    struct book *b = &w.books[key];
    char name = (char)('a' + key);

    pthread_mutex_lock(&b->mutex);
    b->forgets_begun++;
    pthread_mutex_unlock(&b->mutex);
    LX_REQUIRE(lanex_flight_forget(w.flight, &name, 1) >= 0);
    pthread_mutex_lock(&b->mutex);
    b->forgets_over++;
    pthread_mutex_unlock(&b->mutex);
}

static void item_destroy(void *data)
{
    struct item *item = data;

    LX_REQUIRE(!atomic_exchange(&item->destroyed, true));
    atomic_fetch_add(&w.destroyed, 1);
    free(item); /* under the address sanitizer a second time shows, and so does a use after it */
}

static void check_answer(const struct op *op, lanex_flight_value *value)
{
    const struct item *item = lanex_flight_value_data(value);

    LX_REQUIRE(item->key == op->key);
    LX_REQUIRE(item->generation >= op->generation);
    LX_REQUIRE(item->generation == lanex_flight_value_generation(value));
    /* More forgets were over when the request began than had begun when the builder did: one of
     * them lies between the two. */
    LX_REQUIRE(op->forgets_over_before <= item->forgets_begun);
    for (uint64_t spins = lx_rng_below(op->rng, 50); spins > 0; spins--)
        LX_REQUIRE(!atomic_load(&item->destroyed));
}

/* ---- the askers ---- */

static void pause_a_little(struct lx_rng *rng)
{
    uint64_t until = lx_test_now_ns() + lx_rng_below(rng, 30000);

    while (lx_test_now_ns() < until)
        sched_yield();
}

/* What a builder does between its begin and its end; what it returns. May panic. */
static int build_body(struct op *op)
{
    bool deadlock = false;

    if (lx_rng_percent(op->rng, 60))
        pause_a_little(op->rng);
    if (op->depth < NEST_MAX && lx_rng_percent(op->rng, 20) &&
        !ask(op->rng, op->depth + 1, op->in_job, &deadlock) && deadlock)
        return -EIO; /* as a program must: waiting for it again would close the circle again */
    if (lx_rng_percent(op->rng, 15))
        return -EIO;
    if (op->in_job && lx_rng_percent(op->rng, 10)) {
        atomic_fetch_add(&w.panics, 1);
        lanex_panic("at random");
    }
    return 0;
}

static int build(const lanex_flight_request *request, void **ret_data)
{
    struct op *op = request->arg;
    lanex_cleanup cleanup;
    struct item *item;
    int rc;

    note_begin(op);
    op->fails = true; /* unless it comes to the end below */
    if (op->in_job)
        lanex_cleanup_push(&cleanup, note_end, op);
    rc = build_body(op);
    if (op->in_job)
        lanex_cleanup_pop(false);
    op->fails = rc < 0;
    note_end(op);
    if (rc < 0)
        return rc;
    item = malloc(sizeof *item);
    LX_REQUIRE(item != NULL);
    *item = (struct item){
        .key = op->key, .generation = request->generation, .forgets_begun = op->forgets_begun};
    atomic_fetch_add(&w.made, 1);
    *ret_data = item;
    return 0;
}

static uint64_t choose_generation(struct lx_rng *rng, unsigned key)
{
    uint64_t newest = lx_rng_percent(rng, 8) ? atomic_fetch_add(&w.newest[key], 1) + 1
                                             : atomic_load(&w.newest[key]);
    uint64_t behind = lx_rng_below(rng, 3);

    return newest > behind ? newest - behind : 0;
}

static void count_error(const struct op *op, const lanex_flight_request *r, int rc,
                        bool *ret_deadlock)
{
    switch (rc) {
    case -EIO:
        LX_REQUIRE(op->fails);
        break;
    case -ETIMEDOUT:
        LX_REQUIRE(r->deadline_ns != 0);
        atomic_fetch_add(&w.timeouts, 1);
        break;
    case -ECANCELED:
        LX_REQUIRE(lanex_cancellation_is_cancelled(r->cancellation));
        atomic_fetch_add(&w.cancelled, 1);
        break;
    case -EDEADLK:
        LX_REQUIRE(op->depth > 0);
        *ret_deadlock = true;
        atomic_fetch_add(&w.deadlocks, 1);
        break;
    default:
        lx_test_die(__FILE__, __LINE__, "result %d", rc);
    }
}

/* One random request; true if it was answered with a value. */
static bool ask_with(struct lx_rng *rng, unsigned depth, bool in_job, lanex_cancellation *token,
                     bool *ret_deadlock)
{
    struct op op = {
        .rng = rng, .depth = depth, .in_job = in_job, .key = (unsigned)lx_rng_below(rng, KEYS)};
    char name = (char)('a' + op.key);
    lanex_flight_request r = {.size = sizeof r,
                              .key = &name,
                              .key_length = 1,
                              .build = build,
                              .arg = &op,
                              .cancellation = token};
    lanex_flight_value *value = NULL;
    int rc;

    op.generation = r.generation = choose_generation(rng, op.key);
    if (lx_rng_percent(rng, 20))
        r.deadline_ns = lx_test_now_ns() + lx_rng_below(rng, 60000);
    if (lx_rng_percent(rng, 2))
        forget((unsigned)lx_rng_below(rng, KEYS));
    note_request(&op);
    atomic_fetch_add(&w.requests, 1);
    rc = lanex_flight_get_or_build(w.flight, &r, &value);
    if (rc < 0) {
        count_error(&op, &r, rc, ret_deadlock);
        return false;
    }
    LX_REQUIRE(rc >= LANEX_FLIGHT_BUILT && rc <= LANEX_FLIGHT_JOINED);
    atomic_fetch_add(&w.answers[rc], 1);
    check_answer(&op, value);
    lanex_flight_value_unref(value);
    return true;
}

static bool ask(struct lx_rng *rng, unsigned depth, bool in_job, bool *ret_deadlock)
{
    return ask_with(rng, depth, in_job, NULL, ret_deadlock);
}

static bool go_on(uint64_t round)
{
    return w.until_ns != 0 ? lx_test_now_ns() < w.until_ns : round < w.rounds;
}

static struct lx_rng rng_of(uint64_t which)
{
    struct lx_rng seeds = lx_rng_seeded(lx_test_seed() + which);

    return lx_rng_seeded(lx_rng_next(&seeds));
}

struct asker {
    pthread_t thread;
    uint64_t which;
    struct latch done;
    struct lx_rng rng;
};

static void *asker_thread(void *arg)
{
    struct asker *a = arg;
    bool deadlock = false;

    for (uint64_t i = 0; go_on(i); i++)
        (void)ask(&a->rng, 0, false, &deadlock);
    latch_arrive(&a->done);
    return NULL;
}

/* Its requests carry a token, which the canceller cancels at some moment. */
static void *cancelled_thread(void *arg)
{
    struct asker *a = arg;
    bool deadlock = false;

    for (uint64_t i = 0; go_on(i); i++) {
        lanex_cancellation *token = NULL, *old;

        LX_REQUIRE(lanex_cancellation_create(&token) == 0);
        old = atomic_exchange(&w.token, lanex_cancellation_ref(token));
        lanex_cancellation_unref(old);
        if (lx_rng_percent(&a->rng, 2))
            (void)lanex_cancellation_cancel(token);
        (void)ask_with(&a->rng, 0, false, token, &deadlock);
        lanex_cancellation_unref(token);
    }
    latch_arrive(&a->done);
    return NULL;
}

static void *canceller_thread(void *arg)
{
    struct asker *a = arg;

    while (!atomic_load(&w.over)) {
        lanex_cancellation *token = atomic_exchange(&w.token, NULL);

        if (token != NULL) {
            pause_a_little(&a->rng);
            (void)lanex_cancellation_cancel(token);
            lanex_cancellation_unref(token);
        }
        sched_yield();
    }
    latch_arrive(&a->done);
    return NULL;
}

static void job_asks(lanex_job *job, void *context, void *arg)
{
    bool deadlock = false;

    (void)job;
    (void)context;
    (void)ask(arg, 0, true, &deadlock);
}

static void *job_thread(void *arg)
{
    struct asker *a = arg;
    lanex_job_options options = {
        .size = sizeof options, .lane = LANEX_LANE_PURE_READ, .run = job_asks, .arg = &a->rng};

    for (uint64_t i = 0; go_on(i); i++) {
        lanex_ticket *ticket = NULL;

        LX_REQUIRE(lanex_submit_ticket(w.actor, &options, &ticket) == 0);
        LX_REQUIRE(lanex_ticket_wait(ticket, UINT64_C(1000000000) * lx_test_liveness_s()) == 0);
        lanex_ticket_drop(ticket);
    }
    latch_arrive(&a->done);
    return NULL;
}

static void world_make(void)
{
    lanex_flight_options options = {.size = sizeof options, .destroy = item_destroy};
    lanex_actor_options actor = {.size = sizeof actor};

    for (unsigned k = 0; k < KEYS; k++)
        cr_assert_eq(pthread_mutex_init(&w.books[k].mutex, NULL), 0);
    cr_assert_eq(lanex_flight_create(&options, &w.flight), 0);
    w.executor = lx_test_executor(3);
    cr_assert_eq(lanex_actor_register(w.executor, "a", 1, &actor, &w.actor), 1);
    w.rounds = lx_test_scaled(30000);
    if (lx_test_soak_seconds() > 0)
        w.until_ns = lx_test_now_ns() + UINT64_C(1000000000) * lx_test_soak_seconds();
}

/* The library's own numbers against the checker's. */
static void check_stats(void)
{
    lanex_flight_stats s = {.size = sizeof s};

    cr_assert_eq(lanex_flight_stats_read(w.flight, &s), 0);
    cr_assert_eq(s.builds, w.builds);
    cr_assert_eq(s.failures, w.failures);
    cr_assert_eq(s.built, w.answers[LANEX_FLIGHT_BUILT]);
    cr_assert_eq(s.hits, w.answers[LANEX_FLIGHT_HIT]);
    cr_assert_eq(s.joins, w.answers[LANEX_FLIGHT_JOINED]);
    cr_assert_eq(s.timeouts, w.timeouts);
    cr_assert_eq(s.cancelled, w.cancelled);
    cr_assert_eq(s.deadlocks, w.deadlocks);
    cr_assert_eq(s.hits + s.joins + s.built + s.failures + s.timeouts + s.cancelled + s.deadlocks,
                 w.requests);
    cr_assert_eq(s.building, 0);
    cr_assert_leq(s.keys, KEYS);
    for (unsigned k = 0; k < KEYS; k++)
        forget(k);
    cr_assert_eq(lanex_flight_stats_read(w.flight, &s), 0);
    cr_assert_eq(s.keys, 0);
    cr_assert_eq(w.made, w.destroyed, "also before the flight is destroyed");
}

/* A run that met no such case has shown nothing of it. */
static void check_reach(void)
{
    cr_assert_gt(w.answers[LANEX_FLIGHT_BUILT], 0);
    cr_assert_gt(w.answers[LANEX_FLIGHT_HIT], 0);
    cr_assert_gt(w.answers[LANEX_FLIGHT_JOINED], 0);
    cr_assert_gt(w.failures, w.panics);
    cr_assert_gt(w.panics, 0);
    cr_assert_gt(w.timeouts, 0);
    cr_assert_gt(w.cancelled, 0);
}

Test(single_flight_stress, random_callers_find_what_they_were_promised)
{
    static struct asker askers[THREADS + JOB_THREADS], canceller = {.which = 99};
    size_t total = sizeof askers / sizeof *askers;

    world_make();
    canceller.rng = rng_of(canceller.which);
    cr_assert_eq(pthread_create(&canceller.thread, NULL, canceller_thread, &canceller), 0);
    for (size_t i = 0; i < total; i++) {
        askers[i].which = i;
        askers[i].rng = rng_of(i);
        cr_assert_eq(pthread_create(&askers[i].thread, NULL,
                                    i == 0        ? cancelled_thread
                                    : i < THREADS ? asker_thread
                                                  : job_thread,
                                    &askers[i]),
                     0);
    }
    for (size_t i = 0; i < total; i++) {
        if (w.until_ns == 0)
            latch_wait(&askers[i].done, 1);
        cr_assert_eq(pthread_join(askers[i].thread, NULL), 0);
    }
    atomic_store(&w.over, true);
    cr_assert_eq(pthread_join(canceller.thread, NULL), 0);
    lanex_cancellation_unref(atomic_load(&w.token));
    printf("%ju requests: %ju built, %ju hits, %ju joins, %ju failures (%ju panics), %ju timeouts, "
           "%ju cancelled, %ju deadlocks\n",
           (uintmax_t)w.requests, (uintmax_t)w.answers[LANEX_FLIGHT_BUILT],
           (uintmax_t)w.answers[LANEX_FLIGHT_HIT], (uintmax_t)w.answers[LANEX_FLIGHT_JOINED],
           (uintmax_t)w.failures, (uintmax_t)w.panics, (uintmax_t)w.timeouts,
           (uintmax_t)w.cancelled, (uintmax_t)w.deadlocks);
    check_stats();
    check_reach();
    lanex_flight_destroy(w.flight);
    lanex_actor_unref(w.actor);
    cr_assert_eq(lanex_executor_destroy(w.executor), 0);
}

/*
 * A thousand waiting jobs with deadlines of 1 to 50 ms and nothing else that happens; then the same
 * under a flood of completions. Who is answered, that none runs, none is answered early, and the
 * order are exact. How late is judged against how late this very machine wakes a sleeping thread.
 */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <time.h>

TestSuite(deadlines_many); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define JOBS    1000u
#define ROUNDS  5u /* of the short form; the best one is judged: others share the machine */
#define MS      UINT64_C(1000000)
#define FOREVER LANEX_TIME_NEVER
/* A deadline is answered within about this; half of the jobs within it in the best round. */
#define LATE_MOST_NS (5 * MS)

struct timed {
    uint64_t deadline_ns, over_ns;
};

struct round {
    struct timed jobs[JOBS];
    struct latch over;
    atomic_uint in_order;
    uint64_t last_deadline_ns; /* of the newest answer; written by the reaper alone */
};

static void never_runs(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
    lx_test_die(__FILE__, __LINE__, "a job ran that could not start before its deadline");
}

static struct round *current;

static void note_end(lanex_completion *completion, void *arg)
{
    struct timed *timed = arg;

    timed->over_ns = lx_test_now_ns();
    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
    LX_REQUIRE(timed->over_ns >= timed->deadline_ns);
    if (timed->deadline_ns >= current->last_deadline_ns)
        atomic_fetch_add(&current->in_order, 1);
    current->last_deadline_ns = timed->deadline_ns;
    latch_arrive(&current->over);
}

struct blocker {
    struct latch entered, leave;
};

static void block(lanex_job *job, void *context, void *arg)
{
    struct blocker *blocker = arg;

    (void)job;
    (void)context;
    latch_arrive(&blocker->entered);
    latch_wait(&blocker->leave, 1);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* How late a thread of this machine wakes that slept for a millisecond: nine of ten are better. */
static uint64_t machine_lateness(void)
{
    enum { SLEEPS = 50 };
    uint64_t late[SLEEPS];

    for (unsigned i = 0; i < SLEEPS; i++) {
        uint64_t until = lx_test_now_ns() + MS;
        struct timespec at = {.tv_sec = (time_t)(until / (1000 * MS)),
                              .tv_nsec = (long)(until % (1000 * MS))};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
            ;
        late[i] = lx_test_now_ns() - until;
    }
    qsort(late, SLEEPS, sizeof late[0], by_value);
    return late[SLEEPS * 9 / 10];
}

/* One round; the median lateness. */
static uint64_t run_round(lanex_actor *actor, struct lx_rng *rng)
{
    static struct round round;
    uint64_t late[JOBS];

    memset(&round, 0, sizeof round);
    current = &round;
    for (unsigned i = 0; i < JOBS; i++) {
        struct timed *timed = &round.jobs[i];
        lanex_job_options options = lx_test_callback_job((enum lanex_lane)lx_rng_below(rng, 5),
                                                         never_runs, NULL, note_end, timed);
        /* On from now, so that the first is not over before the last is submitted. */
        timed->deadline_ns = lx_test_now_ns() + lx_rng_between(rng, 1, 50) * MS;
        options.deadline_ns = timed->deadline_ns;
        LX_REQUIRE(lanex_submit(actor, &options, NULL) == 0);
    }
    latch_wait(&round.over, JOBS);
    for (unsigned i = 0; i < JOBS; i++)
        late[i] = round.jobs[i].over_ns - round.jobs[i].deadline_ns;
    qsort(late, JOBS, sizeof late[0], by_value);
    /* In the order of their deadlines, but for those that were submitted after their time or after
     * a later one had been answered: under load some may be. */
    cr_assert_geq(atomic_load(&round.in_order), JOBS / 2);
    return late[JOBS / 2];
}

struct flood {
    lanex_actor *actor;
    atomic_bool stop;
    atomic_ullong ran;
    struct latch ended;
};

static void flood_body(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    atomic_fetch_add_explicit(&((struct flood *)arg)->ran, 1, memory_order_relaxed);
}

static void flood_on(lanex_completion *completion, void *arg)
{
    struct flood *flood = arg;
    lanex_job_options options =
        lx_test_callback_job(LANEX_LANE_PURE_READ, flood_body, flood, flood_on, flood);

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    if (atomic_load(&flood->stop))
        latch_arrive(&flood->ended);
    else
        LX_REQUIRE(lanex_submit(flood->actor, &options, NULL) == 0);
}

#define FLOOD_CHAINS 4u /* jobs under way at any time, each followed by the next */

static void check_lateness(bool flooded)
{
    lanex_executor *executor = lx_test_executor(3);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct blocker blocker = {.leave = LATCH_INIT};
    struct flood flood = {.actor = lx_test_actor(executor, 2)};
    lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, block, &blocker);
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t stop = lx_test_now_ns() + lx_test_soak_seconds() * 500 * MS;
    uint64_t best = UINT64_MAX, machine = UINT64_MAX;

    cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
    latch_wait(&blocker.entered, 1);
    if (flooded) {
        options = lx_test_callback_job(LANEX_LANE_PURE_READ, flood_body, &flood, flood_on, &flood);
        for (unsigned i = 0; i < FLOOD_CHAINS; i++)
            cr_assert_eq(lanex_submit(flood.actor, &options, NULL), 0);
    }
    for (unsigned i = 0; i < ROUNDS || lx_test_now_ns() < stop; i++) {
        uint64_t late = run_round(actor, &rng), sleeper = machine_lateness();
        best = late < best ? late : best;
        machine = sleeper < machine ? sleeper : machine;
    }
    if (flooded) {
        cr_assert_gt(atomic_load(&flood.ran), FLOOD_CHAINS);
        atomic_store(&flood.stop, true);
        latch_wait(&flood.ended, FLOOD_CHAINS);
    }
    fprintf(stderr, "[----] half of the answers come within %llu us; a sleeper wakes within %llu\n",
            (unsigned long long)best / 1000, (unsigned long long)machine / 1000);
    latch_arrive(&blocker.leave);
    lanex_actor_unref(actor);
    lanex_actor_unref(flood.actor);
    cr_assert_eq(lanex_executor_drain(executor, FOREVER, NULL), 0);
    lx_test_at_rest(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    cr_assert_leq(best, LATE_MOST_NS + 2 * machine);
}

Test(deadlines_many, settle_in_time_with_no_other_event)
{
    check_lateness(false);
}

Test(deadlines_many, settle_in_time_under_a_flood_of_completions)
{
    check_lateness(true);
}

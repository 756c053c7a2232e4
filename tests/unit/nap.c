/*
 * Workers that nap where jobs are short (runtime/nap.h). Every job counts as a short one here, but
 * where a test says otherwise.
 */
#include "tests/support/lx_executor.h"

#include "runtime/executor.h"
#include "runtime/nap.h"
#include "sync/seams.h"

TestSuite(nap, .timeout = 120);

#define ACTORS 8u
#define WINDOW 512u

static lanex_executor *executor;
static lanex_actor *actors[ACTORS];
static struct latch answered;

static void begin(unsigned pool, uint64_t brisk_ns)
{
    lanex_executor_options options = lx_test_executor_options(pool);

    lx_seams.brisk_ns = brisk_ns;
    options.profile = LANEX_PROFILE_MANY_CORE;
    options.actor_cap = pool;
    options.read_cap = pool;
    LX_REQUIRE(lanex_executor_create(&options, &executor) == 0);
    for (unsigned i = 0; i < ACTORS; i++)
        actors[i] = lx_test_actor(executor, i);
}

static void end(void)
{
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    LX_EVENTUALLY(atomic_load(&executor->nappers) == 0); /* nobody gets on any more */
    lx_test_at_rest(executor);
    for (unsigned i = 0; i < ACTORS; i++)
        lanex_actor_unref(actors[i]);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    lx_seams.brisk_ns = LX_BRISK_NS;
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void count(lanex_completion *completion, void *arg)
{
    (void)arg;
    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    latch_arrive(&answered);
}

static void flood(unsigned jobs)
{
    lanex_job_options job = lx_test_callback_job(LANEX_LANE_PURE_READ, nothing, NULL, count, NULL);
    unsigned before = latch_count(&answered);

    for (unsigned i = 0; i < jobs; i++)
        LX_REQUIRE(lanex_submit(actors[i % ACTORS], &job, NULL) == 0);
    latch_wait(&answered, before + jobs);
}

/* Ends of waits by time: only a nap has one on a worker. */
static uint64_t naps(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < executor->config.pool_size; i++)
        sum += atomic_load(&executor->workers[i].door.counts.timeouts);
    return sum;
}

static bool may_nap(void)
{
    return executor->config.dispatch == LANEX_DISPATCH_SEAT;
}

Test(nap, a_flood_of_short_jobs_is_done_while_some_nap)
{
    uint64_t jobs = 0;

    begin(4, UINT64_MAX / WINDOW / 1000000);
    while (may_nap() && naps() < 20) {
        flood(WINDOW);
        jobs += WINDOW;
    }
    flood(WINDOW);
    cr_assert_eq(latch_count(&answered), jobs + WINDOW);
    end();
}

Test(nap, nobody_naps_where_jobs_are_not_short)
{
    begin(4, 0);
    for (unsigned i = 0; i < 100; i++)
        flood(WINDOW);
    cr_assert_eq(naps(), 0);
    end();
}

/* ---- a body that turns out long ---- */

static struct latch entered, may_leave;

static void hold(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    latch_arrive(&entered);
    latch_wait(&may_leave, (unsigned)(uintptr_t)arg);
}

/*
 * As many bodies as there are workers have to run at once, out of the middle of a flood in which
 * workers nap: each of these then has to wake up and take one, and nobody is left out.
 */
Test(nap, a_worker_that_naps_takes_what_waits_behind_long_bodies)
{
    const unsigned pool = 4;

    begin(pool, UINT64_MAX / WINDOW / 1000000);
    for (unsigned round = 1; round <= 30; round++) {
        lanex_job_options job = lx_test_job(LANEX_LANE_PURE_READ, hold, (void *)(uintptr_t)round);
        lanex_job_options quick =
            lx_test_callback_job(LANEX_LANE_PURE_READ, nothing, NULL, count, NULL);
        unsigned before = latch_count(&answered);

        for (unsigned i = 0; i < WINDOW; i++)
            LX_REQUIRE(lanex_submit(actors[i % ACTORS], &quick, NULL) == 0);
        for (unsigned i = 0; i < pool; i++)
            LX_REQUIRE(lanex_submit(actors[i % ACTORS], &job, NULL) == 0);
        latch_wait(&entered, pool * round);
        latch_arrive(&may_leave);
        latch_wait(&answered, before + WINDOW);
    }
    end();
}

/* One that naps is stopped like one that sleeps. */
Test(nap, destroy_ends_naps)
{
    for (unsigned round = 0; round < 20; round++) {
        begin(4, UINT64_MAX / WINDOW / 1000000);
        flood(8 * WINDOW);
        end();
    }
}

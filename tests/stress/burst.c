/*
 * Burst wakes: as many blocking jobs as there are workers, posted at once while the pool sleeps or
 * a turn is under way. All of them must run beside each other: whoever is woken wakes the next.
 */
#include "tests/support/lx_executor.h"

#include <pthread.h>

TestSuite(burst); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define WORKERS  8u
#define ROUNDS   2500u
#define NS_PER_S UINT64_C(1000000000)

struct round {
    struct latch begun;
    struct latch may_end;
    struct latch ended;
};

/* Ends only when all of the burst run: if one does not, the latch's liveness bound fails the test.
 */
static void meet(lanex_job *job, void *context, void *arg)
{
    struct round *round = arg;

    (void)job;
    (void)context;
    latch_arrive(&round->begun);
    latch_wait(&round->begun, WORKERS);
}

static void note_end(lanex_completion *completion, void *arg)
{
    struct round *round = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    latch_arrive(&round->ended);
}

static void submit_burst(lanex_actor **actors, struct round *round, bool batch)
{
    lanex_job_options options =
        lx_test_callback_job(LANEX_LANE_MUTATING, meet, round, note_end, round);
    lanex_submission submissions[WORKERS];

    for (unsigned i = 0; i < WORKERS; i++) {
        submissions[i] = (lanex_submission){actors[i], &options};
        if (!batch)
            LX_REQUIRE(lanex_submit(actors[i], &options, NULL) == 0);
    }
    if (batch)
        LX_REQUIRE(lanex_submit_batch(submissions, WORKERS, NULL) == 0);
}

/* Keeps turns coming from another thread, so that bursts arrive in the middle of them. */
struct disturber {
    lanex_executor *executor;
    atomic_bool stop;
};

static void *disturb(void *arg)
{
    struct disturber *disturber = arg;

    while (!atomic_load(&disturber->stop))
        LX_REQUIRE(lanex_cancel(disturber->executor, 1) == LANEX_CANCEL_NOT_FOUND);
    return NULL;
}

static void run(bool disturbed)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    lanex_executor *executor = lx_test_executor(WORKERS);
    lanex_config config = {.size = sizeof config};
    lanex_actor *actors[WORKERS];
    struct disturber disturber = {.executor = executor};
    uint64_t end = lx_test_now_ns() + lx_test_soak_seconds() * NS_PER_S / 2;
    uint64_t rounds = 0, slowest = 0;
    pthread_t thread;

    cr_assert_eq(lanex_executor_config(executor, &config), 0);
    cr_assert_eq(config.pool_size, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++)
        actors[i] = lx_test_actor(executor, i);
    if (disturbed)
        cr_assert_eq(pthread_create(&thread, NULL, disturb, &disturber), 0);
    for (; rounds < lx_test_scaled(ROUNDS) || lx_test_now_ns() < end; rounds++) {
        struct round round = {LATCH_INIT, LATCH_INIT, LATCH_INIT};
        uint64_t start = lx_test_now_ns();

        submit_burst(actors, &round, lx_rng_percent(&rng, 50));
        latch_wait(&round.begun, WORKERS);
        if (lx_test_now_ns() - start > slowest)
            slowest = lx_test_now_ns() - start;
        latch_wait(&round.ended, WORKERS);
    }
    atomic_store(&disturber.stop, true);
    if (disturbed)
        pthread_join(thread, NULL);
    fprintf(stderr, "[----] %lu bursts, the slowest to run at once took %lu us\n",
            (unsigned long)rounds, (unsigned long)(slowest / 1000));
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
    for (unsigned i = 0; i < WORKERS; i++)
        lanex_actor_unref(actors[i]);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

Test(burst, a_sleeping_pool_runs_all_of_a_burst_at_once)
{
    run(false);
}

Test(burst, all_of_a_burst_in_mid_turn_run_at_once)
{
    run(true);
}

/* The many-core profile, on whatever machine this is. */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <sys/resource.h>

TestSuite(many_core, .timeout = 120);

#define DESCRIPTORS_PER_THREAD 3u /* and some for the rest of the process */

static lanex_executor_options many(unsigned pool)
{
    lanex_executor_options options = lx_test_executor_options(pool);

    options.profile = LANEX_PROFILE_MANY_CORE;
    return options;
}

struct work {
    struct latch begun, may_end, ended;
    atomic_uint done;
};

static void meet(lanex_job *job, void *context, void *arg)
{
    struct work *work = arg;

    (void)job;
    (void)context;
    latch_arrive(&work->begun);
    latch_wait(&work->may_end, 1);
    atomic_fetch_add(&work->done, 1);
}

static void count_end(lanex_completion *completion, void *arg)
{
    struct work *work = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    latch_arrive(&work->ended);
}

/* All workers are in jobs at the same time, then all jobs are answered. */
static void fill(lanex_executor *executor, unsigned actors, unsigned jobs_each)
{
    static struct work work;
    lanex_job_options job =
        lx_test_callback_job(LANEX_LANE_PURE_READ, meet, &work, count_end, &work);
    unsigned jobs = actors * jobs_each;

    for (unsigned i = 0; i < actors; i++) {
        lanex_actor *actor = lx_test_actor(executor, i);
        for (unsigned j = 0; j < jobs_each; j++)
            cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
        lanex_actor_unref(actor);
    }
    latch_wait(&work.begun, jobs);
    latch_arrive(&work.may_end);
    latch_wait(&work.ended, jobs);
    cr_assert_eq(atomic_load(&work.done), jobs);
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
}

Test(many_core, sixty_four_workers_run_sixty_four_jobs_at_once)
{
    lanex_executor_options options = many(64);
    lanex_config config = {.size = sizeof config};
    lanex_executor *executor;

    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    cr_assert_eq(lanex_executor_config(executor, &config), 0);
    cr_assert_eq(config.pool_size, 64);
    cr_assert_eq(config.actor_cap, 63);
    cr_assert_eq(config.read_cap, 63);
    cr_assert_eq(config.heavy_permits, 16);
    fill(executor, 64, 1);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* The standard profile stops at 4; here one actor may have nearly the whole pool. */
Test(many_core, one_actor_may_have_all_workers_but_one)
{
    lanex_executor_options options = many(64);
    lanex_executor *executor;

    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    fill(executor, 1, 63);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* Raises the soft limit of descriptors; false if that does not make room for so many threads. */
static bool room_for(unsigned threads)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)threads * DESCRIPTORS_PER_THREAD;

    LX_REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_cur < wanted && limit.rlim_max >= wanted) {
        limit.rlim_cur = wanted;
        LX_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    return limit.rlim_cur >= wanted;
}

Test(many_core, the_largest_pool_is_made_works_and_ends)
{
    /* Each is a thread with a ring of its own; a thread costs a sanitizer much memory. */
    unsigned workers = (unsigned)lx_test_scaled(LANEX_POOL_MAX_MANY_CORE);
    lanex_executor_options options;
    lanex_config config = {.size = sizeof config};
    lanex_executor *executor;
    int rc;

    while (!room_for(workers))
        workers /= 2;
    options = many(workers);
    rc = lanex_executor_create(&options, &executor);
    /* A container may allow fewer threads than that. */
    while (rc == -EAGAIN && workers > 64) {
        workers /= 2;
        options.pool_size = workers;
        rc = lanex_executor_create(&options, &executor);
    }
    cr_assert_eq(rc, 0, "%u workers: %d", workers, rc);
    cr_assert_eq(lanex_executor_config(executor, &config), 0);
    cr_assert_eq(config.pool_size, workers);
    fill(executor, 2, (workers - 1) / 2);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

Test(many_core, too_few_descriptors_for_the_pool_fail_create)
{
    struct rlimit limit;
    lanex_executor_options options = many(512);
    lanex_executor *executor;

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 128;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(lanex_executor_create(&options, &executor), -EMFILE);
    options.pool_size = 8;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0, "nothing of the first is left");
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

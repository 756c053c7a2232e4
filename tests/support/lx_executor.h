/* Executors as the matrix cell asks for them, and short forms of what most tests submit. */
#ifndef LX_TEST_EXECUTOR_H
#define LX_TEST_EXECUTOR_H

#include "lx_test.h"

#include <lanex/lanex.h>

static inline lanex_executor_options lx_test_executor_options(unsigned pool)
{
    return (lanex_executor_options){
        .size = sizeof(lanex_executor_options),
        .pool_size = pool,
        .dispatch = lx_test_env_dispatch() == LX_TEST_DISPATCH_SCHEDULER ? LANEX_DISPATCH_SCHEDULER
                                                                         : LANEX_DISPATCH_SEAT,
        .backend = lx_test_env_backend() == LX_TEST_BACKEND_RING   ? LANEX_BACKEND_RING
                   : lx_test_env_backend() == LX_TEST_BACKEND_POLL ? LANEX_BACKEND_POLL
                                                                   : LANEX_BACKEND_AUTO,
    };
}

static inline lanex_executor *lx_test_executor(unsigned pool)
{
    lanex_executor_options options = lx_test_executor_options(pool);
    lanex_executor *executor = NULL;
    int rc = lanex_executor_create(&options, &executor);

    if (rc != 0)
        lx_test_die(__FILE__, __LINE__, "lanex_executor_create: %d", rc);
    return executor;
}

/* A new actor without a context, named after a number. */
static inline lanex_actor *lx_test_actor(lanex_executor *executor, unsigned number)
{
    lanex_actor *actor = NULL;

    LX_REQUIRE(lanex_actor_register(executor, &number, sizeof number, NULL, &actor) == 1);
    return actor;
}

static inline lanex_job_options lx_test_job(enum lanex_lane lane, lanex_job_fn run, void *arg)
{
    return (lanex_job_options){
        .size = sizeof(lanex_job_options), .lane = lane, .run = run, .arg = arg};
}

static inline lanex_job_options lx_test_callback_job(enum lanex_lane lane, lanex_job_fn run,
                                                     void *arg, lanex_completion_fn callback,
                                                     void *callback_arg)
{
    lanex_job_options options = lx_test_job(lane, run, arg);

    options.sink = (lanex_sink){
        .kind = LANEX_SINK_CALLBACK, .callback = callback, .callback_arg = callback_arg};
    return options;
}

/* Everything that was submitted is over: what must be 0 is 0. */
static inline void lx_test_at_rest(const lanex_executor *executor)
{
    lanex_liveness liveness = {.size = sizeof liveness};
    lanex_counters counters = {.size = sizeof counters};
    lanex_config config = {.size = sizeof config};

    LX_REQUIRE(lanex_executor_liveness(executor, &liveness) == 0);
    LX_REQUIRE(lanex_executor_counters(executor, &counters) == 0);
    LX_REQUIRE(lanex_executor_config(executor, &config) == 0);
    LX_REQUIRE(liveness.queued[0] == 0 && liveness.queued[1] == 0);
    LX_REQUIRE(liveness.running[0] == 0 && liveness.running[1] == 0);
    LX_REQUIRE(liveness.idle_workers == config.pool_size);
    LX_REQUIRE(counters.phantom_workers == 0);
    LX_REQUIRE(counters.non_runnable_dispatches == 0);
}

#endif

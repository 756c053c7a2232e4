/* What the tests of actors share: contexts that count their ends, and small looks. */
#ifndef ACTORS_RIG_H
#define ACTORS_RIG_H

#include "tests/unit/runtime_rig.h"

/* A context that notes how it is given back. */
struct counted {
    struct latch torn_down, released;
    struct latch may_end; /* teardown waits for it if hold_teardown */
    atomic_int references;
    bool hold_teardown;
    bool in_order;   /* it was torn down before it was released */
    char thread[16]; /* where it was released */
};
#define COUNTED_INIT                                                                               \
    {                                                                                              \
        .hold_teardown = false                                                                     \
    }

static inline void counted_teardown(void *context)
{
    struct counted *counted = context;

    latch_arrive(&counted->torn_down);
    if (counted->hold_teardown)
        latch_wait(&counted->may_end, 1);
}

static inline void counted_release(void *context)
{
    struct counted *counted = context;

    counted->in_order = latch_count(&counted->torn_down) == 1;
    LX_REQUIRE(pthread_getname_np(pthread_self(), counted->thread, sizeof counted->thread) == 0);
    latch_arrive(&counted->released);
}

static inline lanex_actor *counted_actor(lanex_executor *executor, const char *key,
                                         struct counted *counted)
{
    lanex_actor_options options = {
        .size = sizeof options,
        .context = counted,
        .context_teardown = counted_teardown,
        .context_release = counted_release,
    };
    lanex_actor *actor = NULL;

    LX_REQUIRE(lanex_actor_register(executor, key, strlen(key), &options, &actor) == 1);
    return actor;
}

static inline uint64_t idle_workers(const lanex_executor *executor)
{
    lanex_liveness liveness = {.size = sizeof liveness};

    LX_REQUIRE(lanex_executor_liveness(executor, &liveness) == 0);
    return liveness.idle_workers;
}

static inline void must_not_run(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
    lx_test_die(__FILE__, __LINE__, "a job ran that must not");
}

/* Both steps of a heavy_init count. */
static inline void build_and_install(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    latch_arrive(arg);
}

struct answers {
    struct latch all;
    atomic_uint by_status[LANEX_STATUS_EXECUTOR_SHUTDOWN + 1];
};

static inline void count_answer(lanex_completion *completion, void *arg)
{
    struct answers *answers = arg;

    atomic_fetch_add(&answers->by_status[lanex_completion_status(completion)], 1);
    latch_arrive(&answers->all);
}

#endif

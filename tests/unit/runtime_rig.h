/*
 * What the tests of the runtime share: executors made as the matrix cell asks, jobs in one line,
 * bodies that block until they are let go, and response data that counts its destruction.
 */
#ifndef RUNTIME_RIG_H
#define RUNTIME_RIG_H

#include "lx_test.h"

#include <lanex/lanex.h>

#include <errno.h>
#include <pthread.h>

#define RIG_NS_PER_S UINT64_C(1000000000)

/* How long a wait may last before it counts as a hang. */
static inline uint64_t rig_liveness_ns(void)
{
    return lx_test_liveness_s() * RIG_NS_PER_S;
}

static inline lanex_executor_options rig_options(void)
{
    lanex_executor_options options = {.size = sizeof options, .pool_size = 4};

    switch (lx_test_env_backend()) {
    case LX_TEST_BACKEND_RING:
        options.backend = LANEX_BACKEND_RING;
        break;
    case LX_TEST_BACKEND_POLL:
        options.backend = LANEX_BACKEND_POLL;
        break;
    default:
        options.backend = LANEX_BACKEND_AUTO;
        break;
    }
    options.dispatch = lx_test_env_dispatch() == LX_TEST_DISPATCH_SCHEDULER
                           ? LANEX_DISPATCH_SCHEDULER
                           : LANEX_DISPATCH_SEAT;
    return options;
}

static inline lanex_executor *rig_executor_with(const lanex_executor_options *options)
{
    lanex_executor *executor = NULL;

    LX_REQUIRE(lanex_executor_create(options, &executor) == 0);
    return executor;
}

static inline lanex_executor *rig_executor(void)
{
    lanex_executor_options options = rig_options();

    return rig_executor_with(&options);
}

static inline bool rig_has_rings(const lanex_executor *executor)
{
    lanex_config config = {.size = sizeof config};

    LX_REQUIRE(lanex_executor_config(executor, &config) == 0);
    return config.backend == LANEX_BACKEND_RING;
}

static inline lanex_actor *rig_actor_with(lanex_executor *executor, const char *key, void *context,
                                          void (*release)(void *))
{
    lanex_actor_options options = {
        .size = sizeof options, .context = context, .context_release = release};
    lanex_actor *actor = NULL;

    LX_REQUIRE(lanex_actor_register(executor, key, strlen(key), &options, &actor) == 1);
    return actor;
}

static inline lanex_actor *rig_actor(lanex_executor *executor, const char *key)
{
    return rig_actor_with(executor, key, NULL, NULL);
}

static inline int rig_remove(lanex_executor *executor, const char *key)
{
    return lanex_actor_remove(executor, key, strlen(key));
}

static inline int rig_retire(lanex_executor *executor, const char *key)
{
    return lanex_actor_retire(executor, key, strlen(key));
}

/* ---- jobs ---- */

static inline lanex_job_options rig_job(enum lanex_lane lane, lanex_job_fn run, void *arg)
{
    return (lanex_job_options){
        .size = sizeof(lanex_job_options), .lane = (uint32_t)lane, .run = run, .arg = arg};
}

static inline lanex_ticket *rig_submit(lanex_actor *actor, const lanex_job_options *options)
{
    lanex_ticket *ticket = NULL;

    LX_REQUIRE(lanex_submit_ticket(actor, options, &ticket) == 0);
    return ticket;
}

/* Waits for the end. The completion lives as long as the ticket. */
static inline lanex_completion *rig_wait(lanex_ticket *ticket)
{
    LX_REQUIRE(lanex_ticket_wait(ticket, rig_liveness_ns()) == 0);
    return lanex_ticket_completion(ticket);
}

/* Waits, checks the status and drops the ticket. */
#define rig_expect(ticket, status)                                                                 \
    do {                                                                                           \
        lanex_ticket *rig_ticket_ = (ticket);                                                      \
        int rig_status_ = lanex_completion_status(rig_wait(rig_ticket_));                          \
        cr_assert_eq(rig_status_, (status), "status %d instead of %d", rig_status_,                \
                     (int)(status));                                                               \
        lanex_ticket_drop(rig_ticket_);                                                            \
    } while (0)

/* Submits and waits for the status. */
#define rig_run(actor, options, status) rig_expect(rig_submit((actor), (options)), (status))

static inline void rig_nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static inline void rig_count(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    latch_arrive(arg);
}

/* A body that says that it is there and stays until it is let go. */
struct rig_block {
    struct latch entered, leave;
};

static inline void rig_block(lanex_job *job, void *context, void *arg)
{
    struct rig_block *block = arg;

    (void)job;
    (void)context;
    latch_arrive(&block->entered);
    latch_wait(&block->leave, 1);
}

/* ---- response data that counts ---- */

/* True on a thread that is inside a call which must not run user code. */
static _Thread_local bool rig_in_call;

struct rig_data {
    atomic_uint destroyed;
};

static inline void rig_destroy(void *data)
{
    struct rig_data *counted = data;

    LX_REQUIRE(!rig_in_call);
    LX_REQUIRE(atomic_fetch_add(&counted->destroyed, 1) == 0);
}

static inline void rig_respond(lanex_job *job, void *context, void *arg)
{
    (void)context;
    lanex_job_respond(job, arg, rig_destroy);
}

static inline bool rig_destroyed(struct rig_data *data)
{
    return atomic_load(&data->destroyed) == 1;
}

/* At the end of a test: nothing runs, nothing waits, nothing was lost. */
static inline void rig_destroy_executor(lanex_executor *executor)
{
    lanex_liveness liveness = {.size = sizeof liveness};
    lanex_counters counters = {.size = sizeof counters};

    LX_REQUIRE(lanex_executor_drain(executor, rig_liveness_ns(), NULL) == 0);
    LX_REQUIRE(lanex_executor_liveness(executor, &liveness) == 0);
    LX_REQUIRE(lanex_executor_counters(executor, &counters) == 0);
    for (int c = 0; c < 2; c++)
        LX_REQUIRE(liveness.queued[c] == 0 && liveness.running[c] == 0);
    LX_REQUIRE(counters.phantom_workers == 0 && counters.non_runnable_dispatches == 0);
    LX_REQUIRE(lanex_executor_destroy(executor) == 0);
}

#endif

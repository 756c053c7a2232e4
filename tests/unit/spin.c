/*
 * Threads that look for work before they sleep (spin_us). The clock of the library stands still in
 * most of these tests, so that a spin ends by what it looks for alone.
 */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <sched.h>

#include "runtime/executor.h"
#include "sync/seams.h"

TestSuite(spin, .timeout = 60);

#define TRIPS 2000u
#define BURST 4u

static uint64_t still_ns(void)
{
    return UINT64_C(1000000000000);
}

static void stop_clock(void)
{
    lx_seams.now_ns = still_ns;
    lx_seams.now_coarse_ns = still_ns;
}

/* NULL where no thread may spin: then the option has to read as 0. */
static lanex_executor *spinning_executor(unsigned pool)
{
    lanex_executor_options options = lx_test_executor_options(pool);
    lanex_config config = {.size = sizeof config};
    lanex_executor *executor;

    options.profile = LANEX_PROFILE_MANY_CORE;
    options.actor_cap = pool;
    options.read_cap = pool;
    options.spin_us = LANEX_SPIN_MAX_US;
    LX_REQUIRE(lanex_executor_create(&options, &executor) == 0);
    LX_REQUIRE(lanex_executor_config(executor, &config) == 0);
    if (config.spin_us == LANEX_SPIN_MAX_US)
        return executor;
    LX_REQUIRE(config.spin_us == 0 && lanex_executor_destroy(executor) == 0);
    fprintf(stderr, "[----] no two CPUs to spin on\n");
    return NULL;
}

static uint32_t watchers(lanex_executor *executor)
{
    return atomic_load(&executor->watchers);
}

static uint32_t sleepers(lanex_executor *executor)
{
    return (uint32_t)__builtin_popcountll(atomic_load(&executor->run_queue.sleepers[0]));
}

/* As many workers as may spin, and the others asleep. */
static void await_spinning(lanex_executor *executor, unsigned pool)
{
    uint32_t limit = executor->spin_limit < pool ? executor->spin_limit : pool;

    LX_EVENTUALLY(watchers(executor) == limit && sleepers(executor) == pool - limit);
}

static uint64_t wakes_of_workers(const lanex_executor *executor)
{
    uint64_t wakes = 0;

    for (uint32_t i = 0; i < executor->config.pool_size; i++)
        wakes += atomic_load(&executor->workers[i].door.counts.wakes);
    return wakes;
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static lanex_ticket *submit(lanex_actor *actor, lanex_job_fn run, void *arg)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, run, arg);
    lanex_ticket *ticket = NULL;

    options.sink.kind = LANEX_SINK_TICKET;
    LX_REQUIRE(lanex_submit_ticket(actor, &options, &ticket) == 0);
    return ticket;
}

Test(spin, a_spinning_worker_takes_jobs_without_a_wake)
{
    lanex_counters before = {.size = sizeof before}, after = {.size = sizeof after};
    lanex_executor *executor;
    lanex_actor *actor;
    uint64_t wakes;

    stop_clock();
    executor = spinning_executor(3);
    if (executor == NULL)
        return;
    actor = lx_test_actor(executor, 1);
    await_spinning(executor, 3);
    wakes = wakes_of_workers(executor);
    cr_assert_eq(lanex_executor_counters(executor, &before), 0);
    for (unsigned i = 0; i < TRIPS; i++) {
        lanex_ticket *ticket = submit(actor, nothing, NULL);
        cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
        lanex_ticket_drop(ticket);
    }
    /* The turn that sees the last one's end may still be to come. */
    LX_EVENTUALLY(atomic_load(&executor->published.of[0].completed) - before.completed[0] == TRIPS);
    cr_assert_eq(lanex_executor_counters(executor, &after), 0);
    cr_assert_eq(wakes_of_workers(executor), wakes);
    if (executor->config.dispatch == LANEX_DISPATCH_SEAT)
        cr_assert_eq(after.wakes, before.wakes);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* Not left lying for the spinning worker, since a body may ask for them: handed to it all the same.
 */
Test(spin, writers_too)
{
    lanex_executor *executor;
    lanex_actor *actor;
    uint64_t wakes;

    stop_clock();
    executor = spinning_executor(2);
    if (executor == NULL)
        return;
    actor = lx_test_actor(executor, 1);
    for (unsigned i = 0; i < 100; i++) {
        lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);

        await_spinning(executor, 2);
        wakes = wakes_of_workers(executor);
        cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
        LX_EVENTUALLY(atomic_load(&executor->published.of[0].completed) == i + 1);
        cr_assert_eq(wakes_of_workers(executor), wakes);
    }
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

struct burst {
    struct latch begun;
    unsigned jobs;
};

static void begin_together(lanex_job *job, void *context, void *arg)
{
    struct burst *burst = arg;

    (void)job;
    (void)context;
    latch_arrive(&burst->begun);
    latch_wait(&burst->begun, burst->jobs);
}

/* Who spins takes one job; for the others the sleepers are woken. */
Test(spin, a_burst_finds_the_sleepers_beside_it)
{
    lanex_executor *executor;
    lanex_actor *actor;

    stop_clock();
    executor = spinning_executor(BURST);
    if (executor == NULL)
        return;
    actor = lx_test_actor(executor, 1);
    for (unsigned round = 0; round < 200; round++) {
        struct burst burst = {.begun = LATCH_INIT, .jobs = BURST};
        lanex_ticket *tickets[BURST];

        if (round % 2 == 0)
            await_spinning(executor, BURST);
        for (unsigned i = 0; i < BURST; i++)
            tickets[i] = submit(actor, begin_together, &burst);
        for (unsigned i = 0; i < BURST; i++) {
            cr_assert_eq(lanex_ticket_wait(tickets[i], LANEX_TIME_NEVER), 0);
            lanex_ticket_drop(tickets[i]);
        }
    }
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

Test(spin, drain_and_destroy_do_not_wait_for_the_end_of_a_spin)
{
    lanex_executor *executor;
    lanex_actor *actor;

    stop_clock();
    executor = spinning_executor(2);
    if (executor == NULL)
        return;
    actor = lx_test_actor(executor, 1);
    for (unsigned i = 0; i < 10; i++) {
        lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
        cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
    }
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
    await_spinning(executor, 2);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* ---- a dropped ticket's data, whose destructor takes its time ---- */

struct slow {
    struct latch dropped, in_destructor, may_end;
};

static void slow_destructor(void *arg)
{
    struct slow *slow = arg;

    latch_arrive(&slow->in_destructor);
    latch_wait(&slow->may_end, 1);
}

static void answer_slow(lanex_job *job, void *context, void *arg)
{
    struct slow *slow = arg;

    (void)context;
    lanex_job_respond(job, slow, slow_destructor);
    latch_wait(&slow->dropped, 1);
}

Test(spin, no_job_waits_for_the_destructor_of_another_answer)
{
    struct slow slow = {.dropped = LATCH_INIT};
    lanex_executor *executor;
    lanex_ticket *ticket;
    lanex_actor *actor;

    stop_clock();
    executor = spinning_executor(2);
    if (executor == NULL)
        return;
    actor = lx_test_actor(executor, 1);
    await_spinning(executor, 2);
    lanex_ticket_drop(submit(actor, answer_slow, &slow));
    latch_arrive(&slow.dropped);
    latch_wait(&slow.in_destructor, 1);
    ticket = submit(actor, nothing, NULL);
    cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
    lanex_ticket_drop(ticket);
    latch_arrive(&slow.may_end);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* ---- by the clock ---- */

Test(spin, workers_that_find_nothing_sleep)
{
    lanex_executor *executor = spinning_executor(2);
    lanex_actor *actor;

    if (executor == NULL)
        return;
    actor = lx_test_actor(executor, 1);
    for (unsigned i = 0; i < 20; i++) {
        lanex_ticket *ticket = submit(actor, nothing, NULL);
        cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
        lanex_ticket_drop(ticket);
        LX_EVENTUALLY(watchers(executor) == 0 && sleepers(executor) == 2);
    }
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

static void wait_latch(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    latch_wait(arg, 1);
}

Test(spin, a_wait_for_a_ticket_keeps_its_timeout)
{
    lanex_executor *executor = spinning_executor(2);
    struct latch may_end = LATCH_INIT;
    lanex_ticket *ticket;
    lanex_actor *actor;

    if (executor == NULL)
        return;
    actor = lx_test_actor(executor, 1);
    ticket = submit(actor, wait_latch, &may_end);
    for (uint64_t timeout_ns = 0; timeout_ns < 3000000; timeout_ns += 500000) {
        uint64_t begin_ns = lx_test_now_ns();
        cr_assert_eq(lanex_ticket_wait(ticket, timeout_ns), -ETIMEDOUT);
        cr_assert_geq(lx_test_now_ns() - begin_ns, timeout_ns);
        cr_assert_eq(atomic_load(&executor->ticket_spinners), 0);
    }
    latch_arrive(&may_end);
    cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
    lanex_ticket_drop(ticket);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* ---- where it is off ---- */

Test(spin, it_is_off_with_one_cpu)
{
    lanex_executor_options options = lx_test_executor_options(2);
    lanex_config config = {.size = sizeof config};
    lanex_executor *executor;
    lanex_actor *actor;
    lanex_ticket *ticket;
    cpu_set_t before, one;
    int cpu = sched_getcpu();

    stop_clock(); /* a thread that spun would do so for ever */
    options.spin_us = LANEX_SPIN_MAX_US;
    cr_assert_eq(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    cr_assert_eq(lanex_executor_config(executor, &config), 0);
    cr_assert_eq(config.usable_cpus, 1);
    cr_assert_eq(config.spin_us, 0);
    actor = lx_test_actor(executor, 1);
    ticket = submit(actor, nothing, NULL);
    cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
    lanex_ticket_drop(ticket);
    LX_EVENTUALLY(sleepers(executor) == 2);
    cr_assert_eq(watchers(executor), 0);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    cr_assert_eq(sched_setaffinity(0, sizeof before, &before), 0);
}

/*
 * Jobs that their submitters leave lying in the inbox (runtime/seat.c): no turn is run for them,
 * and nobody can tell. All workers are held by bodies, or a writer has the actor to itself.
 */
#include "tests/support/lx_executor.h"

#include <errno.h>

#include "runtime/executor.h"
#include "sync/seams.h"

TestSuite(lying, .timeout = 60);

#define POOL 2u
#define MANY 200u

static lanex_executor *executor;
static lanex_actor *actor;
static struct latch held, may_end, over;
static _Atomic uint32_t next_in_order;
static _Atomic bool writer_seen;

static void hold(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
    latch_arrive(&held);
    latch_wait(&may_end, 1);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void in_order(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    LX_REQUIRE(atomic_fetch_add(&next_in_order, 1) == (uint32_t)(uintptr_t)arg);
}

static void count(lanex_completion *completion, void *arg)
{
    LX_REQUIRE((uintptr_t)lanex_completion_status(completion) == (uintptr_t)arg);
    latch_arrive(&over);
}

/* An executor whose workers are all in bodies of another actor, and that rests otherwise. */
static void begin(uint32_t cap)
{
    lanex_executor_options options = lx_test_executor_options(POOL);
    lanex_job_options job = lx_test_job(LANEX_LANE_PURE_READ, hold, NULL);
    lanex_actor *other;

    options.profile = LANEX_PROFILE_MANY_CORE;
    options.actor_cap = POOL;
    options.read_cap = 1; /* so that reads keep their order */
    options.interactive_actor_queue_cap = cap;
    LX_REQUIRE(lanex_executor_create(&options, &executor) == 0);
    actor = lx_test_actor(executor, 1);
    for (unsigned i = 0; i < POOL; i++) {
        other = lx_test_actor(executor, 2 + i);
        cr_assert_eq(lanex_submit(other, &job, NULL), 0);
        lanex_actor_unref(other);
    }
    latch_wait(&held, POOL);
    /* The look of lanex-sched at what it was told may be under way. */
    LX_EVENTUALLY(atomic_load(&executor->scheduler_told) == 0 &&
                  atomic_load(&executor->seat) == 0 && !lx_inbox_has(&executor->inbox));
}

static void end(void)
{
    latch_arrive(&may_end);
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

static lanex_job_options read_with(enum lanex_status expected)
{
    return lx_test_callback_job(LANEX_LANE_PURE_READ, nothing, NULL, count,
                                (void *)(uintptr_t)expected);
}

static uint64_t turns(void)
{
    lanex_counters counters = {.size = sizeof counters};

    cr_assert_eq(lanex_executor_counters(executor, &counters), 0);
    return counters.turns;
}

static lanex_liveness liveness(void)
{
    lanex_liveness now = {.size = sizeof now};

    cr_assert_eq(lanex_executor_liveness(executor, &now), 0);
    return now;
}

Test(lying, no_turn_is_run_for_a_job_that_must_wait)
{
    lanex_job_options job = read_with(LANEX_STATUS_OK);
    uint64_t before;

    begin(0);
    before = turns();
    for (unsigned i = 0; i < 10; i++)
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    cr_assert_eq(turns(), before);
    cr_assert(lx_inbox_has(&executor->inbox));
    cr_assert_eq(latch_count(&over), 0);
    latch_arrive(&may_end);
    latch_wait(&over, 10);
    end();
}

Test(lying, the_views_count_it)
{
    lanex_job_options job = read_with(LANEX_STATUS_OK);

    begin(0);
    for (unsigned i = 1; i <= 10; i++) {
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
        LX_EVENTUALLY(liveness().queued[LANEX_CLASS_INTERACTIVE] == i);
        cr_assert_neq(liveness().oldest_age_ms[LANEX_CLASS_INTERACTIVE], LANEX_AGE_NONE);
    }
    LX_EVENTUALLY(lanex_actor_try_idle(executor, &(unsigned){1}, sizeof(unsigned)) == 0);
    end();
}

/* ---- it is as old as its submission ---- */

static _Atomic uint64_t clock_ns;

static uint64_t hand_clock(void)
{
    return atomic_load(&clock_ns);
}

Test(lying, its_age_counts_from_the_submission)
{
    lanex_job_options job = read_with(LANEX_STATUS_OK);

    atomic_store(&clock_ns, UINT64_C(1000000000000));
    lx_seams.now_ns = hand_clock;
    lx_seams.now_coarse_ns = hand_clock;
    begin(0);
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    cr_assert(lx_inbox_has(&executor->inbox));
    atomic_fetch_add(&clock_ns, UINT64_C(3000000000));
    LX_EVENTUALLY(liveness().queued[LANEX_CLASS_INTERACTIVE] == 1);
    cr_assert_eq(liveness().oldest_age_ms[LANEX_CLASS_INTERACTIVE], 3000);
    end();
}

/* ---- what is answered at once all the same ---- */

static void answered_at_once(lanex_actor *to, lanex_job_options job)
{
    unsigned before = latch_count(&over);

    cr_assert_eq(lanex_submit(to, &job, NULL), 0);
    latch_wait(&over, before + 1);
}

Test(lying, refusals_come_while_all_workers_are_held)
{
    lanex_job_options job = read_with(LANEX_STATUS_REQUEST_CANCELLED);
    lanex_cancellation *token;
    unsigned key = 1;

    begin(0);
    cr_assert_eq(lanex_cancellation_create(&token), 0);
    lanex_cancellation_cancel(token);
    job.cancellation = token;
    answered_at_once(actor, job);
    lanex_cancellation_unref(token);
    job = read_with(LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
    job.deadline_ns = 1;
    answered_at_once(actor, job);
    cr_assert_eq(lanex_actor_remove(executor, &key, sizeof key), 0);
    answered_at_once(actor, read_with(LANEX_STATUS_ACTOR_NOT_REGISTERED));
    end();
}

Test(lying, a_limit_refuses_while_all_workers_are_held)
{
    lanex_job_options job = read_with(LANEX_STATUS_OK);

    begin(3);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    answered_at_once(actor, read_with(LANEX_STATUS_EXECUTOR_BACKPRESSURE));
    latch_arrive(&may_end);
    latch_wait(&over, 4);
    end();
}

Test(lying, a_drain_refuses_while_all_workers_are_held)
{
    size_t left = 0;

    begin(0);
    cr_assert_eq(lanex_executor_drain(executor, 1, &left), -ETIMEDOUT);
    cr_assert_eq(left, POOL);
    answered_at_once(actor, read_with(LANEX_STATUS_EXECUTOR_SHUTDOWN));
    end();
}

Test(lying, a_cancel_finds_it)
{
    lanex_job_options job = read_with(LANEX_STATUS_REQUEST_CANCELLED);
    uint64_t number;

    begin(0);
    cr_assert_eq(lanex_submit(actor, &job, &number), 0);
    cr_assert_eq(lanex_cancel(executor, number), LANEX_CANCEL_QUEUED_REMOVED);
    latch_wait(&over, 1);
    end();
}

/* ---- writers, and behind writers ---- */

static void watch_for_writer(lanex_job *job, void *context, void *arg)
{
    (void)context;
    (void)arg;
    latch_arrive(&held);
    LX_EVENTUALLY(lanex_writer_waiting(job));
    atomic_store(&writer_seen, true);
}

Test(lying, a_body_sees_a_writer_that_waits)
{
    lanex_job_options job = lx_test_job(LANEX_LANE_PURE_READ, watch_for_writer, NULL);
    lanex_job_options other = lx_test_job(LANEX_LANE_PURE_READ, hold, NULL);
    lanex_actor *others;

    executor = lx_test_executor(POOL);
    actor = lx_test_actor(executor, 1);
    others = lx_test_actor(executor, 2);
    cr_assert_eq(lanex_submit(others, &other, NULL), 0);
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_wait(&held, POOL);
    LX_EVENTUALLY(atomic_load(&executor->lying) == LX_LYING_ALL);
    job = lx_test_callback_job(LANEX_LANE_MUTATING, nothing, NULL, count,
                               (void *)(uintptr_t)LANEX_STATUS_OK);
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_wait(&over, 1);
    cr_assert(atomic_load(&writer_seen));
    lanex_actor_unref(others);
    end();
}

Test(lying, behind_a_writer_though_workers_are_free)
{
    lanex_job_options job = lx_test_job(LANEX_LANE_MUTATING, hold, NULL);
    uint64_t before;

    executor = lx_test_executor(4);
    actor = lx_test_actor(executor, 1);
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_wait(&held, 1);
    LX_EVENTUALLY(atomic_load(&executor->scheduler_told) == 0 && atomic_load(&executor->seat) == 0);
    before = turns();
    job = read_with(LANEX_STATUS_OK);
    for (unsigned i = 0; i < 10; i++)
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    cr_assert_eq(turns(), before);
    latch_arrive(&may_end);
    latch_wait(&over, 10);
    end();
}

/* ---- many ---- */

Test(lying, many_are_looked_at_now_and_then_and_keep_their_order)
{
    uint64_t before;

    begin(0);
    before = turns();
    for (unsigned i = 0; i < MANY; i++) {
        lanex_job_options job =
            lx_test_callback_job(LANEX_LANE_PURE_READ, in_order, (void *)(uintptr_t)i, count,
                                 (void *)(uintptr_t)LANEX_STATUS_OK);
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    }
    LX_EVENTUALLY(turns() > before);
    cr_assert_leq(turns() - before, 2 * MANY / 64 + 1);
    latch_arrive(&may_end);
    latch_wait(&over, MANY);
    cr_assert_eq(atomic_load(&next_in_order), MANY);
    end();
}

static void count_any(lanex_completion *completion, void *arg)
{
    (void)completion;
    (void)arg;
    latch_arrive(&over);
}

Test(lying, the_end_answers_each_once)
{
    lanex_job_options job =
        lx_test_callback_job(LANEX_LANE_PURE_READ, nothing, NULL, count_any, NULL);

    begin(0);
    for (unsigned i = 0; i < 10; i++)
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    cr_assert(lx_inbox_has(&executor->inbox));
    latch_arrive(&may_end);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    cr_assert_eq(latch_count(&over), 10);
}

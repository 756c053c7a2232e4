/*
 * The last reference is dropped where the executor cannot be waited for, and no memory, map or
 * thread is to be had any more: all is answered and given back all the same.
 */
#include "refuse.h"

#include "tests/support/lx_executor.h"

#include "runtime/executor.h"

#include <errno.h>

TestSuite(fault_ending, .timeout = 60);

#define QUEUED 5u /* behind a writer that goes on until they are answered */

struct life {
    lanex_executor *executor;
    lanex_actor *actor;
    lanex_deferred *deferred;
    struct latch begun, may_drop, flushing;
    atomic_uint answered[QUEUED], answers, last_answers, released;
};

static void release_context(void *context)
{
    atomic_fetch_add(&((struct life *)context)->released, 1);
}

static void count_answer(lanex_completion *completion, void *arg)
{
    struct life *life = lanex_completion_arg(completion);

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_EXECUTOR_SHUTDOWN);
    atomic_fetch_add((atomic_uint *)arg, 1);
    atomic_fetch_add(&life->answers, 1);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void never(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
    LX_REQUIRE(false);
}

static void drop_last(struct life *life)
{
    latch_wait(&life->may_drop, 1);
    errno = 4711;
    lanex_executor_unref(life->executor);
    LX_REQUIRE(errno == 4711);
}

static void drop_in_callback(lanex_completion *completion, void *arg)
{
    struct life *life = arg;

    LX_REQUIRE(lanex_completion_arg(completion) == life);
    atomic_fetch_add(&life->last_answers, 1);
    drop_last(life);
}

static void count_last(lanex_completion *completion, void *arg)
{
    (void)completion;
    atomic_fetch_add(&((struct life *)arg)->last_answers, 1);
}

static void drop_in_body(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    drop_last(arg);
}

static void hold_the_actor(lanex_job *job, void *context, void *arg)
{
    struct life *life = arg;

    (void)job;
    LX_REQUIRE(context == life);
    latch_arrive(&life->begun);
    LX_EVENTUALLY(atomic_load(&life->answers) == QUEUED);
}

static void defer(lanex_job *job, void *context, void *arg)
{
    struct life *life = arg;

    (void)context;
    LX_REQUIRE(lanex_job_defer(job, &life->deferred) == 0);
}

static void answer_later(lanex_completion *completion, void *arg)
{
    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    drop_in_callback(completion, arg);
}

static void submit(struct life *life, enum lanex_lane lane, lanex_job_fn run,
                   lanex_completion_fn callback, void *callback_arg)
{
    lanex_job_options job = lx_test_callback_job(lane, run, life, callback, callback_arg);

    LX_REQUIRE(lanex_submit(life->actor, &job, NULL) == 0);
}

static void begin(struct life *life)
{
    lanex_actor_options options = {
        .size = sizeof options, .context = life, .context_release = release_context};

    memset(life, 0, sizeof *life);
    life->executor = lx_test_executor(3);
    LX_REQUIRE(lanex_actor_register(life->executor, "a", 1, &options, &life->actor) == 1);
}

static void queue_behind(struct life *life)
{
    submit(life, LANEX_LANE_MUTATING, hold_the_actor, count_last, life);
    latch_wait(&life->begun, 1);
    for (unsigned i = 0; i < QUEUED; i++)
        submit(life, LANEX_LANE_MUTATING, never, count_answer, &life->answered[i]);
}

/* Everything is refused from before the reference is dropped until nothing is left. */
static void end(struct life *life, struct refuse_left before, unsigned others)
{
    lanex_actor_unref(life->actor);
    refuse_each_of(REFUSE_ALL);
    latch_arrive(&life->may_drop);
    LX_EVENTUALLY(atomic_load(&life->released) == 1);
    refuse_must_be(before);
    cr_assert_eq(refuse_stop(), 0, "the end asked for something");
    cr_assert_eq(atomic_load(&life->last_answers), others);
    for (unsigned i = 0; i < QUEUED; i++)
        cr_assert_eq(atomic_load(&life->answered[i]), atomic_load(&life->answers) != 0);
    cr_assert_eq(atomic_load(&life->released), 1);
}

static struct refuse_left first_life(void)
{
    lanex_executor *executor;

    refuse_install();
    executor = lx_test_executor(3);
    LX_REQUIRE(lanex_executor_destroy(executor) == 0);
    return refuse_count_left();
}

Test(fault_ending, in_a_body)
{
    struct refuse_left before = first_life();
    struct life life;

    begin(&life);
    queue_behind(&life);
    submit(&life, LANEX_LANE_HEAVY_INIT, nothing, count_last, &life); /* waits for the writer */
    {
        lanex_actor *other;
        lanex_job_options job =
            lx_test_callback_job(LANEX_LANE_PURE_READ, drop_in_body, &life, count_last, &life);

        LX_REQUIRE(lanex_actor_register(life.executor, "b", 1, NULL, &other) == 1);
        LX_REQUIRE(lanex_submit(other, &job, NULL) == 0);
        lanex_actor_unref(other);
    }
    end(&life, before, 3);
    cr_assert_eq(atomic_load(&life.answers), QUEUED);
}

Test(fault_ending, in_a_callback_on_a_worker)
{
    struct refuse_left before = first_life();
    struct life life;

    begin(&life);
    submit(&life, LANEX_LANE_PURE_READ, nothing, drop_in_callback, &life);
    end(&life, before, 1);
}

Test(fault_ending, in_a_callback_on_the_reaper)
{
    struct refuse_left before = first_life();
    struct life life;
    lanex_job_options job;

    begin(&life);
    queue_behind(&life);
    job = lx_test_callback_job(LANEX_LANE_PURE_READ, never, &life, drop_in_callback, &life);
    LX_REQUIRE(lanex_submit_by_key(life.executor, "nobody", 6, &job, NULL) == 0);
    end(&life, before, 2);
    cr_assert_eq(atomic_load(&life.answers), QUEUED);
}

Test(fault_ending, in_the_callback_of_a_deferred_answer)
{
    struct refuse_left before = first_life();
    struct life life;

    begin(&life);
    submit(&life, LANEX_LANE_MUTATING, defer, answer_later, &life);
    LX_REQUIRE(lanex_executor_drain(life.executor, LANEX_TIME_NEVER, NULL) == 0);
    lanex_actor_unref(life.actor);
    refuse_each_of(REFUSE_ALL);
    latch_arrive(&life.may_drop);
    errno = 4711;
    cr_assert_eq(lanex_deferred_respond(life.deferred, NULL, NULL), 0);
    cr_assert_eq(errno, 4711);
    LX_EVENTUALLY(atomic_load(&life.released) == 1);
    refuse_must_be(before);
    cr_assert_eq(refuse_stop(), 0);
    cr_assert_eq(atomic_load(&life.last_answers), 1);
}

/* ---- a callback on a worker waits for lanex-reap, which waits for the workers ---- */

static void wait_for_hooks(lanex_completion *completion, void *arg)
{
    struct life *life = arg;
    int rc;

    (void)completion;
    latch_arrive(&life->flushing);
    rc = lanex_actor_hooks_wait(life->executor);
    LX_REQUIRE(rc == 0);
    atomic_fetch_add(&life->last_answers, 1);
}

static void drop_while_a_worker_waits(lanex_completion *completion, void *arg)
{
    struct life *life = arg;

    (void)completion;
    latch_arrive(&life->begun);
    latch_wait(&life->flushing, 1);
    LX_EVENTUALLY(lx_inbox_has(&life->executor->reaper_inbox));
    atomic_fetch_add(&life->last_answers, 1);
    drop_last(life);
}

Test(fault_ending, while_a_worker_waits_for_the_reaper)
{
    struct refuse_left before = first_life();
    struct life life;
    lanex_job_options job;

    begin(&life);
    job =
        lx_test_callback_job(LANEX_LANE_PURE_READ, never, &life, drop_while_a_worker_waits, &life);
    LX_REQUIRE(lanex_submit_by_key(life.executor, "nobody", 6, &job, NULL) == 0);
    latch_wait(&life.begun, 1); /* so that the other does not come with it */
    submit(&life, LANEX_LANE_PURE_READ, nothing, wait_for_hooks, &life);
    end(&life, before, 2);
}

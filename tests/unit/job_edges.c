/* What a body may ask and do, where no other test looks. */
#include "tests/support/lx_executor.h"

#include <errno.h>

TestSuite(job_edges, .timeout = 60);

static lanex_executor *executor;
static lanex_actor *actor;

static void begin(unsigned pool)
{
    executor = lx_test_executor(pool);
    actor = lx_test_actor(executor, 1);
}

static void end(void)
{
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

/* ---- lanex_writer_waiting ---- */

static struct latch begun = LATCH_INIT, may_look = LATCH_INIT, stepped_aside = LATCH_INIT;

static void step_aside_for_a_writer(lanex_job *job, void *context, void *arg)
{
    (void)context;
    (void)arg;
    LX_REQUIRE(!lanex_writer_waiting(job));
    latch_arrive(&begun);
    latch_wait(&may_look, 1);
    LX_EVENTUALLY(lanex_writer_waiting(job));
    latch_arrive(&stepped_aside);
}

Test(job_edges, maintenance_sees_a_writer_that_waits_and_steps_aside)
{
    lanex_job_options options =
        lx_test_job(LANEX_LANE_MAINTENANCE_COMMIT, step_aside_for_a_writer, NULL);
    lanex_ticket *writer = NULL;

    begin(4);
    options.job_class = LANEX_CLASS_MAINTENANCE;
    cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
    latch_wait(&begun, 1);
    options = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
    cr_assert_eq(lanex_submit_ticket(actor, &options, &writer), 0);
    cr_assert_eq(lanex_ticket_poll(writer), 0);
    latch_arrive(&may_look);
    cr_assert_eq(lanex_ticket_wait(writer, LANEX_TIME_NEVER), 0);
    cr_assert_eq(latch_count(&stepped_aside), 1, "the writer ran beside a reader");
    lanex_ticket_drop(writer);
    end();
}

/* ---- answers that nobody asked for ---- */

static unsigned destroyed;
static struct latch has_answered = LATCH_INIT;

static void destroy(void *data)
{
    LX_REQUIRE(data == &destroyed);
    destroyed++;
}

static void answer_twice(lanex_job *job, void *context, void *arg)
{
    lanex_deferred **ret_deferred = arg;

    (void)context;
    LX_REQUIRE(lanex_job_defer(job, ret_deferred) == 0);
    lanex_job_respond(job, &destroyed, destroy);
    LX_REQUIRE(destroyed == 1);
    lanex_job_respond(job, NULL, destroy);
    lanex_job_respond(job, &destroyed, NULL);
    LX_REQUIRE(destroyed == 1);
    LX_REQUIRE(lanex_job_respond_error(job, "late", "late", false) == -EINVAL);
    latch_arrive(&has_answered);
}

Test(job_edges, an_answer_after_the_completion_was_given_away_is_destroyed_at_once)
{
    lanex_deferred *deferred = NULL;
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, answer_twice, &deferred);
    lanex_ticket *ticket = NULL;
    lanex_completion *completion;

    begin(2);
    cr_assert_eq(lanex_submit_ticket(actor, &options, &ticket), 0);
    latch_wait(&has_answered, 1);
    cr_assert_eq(destroyed, 1);
    cr_assert_eq(lanex_deferred_respond(deferred, &destroyed, destroy), 0);
    cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
    completion = lanex_ticket_completion(ticket);
    cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_OK);
    lanex_ticket_drop(ticket);
    cr_assert_eq(destroyed, 2);
    end();
}

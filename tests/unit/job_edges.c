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

/* ---- arguments that are refused ---- */

Test(job_edges, texts_that_are_too_long_are_refused)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    char text[LANEX_REQUEST_ID_MAX + LANEX_LABEL_MAX + 2];
    lanex_ring *ring = NULL;
    uint64_t number = 4711;

    memset(text, 't', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    begin(2);
    options.request_id = text;
    cr_assert_eq(lanex_submit(actor, &options, &number), -EINVAL);
    options.request_id_length = LANEX_REQUEST_ID_MAX + 1;
    cr_assert_eq(lanex_submit(actor, &options, &number), -EINVAL);
    options.request_id = NULL;
    cr_assert_eq(lanex_submit(actor, &options, &number), -EINVAL, "a length without a text");
    options.request_id_length = 0;
    options.label = text;
    options.label_length = LANEX_LABEL_MAX + 1;
    cr_assert_eq(lanex_submit(actor, &options, &number), -EINVAL);
    cr_assert_eq(number, 4711, "the output was touched on failure");
    cr_assert_eq(lanex_job_state(executor, "k", 1, text, 0), -EINVAL);
    cr_assert_eq(lanex_job_state(executor, "k", 1, text, LANEX_REQUEST_ID_MAX + 1), -EINVAL);
    cr_assert_eq(lanex_ring_attach(executor, 0, NULL), -EINVAL);
    cr_assert_null(ring);
    end();
}

/* ---- effective sizes, as SPEC 2 computes them ---- */

Test(job_edges, sizes_are_brought_into_range_for_any_number_of_cpus)
{
    lanex_executor_options asked = {.size = sizeof asked};
    lanex_config config = {.size = sizeof config};

    cr_assert_eq(lanex_config_resolve(NULL, 4, &config), -EINVAL);
    cr_assert_eq(lanex_config_resolve(&asked, 4, NULL), -EINVAL);
    config.size--;
    cr_assert_eq(lanex_config_resolve(&asked, 4, &config), -EINVAL);
    config.size++;
    for (uint32_t cpus = 1; cpus <= 64; cpus++) {
        uint32_t pool = cpus < 3 ? 2 : cpus > 9 ? 8 : cpus - 1, others = pool - 1;
        cr_assert_eq(lanex_config_resolve(&asked, cpus, &config), 0);
        cr_assert_eq(config.usable_cpus, cpus);
        cr_assert_eq(config.pool_size, pool);
        cr_assert_eq(config.actor_cap, others < 4 ? others : 4);
        cr_assert_eq(config.read_cap, config.actor_cap);
        cr_assert_eq(config.heavy_permits, others < 3 ? others : 3);
        cr_assert_eq(config.deficit_cap, 4 * config.actor_cap);
        cr_assert_eq(config.interactive_reserve, pool >= 4 ? 2 : 1);
        cr_assert_eq(config.maintenance_cap, pool - config.interactive_reserve);
    }
    asked.pool_size = asked.actor_cap = asked.read_cap = asked.heavy_permits = 1000;
    cr_assert_eq(lanex_config_resolve(&asked, 0, &config), 0);
    cr_assert_eq(config.usable_cpus, lanex_usable_cpus());
    cr_assert(config.pool_size == 8 && config.actor_cap == 7 && config.read_cap == 4 &&
              config.heavy_permits == 3);
}

/* ---- places of actors ---- */

#define STAYING 20u

/* Each new actor takes the next place in the rotation; when there are none left, those that stay
   move together, and the first keep theirs. */
Test(job_edges, actors_come_and_go_behind_others_that_keep_their_places)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    lanex_actor *staying[STAYING];
    lanex_ticket *ticket;

    begin(2);
    for (unsigned i = 0; i < STAYING; i++)
        staying[i] = lx_test_actor(executor, 100 + i);
    for (unsigned i = 0; i < 2000; i++) {
        unsigned before = 1000 + i;
        lanex_actor_unref(lx_test_actor(executor, before + 1));
        cr_assert_eq(lanex_actor_remove(executor, &before, sizeof before), i > 0 ? 0 : -ENOENT);
    }
    for (unsigned i = 0; i < STAYING; i++) {
        cr_assert_eq(lanex_submit_ticket(staying[i], &options, &ticket), 0);
        cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
        cr_assert_eq(lanex_completion_status(lanex_ticket_completion(ticket)), LANEX_STATUS_OK);
        lanex_ticket_drop(ticket);
        lanex_actor_unref(staying[i]);
    }
    end();
}

/* ---- an answer whose destructor panics as the body defers ---- */

static void panicking_destroy(void *data)
{
    (void)data;
    lanex_panic("in the destructor");
}

static void defer_over_an_answer(lanex_job *job, void *context, void *arg)
{
    lanex_deferred *deferred = NULL;

    (void)context;
    (void)arg;
    lanex_job_respond(job, &destroyed, panicking_destroy);
    (void)lanex_job_defer(job, &deferred);
    LX_REQUIRE(false);
}

Test(job_edges, a_destructor_that_panics_as_the_body_defers_ends_the_job_once)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, defer_over_an_answer, NULL);
    lanex_ticket *ticket = NULL;

    begin(2);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(lanex_submit_ticket(actor, &options, &ticket), 0);
        cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
        cr_assert_eq(lanex_completion_status(lanex_ticket_completion(ticket)),
                     LANEX_STATUS_JOB_PANICKED);
        lanex_ticket_drop(ticket);
    }
    end();
}

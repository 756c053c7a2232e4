/* Single flight in jobs: a panic in a builder takes the mark back and wakes the waiters. */
#include "single_flight_kit.h"

#include "lanex/lanex.h"

#include <errno.h>

TestSuite(single_flight_job, .timeout = 120);

struct rig {
    lanex_executor *executor;
    lanex_actor *actor;
};

static struct rig rig_make(void)
{
    lanex_executor_options options = {.size = sizeof options, .pool_size = 2};
    lanex_actor_options actor_options = {.size = sizeof actor_options};
    struct rig r = {0};

    switch (lx_test_env_backend()) {
    case LX_TEST_BACKEND_RING:
        options.backend = LANEX_BACKEND_RING;
        break;
    case LX_TEST_BACKEND_POLL:
        options.backend = LANEX_BACKEND_POLL;
        break;
    default:
        break;
    }
    options.dispatch = lx_test_env_dispatch() == LX_TEST_DISPATCH_SCHEDULER
                           ? LANEX_DISPATCH_SCHEDULER
                           : LANEX_DISPATCH_SEAT;
    cr_assert_eq(lanex_executor_create(&options, &r.executor), 0);
    cr_assert_eq(lanex_actor_register(r.executor, "a", 1, &actor_options, &r.actor), 1);
    return r;
}

static void rig_end(struct rig *r)
{
    lanex_actor_unref(r->actor);
    cr_assert_eq(lanex_executor_destroy(r->executor), 0);
}

static void submit(const struct rig *r, void (*run)(lanex_job *, void *, void *), void *arg,
                   lanex_ticket **ret_ticket)
{
    lanex_job_options options = {.size = sizeof options,
                                 .lane = LANEX_LANE_PURE_READ,
                                 .run = run,
                                 .arg = arg,
                                 .flags = LANEX_JOB_CANCELLABLE};

    cr_assert_eq(lanex_submit_ticket(r->actor, &options, ret_ticket), 0);
}

static int status_of(lanex_ticket *ticket)
{
    int status;

    cr_assert_eq(lanex_ticket_wait(ticket, UINT64_C(1000000000) * lx_test_liveness_s()), 0);
    status = lanex_completion_status(lanex_ticket_completion(ticket));
    lanex_ticket_drop(ticket);
    return status;
}

static void ask_in_job(lanex_job *job, void *context, void *arg)
{
    struct ask *ask = arg;

    (void)job;
    (void)context;
    (void)kit_ask(ask);
}

static int panic_inside(struct ask *ask)
{
    lanex_panic("no %s today", ask->key);
}

Test(single_flight_job, a_panic_in_a_builder_lets_a_waiter_build)
{
    struct rig r = rig_make();
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    struct ask panics = {.flight = f, .key = "k", .hold = &go, .inside = panic_inside};
    struct ask waiter = {.flight = f, .key = "k"};
    struct ask later = {.flight = f, .key = "k"};
    lanex_ticket *ticket;

    submit(&r, ask_in_job, &panics, &ticket);
    latch_wait(&panics.begun, 1);
    kit_start(&waiter);
    kit_sleepers(f, "k", 1);
    latch_arrive(&go);
    cr_assert_eq(status_of(ticket), LANEX_STATUS_JOB_PANICKED);
    cr_assert_eq(kit_join(&waiter), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_ask(&later), LANEX_FLIGHT_HIT);
    cr_assert_eq(kit_stats(f).failures, 1);
    cr_assert_eq(kit_stats(f).building, 0);
    kit_drop(&waiter);
    kit_drop(&later);
    lanex_flight_destroy(f); /* asserts that the panicked call is no longer inside */
    rig_end(&r);
}

static int ask_nested(struct ask *ask)
{
    int rc = kit_ask(ask->nested);

    kit_drop(ask->nested);
    return rc;
}

/* Both jobs on the worker that panicked: what it left on the thread would show. */
Test(single_flight_job, a_panic_leaves_nested_builds_and_the_thread_as_they_were)
{
    struct rig r = rig_make();
    lanex_flight *f = kit_flight();
    struct ask inner = {.flight = f, .key = "inner", .inside = panic_inside};
    struct ask outer = {.flight = f, .key = "outer", .inside = ask_nested, .nested = &inner};
    lanex_ticket *ticket;

    for (int i = 0; i < 8; i++) {
        submit(&r, ask_in_job, &outer, &ticket);
        cr_assert_eq(status_of(ticket), LANEX_STATUS_JOB_PANICKED);
    }
    cr_assert_eq(outer.builds, 8, "never -EDEADLK by what an earlier panic left");
    cr_assert_eq(inner.builds, 8);
    cr_assert_eq(kit_stats(f).failures, 16);
    cr_assert_eq(kit_stats(f).keys, 0);
    inner.inside = NULL;
    submit(&r, ask_in_job, &outer, &ticket);
    cr_assert_eq(status_of(ticket), LANEX_STATUS_OK);
    cr_assert_eq(outer.result, LANEX_FLIGHT_BUILT);
    kit_drop(&outer);
    lanex_flight_destroy(f);
    rig_end(&r);
}

static void panic_after_asking(lanex_job *job, void *context, void *arg)
{
    ask_in_job(job, context, arg);
    lanex_panic("after the build");
}

Test(single_flight_job, a_panic_after_the_call_changes_nothing_of_it)
{
    struct rig r = rig_make();
    lanex_flight *f = kit_flight();
    struct ask a = {.flight = f, .key = "k"};
    struct ask later = {.flight = f, .key = "k"};
    lanex_ticket *ticket;

    submit(&r, panic_after_asking, &a, &ticket);
    cr_assert_eq(status_of(ticket), LANEX_STATUS_JOB_PANICKED);
    cr_assert_eq(kit_ask(&later), LANEX_FLIGHT_HIT);
    kit_drop(&a);
    kit_drop(&later);
    lanex_flight_destroy(f);
    rig_end(&r);
}

/* A clean-up that builds, with a builder that panics in turn. */
struct clean_up {
    struct ask ask;
    struct latch outer_ran;
};

static void clean_up_outer(void *arg)
{
    struct clean_up *c = arg;

    latch_arrive(&c->outer_ran);
}

static void clean_up_asks(void *arg)
{
    struct clean_up *c = arg;

    (void)kit_ask(&c->ask);
}

static void panic_with_clean_ups(lanex_job *job, void *context, void *arg)
{
    struct clean_up *c = arg;
    lanex_cleanup outer, inner;

    (void)job;
    (void)context;
    lanex_cleanup_push(&outer, clean_up_outer, c);
    lanex_cleanup_push(&inner, clean_up_asks, c);
    lanex_panic("first");
}

Test(single_flight_job, a_clean_up_may_build_and_even_panic)
{
    struct rig r = rig_make();
    lanex_flight *f = kit_flight();
    struct clean_up c = {.ask = {.flight = f, .key = "k"}};
    lanex_ticket *ticket;

    submit(&r, panic_with_clean_ups, &c, &ticket);
    cr_assert_eq(status_of(ticket), LANEX_STATUS_JOB_PANICKED);
    cr_assert_eq(c.ask.result, LANEX_FLIGHT_BUILT);
    kit_drop(&c.ask);
    c.ask.inside = panic_inside;
    c.ask.generation = 1;
    submit(&r, panic_with_clean_ups, &c, &ticket);
    cr_assert_eq(status_of(ticket), LANEX_STATUS_JOB_PANICKED);
    cr_assert_eq(latch_count(&c.outer_ran), 2);
    cr_assert_eq(kit_stats(f).failures, 1);
    cr_assert_eq(kit_stats(f).keys, 0);
    lanex_flight_destroy(f);
    rig_end(&r);
}

static int leave_a_clean_up_behind(struct ask *ask)
{
    static lanex_cleanup forgotten; /* never popped: a mistake that must not cost the job's own */
    struct clean_up *c = (struct clean_up *)ask;

    lanex_cleanup_push(&forgotten, clean_up_outer, c);
    return 0;
}

static void ask_between_clean_ups(lanex_job *job, void *context, void *arg)
{
    struct clean_up *c = arg;
    lanex_cleanup own;

    (void)job;
    (void)context;
    lanex_cleanup_push(&own, clean_up_outer, c);
    (void)kit_ask(&c->ask);
    lanex_cleanup_pop(true);
}

Test(single_flight_job, the_jobs_own_clean_ups_are_as_before_after_a_build)
{
    struct rig r = rig_make();
    lanex_flight *f = kit_flight();
    struct clean_up c = {.ask = {.flight = f, .key = "k", .inside = leave_a_clean_up_behind}};
    lanex_ticket *ticket;

    submit(&r, ask_between_clean_ups, &c, &ticket);
    cr_assert_eq(status_of(ticket), LANEX_STATUS_OK);
    cr_assert_eq(c.ask.result, LANEX_FLIGHT_BUILT);
    cr_assert_eq(latch_count(&c.outer_ran), 1, "the job's, once");
    kit_drop(&c.ask);
    lanex_flight_destroy(f);
    rig_end(&r);
}

/* The job's own token, from inside. */
static void ask_with_own_token(lanex_job *job, void *context, void *arg)
{
    struct ask *ask = arg;

    ask->token = lanex_current_cancellation();
    ask_in_job(job, context, arg);
}

Test(single_flight_job, cancelling_a_job_ends_its_wait)
{
    struct rig r = rig_make();
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    struct ask builder = {.flight = f, .key = "k", .hold = &go};
    struct ask waits = {.flight = f, .key = "k"};
    lanex_ticket *ticket;

    kit_start(&builder);
    latch_wait(&builder.begun, 1);
    submit(&r, ask_with_own_token, &waits, &ticket);
    kit_sleepers(f, "k", 1);
    cr_assert_eq(lanex_cancel(r.executor, lanex_ticket_job(ticket)),
                 LANEX_CANCEL_RUNNING_SIGNALLED);
    (void)status_of(ticket);
    cr_assert_eq(waits.result, -ECANCELED, "while the builder still builds");
    latch_arrive(&go);
    cr_assert_eq(kit_join(&builder), LANEX_FLIGHT_BUILT);
    kit_drop(&builder);
    lanex_flight_destroy(f);
    rig_end(&r);
}

Test(single_flight_job, a_panic_outside_a_job_aborts, .signal = SIGABRT)
{
    struct ask a = {.flight = kit_flight(), .key = "k", .inside = panic_inside};

    (void)kit_ask(&a);
}

/* Single flight: waits that end early, deadlocks, forgetting, forks, no memory. */
#include "single_flight_kit.h"

#include "sync/cancel.h"
#include "sync/seams.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(single_flight_leave, .timeout = 120);

#define SHORT_NS 2000000u /* a wait that is meant to run out */

static lanex_cancellation *token_make(void)
{
    lanex_cancellation *t = NULL;

    cr_assert_eq(lanex_cancellation_create(&t), 0);
    return t;
}

/* ---- deadline and token ---- */

static void one_leaves_the_others_stay(bool slices)
{
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    lanex_cancellation *token = token_make();
    struct ask builder = {.flight = f, .key = "k", .hold = &go};
    struct ask timed = {.flight = f, .key = "k"};
    struct ask cancelled = {.flight = f, .key = "k", .token = token};
    struct ask stays = {.flight = f, .key = "k"};

    lx_cancellation_force_slices(slices);
    kit_start(&builder);
    latch_wait(&builder.begun, 1);
    kit_start(&cancelled);
    kit_start(&stays);
    kit_sleepers(f, "k", 2);
    timed.deadline_ns = lx_test_now_ns() + SHORT_NS;
    cr_assert_eq(kit_ask(&timed), -ETIMEDOUT);
    cr_assert_ge(lx_test_now_ns(), timed.deadline_ns);
    cr_assert_eq(lanex_cancellation_cancel(token), LANEX_CANCELLATION_PENDING);
    cr_assert_eq(kit_join(&cancelled), -ECANCELED, "while the builder still builds");
    cr_assert_eq(latch_count(&stays.done), 0);
    latch_arrive(&go);
    cr_assert_eq(kit_join(&builder), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_join(&stays), LANEX_FLIGHT_JOINED);
    cr_assert_eq(kit_stats(f).timeouts, 1);
    cr_assert_eq(kit_stats(f).cancelled, 1);
    cr_assert_eq(timed.builds + cancelled.builds, 0);
    kit_drop(&builder);
    kit_drop(&stays);
    lanex_flight_destroy(f);
    lanex_cancellation_unref(token);
}

Test(single_flight_leave, one_waiter_leaving_harms_no_other)
{
    one_leaves_the_others_stay(false);
}

Test(single_flight_leave, one_waiter_leaving_harms_no_other_without_waitv)
{
    one_leaves_the_others_stay(true);
}

Test(single_flight_leave, a_past_deadline_matters_to_waits_alone)
{
    lanex_flight *f = kit_flight();
    struct ask a = {.flight = f, .key = "k", .deadline_ns = 1};

    cr_assert_eq(kit_ask(&a), LANEX_FLIGHT_BUILT, "to build is not to wait");
    kit_drop(&a);
    cr_assert_eq(kit_ask(&a), LANEX_FLIGHT_HIT);
    kit_drop(&a);
    a.deadline_ns = LANEX_TIME_NEVER;
    cr_assert_eq(kit_ask(&a), LANEX_FLIGHT_HIT);
    kit_drop(&a);
    lanex_flight_destroy(f);
}

Test(single_flight_leave, a_cancelled_token_begins_nothing)
{
    lanex_flight *f = kit_flight();
    lanex_cancellation *token = token_make();
    struct ask a = {.flight = f, .key = "k", .token = token};

    (void)lanex_cancellation_cancel(token);
    cr_assert_eq(kit_ask(&a), -ECANCELED);
    cr_assert_eq(a.builds, 0);
    cr_assert_eq(kit_stats(f).keys, 0);
    cr_assert_eq(kit_stats(f).cancelled, 1);
    lanex_flight_destroy(f);
    lanex_cancellation_unref(token);
}

/* The older build has its value and waits for the newer one. */
Test(single_flight_leave, who_has_a_value_of_its_own_returns_it_when_time_is_up)
{
    lanex_flight *f = kit_flight();
    struct latch go_old = LATCH_INIT, go_new = LATCH_INIT;
    struct ask old = {.flight = f, .key = "k", .generation = 1, .hold = &go_old};
    struct ask new = {.flight = f, .key = "k", .generation = 2, .hold = &go_new};

    old.deadline_ns = lx_test_now_ns() + SHORT_NS;
    kit_start(&old);
    latch_wait(&old.begun, 1);
    kit_start(&new);
    latch_wait(&new.begun, 1);
    latch_arrive(&go_old);
    cr_assert_eq(kit_join(&old), LANEX_FLIGHT_BUILT, "while the newer one still builds");
    cr_assert_eq(kit_thing(&old), &old.thing);
    kit_drop(&old);
    cr_assert_eq(old.thing.destroyed, 1, "it was not installed");
    latch_arrive(&go_new);
    cr_assert_eq(kit_join(&new), LANEX_FLIGHT_BUILT);
    kit_drop(&new);
    lanex_flight_destroy(f);
}

Test(single_flight_leave, a_builder_that_waits_for_a_newer_build_can_be_cancelled)
{
    lanex_flight *f = kit_flight();
    lanex_cancellation *token = token_make();
    struct latch go_old = LATCH_INIT, go_new = LATCH_INIT;
    struct ask old = {.flight = f, .key = "k", .generation = 1, .hold = &go_old, .token = token};
    struct ask new = {.flight = f, .key = "k", .generation = 2, .hold = &go_new};

    kit_start(&old);
    latch_wait(&old.begun, 1);
    kit_start(&new);
    latch_wait(&new.begun, 1);
    latch_arrive(&go_old);
    kit_sleepers(f, "k", 1);
    (void)lanex_cancellation_cancel(token);
    cr_assert_eq(kit_join(&old), -ECANCELED);
    cr_assert_eq(old.thing.destroyed, 1);
    latch_arrive(&go_new);
    cr_assert_eq(kit_join(&new), LANEX_FLIGHT_BUILT);
    kit_drop(&new);
    lanex_flight_destroy(f);
    lanex_cancellation_unref(token);
}

/* ---- deadlock ---- */

static int ask_nested(struct ask *ask)
{
    int rc = kit_ask(ask->nested);

    kit_drop(ask->nested);
    return rc;
}

Test(single_flight_leave, re_entry_on_the_same_key_is_a_deadlock_whatever_the_generation)
{
    for (uint64_t generation = 1; generation <= 3; generation++) {
        lanex_flight *f = kit_flight();
        struct ask inner = {.flight = f, .key = "k", .generation = generation};
        struct ask outer = {
            .flight = f, .key = "k", .generation = 2, .inside = ask_nested, .nested = &inner};

        cr_assert_eq(kit_ask(&outer), -EDEADLK, "its builder returned what it was told");
        cr_assert_eq(inner.result, -EDEADLK);
        cr_assert_eq(inner.builds, 0);
        cr_assert_eq(kit_stats(f).deadlocks, 1);
        cr_assert_eq(kit_stats(f).failures, 1);
        cr_assert_eq(kit_stats(f).keys, 0);
        lanex_flight_destroy(f);
    }
}

Test(single_flight_leave, re_entry_through_builders_of_other_keys_is_a_deadlock)
{
    lanex_flight *f = kit_flight();
    struct ask again = {.flight = f, .key = "a", .generation = 9};
    struct ask b = {.flight = f, .key = "b", .inside = ask_nested, .nested = &again};
    struct ask a = {.flight = f, .key = "a", .inside = ask_nested, .nested = &b};

    cr_assert_eq(kit_ask(&a), -EDEADLK);
    cr_assert_eq(again.result, -EDEADLK);
    cr_assert_eq(again.builds, 0);
    lanex_flight_destroy(f);
}

static int forget_and_ask_nested(struct ask *ask)
{
    LX_REQUIRE(lanex_flight_forget(ask->flight, ask->key, strlen(ask->key)) == 1);
    return ask_nested(ask);
}

Test(single_flight_leave, re_entry_on_a_key_forgotten_by_its_builder_is_a_deadlock_too)
{
    lanex_flight *f = kit_flight();
    struct ask inner = {.flight = f, .key = "k"};
    struct ask outer = {.flight = f, .key = "k", .inside = forget_and_ask_nested, .nested = &inner};

    cr_assert_eq(kit_ask(&outer), -EDEADLK);
    cr_assert_eq(inner.builds, 0);
    lanex_flight_destroy(f);
}

Test(single_flight_leave, nested_builders_of_different_keys_and_flights_are_fine)
{
    lanex_flight *f = kit_flight(), *g = kit_flight();
    struct ask c = {.flight = g, .key = "a"};
    struct ask b = {.flight = f, .key = "b", .inside = ask_nested, .nested = &c};
    struct ask a = {.flight = f, .key = "a", .inside = ask_nested, .nested = &b};

    cr_assert_eq(kit_ask(&a), LANEX_FLIGHT_BUILT);
    cr_assert_eq(b.result, LANEX_FLIGHT_BUILT);
    cr_assert_eq(c.result, LANEX_FLIGHT_BUILT, "the same key of another flight is another key");
    kit_drop(&a);
    lanex_flight_destroy(f);
    lanex_flight_destroy(g);
}

/* Thread i builds key i and asks for key i + 1; all are in their builders before any asks. */
enum { CIRCLE = 3 };
static struct latch all_begun;

static int ask_the_next_in_the_circle(struct ask *ask)
{
    latch_arrive(&all_begun);
    latch_wait(&all_begun, CIRCLE);
    (void)kit_ask(ask->nested);
    kit_drop(ask->nested);
    return ask->nested->result;
}

static void circle(lanex_flight *const flights[CIRCLE])
{
    static const char *const keys[CIRCLE] = {"one", "two", "three"};
    static struct ask outer[CIRCLE], inner[CIRCLE]; /* what they made outlives this function */
    uint64_t deadlocks = 0;

    for (int i = 0; i < CIRCLE; i++) {
        int next = (i + 1) % CIRCLE;

        inner[i] = (struct ask){.flight = flights[next], .key = keys[next]};
        outer[i] = (struct ask){.flight = flights[i],
                                .key = keys[i],
                                .inside = ask_the_next_in_the_circle,
                                .nested = &inner[i]};
        kit_start(&outer[i]);
    }
    /* One is told; its builder fails; whoever waited for it builds that key itself, and so on. */
    for (int i = 0; i < CIRCLE; i++) {
        int rc = kit_join(&outer[i]);

        cr_assert(rc == -EDEADLK || rc > 0);
        deadlocks += inner[i].result == -EDEADLK;
        kit_drop(&outer[i]);
    }
    cr_assert_eq(deadlocks, 1, "the one that closed the circle");
}

Test(single_flight_leave, a_circle_of_builders_is_a_deadlock_for_the_one_that_closes_it)
{
    lanex_flight *f = kit_flight();
    lanex_flight *const flights[CIRCLE] = {f, f, f};

    circle(flights);
    cr_assert_eq(kit_stats(f).deadlocks, 1);
    lanex_flight_destroy(f);
}

Test(single_flight_leave, a_circle_through_several_flights_is_found_too)
{
    lanex_flight *const flights[CIRCLE] = {kit_flight(), kit_flight(), kit_flight()};

    circle(flights);
    for (int i = 0; i < CIRCLE; i++)
        lanex_flight_destroy(flights[i]);
}

/* Waiting inside a builder without a circle must not be called one. */
static int ask_when_all_begun(struct ask *ask)
{
    latch_arrive(&all_begun);
    latch_wait(&all_begun, 2);
    return ask_nested(ask);
}

Test(single_flight_leave, two_builders_that_wait_for_a_third_are_no_circle)
{
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    struct ask third = {.flight = f, .key = "third", .hold = &go};
    struct ask in_a = {.flight = f, .key = "third"}, in_b = {.flight = f, .key = "third"};
    struct ask a = {.flight = f, .key = "a", .inside = ask_when_all_begun, .nested = &in_a};
    struct ask b = {.flight = f, .key = "b", .inside = ask_when_all_begun, .nested = &in_b};

    kit_start(&third);
    latch_wait(&third.begun, 1);
    kit_start(&a);
    kit_start(&b);
    kit_sleepers(f, "third", 2);
    latch_arrive(&go);
    cr_assert_eq(kit_join(&a), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_join(&b), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_join(&third), LANEX_FLIGHT_BUILT);
    cr_assert_eq(in_a.result, LANEX_FLIGHT_JOINED);
    cr_assert_eq(in_b.result, LANEX_FLIGHT_JOINED);
    cr_assert_eq(kit_stats(f).deadlocks, 0);
    kit_drop(&a);
    kit_drop(&b);
    kit_drop(&third);
    lanex_flight_destroy(f);
}

/* ---- forget ---- */

Test(single_flight_leave, forgetting_a_ready_value_makes_later_callers_build)
{
    lanex_flight *f = kit_flight();
    struct ask a = {.flight = f, .key = "k", .generation = 5};
    struct ask b = {.flight = f, .key = "k", .generation = 1};

    cr_assert_eq(lanex_flight_forget(f, "k", 1), 0, "nothing to forget");
    cr_assert_eq(kit_ask(&a), LANEX_FLIGHT_BUILT);
    cr_assert_eq(lanex_flight_forget(f, "k", 1), 1);
    cr_assert_eq(kit_stats(f).keys, 0);
    cr_assert_eq(a.thing.destroyed, 0, "held by who got it");
    kit_drop(&a);
    cr_assert_eq(a.thing.destroyed, 1);
    cr_assert_eq(kit_ask(&b), LANEX_FLIGHT_BUILT);
    kit_drop(&b);
    lanex_flight_destroy(f);
}

Test(single_flight_leave, forgetting_a_build_leaves_it_to_those_inside)
{
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    struct ask before = {.flight = f, .key = "k", .hold = &go};
    struct ask waiter = {.flight = f, .key = "k"};
    struct ask after = {.flight = f, .key = "k"};
    struct ask last = {.flight = f, .key = "k"};

    kit_start(&before);
    latch_wait(&before.begun, 1);
    kit_start(&waiter);
    kit_sleepers(f, "k", 1);
    cr_assert_eq(lanex_flight_forget(f, "k", 1), 1);
    cr_assert_eq(kit_ask(&after), LANEX_FLIGHT_BUILT, "while the forgotten one still builds");
    latch_arrive(&go);
    cr_assert_eq(kit_join(&before), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_join(&waiter), LANEX_FLIGHT_JOINED);
    cr_assert_eq(kit_thing(&waiter), &before.thing);
    cr_assert_eq(kit_ask(&last), LANEX_FLIGHT_HIT);
    cr_assert_eq(kit_thing(&last), &after.thing, "the forgotten one was not installed");
    kit_drop(&before);
    kit_drop(&waiter);
    cr_assert_eq(before.thing.destroyed, 1);
    kit_drop(&after);
    kit_drop(&last);
    lanex_flight_destroy(f);
}

Test(single_flight_leave, a_waiter_of_a_forgotten_build_that_fails_is_a_later_caller)
{
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    struct ask before = {.flight = f, .key = "k", .hold = &go, .fail = -EIO};
    struct ask waiter = {.flight = f, .key = "k"};
    struct ask after = {.flight = f, .key = "k"};

    kit_start(&before);
    latch_wait(&before.begun, 1);
    kit_start(&waiter);
    kit_sleepers(f, "k", 1);
    cr_assert_eq(lanex_flight_forget(f, "k", 1), 1);
    cr_assert_eq(kit_ask(&after), LANEX_FLIGHT_BUILT);
    latch_arrive(&go);
    cr_assert_eq(kit_join(&before), -EIO);
    cr_assert_eq(kit_join(&waiter), LANEX_FLIGHT_JOINED);
    cr_assert_eq(kit_thing(&waiter), &after.thing);
    cr_assert_eq(waiter.builds, 0);
    kit_drop(&waiter);
    kit_drop(&after);
    cr_assert_eq(kit_stats(f).keys, 1);
    lanex_flight_destroy(f);
}

/* The newer build took the mark and failed, so the key is absent; the older one still builds. */
Test(single_flight_leave, an_overtaken_build_is_not_installed_after_a_forget)
{
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    struct ask old = {.flight = f, .key = "k", .generation = 1, .hold = &go};
    struct ask new = {.flight = f, .key = "k", .generation = 2, .fail = -EIO};
    struct ask after = {.flight = f, .key = "k", .generation = 1};

    kit_start(&old);
    latch_wait(&old.begun, 1);
    cr_assert_eq(kit_ask(&new), -EIO);
    cr_assert_eq(lanex_flight_forget(f, "k", 1), 0);
    latch_arrive(&go);
    cr_assert_eq(kit_join(&old), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_ask(&after), LANEX_FLIGHT_BUILT);
    kit_drop(&old);
    kit_drop(&after);
    lanex_flight_destroy(f);
}

/* ---- misuse, forks, memory ---- */

Test(single_flight_leave, destroying_with_a_call_inside_stops_the_program, .signal = SIGABRT)
{
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    struct ask a = {.flight = f, .key = "k", .hold = &go};

    kit_start(&a);
    latch_wait(&a.begun, 1);
    lanex_flight_destroy(f);
}

static int status_of(pid_t child)
{
    int status = 0;

    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Where a child still sees it: it must not free what is its parent's, and that is no leak. */
static lanex_flight *volatile parents;

Test(single_flight_leave, a_forked_child_is_refused_and_can_make_its_own)
{
    lanex_flight *f = parents = kit_flight();
    struct ask a = {.flight = f, .key = "k"};
    pid_t child;

    cr_assert_eq(kit_ask(&a), LANEX_FLIGHT_BUILT);
    kit_drop(&a);
    child = fork();
    if (child == 0) {
        lanex_flight_stats stats = {.size = sizeof stats};
        lanex_flight *own = NULL;
        int bad = kit_ask(&a) != -ECHILD;

        bad |= (lanex_flight_forget(f, "k", 1) != -ECHILD) << 1;
        bad |= (lanex_flight_stats_read(f, &stats) != -ECHILD) << 2;
        lanex_flight_destroy(f);
        bad |= (a.thing.destroyed != 0) << 3;
        bad |= (lanex_flight_create(NULL, &own) != 0) << 4;
        a.flight = own;
        bad |= (kit_ask(&a) != LANEX_FLIGHT_BUILT) << 5;
        kit_drop(&a);
        lanex_flight_destroy(own);
        _exit(bad);
    }
    cr_assert_eq(status_of(child), 0);
    cr_assert_eq(kit_ask(&a), LANEX_FLIGHT_HIT);
    kit_drop(&a);
    lanex_flight_destroy(f);
}

static pid_t forked_inside;
static int fork_inside(struct ask *ask)
{
    (void)ask;
    forked_inside = fork();
    return 0;
}

Test(single_flight_leave, a_builder_that_forks_gives_the_child_an_error)
{
    lanex_flight *f = kit_flight();
    struct ask a = {.flight = f, .key = "k", .inside = fork_inside};
    int rc = kit_ask(&a);

    if (forked_inside == 0)
        _exit(rc == -ECHILD ? 0 : 1);
    cr_assert_eq(rc, LANEX_FLIGHT_BUILT);
    cr_assert_eq(status_of(forked_inside), 0);
    kit_drop(&a);
    lanex_flight_destroy(f);
}

static _Thread_local int until_failure;

static void *fail_the_kth(size_t size, bool zeroed)
{
    if (until_failure > 0 && --until_failure == 0)
        return NULL;
    return zeroed ? calloc(1, size) : malloc(size);
}

Test(single_flight_leave, without_memory_nothing_is_built_and_nothing_is_left)
{
    lanex_flight *f = NULL;
    struct ask a = {.key = "k"};
    int k = 0;

    lx_seams.allocate = fail_the_kth;
    until_failure = 1;
    errno = 77;
    cr_assert_eq(lanex_flight_create(NULL, &f), -ENOMEM);
    cr_assert_eq(errno, 77);
    f = a.flight = kit_flight();
    for (;;) {
        int rc;

        until_failure = ++k;
        rc = kit_ask(&a);
        until_failure = 0;
        if (rc > 0) {
            kit_drop(&a);
            break;
        }
        cr_assert_eq(rc, -ENOMEM);
        cr_assert_eq(a.builds, 0);
        cr_assert_eq(kit_stats(f).keys, 0);
    }
    cr_assert_geq(k, 4, "build, value, entry, and uthash's own failed in turn");
    lanex_flight_destroy(f);
}

/* Single flight, sentence by sentence of SPEC 13: what is returned, installed, waited for. */
#include "single_flight_kit.h"

#include <errno.h>

TestSuite(single_flight, .timeout = 120);

#define ODD_ERRNO 1234

Test(single_flight, an_absent_key_is_built_and_then_ready)
{
    lanex_flight *f = kit_flight();
    struct ask first = {.flight = f, .key = "k", .generation = 7};
    struct ask second = {.flight = f, .key = "k", .generation = 7};

    errno = ODD_ERRNO;
    cr_assert_eq(kit_ask(&first), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_ask(&second), LANEX_FLIGHT_HIT);
    cr_assert_eq(errno, ODD_ERRNO);
    cr_assert_eq(kit_thing(&first), &first.thing);
    cr_assert_eq(kit_thing(&second), &first.thing);
    cr_assert_eq(second.builds, 0);
    cr_assert_eq(lanex_flight_value_generation(second.value), 7);
    kit_drop(&first);
    kit_drop(&second);
    cr_assert_eq(first.thing.destroyed, 0, "the table has a reference");
    lanex_flight_destroy(f);
    cr_assert_eq(first.thing.destroyed, 1);
}

Test(single_flight, a_value_outlives_the_flight_while_it_is_held)
{
    lanex_flight *f = kit_flight();
    struct ask a = {.flight = f, .key = "k"};
    lanex_flight_value *more;

    cr_assert_eq(kit_ask(&a), LANEX_FLIGHT_BUILT);
    more = lanex_flight_value_ref(a.value);
    cr_assert_eq(more, a.value);
    lanex_flight_destroy(f);
    kit_drop(&a);
    cr_assert_eq(a.thing.destroyed, 0);
    cr_assert_eq(lanex_flight_value_data(more), &a.thing);
    lanex_flight_value_unref(more);
    cr_assert_eq(a.thing.destroyed, 1);
    cr_assert_null(lanex_flight_value_ref(NULL));
    lanex_flight_value_unref(NULL);
    lanex_flight_destroy(NULL);
}

Test(single_flight, ready_at_a_newer_generation_is_returned_and_at_an_older_one_is_not)
{
    lanex_flight *f = kit_flight();
    struct ask five = {.flight = f, .key = "k", .generation = 5};
    struct ask four = {.flight = f, .key = "k", .generation = 4};
    struct ask six = {.flight = f, .key = "k", .generation = 6};

    cr_assert_eq(kit_ask(&five), LANEX_FLIGHT_BUILT);
    kit_drop(&five);
    cr_assert_eq(kit_ask(&four), LANEX_FLIGHT_HIT);
    cr_assert_eq(kit_thing(&four), &five.thing);
    kit_drop(&four);
    cr_assert_eq(kit_ask(&six), LANEX_FLIGHT_BUILT);
    cr_assert_eq(five.thing.destroyed, 1, "the older value has left the table");
    kit_drop(&six);
    lanex_flight_destroy(f);
    cr_assert_eq(six.thing.destroyed, 1);
}

Test(single_flight, a_build_of_the_generation_or_newer_is_waited_for)
{
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    struct ask builder = {.flight = f, .key = "k", .generation = 5, .hold = &go};
    struct ask same = {.flight = f, .key = "k", .generation = 5};
    struct ask older = {.flight = f, .key = "k", .generation = 3};

    kit_start(&builder);
    latch_wait(&builder.begun, 1);
    kit_start(&same);
    kit_start(&older);
    kit_sleepers(f, "k", 2);
    latch_arrive(&go);
    cr_assert_eq(kit_join(&builder), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_join(&same), LANEX_FLIGHT_JOINED);
    cr_assert_eq(kit_join(&older), LANEX_FLIGHT_JOINED);
    cr_assert_eq(kit_thing(&same), &builder.thing);
    cr_assert_eq(kit_thing(&older), &builder.thing);
    cr_assert_eq(same.builds + older.builds, 0);
    kit_drop(&builder);
    kit_drop(&same);
    kit_drop(&older);
    lanex_flight_destroy(f);
    cr_assert_eq(builder.thing.destroyed, 1);
}

/* An older build, then a newer one over it; both in their builders. */
struct overtaking {
    lanex_flight *flight;
    struct latch go_old, go_new;
    struct ask old, new;
};

static void overtake(struct overtaking *o)
{
    o->flight = kit_flight();
    o->old = (struct ask){.flight = o->flight, .key = "k", .generation = 1, .hold = &o->go_old};
    o->new = (struct ask){.flight = o->flight, .key = "k", .generation = 2, .hold = &o->go_new};
    kit_start(&o->old);
    latch_wait(&o->old.begun, 1);
    kit_start(&o->new);
    latch_wait(&o->new.begun, 1); /* it does not wait for the older one */
}

static void end(struct overtaking *o)
{
    kit_drop(&o->old);
    kit_drop(&o->new);
    lanex_flight_destroy(o->flight);
    cr_assert_eq(o->old.thing.destroyed, o->old.fail < 0 ? 0 : 1);
    cr_assert_eq(o->new.thing.destroyed, o->new.fail < 0 ? 0 : 1);
}

Test(single_flight, an_overtaken_build_waits_for_the_newer_one_and_returns_its_value)
{
    struct overtaking o = {0};

    overtake(&o);
    latch_arrive(&o.go_old);
    kit_sleepers(o.flight, "k", 1);
    latch_arrive(&o.go_new);
    cr_assert_eq(kit_join(&o.new), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_join(&o.old), LANEX_FLIGHT_JOINED);
    cr_assert_eq(kit_thing(&o.old), &o.new.thing);
    cr_assert_eq(kit_stats(o.flight).superseded, 1);
    end(&o);
}

Test(single_flight, if_the_newer_build_fails_ones_own_is_returned_and_not_installed)
{
    struct overtaking o = {0};
    struct ask later;

    overtake(&o);
    o.new.fail = -EIO;
    latch_arrive(&o.go_old);
    kit_sleepers(o.flight, "k", 1);
    latch_arrive(&o.go_new);
    cr_assert_eq(kit_join(&o.new), -EIO);
    cr_assert_eq(kit_join(&o.old), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_thing(&o.old), &o.old.thing);
    cr_assert_eq(kit_stats(o.flight).keys, 0, "absent, and its memory is gone");
    later = (struct ask){.flight = o.flight, .key = "k", .generation = 1};
    cr_assert_eq(kit_ask(&later), LANEX_FLIGHT_BUILT);
    kit_drop(&later);
    end(&o);
}

Test(single_flight, a_newer_value_that_is_ready_is_returned_instead_of_ones_own)
{
    struct overtaking o = {0};
    struct ask later;

    overtake(&o);
    latch_arrive(&o.go_new);
    cr_assert_eq(kit_join(&o.new), LANEX_FLIGHT_BUILT);
    latch_arrive(&o.go_old);
    cr_assert_eq(kit_join(&o.old), LANEX_FLIGHT_JOINED);
    cr_assert_eq(kit_thing(&o.old), &o.new.thing);
    later = (struct ask){.flight = o.flight, .key = "k", .generation = 1};
    cr_assert_eq(kit_ask(&later), LANEX_FLIGHT_HIT, "the older one was not installed over it");
    cr_assert_eq(kit_thing(&later), &o.new.thing);
    kit_drop(&later);
    end(&o);
}

Test(single_flight, an_overtaken_build_is_installed_if_the_newer_one_has_failed_before)
{
    struct overtaking o = {0};
    struct ask later;

    overtake(&o);
    o.new.fail = -EIO;
    latch_arrive(&o.go_new);
    cr_assert_eq(kit_join(&o.new), -EIO);
    latch_arrive(&o.go_old);
    cr_assert_eq(kit_join(&o.old), LANEX_FLIGHT_BUILT);
    later = (struct ask){.flight = o.flight, .key = "k", .generation = 1};
    cr_assert_eq(kit_ask(&later), LANEX_FLIGHT_HIT);
    kit_drop(&later);
    end(&o);
}

Test(single_flight, an_overtaken_build_that_fails_leaves_the_newer_mark)
{
    struct overtaking o = {0};
    struct ask waiter;

    overtake(&o);
    o.old.fail = -EIO;
    latch_arrive(&o.go_old);
    cr_assert_eq(kit_join(&o.old), -EIO);
    waiter = (struct ask){.flight = o.flight, .key = "k", .generation = 2};
    kit_start(&waiter);
    kit_sleepers(o.flight, "k", 1);
    latch_arrive(&o.go_new);
    cr_assert_eq(kit_join(&waiter), LANEX_FLIGHT_JOINED);
    cr_assert_eq(kit_join(&o.new), LANEX_FLIGHT_BUILT);
    cr_assert_eq(waiter.builds, 0);
    kit_drop(&waiter);
    end(&o);
}

Test(single_flight, a_waiter_of_an_overtaken_build_takes_the_newer_value_at_once)
{
    struct overtaking o = {.flight = kit_flight()};
    struct ask waiter = {.flight = o.flight, .key = "k", .generation = 1};

    o.old = (struct ask){.flight = o.flight, .key = "k", .generation = 1, .hold = &o.go_old};
    o.new = (struct ask){.flight = o.flight, .key = "k", .generation = 2};
    kit_start(&o.old);
    latch_wait(&o.old.begun, 1);
    kit_start(&waiter);
    kit_sleepers(o.flight, "k", 1);
    cr_assert_eq(kit_ask(&o.new), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_join(&waiter), LANEX_FLIGHT_JOINED, "while the old one still builds");
    cr_assert_eq(kit_thing(&waiter), &o.new.thing);
    latch_arrive(&o.go_old);
    cr_assert_eq(kit_join(&o.old), LANEX_FLIGHT_JOINED);
    kit_drop(&waiter);
    end(&o);
}

Test(single_flight, a_waiter_of_an_overtaken_build_gets_its_value_if_the_newer_one_fails)
{
    struct overtaking o = {.flight = kit_flight()};
    struct ask waiter = {.flight = o.flight, .key = "k", .generation = 1};

    o.old = (struct ask){.flight = o.flight, .key = "k", .generation = 1, .hold = &o.go_old};
    o.new = (struct ask){
        .flight = o.flight, .key = "k", .generation = 2, .hold = &o.go_new, .fail = -EIO};
    kit_start(&o.old);
    latch_wait(&o.old.begun, 1);
    kit_start(&waiter);
    kit_sleepers(o.flight, "k", 1);
    kit_start(&o.new);
    latch_wait(&o.new.begun, 1);
    latch_arrive(&o.go_old);
    kit_sleepers(o.flight, "k", 2);
    latch_arrive(&o.go_new);
    cr_assert_eq(kit_join(&o.new), -EIO);
    cr_assert_eq(kit_join(&waiter), LANEX_FLIGHT_JOINED);
    cr_assert_eq(kit_thing(&waiter), &o.old.thing);
    cr_assert_eq(waiter.builds, 0);
    cr_assert_eq(kit_join(&o.old), LANEX_FLIGHT_BUILT);
    kit_drop(&waiter);
    end(&o);
}

/* 1 builds; 2 takes the mark; 1 ends and waits for 2; 3 takes the mark; 2 ends. */
Test(single_flight, one_newer_build_is_waited_for_and_no_more)
{
    struct overtaking o = {0};
    struct latch go_third = LATCH_INIT;
    struct ask third;

    overtake(&o);
    latch_arrive(&o.go_old);
    kit_sleepers(o.flight, "k", 1);
    third = (struct ask){.flight = o.flight, .key = "k", .generation = 3, .hold = &go_third};
    kit_start(&third);
    latch_wait(&third.begun, 1);
    latch_arrive(&o.go_new);
    cr_assert_eq(kit_join(&o.old), LANEX_FLIGHT_JOINED, "while the third still builds");
    cr_assert_eq(kit_thing(&o.old), &o.new.thing);
    latch_arrive(&go_third);
    cr_assert_eq(kit_join(&third), LANEX_FLIGHT_BUILT);
    cr_assert_eq(kit_join(&o.new), LANEX_FLIGHT_JOINED);
    cr_assert_eq(kit_thing(&o.new), &third.thing);
    kit_drop(&third);
    end(&o);
}

Test(single_flight, an_error_goes_to_its_caller_alone_and_a_waiter_builds_with_its_own_builder)
{
    enum { WAITERS = 3 };
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    struct ask failing = {.flight = f, .key = "k", .generation = 1, .hold = &go, .fail = -EBADMSG};
    struct ask waiters[WAITERS];
    struct thing *made = NULL;
    int built = 0;

    kit_start(&failing);
    latch_wait(&failing.begun, 1);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct ask){.flight = f, .key = "k", .generation = 1};
        kit_start(&waiters[i]);
    }
    kit_sleepers(f, "k", WAITERS);
    latch_arrive(&go);
    cr_assert_eq(kit_join(&failing), -EBADMSG);
    for (int i = 0; i < WAITERS; i++) {
        cr_assert_gt(kit_join(&waiters[i]), 0);
        cr_assert_eq(waiters[i].builds, waiters[i].result == LANEX_FLIGHT_BUILT);
        built += waiters[i].builds;
        if (waiters[i].builds > 0)
            made = &waiters[i].thing;
    }
    cr_assert_eq(built, 1);
    for (int i = 0; i < WAITERS; i++) {
        cr_assert_eq(kit_thing(&waiters[i]), made);
        kit_drop(&waiters[i]);
    }
    cr_assert_eq(kit_stats(f).failures, 1);
    lanex_flight_destroy(f);
}

Test(single_flight, a_failed_build_makes_the_key_absent)
{
    lanex_flight *f = kit_flight();
    struct ask one = {.flight = f, .key = "k", .generation = 1};
    struct ask two = {.flight = f, .key = "k", .generation = 2, .fail = -EIO};
    struct ask again = {.flight = f, .key = "k", .generation = 1};

    cr_assert_eq(kit_ask(&one), LANEX_FLIGHT_BUILT);
    kit_drop(&one);
    cr_assert_eq(kit_ask(&two), -EIO);
    cr_assert_eq(one.thing.destroyed, 1, "asking for a newer one said that it is out of date");
    cr_assert_eq(kit_stats(f).keys, 0);
    cr_assert_eq(kit_ask(&again), LANEX_FLIGHT_BUILT);
    kit_drop(&again);
    lanex_flight_destroy(f);
}

Test(single_flight, keys_do_not_wait_for_one_another)
{
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    struct ask slow = {.flight = f, .key = "a", .hold = &go};
    struct ask quick = {.flight = f, .key = "b"};
    struct ask prefix = {.flight = f, .key = "aa"};

    kit_start(&slow);
    latch_wait(&slow.begun, 1);
    cr_assert_eq(kit_ask(&quick), LANEX_FLIGHT_BUILT, "while the other still builds");
    cr_assert_eq(kit_ask(&prefix), LANEX_FLIGHT_BUILT, "a longer key is another key");
    latch_arrive(&go);
    cr_assert_eq(kit_join(&slow), LANEX_FLIGHT_BUILT);
    kit_drop(&slow);
    kit_drop(&quick);
    kit_drop(&prefix);
    lanex_flight_destroy(f);
}

static lanex_flight *called_back;
static atomic_int destroyed_calling_back;

static void destroy_calling_back(void *data)
{
    (void)data;
    (void)kit_stats(called_back);
    LX_REQUIRE(lanex_flight_forget(called_back, "other", 5) >= 0); /* takes the mutex */
    atomic_fetch_add(&destroyed_calling_back, 1);
}

static int build_plain(const lanex_flight_request *request, void **ret_data)
{
    (void)kit_stats(called_back);
    LX_REQUIRE(lanex_flight_forget(called_back, "other", 5) >= 0);
    *ret_data = request->arg;
    return 0;
}

Test(single_flight, no_lock_is_held_while_building_or_destroying)
{
    lanex_flight_options options = {.size = sizeof options, .destroy = destroy_calling_back};
    int data = 0;
    lanex_flight_request r = {.size = sizeof r,
                              .key = "k",
                              .key_length = 1,
                              .generation = 1,
                              .build = build_plain,
                              .arg = &data};
    lanex_flight_value *v = NULL;

    cr_assert_eq(lanex_flight_create(&options, &called_back), 0);
    cr_assert_eq(lanex_flight_get_or_build(called_back, &r, &v), LANEX_FLIGHT_BUILT);
    lanex_flight_value_unref(v);
    r.generation = 2; /* the value of 1 is destroyed inside this call */
    cr_assert_eq(lanex_flight_get_or_build(called_back, &r, &v), LANEX_FLIGHT_BUILT);
    cr_assert_eq(destroyed_calling_back, 1);
    lanex_flight_value_unref(v);
    cr_assert_eq(lanex_flight_forget(called_back, "k", 1), 1);
    cr_assert_eq(destroyed_calling_back, 2);
    lanex_flight_destroy(called_back);
}

Test(single_flight, null_is_a_value_and_is_not_destroyed)
{
    lanex_flight_options options = {.size = sizeof options, .destroy = destroy_calling_back};
    lanex_flight_request r = {.size = sizeof r, .key = "k", .key_length = 1, .build = build_plain};
    lanex_flight_value *v = NULL;

    cr_assert_eq(lanex_flight_create(&options, &called_back), 0);
    cr_assert_eq(lanex_flight_get_or_build(called_back, &r, &v), LANEX_FLIGHT_BUILT);
    cr_assert_null(lanex_flight_value_data(v));
    lanex_flight_value_unref(v);
    cr_assert_eq(lanex_flight_get_or_build(called_back, &r, &v), LANEX_FLIGHT_HIT);
    lanex_flight_value_unref(v);
    lanex_flight_destroy(called_back);
    cr_assert_eq(destroyed_calling_back, 0);
}

Test(single_flight, statistics_count_what_happened)
{
    lanex_flight *f = kit_flight();
    struct latch go = LATCH_INIT;
    struct ask slow = {.flight = f, .key = "k", .hold = &go};
    struct ask joiner = {.flight = f, .key = "k"};
    struct ask hit = {.flight = f, .key = "k"};
    struct ask failing = {.flight = f, .key = "other", .fail = -EIO};
    lanex_flight_stats s;

    kit_start(&slow);
    latch_wait(&slow.begun, 1);
    s = kit_stats(f);
    cr_assert_eq(s.building, 1);
    cr_assert_eq(s.keys, 1);
    kit_start(&joiner);
    kit_sleepers(f, "k", 1);
    latch_arrive(&go);
    (void)kit_join(&slow);
    (void)kit_join(&joiner);
    (void)kit_ask(&hit);
    (void)kit_ask(&failing);
    s = kit_stats(f);
    cr_assert_eq(s.builds, 2);
    cr_assert_eq(s.built, 1);
    cr_assert_eq(s.joins, 1);
    cr_assert_eq(s.hits, 1);
    cr_assert_eq(s.failures, 1);
    cr_assert_eq(s.building, 0);
    cr_assert_eq(s.keys, 1, "nothing is kept of the key that failed");
    cr_assert_eq(s.timeouts + s.cancelled + s.deadlocks + s.superseded, 0);
    kit_drop(&slow);
    kit_drop(&joiner);
    kit_drop(&hit);
    lanex_flight_destroy(f);
}

Test(single_flight, wrong_arguments_are_refused)
{
    lanex_flight_options options = {.size = sizeof options + 1};
    lanex_flight_stats stats = {.size = 1};
    static char long_key[LANEX_FLIGHT_KEY_MAX + 1];
    lanex_flight *f = NULL;
    lanex_flight_value *v = NULL;
    const lanex_flight_request good = {
        .size = sizeof good, .key = long_key, .key_length = 1, .build = build_plain};
    lanex_flight_request r;

    cr_assert_eq(lanex_flight_create(&options, &f), -EINVAL);
    cr_assert_eq(lanex_flight_create(NULL, NULL), -EINVAL);
    cr_assert_null(f);
    cr_assert_eq(lanex_flight_create(NULL, &f), 0);
    called_back = f;
    cr_assert_eq(lanex_flight_get_or_build(NULL, &good, &v), -EINVAL);
    cr_assert_eq(lanex_flight_get_or_build(f, NULL, &v), -EINVAL);
    cr_assert_eq(lanex_flight_get_or_build(f, &good, NULL), -EINVAL);
    r = good, r.size = 8;
    cr_assert_eq(lanex_flight_get_or_build(f, &r, &v), -EINVAL);
    r = good, r.key = NULL;
    cr_assert_eq(lanex_flight_get_or_build(f, &r, &v), -EINVAL);
    r = good, r.key_length = 0;
    cr_assert_eq(lanex_flight_get_or_build(f, &r, &v), -EINVAL);
    r = good, r.key_length = LANEX_FLIGHT_KEY_MAX + 1;
    cr_assert_eq(lanex_flight_get_or_build(f, &r, &v), -EINVAL);
    r = good, r.build = NULL;
    cr_assert_eq(lanex_flight_get_or_build(f, &r, &v), -EINVAL);
    cr_assert_null(v);
    cr_assert_eq(lanex_flight_forget(f, "", 0), -EINVAL);
    cr_assert_eq(lanex_flight_forget(NULL, "k", 1), -EINVAL);
    cr_assert_eq(lanex_flight_stats_read(f, &stats), -EINVAL);
    cr_assert_eq(lanex_flight_stats_read(f, NULL), -EINVAL);
    r = good, r.key_length = LANEX_FLIGHT_KEY_MAX;
    cr_assert_eq(lanex_flight_get_or_build(f, &r, &v), LANEX_FLIGHT_BUILT);
    lanex_flight_value_unref(v);
    lanex_flight_destroy(f);
}

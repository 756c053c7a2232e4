/*
 * Wrong sequences, second part: deadlines, cancelling, deferred answers, actors' lives, the
 * executor's end, and what the views say.
 */
#include "check_selftest.h"

#include <errno.h>

static void with_deadline(uint32_t job, uint64_t in_ns)
{
    struct check_facts f = facts(0, LANEX_LANE_PURE_READ);

    f.deadline_ns = clock_ns + in_ns;
    submit_facts(job, f);
}

static void deadline_goes_by(void)
{
    submit(1, 0, LANEX_LANE_MUTATING); /* it waits for this one */
    run(1, 0);
    with_deadline(0, 10 * MS);
    clock_ns += 20 * MS;
    check_tick(c);
}

static void expires_too_early(void)
{
    with_deadline(0, 10 * MS);
    check_completed(c, 0, LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
}

static void begins_after_its_deadline(void)
{
    with_deadline(0, 10 * MS);
    clock_ns += 20 * MS;
    run(0, 0);
}

static void removed_though_it_had_begun(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    cancel(0, LANEX_CANCEL_QUEUED_REMOVED);
}

static void not_found_while_it_runs(void)
{
    submit_token(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    cancel(0, LANEX_CANCEL_NOT_FOUND);
}

static void committed_without_a_seal(void)
{
    submit_token(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    cancel(0, LANEX_CANCEL_RUNNING_COMMITTED);
}

static void signalled_without_a_token(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    cancel(0, LANEX_CANCEL_RUNNING_SIGNALLED);
}

static void removed_and_expired(void)
{
    with_deadline(0, 10 * MS);
    cancel(0, LANEX_CANCEL_QUEUED_REMOVED);
    clock_ns += 11 * MS;
    check_completed(c, 0, LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
}

static void both_win(void)
{
    submit_token(0, 0, LANEX_LANE_MUTATING);
    run(0, 0);
    cancel(0, LANEX_CANCEL_RUNNING_SIGNALLED);
    check_seal_begin(c, 0);
    check_seal_end(c, 0, true);
}

static void signalled_after_the_seal(void)
{
    submit_token(0, 0, LANEX_LANE_MUTATING);
    run(0, 0);
    check_seal_begin(c, 0);
    check_seal_end(c, 0, true);
    cancel(0, LANEX_CANCEL_RUNNING_SIGNALLED);
}

static void seal_lost_to_nobody(void)
{
    submit_token(0, 0, LANEX_LANE_MUTATING);
    run(0, 0);
    check_seal_begin(c, 0);
    check_seal_end(c, 0, false);
}

static void inert_without_a_reason(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    check_body_end(c, 0, false, CHECK_END_DEFERRED);
    check_answer_begin(c, 0, CHECK_ANSWER_OK);
    check_answer_end(c, 0, -EALREADY);
}

/* Destroy answered it, and the handle's call says that it did. */
static void answered_by_both(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    check_body_end(c, 0, false, CHECK_END_DEFERRED);
    c->jobs[0].deferred = true;
    check_destroy_begin(c);
    check_completed(c, 0, LANEX_STATUS_EXECUTOR_SHUTDOWN);
    check_answer_begin(c, 0, CHECK_ANSWER_OK);
    check_answer_end(c, 0, 0);
    check_finish(c);
}

static void make_fatal(void)
{
    submit(0, 0, LANEX_LANE_MUTATING);
    run(0, 0);
    check_body_end(c, 0, false, CHECK_END_PANIC);
}

static void runs_on_a_fatal_actor(void)
{
    submit(1, 0, LANEX_LANE_PURE_READ);
    make_fatal();
    run(1, 0);
}

static void fatal_actor_says_something_else(void)
{
    make_fatal();
    check_completed(c, 0, LANEX_STATUS_ACTOR_FATAL);
    check_cancel_begin(c, 0);
    submit(1, 0, LANEX_LANE_PURE_READ);
    check_cancel_begin(c, 1);
    check_completed(c, 1, LANEX_STATUS_REQUEST_CANCELLED);
}

static void removed(uint32_t key, bool retire)
{
    check_remove_begin(c, key, retire);
    check_remove_end(c, key, retire, 0);
}

static void runs_on_a_removed_actor(void)
{
    removed(0, false);
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
}

static void too_many_starts_after_removal(void)
{
    for (uint32_t i = 0; i < 5; i++)
        submit(i, 0, LANEX_LANE_PURE_READ);
    removed(0, false);
    for (uint32_t i = 0; i < 5; i++)
        whole(i, 0);
}

static void runs_under_the_next_incarnation(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    removed(0, false);
    check_register_begin(c, 2, 0, 1);
    check_register_end(c, 2, 1);
    run(0, 2);
}

static void runs_under_another_key(void)
{
    struct check_facts f = facts(CHECK_NO_ACTOR, LANEX_LANE_PURE_READ);

    f.key = 0;
    submit_facts(0, f);
    run(0, 1);
}

static void two_incarnations(void)
{
    check_register_begin(c, 2, 0, 1);
    check_register_end(c, 2, 1);
}

static void released_while_in_use(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    removed(0, false);
    check_context_release(c, 0);
}

static void released_twice(void)
{
    removed(0, false);
    check_context_release(c, 0);
    check_context_release(c, 0);
}

static void released_while_registered(void)
{
    check_context_release(c, 0);
}

static void not_released(void)
{
    check_destroy_begin(c);
    check_context_release(c, 0);
    check_destroy_end(c, 0);
    check_finish(c);
}

static void torn_down_though_removed(void)
{
    removed(0, false);
    check_context_teardown(c, 0);
}

static void retired_and_not_torn_down(void)
{
    removed(0, true);
    give_contexts_back();
    check_finish(c);
}

static void retired_while_busy(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    removed(0, true);
}

static void idle_and_called_busy(void)
{
    check_remove_begin(c, 0, true);
    check_remove_end(c, 0, true, -EBUSY);
}

static void unregistered_first(void)
{
    check_hook(c, 0, false);
}

static void hook_is_missing(void)
{
    check_hook(c, 0, true);
    give_contexts_back();
    check_finish(c);
}

static void data_is_lost(void)
{
    check_data_made(c);
    give_contexts_back();
    check_finish(c);
}

static void data_dies_twice(void)
{
    check_data_made(c);
    check_data_gone(c);
    check_data_gone(c);
}

static void runs_after_drain(void)
{
    check_drain_begin(c);
    check_drain_end(c, 0, 0, clock_ns, LANEX_TIME_NEVER);
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
}

static void drained_while_a_body_runs(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    check_drain_begin(c);
    check_drain_end(c, 0, 0, clock_ns, LANEX_TIME_NEVER);
}

static void drain_gives_up_early(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    check_drain_begin(c);
    check_drain_end(c, -ETIMEDOUT, 1, clock_ns, 10 * MS);
}

static void drain_leaves_too_many(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    check_drain_begin(c);
    clock_ns += 20 * MS;
    check_drain_end(c, -ETIMEDOUT, 2, clock_ns - 20 * MS, 10 * MS);
}

static void drained_and_still_queued(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    check_drain_begin(c);
    check_drain_end(c, 0, 0, clock_ns, LANEX_TIME_NEVER);
}

static void destroyed_while_a_body_runs(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    check_destroy_begin(c);
    check_destroy_end(c, 0);
}

static void destroyed_and_not_answered(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    check_destroy_begin(c);
    check_destroy_end(c, 0);
}

static void call_after_destroy(void)
{
    give_contexts_back();
    check_call_result(c, check_ended(c), 0);
}

static void shut_down_before_destroy(void)
{
    check_call_result(c, false, -ESHUTDOWN);
}

static void nothing_starts(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    check_tick(c);
    clock_ns += 60 * MS;
    check_tick(c);
}

static void maintenance_does_not_start(void)
{
    submit_class(0, 0, LANEX_LANE_PURE_READ, LANEX_CLASS_MAINTENANCE);
    check_tick(c);
    clock_ns += 60 * MS;
    check_tick(c);
}

static void view_differs_when_still(void)
{
    lanex_liveness live = view();

    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    check_still(c, &live);
}

static void counters_differ_at_the_end(void)
{
    lanex_liveness live = view();
    lanex_counters counters = {.actors = 2};

    submit(0, 0, LANEX_LANE_PURE_READ);
    whole(0, 0);
    check_quiet(c, &live, &counters);
}

static void more_runs_than_workers_in_the_view(void)
{
    lanex_liveness live = view();

    live.running[0] = 5;
    check_liveness(c, &live);
}

static void phantom_permit(void)
{
    lanex_liveness live = view();

    live.phantom_permits = 1;
    check_liveness(c, &live);
}

const struct wrong wrong_lives[] = {
    WRONG(CHECK_DEADLINE, deadline_goes_by),
    WRONG(CHECK_DEADLINE, expires_too_early),
    WRONG(CHECK_DEADLINE, begins_after_its_deadline),
    WRONG(CHECK_CANCEL, removed_though_it_had_begun),
    WRONG(CHECK_CANCEL, not_found_while_it_runs),
    WRONG(CHECK_CANCEL, committed_without_a_seal),
    WRONG(CHECK_CANCEL, signalled_without_a_token),
    WRONG(CHECK_CANCEL, removed_and_expired),
    WRONG(CHECK_SEAL, both_win),
    WRONG(CHECK_SEAL, signalled_after_the_seal),
    WRONG(CHECK_SEAL, seal_lost_to_nobody),
    WRONG(CHECK_DEFERRED, inert_without_a_reason),
    WRONG(CHECK_DEFERRED, answered_by_both),
    WRONG(CHECK_FATAL, runs_on_a_fatal_actor),
    WRONG(CHECK_FATAL, fatal_actor_says_something_else),
    WRONG(CHECK_REMOVED, runs_on_a_removed_actor),
    WRONG(CHECK_REMOVED, too_many_starts_after_removal),
    WRONG(CHECK_INCARNATION, runs_under_the_next_incarnation),
    WRONG(CHECK_INCARNATION, runs_under_another_key),
    WRONG(CHECK_INCARNATION, two_incarnations),
    WRONG(CHECK_CONTEXT, released_while_in_use),
    WRONG(CHECK_CONTEXT, released_twice),
    WRONG(CHECK_CONTEXT, released_while_registered),
    WRONG(CHECK_CONTEXT, not_released),
    WRONG(CHECK_CONTEXT, torn_down_though_removed),
    WRONG(CHECK_CONTEXT, retired_and_not_torn_down),
    WRONG(CHECK_RETIRE, retired_while_busy),
    WRONG(CHECK_RETIRE, idle_and_called_busy),
    WRONG(CHECK_HOOK, unregistered_first),
    WRONG(CHECK_HOOK, hook_is_missing),
    WRONG(CHECK_DATA, data_is_lost),
    WRONG(CHECK_DATA, data_dies_twice),
    WRONG(CHECK_DRAIN, runs_after_drain),
    WRONG(CHECK_DRAIN, drained_while_a_body_runs),
    WRONG(CHECK_DRAIN, drain_gives_up_early),
    WRONG(CHECK_DRAIN, drain_leaves_too_many),
    WRONG(CHECK_DRAIN, drained_and_still_queued),
    WRONG(CHECK_DESTROY, destroyed_while_a_body_runs),
    WRONG(CHECK_DESTROY, destroyed_and_not_answered),
    WRONG(CHECK_DESTROY, call_after_destroy),
    WRONG(CHECK_DESTROY, shut_down_before_destroy),
    WRONG(CHECK_PROGRESS, nothing_starts),
    WRONG(CHECK_PROGRESS, maintenance_does_not_start),
    WRONG(CHECK_COUNTERS, view_differs_when_still),
    WRONG(CHECK_COUNTERS, counters_differ_at_the_end),
    WRONG(CHECK_COUNTERS, more_runs_than_workers_in_the_view),
    WRONG(CHECK_PHANTOM, phantom_permit),
    {CHECK_NONE, NULL, NULL},
};

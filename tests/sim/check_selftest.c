/*
 * The checker's own test: for each rule, sequences of events that break it and nothing else. What
 * is not rejected here would not be found by the simulated world either.
 */
#include "tests/support/lx_test.h"

#include "check.h"

#include <errno.h>

#define MS UINT64_C(1000000)

static struct check *c;
static uint64_t clock_ns;

static uint64_t now(void)
{
    return clock_ns;
}

static void begin(void)
{
    lanex_config config = {.size = sizeof config};
    lanex_executor_options options = {.size = sizeof options,
                                      .pool_size = 4,
                                      .actor_cap = 3,
                                      .read_cap = 2,
                                      .heavy_permits = 2,
                                      .promotion_age_ms = 100,
                                      .maintenance_max_wait_ms = 1000,
                                      .maintenance_queue_cap = 2};
    const struct check_limits limits = {
        .clock_ns = MS, .deadline_ns = 5 * MS, .progress_ns = 50 * MS};

    LX_REQUIRE(lanex_config_resolve(&options, 8, &config) == 0);
    if (c == NULL)
        c = malloc(sizeof *c);
    LX_REQUIRE(c != NULL);
    clock_ns = 1000 * MS;
    check_init(c, &config, &limits, now);
    /* Actor 0 under key 0, actor 1 under key 1. */
    for (uint32_t i = 0; i < 2; i++) {
        check_register_begin(c, i, i, 1);
        check_register_end(c, i, 1);
    }
}

/* ---- short forms ---- */

static struct check_facts facts(uint32_t actor, uint32_t lane)
{
    return (struct check_facts){
        .actor = actor, .key = actor, .lane = lane, .cost = 1, .told = true, .prompt = true};
}

static void submit_facts(uint32_t job, struct check_facts f)
{
    check_submit_begin(c, job, &f);
    check_submit_end(c, job, 0);
}

static void submit(uint32_t job, uint32_t actor, uint32_t lane)
{
    submit_facts(job, facts(actor, lane));
}

static void submit_class(uint32_t job, uint32_t actor, uint32_t lane, uint32_t job_class)
{
    struct check_facts f = facts(actor, lane);

    f.job_class = job_class;
    submit_facts(job, f);
}

static void submit_token(uint32_t job, uint32_t actor, uint32_t lane)
{
    struct check_facts f = facts(actor, lane);

    f.token = true;
    submit_facts(job, f);
}

static void run(uint32_t job, uint32_t actor)
{
    check_body_begin(c, job, actor, false);
}

static void end(uint32_t job)
{
    check_body_end(c, job, false, CHECK_END_OK);
}

static void whole(uint32_t job, uint32_t actor)
{
    run(job, actor);
    end(job);
    check_completed(c, job, LANEX_STATUS_OK);
}

static void cancel(uint32_t job, int outcome)
{
    check_cancel_begin(c, job);
    check_cancel_end(c, job, outcome);
}

static void give_contexts_back(void)
{
    check_destroy_begin(c);
    check_context_release(c, 0);
    check_context_release(c, 1);
    check_destroy_end(c, 0);
}

static lanex_liveness view(void)
{
    return (lanex_liveness){.size = sizeof(lanex_liveness),
                            .idle_workers = 4,
                            .interactive_reserve = c->config.interactive_reserve,
                            .maintenance_cap = c->config.maintenance_cap};
}

/* ---- wrong sequences ---- */

static void five_bodies(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        check_register_begin(c, 2 + i, 2 + i, 1);
        check_register_end(c, 2 + i, 1);
    }
    for (uint32_t i = 0; i < 5; i++) {
        submit(i, i % 4, i < 4 ? LANEX_LANE_PURE_READ : LANEX_LANE_SERIAL_STATUS);
        run(i, i % 4);
    }
}

static void writer_beside_reader(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    submit(1, 0, LANEX_LANE_MUTATING);
    run(0, 0);
    run(1, 0);
}

static void reader_beside_writer(void)
{
    submit(0, 0, LANEX_LANE_MUTATING);
    submit(1, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    run(1, 0);
}

static void install_beside_commit(void)
{
    struct check_facts f = facts(0, LANEX_LANE_HEAVY_INIT);

    f.install = true;
    submit_facts(0, f);
    submit(1, 0, LANEX_LANE_MAINTENANCE_COMMIT);
    run(0, 0);
    end(0);
    run(1, 0);
    check_body_begin(c, 0, 0, true);
}

static void two_serials(void)
{
    submit(0, 0, LANEX_LANE_SERIAL_STATUS);
    submit(1, 0, LANEX_LANE_SERIAL_STATUS);
    run(0, 0);
    run(1, 0);
}

static void two_commits(void)
{
    submit(0, 0, LANEX_LANE_MAINTENANCE_COMMIT);
    submit(1, 0, LANEX_LANE_MAINTENANCE_COMMIT);
    run(0, 0);
    run(1, 0);
}

static void three_reads(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        submit(i, 0, LANEX_LANE_PURE_READ);
        run(i, 0);
    }
}

static void four_of_an_actor(void)
{
    static const uint32_t lanes[] = {LANEX_LANE_PURE_READ, LANEX_LANE_PURE_READ,
                                     LANEX_LANE_SERIAL_STATUS, LANEX_LANE_HEAVY_INIT};

    for (uint32_t i = 0; i < 4; i++) {
        submit(i, 0, lanes[i]);
        run(i, 0);
    }
}

static void three_heavies(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        submit(i, i % 2, LANEX_LANE_HEAVY_INIT);
        run(i, i % 2);
    }
}

/* A built job holds its permit until it is installed. */
static void permit_of_a_built_job(void)
{
    struct check_facts f = facts(0, LANEX_LANE_HEAVY_INIT);

    f.install = true;
    submit_facts(0, f);
    run(0, 0);
    end(0);
    submit(1, 1, LANEX_LANE_HEAVY_INIT);
    submit(2, 1, LANEX_LANE_HEAVY_INIT);
    run(1, 1);
    run(2, 1);
    end(1);
    check_body_begin(c, 0, 0, true);
}

static void three_maintenance(void)
{
    for (uint32_t i = 0; i < 3; i++)
        submit_class(i, i % 2, LANEX_LANE_HEAVY_INIT + (i == 2 ? 2 : 0), LANEX_CLASS_MAINTENANCE);
    for (uint32_t i = 0; i < 3; i++)
        run(i, i % 2);
}

static void maintenance_on_the_reserve(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    submit(1, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    run(1, 0);
    submit_class(2, 1, LANEX_LANE_PURE_READ, LANEX_CLASS_MAINTENANCE);
    run(2, 1);
}

static void serials_out_of_order(void)
{
    submit(0, 0, LANEX_LANE_SERIAL_STATUS);
    submit(1, 0, LANEX_LANE_SERIAL_STATUS);
    whole(1, 0);
    run(0, 0);
}

static void writer_passes_a_status(void)
{
    submit(0, 0, LANEX_LANE_SERIAL_STATUS);
    submit(1, 0, LANEX_LANE_MUTATING);
    whole(1, 0);
    run(0, 0);
}

static void status_passes_a_writer(void)
{
    submit(0, 0, LANEX_LANE_MUTATING);
    submit(1, 0, LANEX_LANE_SERIAL_STATUS);
    whole(1, 0);
    run(0, 0);
}

static void read_passes_under_arrival(void)
{
    c->config.policy = LANEX_POLICY_ARRIVAL;
    submit(0, 0, LANEX_LANE_MUTATING);
    submit(1, 0, LANEX_LANE_PURE_READ);
    whole(1, 0);
    run(0, 0);
}

static void maintenance_out_of_order(void)
{
    submit_class(0, 0, LANEX_LANE_PURE_READ, LANEX_CLASS_MAINTENANCE);
    submit_class(1, 0, LANEX_LANE_MUTATING, LANEX_CLASS_MAINTENANCE);
    whole(1, 0);
    run(0, 0);
}

static void read_passes_a_promoted_writer(void)
{
    submit(0, 0, LANEX_LANE_MUTATING);
    clock_ns += 110 * MS;
    submit(1, 0, LANEX_LANE_PURE_READ);
    whole(1, 0);
    run(0, 0);
}

static void maintenance_before_a_writer(void)
{
    submit(0, 0, LANEX_LANE_MUTATING);
    submit_class(1, 0, LANEX_LANE_PURE_READ, LANEX_CLASS_MAINTENANCE);
    whole(1, 0);
    run(0, 0);
}

static void two_completions(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    whole(0, 0);
    check_completed(c, 0, LANEX_STATUS_OK);
}

static void two_runs(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    end(0);
    run(0, 0);
}

static void no_completion(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    end(0);
    check_finish(c);
}

static void refused_and_runs(void)
{
    struct check_facts f = facts(0, LANEX_LANE_PURE_READ);

    check_submit_begin(c, 0, &f);
    check_submit_end(c, 0, -ENOMEM);
    run(0, 0);
}

static void refused_and_answered(void)
{
    struct check_facts f = facts(0, LANEX_LANE_PURE_READ);

    check_submit_begin(c, 0, &f);
    check_cancel_begin(c, 0);
    check_submit_end(c, 0, -ENOMEM);
    check_completed(c, 0, LANEX_STATUS_REQUEST_CANCELLED);
}

static void ok_without_running(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    check_completed(c, 0, LANEX_STATUS_OK);
}

static void panic_answered_ok(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    check_body_end(c, 0, false, CHECK_END_PANIC);
    check_completed(c, 0, LANEX_STATUS_OK);
}

static void cancelled_by_nobody(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    check_completed(c, 0, LANEX_STATUS_REQUEST_CANCELLED);
}

static void coalesced_behind_nothing(void)
{
    struct check_facts f = facts(0, LANEX_LANE_PURE_READ);

    f.job_class = LANEX_CLASS_MAINTENANCE;
    f.coalesce_key = 1;
    submit_facts(0, f);
    check_completed(c, 0, LANEX_STATUS_MAINTENANCE_CANCELLED);
}

static void built_and_said_to_be_done(void)
{
    struct check_facts f = facts(0, LANEX_LANE_HEAVY_INIT);

    f.install = true;
    submit_facts(0, f);
    run(0, 0);
    end(0);
    check_completed(c, 0, LANEX_STATUS_OK);
}

static void answered_while_it_runs(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    check_completed(c, 0, LANEX_STATUS_OK);
}

static void backpressure_not_retryable(void)
{
    lanex_refusal refusal = {.queue_class = LANEX_CLASS_MAINTENANCE, .depth = 2, .cap = 2};

    submit_class(0, 0, LANEX_LANE_PURE_READ, LANEX_CLASS_MAINTENANCE);
    check_completed_with(c, 0, LANEX_STATUS_MAINTENANCE_BACKPRESSURE, false, &refusal);
}

static void backpressure_below_the_cap(void)
{
    lanex_refusal refusal = {.queue_class = LANEX_CLASS_MAINTENANCE, .depth = 1, .cap = 2};

    submit_class(0, 0, LANEX_LANE_PURE_READ, LANEX_CLASS_MAINTENANCE);
    check_completed_with(c, 0, LANEX_STATUS_MAINTENANCE_BACKPRESSURE, true, &refusal);
}

static void runs_after_its_answer(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    check_cancel_begin(c, 0);
    check_completed(c, 0, LANEX_STATUS_REQUEST_CANCELLED);
    run(0, 0);
}

static void runs_after_removal_from_the_queue(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    cancel(0, LANEX_CANCEL_QUEUED_REMOVED);
    run(0, 0);
}

static void runs_with_a_token_cancelled_before(void)
{
    submit_token(0, 0, LANEX_LANE_PURE_READ);
    check_cancel_begin(c, 0);
    check_token_cancel_end(c, 0, LANEX_CANCELLATION_PENDING);
    run(0, 0);
}

static void nobody_is_told(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    end(0);
    clock_ns += 60 * MS;
    check_tick(c);
}

static void answer_is_not_passed_on(void)
{
    submit(0, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    check_answer_begin(c, 0, CHECK_ANSWER_OK);
    check_body_end(c, 0, false, CHECK_END_DEFERRED);
    check_answer_end(c, 0, 0);
    clock_ns += 60 * MS;
    check_tick(c);
}

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

#define WRONG(rule, sequence)                                                                      \
    {                                                                                              \
        rule, #sequence, sequence                                                                  \
    }

static const struct {
    enum check_rule rule;
    const char *name;
    void (*sequence)(void);
} wrongs[] = {
    WRONG(CHECK_POOL, five_bodies),
    WRONG(CHECK_EXCLUSION, writer_beside_reader),
    WRONG(CHECK_EXCLUSION, reader_beside_writer),
    WRONG(CHECK_EXCLUSION, install_beside_commit),
    WRONG(CHECK_SERIAL, two_serials),
    WRONG(CHECK_COMMIT, two_commits),
    WRONG(CHECK_READ_CAP, three_reads),
    WRONG(CHECK_ACTOR_CAP, four_of_an_actor),
    WRONG(CHECK_PERMITS, three_heavies),
    WRONG(CHECK_PERMITS, permit_of_a_built_job),
    WRONG(CHECK_MAINTENANCE_CAP, three_maintenance),
    WRONG(CHECK_RESERVE, maintenance_on_the_reserve),
    WRONG(CHECK_ORDER, serials_out_of_order),
    WRONG(CHECK_ORDER, writer_passes_a_status),
    WRONG(CHECK_ORDER, status_passes_a_writer),
    WRONG(CHECK_ORDER, read_passes_under_arrival),
    WRONG(CHECK_ORDER, maintenance_out_of_order),
    WRONG(CHECK_PROMOTION, read_passes_a_promoted_writer),
    WRONG(CHECK_WRITER_FIRST, maintenance_before_a_writer),
    WRONG(CHECK_TWICE, two_completions),
    WRONG(CHECK_TWICE, two_runs),
    WRONG(CHECK_NEVER, no_completion),
    WRONG(CHECK_NOT_ACCEPTED, refused_and_runs),
    WRONG(CHECK_NOT_ACCEPTED, refused_and_answered),
    WRONG(CHECK_STATUS, ok_without_running),
    WRONG(CHECK_STATUS, panic_answered_ok),
    WRONG(CHECK_STATUS, cancelled_by_nobody),
    WRONG(CHECK_STATUS, coalesced_behind_nothing),
    WRONG(CHECK_STATUS, built_and_said_to_be_done),
    WRONG(CHECK_STATUS, answered_while_it_runs),
    WRONG(CHECK_DETAILS, backpressure_not_retryable),
    WRONG(CHECK_DETAILS, backpressure_below_the_cap),
    WRONG(CHECK_RAN_AFTER, runs_after_its_answer),
    WRONG(CHECK_RAN_AFTER, runs_after_removal_from_the_queue),
    WRONG(CHECK_RAN_AFTER, runs_with_a_token_cancelled_before),
    WRONG(CHECK_LATE_ANSWER, nobody_is_told),
    WRONG(CHECK_LATE_ANSWER, answer_is_not_passed_on),
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
};

#define WRONGS (sizeof wrongs / sizeof wrongs[0])

Test(sim_check, rejects_each_wrong_sequence_by_its_rule)
{
    for (size_t i = 0; i < WRONGS; i++) {
        begin();
        wrongs[i].sequence();
        cr_assert(c->rule == wrongs[i].rule, "%s should break %s; it broke %s: %s", wrongs[i].name,
                  check_rule_name(wrongs[i].rule), check_rule_name(c->rule), c->error);
        cr_assert(c->error[0] == '[');
    }
}

Test(sim_check, has_a_wrong_sequence_for_each_rule)
{
    for (unsigned rule = CHECK_NONE + 1; rule < CHECK_RULES; rule++) {
        unsigned found = 0;
        for (size_t i = 0; i < WRONGS; i++)
            found += wrongs[i].rule == rule;
        cr_assert(found > 0, "rule %s has no sequence", check_rule_name((enum check_rule)rule));
    }
}

static void right_life(void)
{
    struct check_facts f = facts(0, LANEX_LANE_HEAVY_INIT);

    f.install = true;
    submit_facts(0, f);
    submit(1, 0, LANEX_LANE_PURE_READ);
    run(0, 0);
    whole(1, 0);
    end(0);
    check_body_begin(c, 0, 0, true);
    check_body_end(c, 0, true, CHECK_END_OK);
    check_completed(c, 0, LANEX_STATUS_OK);
    submit_token(2, 1, LANEX_LANE_MUTATING);
    run(2, 1);
    check_seal_begin(c, 2);
    check_seal_end(c, 2, true);
    cancel(2, LANEX_CANCEL_RUNNING_COMMITTED);
    end(2);
    check_completed(c, 2, LANEX_STATUS_OK);
    submit(3, 1, LANEX_LANE_SERIAL_STATUS);
    cancel(3, LANEX_CANCEL_QUEUED_REMOVED);
    check_completed(c, 3, LANEX_STATUS_REQUEST_CANCELLED);
}

/* What breaks no rule is accepted, also a read that passes a writer that is not urgent. */
Test(sim_check, accepts_what_is_right)
{
    lanex_liveness live;
    lanex_counters counters = {.actors = 2, .completed = {5, 0}, .refused = {1, 0}};

    begin();
    live = view();
    right_life();
    submit(4, 0, LANEX_LANE_MUTATING);
    submit(5, 0, LANEX_LANE_PURE_READ);
    whole(5, 0);
    whole(4, 0);
    check_tick(c);
    cr_assert(check_is_quiet(c), "%s", c->error);
    check_quiet(c, &live, &counters);
    check_drain_begin(c);
    check_drain_end(c, 0, 0, clock_ns, LANEX_TIME_NEVER);
    give_contexts_back();
    check_finish(c);
    cr_assert(c->rule == CHECK_NONE, "%s", c->error);
}

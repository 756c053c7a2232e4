/*
 * Wrong sequences, first part: jobs that start where, before or after they must not, and
 * completions that are missing, twice or not what happened.
 */
#include "check_selftest.h"

#include <errno.h>

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

const struct wrong wrong_runs[] = {
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
    {CHECK_NONE, NULL, NULL},
};

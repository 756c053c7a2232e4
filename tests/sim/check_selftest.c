/*
 * The checker's own test: for each rule, sequences of events that break it and nothing else. What
 * is not rejected here would not be found by the simulated world either.
 */
#include "tests/support/lx_test.h"

#include "check_selftest.h"

struct check *c;
uint64_t clock_ns;

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

/* The i-th of all wrong sequences, or NULL. */
static const struct wrong *wrong_at(size_t i)
{
    static const struct wrong *const parts[] = {wrong_runs, wrong_lives};

    for (size_t part = 0; part < sizeof parts / sizeof parts[0]; part++)
        for (const struct wrong *w = parts[part]; w->rule != CHECK_NONE; w++)
            if (i-- == 0)
                return w;
    return NULL;
}

Test(sim_check, rejects_each_wrong_sequence_by_its_rule)
{
    const struct wrong *w;

    for (size_t i = 0; (w = wrong_at(i)) != NULL; i++) {
        begin();
        w->sequence();
        cr_assert(c->rule == w->rule, "%s should break %s; it broke %s: %s", w->name,
                  check_rule_name(w->rule), check_rule_name(c->rule), c->error);
        cr_assert(c->error[0] == '[');
    }
}

Test(sim_check, has_a_wrong_sequence_for_each_rule)
{
    for (unsigned rule = CHECK_NONE + 1; rule < CHECK_RULES; rule++) {
        const struct wrong *w;
        unsigned found = 0;

        for (size_t i = 0; (w = wrong_at(i)) != NULL; i++)
            found += w->rule == rule;
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

/* The cap of 2 holds for what is started in maintenance rounds, and an install step is not. */
Test(sim_check, accepts_an_install_step_beside_the_maintenance_cap)
{
    struct check_facts f = facts(0, LANEX_LANE_HEAVY_INIT);

    begin();
    f.install = true;
    f.job_class = LANEX_CLASS_MAINTENANCE;
    submit_facts(0, f);
    submit_class(1, 1, LANEX_LANE_PURE_READ, LANEX_CLASS_MAINTENANCE);
    submit_class(2, 1, LANEX_LANE_PURE_READ, LANEX_CLASS_MAINTENANCE);
    run(0, 0);
    end(0);
    run(1, 1);
    check_body_begin(c, 0, 0, true);
    run(2, 1);
    cr_assert(c->rule == CHECK_NONE, "%s", c->error);
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

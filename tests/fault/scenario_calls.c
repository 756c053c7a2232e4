/* Jobs that end before or beside their bodies, and calls that look or build. */
#include "scenario.h"

#define SOON_NS UINT64_C(1000000) /* a deadline that is waited for */

/* ---- deferred answers ---- */

static void defer(lanex_job *job, void *context, void *arg)
{
    struct scenario_job *mine = arg;
    struct scenario *s = mine->scenario;
    lanex_deferred *deferred = NULL;

    scenario_count_run(job, context, arg);
    if (SCENARIO_CALL(s, lanex_job_defer(job, &deferred)))
        s->deferred[atomic_fetch_add(&s->deferred_count, 1)] = deferred;
    else
        LX_REQUIRE(deferred == NULL); /* and answers by returning */
}

void scenario_defer(struct scenario *s)
{
    struct scenario_job *jobs[4];
    lanex_job_options options;

    /* One after the other: each writes the array. */
    for (unsigned i = 0; i < 4; i++) {
        jobs[i] = scenario_next(s, LANEX_LANE_MUTATING, defer, &options);
        scenario_submit(s, s->actors[0], jobs[i], &options, NULL);
    }
    for (unsigned i = 0; i < 4; i++)
        LX_EVENTUALLY(!jobs[i]->accepted || atomic_load(&jobs[i]->ran) == 1);
    LX_EVENTUALLY(lanex_actor_idle(s->executor, "0", 1) == 1);
    for (unsigned i = 0; i < atomic_load(&s->deferred_count); i++) {
        lanex_deferred *deferred = s->deferred[i];
        errno = SCENARIO_ERRNO;
        if (i == 0)
            LX_REQUIRE(SCENARIO_CALL(s, lanex_deferred_respond(deferred, NULL, NULL)));
        else if (i == 1)
            SCENARIO_CALL(s, lanex_deferred_respond_error(deferred, "late", "an error", true));
        else
            lanex_deferred_drop(deferred);
        LX_REQUIRE(errno == SCENARIO_ERRNO);
    }
    for (unsigned i = 0; i < 4; i++)
        scenario_await(jobs[i]);
}

/* ---- cancelled, expired, refused ---- */

void scenario_end_early(struct scenario *s)
{
    lanex_cancellation *token = NULL;
    lanex_job_options options;
    struct scenario_job *cancelled, *tokened, *late, *unknown;
    uint64_t number = 0;
    bool held = scenario_hold(s, s->actors[0]);

    cancelled = scenario_next(s, LANEX_LANE_MUTATING, scenario_count_run, &options);
    options.flags = LANEX_JOB_CANCELLABLE;
    cancelled->may_not_run = true;
    if (scenario_submit(s, s->actors[0], cancelled, &options, &number)) {
        errno = SCENARIO_ERRNO;
        int rc = lanex_cancel(s->executor, number);
        LX_REQUIRE(scenario_call(s, rc, "lanex_cancel"));
        LX_REQUIRE(!held || rc == LANEX_CANCEL_QUEUED_REMOVED);
    }

    tokened = scenario_next(s, LANEX_LANE_MUTATING, scenario_count_run, &options);
    tokened->may_not_run = true;
    if (SCENARIO_CALL(s, lanex_cancellation_create(&token))) {
        options.cancellation = token;
        scenario_submit(s, s->actors[0], tokened, &options, NULL);
        LX_REQUIRE(SCENARIO_CALL(s, lanex_cancellation_cancel(token)));
        lanex_cancellation_unref(token);
    }

    late = scenario_next(s, LANEX_LANE_MUTATING, scenario_count_run, &options);
    late->may_not_run = true;
    options.deadline_ns = lx_test_now_ns() + SOON_NS;
    scenario_submit(s, s->actors[0], late, &options, NULL);

    unknown = scenario_next(s, LANEX_LANE_MUTATING, scenario_count_run, &options);
    unknown->may_not_run = true;
    unknown->accepted =
        SCENARIO_CALL(s, lanex_submit_by_key(s->executor, "nobody", 6, &options, NULL));

    scenario_await(cancelled);
    scenario_await(late); /* by time alone, where the actor is held */
    scenario_await(unknown);
    scenario_let_go(s, held);
    scenario_await(tokened);
}

/* ---- gates held from outside ---- */

static void wait_for_gate(lanex_job *job, void *context, void *arg)
{
    struct scenario_job *mine = arg;
    lanex_epoch *epoch = lanex_actor_epoch(mine->scenario->actors[1]);
    int rc;

    scenario_count_run(job, context, arg);
    errno = SCENARIO_ERRNO;
    rc = lanex_epoch_read_acquire_until(epoch, lx_test_now_ns() + SOON_NS,
                                        lanex_current_cancellation());
    LX_REQUIRE(errno == SCENARIO_ERRNO);
    LX_REQUIRE(rc == -ETIMEDOUT);
    errno = SCENARIO_ERRNO;
    rc = lanex_epoch_write_acquire_until(epoch, lx_test_now_ns() + SOON_NS, NULL);
    LX_REQUIRE(errno == SCENARIO_ERRNO);
    LX_REQUIRE(rc == -ETIMEDOUT);
}

void scenario_gate(struct scenario *s)
{
    lanex_epoch *epoch = lanex_actor_epoch(s->actors[1]);
    lanex_job_options options;
    struct scenario_job *waits, *stopped;
    uint64_t number = 0;

    LX_REQUIRE(SCENARIO_CALL(s, lanex_epoch_write_acquire(epoch)));
    waits = scenario_next(s, LANEX_LANE_PURE_READ, wait_for_gate, &options);
    options.flags = LANEX_JOB_CANCELLABLE;
    scenario_submit(s, s->actors[0], waits, &options, NULL);
    stopped = scenario_next(s, LANEX_LANE_PURE_READ, scenario_count_run, &options);
    options.flags = LANEX_JOB_CANCELLABLE;
    stopped->may_not_run = true;
    if (scenario_submit(s, s->actors[1], stopped, &options, &number))
        LX_REQUIRE(SCENARIO_CALL(s, lanex_cancel(s->executor, number)));
    scenario_await(stopped);
    scenario_await(waits);
    LX_REQUIRE(atomic_load(&stopped->ran) == 0);
    lanex_epoch_write_release(epoch);
}

/* ---- looks ---- */

static void look_at_jobs(struct scenario *s, uint64_t waiting)
{
    static const char id[] = "holds the actor";
    lanex_running_jobs *jobs = NULL;
    lanex_blockers *blockers = NULL;
    lanex_explanation *why = NULL;
    lanex_executor *ex = s->executor;

    if (SCENARIO_CALL(s, lanex_executor_running_mutating(ex, &jobs)))
        lanex_running_jobs_free(jobs);
    if (SCENARIO_TRY(s, lanex_executor_running_mutating_try(ex, &jobs)))
        lanex_running_jobs_free(jobs);
    if (SCENARIO_CALL(s, lanex_executor_census(ex, 0, &jobs)))
        lanex_running_jobs_free(jobs);
    if (SCENARIO_TRY(s, lanex_executor_census_try(ex, 0, &jobs)))
        lanex_running_jobs_free(jobs);
    SCENARIO_CALL(s, lanex_job_state(ex, "0", 1, id, 0));
    SCENARIO_TRY(s, lanex_job_state_try(ex, "0", 1, id, 0));
    if (SCENARIO_CALL(s, lanex_job_blockers(ex, "0", 1, id, 0, &blockers)))
        lanex_blockers_free(blockers);
    if (SCENARIO_TRY(s, lanex_job_blockers_try(ex, "0", 1, id, 0, &blockers)))
        lanex_blockers_free(blockers);
    if (waiting != 0 && SCENARIO_CALL(s, lanex_explain_job(ex, waiting, &why)))
        lanex_explanation_free(why);
    if (waiting != 0 && SCENARIO_TRY(s, lanex_explain_job_try(ex, waiting, &why)))
        lanex_explanation_free(why);
    if (SCENARIO_CALL(s, lanex_explain_actor(ex, "0", 1, &why)))
        lanex_explanation_free(why);
    if (SCENARIO_TRY(s, lanex_explain_actor_try(ex, "0", 1, &why)))
        lanex_explanation_free(why);
}

static void look_at_actors(struct scenario *s)
{
    lanex_liveness liveness = {.size = sizeof liveness};
    lanex_counters counters = {.size = sizeof counters};
    lanex_actor_list *list = NULL;
    lanex_actor *actor = NULL;
    lanex_executor *ex = s->executor;
    size_t count = 0;

    LX_REQUIRE(SCENARIO_CALL(s, lanex_executor_liveness(ex, &liveness)));
    LX_REQUIRE(SCENARIO_CALL(s, lanex_executor_counters(ex, &counters)));
    if (SCENARIO_CALL(s, lanex_actor_entries(ex, &list)))
        lanex_actor_entries_free(list);
    if (SCENARIO_TRY(s, lanex_actor_try_entries(ex, &list)))
        lanex_actor_entries_free(list);
    LX_REQUIRE(SCENARIO_CALL(s, lanex_actor_count(ex, &count)) && count == 2);
    SCENARIO_TRY(s, lanex_actor_try_count(ex, &count));
    LX_REQUIRE(SCENARIO_CALL(s, lanex_actor_registered(ex, "0", 1)));
    LX_REQUIRE(SCENARIO_CALL(s, lanex_actor_idle(ex, "0", 1)));
    SCENARIO_TRY(s, lanex_actor_try_idle(ex, "0", 1));
    LX_REQUIRE(SCENARIO_CALL(s, lanex_actor_fatal(ex, "0", 1)));
    LX_REQUIRE(SCENARIO_CALL(s, lanex_actor_lookup(ex, "0", 1, &actor)));
    lanex_actor_unref(actor);
    LX_REQUIRE(SCENARIO_CALL(s, lanex_actor_cancel_queued_maintenance(ex, "0", 1)));
}

void scenario_look(struct scenario *s)
{
    bool held = scenario_hold(s, s->actors[0]);
    lanex_job_options options;
    struct scenario_job *job = scenario_next(s, LANEX_LANE_MUTATING, scenario_count_run, &options);
    uint64_t waiting;

    options.flags = LANEX_JOB_CONFIGURE;
    options.request_id = "waits";
    scenario_submit(s, s->actors[0], job, &options, &waiting);
    look_at_jobs(s, held && job->accepted ? waiting : 0);
    look_at_actors(s);
    scenario_let_go(s, held);
    scenario_await(job);
}

/* ---- single flight ---- */

static int build(const struct lanex_flight_request *request, void **ret_data)
{
    *ret_data = request->arg;
    return 0;
}

static void count_destroyed(void *data)
{
    atomic_fetch_add((atomic_uint *)data, 1);
}

void scenario_flight(struct scenario *s)
{
    lanex_flight_options options = {.size = sizeof options, .destroy = count_destroyed};
    atomic_uint destroyed = 0;
    unsigned built = 0;
    lanex_flight *flight = NULL;

    if (!SCENARIO_CALL(s, lanex_flight_create(&options, &flight))) {
        LX_REQUIRE(flight == NULL);
        return;
    }
    for (unsigned i = 0; i < 8; i++) {
        unsigned key = i / 2;
        lanex_flight_value *value = NULL;
        lanex_flight_request request = {.size = sizeof request,
                                        .key = &key,
                                        .key_length = sizeof key,
                                        .generation = 1,
                                        .build = build,
                                        .arg = &destroyed};
        int rc;

        errno = SCENARIO_ERRNO;
        rc = lanex_flight_get_or_build(flight, &request, &value);
        LX_REQUIRE(scenario_call(s, rc, "lanex_flight_get_or_build") == (value != NULL));
        built += rc == LANEX_FLIGHT_BUILT;
        lanex_flight_value_unref(value);
        if (key == 1 && rc >= 0)
            LX_REQUIRE(SCENARIO_CALL(s, lanex_flight_forget(flight, &key, sizeof key)));
    }
    lanex_flight_destroy(flight);
    LX_REQUIRE(atomic_load(&destroyed) == built);
}

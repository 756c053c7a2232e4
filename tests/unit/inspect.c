/*
 * Looking inside a living executor: bodies that wait at latches, and what the views say meanwhile.
 */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <pthread.h>

#include "runtime/actor.h"
#include "runtime/executor.h"

struct body {
    struct latch begun, go;
};

static void wait_for_go(lanex_job *job, void *context, void *arg)
{
    struct body *body = arg;

    (void)job;
    (void)context;
    latch_arrive(&body->begun);
    latch_wait(&body->go, 1);
}

static uint64_t submit_as(lanex_actor *actor, enum lanex_class job_class, enum lanex_lane lane,
                          struct body *body, const char *id)
{
    lanex_job_options options = lx_test_job(lane, wait_for_go, body);
    uint64_t number = 0;

    options.job_class = job_class;
    options.request_id = id;
    LX_REQUIRE(lanex_submit(actor, &options, &number) == 0);
    return number;
}

static uint64_t submit(lanex_actor *actor, enum lanex_lane lane, struct body *body, const char *id)
{
    return submit_as(actor, LANEX_CLASS_INTERACTIVE, lane, body, id);
}

/* Runs the call until it is not busy. */
#define TRY(call)                                                                                  \
    __extension__({                                                                                \
        int try_;                                                                                  \
        LX_EVENTUALLY((try_ = (call)) != -EBUSY);                                                  \
        try_;                                                                                      \
    })

static lanex_actor *named(lanex_executor *executor, const char *key)
{
    lanex_actor *actor = NULL;

    LX_REQUIRE(lanex_actor_register(executor, key, strlen(key), NULL, &actor) == 1);
    return actor;
}

static void end(lanex_executor *executor)
{
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

Test(inspect, liveness_tells_the_age_of_the_oldest_job_while_no_turn_is_run)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    lanex_liveness live = {.size = sizeof live};
    struct body first = {LATCH_INIT, LATCH_INIT}, second = {LATCH_INIT, LATCH_INIT};
    uint64_t before;

    cr_assert_eq(lanex_executor_liveness(executor, &live), 0);
    cr_assert_eq(live.oldest_age_ms[0], LANEX_AGE_NONE);
    submit(actor, LANEX_LANE_MUTATING, &first, "first");
    latch_wait(&first.begun, 1);
    before = lx_test_now_ns();
    submit(actor, LANEX_LANE_MUTATING, &second, "second");
    LX_EVENTUALLY(lanex_executor_liveness(executor, &live) == 0 && live.oldest_age_ms[0] >= 20 &&
                  live.oldest_age_ms[0] != LANEX_AGE_NONE);
    /* The coarse clock may be a tick behind when it is queued. */
    cr_assert_leq(live.oldest_age_ms[0], (lx_test_now_ns() - before) / 1000000 + 20);
    cr_assert_eq(live.oldest_age_ms[1], LANEX_AGE_NONE);
    cr_assert_eq(live.queued[0], 1);
    cr_assert_eq(live.running[0], 1);
    cr_assert_eq(live.phantom_workers, 0);
    latch_arrive(&first.go);
    latch_arrive(&second.go);
    lanex_actor_unref(actor);
    end(executor);
}

Test(inspect, running_writers_and_states_are_seen_with_their_names)
{
    lanex_executor *executor = lx_test_executor(4);
    lanex_actor *b = named(executor, "b"), *a = named(executor, "a");
    struct body body = {LATCH_INIT, LATCH_INIT};
    lanex_running_jobs *jobs = NULL;
    uint64_t number = submit(b, LANEX_LANE_MUTATING, &body, "wb");

    submit(a, LANEX_LANE_MUTATING, &body, "wa");
    latch_wait(&body.begun, 2);
    submit(a, LANEX_LANE_MUTATING, &body, "next");
    cr_assert_eq(TRY(lanex_executor_running_mutating_try(executor, &jobs)), 0);
    cr_assert_eq(jobs->count, 2);
    cr_assert_str_eq(jobs->jobs[0].key, "a");
    cr_assert_str_eq(jobs->jobs[0].request_id, "wa");
    cr_assert_str_eq(jobs->jobs[1].label, "executor::Interactive::Mutating");
    cr_assert_eq(jobs->jobs[1].job, number);
    lanex_running_jobs_free(jobs);
    cr_assert_eq(lanex_job_state(executor, "a", 1, "next", 0), LANEX_STATE_QUEUED);
    cr_assert_eq(lanex_job_state(executor, "a", 1, "nextling", 4), LANEX_STATE_QUEUED);
    cr_assert_eq(lanex_job_state(executor, "a", 1, "nex", 0),
                 LANEX_STATE_BLOCKED_BY_OTHER_MUTATING);
    cr_assert_eq(TRY(lanex_job_state_try(executor, "b", 1, "wb", 2)), LANEX_STATE_RUNNING);
    cr_assert_eq(lanex_job_state(executor, "c", 1, "wb", 2), LANEX_STATE_ACTOR_MISSING);
    cr_assert_eq(lanex_job_state(executor, "", 0, "wb", 2), -EINVAL);
    cr_assert_eq(lanex_job_state(executor, "a", 1, NULL, 2), -EINVAL);
    /* Registered anew: the old one's writer is not its. */
    cr_assert_eq(lanex_actor_remove(executor, "b", 1), 0);
    lanex_actor_unref(b);
    b = named(executor, "b");
    cr_assert_eq(lanex_job_state(executor, "b", 1, "wb", 2), LANEX_STATE_NOT_FOUND);
    cr_assert_eq(lanex_executor_running_mutating(executor, &jobs), 0);
    cr_assert_eq(jobs->count, 1);
    lanex_running_jobs_free(jobs);
    latch_arrive(&body.go);
    lanex_actor_unref(a);
    lanex_actor_unref(b);
    end(executor);
}

static void phase(void *context, char *text, size_t size)
{
    snprintf(text, size, "phase %s", (const char *)context);
}

Test(inspect, blockers_name_readers_and_ask_for_the_phase)
{
    lanex_executor_options options = lx_test_executor_options(2);
    lanex_actor_options with_context = {.size = sizeof with_context, .context = "seven"};
    struct body body = {LATCH_INIT, LATCH_INIT};
    lanex_executor *executor;
    lanex_actor *actor;
    lanex_blockers *blockers = NULL;

    options.context_phase = phase;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    cr_assert_eq(lanex_actor_register(executor, "k", 1, &with_context, &actor), 1);
    submit(actor, LANEX_LANE_PURE_READ, &body, "r");
    latch_wait(&body.begun, 1);
    submit(actor, LANEX_LANE_MUTATING, &body, "bind");
    cr_assert_eq(TRY(lanex_job_blockers_try(executor, "k", 1, "bind", 4, &blockers)), 0);
    cr_assert_eq(blockers->state, LANEX_STATE_QUEUED);
    cr_assert_str_eq(blockers->phase, "phase seven");
    cr_assert_eq(blockers->reader_count, 1);
    cr_assert_str_eq(blockers->readers[0].job.request_id, "r");
    cr_assert_eq(blockers->sentence_count, 1);
    cr_assert_str_eq(blockers->sentences[0], "waiting_on_readers");
    lanex_blockers_free(blockers);
    cr_assert_eq(lanex_job_blockers(executor, "none", 4, "bind", 4, &blockers), 0);
    cr_assert_eq(blockers->state, LANEX_STATE_ACTOR_MISSING);
    cr_assert_null(blockers->phase);
    cr_assert_eq(blockers->sentence_count, 0);
    lanex_blockers_free(blockers);
    latch_arrive(&body.go);
    lanex_actor_unref(actor);
    end(executor);
}

Test(inspect, the_census_reports_once_also_jobs_of_actors_that_are_gone)
{
    lanex_executor *executor = lx_test_executor(4);
    lanex_actor *a = named(executor, "gone"), *b = named(executor, "b");
    struct body body = {LATCH_INIT, LATCH_INIT};
    lanex_running_jobs *jobs = NULL;

    submit(a, LANEX_LANE_PURE_READ, &body, "a");
    submit_as(b, LANEX_CLASS_MAINTENANCE, LANEX_LANE_PURE_READ, &body, "m");
    latch_wait(&body.begun, 2);
    cr_assert_eq(lanex_actor_remove(executor, "gone", 4), 0);
    lanex_actor_unref(a);
    cr_assert_eq(lanex_executor_census(executor, 1000000, &jobs), 0);
    cr_assert_eq(jobs->count, 0);
    lanex_running_jobs_free(jobs);
    cr_assert_eq(TRY(lanex_executor_census_try(executor, 0, &jobs)), 0);
    cr_assert_eq(jobs->count, 1);
    cr_assert_str_eq(jobs->jobs[0].key, "gone");
    cr_assert_str_eq(jobs->jobs[0].request_id, "a");
    latch_arrive(&body.go);
    /* The result outlives job and actor. */
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    cr_assert_str_eq(jobs->jobs[0].key, "gone");
    lanex_running_jobs_free(jobs);
    cr_assert_eq(lanex_executor_census(executor, 0, &jobs), 0);
    cr_assert_eq(jobs->count, 0);
    lanex_running_jobs_free(jobs);
    lanex_actor_unref(b);
    end(executor);
}

static uint64_t running_now(lanex_executor *executor)
{
    lanex_liveness liveness = {.size = sizeof liveness};

    cr_assert_eq(lanex_executor_liveness(executor, &liveness), 0);
    return liveness.running[LANEX_CLASS_INTERACTIVE];
}

Test(inspect, a_job_in_the_gate_is_explained_by_an_outside_holder)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = named(executor, "k");
    struct body body = {LATCH_INIT, LATCH_INIT};
    lanex_explanation *why = NULL;
    uint64_t held, behind;

    lanex_epoch_write_acquire(lanex_actor_epoch(actor));
    held = submit(actor, LANEX_LANE_MUTATING, &body, "held");
    /* One turn might take both, and then the read would go first. */
    LX_EVENTUALLY(running_now(executor) == 1);
    behind = submit(actor, LANEX_LANE_PURE_READ, &body, "behind");
    cr_assert_eq(lanex_explain_job(executor, behind, &why), 0);
    cr_assert_eq(why->count, 2);
    cr_assert_eq(why->chain[0].job.job, behind);
    cr_assert_eq(why->chain[0].reason, LANEX_WAIT_WRITER);
    cr_assert(!why->chain[0].on_worker);
    cr_assert_eq(why->chain[1].job.job, held);
    cr_assert_eq(why->chain[1].reason, LANEX_WAIT_GATE);
    cr_assert(why->chain[1].on_worker);
    cr_assert(!why->circle);
    cr_assert_not_null(strstr(why->text, "behind"));
    cr_assert_not_null(strstr(why->text, "the epoch is held outside"));
    lanex_explanation_free(why);
    cr_assert_eq(lanex_job_state(executor, "k", 1, "held", 0), LANEX_STATE_QUEUED);
    lanex_epoch_write_release(lanex_actor_epoch(actor));
    latch_wait(&body.begun, 1);
    cr_assert_eq(TRY(lanex_explain_actor_try(executor, "k", 1, &why)), 0);
    cr_assert_eq(why->chain[why->count - 1].reason, LANEX_WAIT_NONE);
    lanex_explanation_free(why);
    latch_arrive(&body.go);
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    cr_assert_eq(lanex_explain_job(executor, behind, &why), -ENOENT);
    cr_assert_eq(lanex_explain_job(executor, UINT64_MAX, &why), -ENOENT);
    cr_assert_eq(lanex_explain_actor(executor, "x", 1, &why), -ENOENT);
    cr_assert_eq(lanex_explain_actor(executor, "k", 1, &why), 0);
    cr_assert_eq(why->count, 0);
    cr_assert_str_eq(why->text, "");
    lanex_explanation_free(why);
    lanex_actor_unref(actor);
    end(executor);
}

struct waiter {
    lanex_actor *other;
    struct body *target;
    struct latch submitted;
    uint64_t number;
};

/* Waits for the ticket of a job of another actor, which is held up by the test. */
static void wait_for_ticket(lanex_job *job, void *context, void *arg)
{
    struct waiter *waiter = arg;
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, wait_for_go, waiter->target);
    lanex_ticket *ticket;

    (void)job;
    (void)context;
    LX_REQUIRE(lanex_submit_ticket(waiter->other, &options, &ticket) == 0);
    waiter->number = lanex_ticket_job(ticket);
    latch_arrive(&waiter->submitted);
    LX_REQUIRE(lanex_ticket_wait(ticket, LANEX_TIME_NEVER) == 0);
    lanex_ticket_drop(ticket);
}

/* The number of links; the last one's job and reason. */
static size_t explained(lanex_executor *executor, const char *key, uint32_t *ret_reason)
{
    lanex_explanation *why;
    size_t count;

    LX_REQUIRE(lanex_explain_actor(executor, key, strlen(key), &why) == 0);
    count = why->count;
    *ret_reason = count > 0 ? why->chain[count - 1].reason : LANEX_WAIT_NONE;
    lanex_explanation_free(why);
    return count;
}

Test(inspect, a_wait_for_a_ticket_is_a_link_of_the_chain)
{
    lanex_executor *executor = lx_test_executor(4);
    lanex_actor *a = named(executor, "a"), *b = named(executor, "b");
    struct body writer = {LATCH_INIT, LATCH_INIT}, read = {LATCH_INIT, LATCH_INIT};
    struct waiter waiter = {.other = b, .target = &read, .submitted = LATCH_INIT};
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, wait_for_ticket, &waiter);
    uint32_t reason;

    submit(b, LANEX_LANE_MUTATING, &writer, "writer");
    latch_wait(&writer.begun, 1);
    cr_assert_eq(lanex_submit(a, &options, NULL), 0);
    latch_wait(&waiter.submitted, 1);
    /* The waiting job, the read that it waits for, the writer that holds that up. */
    LX_EVENTUALLY(explained(executor, "a", &reason) == 3);
    cr_assert_eq(reason, LANEX_WAIT_NONE);
    latch_arrive(&writer.go);
    latch_arrive(&read.go);
    lanex_actor_unref(a);
    lanex_actor_unref(b);
    end(executor);
}

/* ---- beside everything else ---- */

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

#define LOOKS 30u /* at least */

struct looker {
    lanex_executor *executor;
    atomic_bool stop;
    atomic_ulong looks; /* rounds of views */
    unsigned long busy;
};

static void *look_all_the_time(void *arg)
{
    struct looker *looker = arg;

    while (!atomic_load(&looker->stop)) {
        lanex_liveness live = {.size = sizeof live};
        lanex_running_jobs *jobs;
        lanex_blockers *blockers;
        lanex_explanation *why;
        int rc;

        LX_REQUIRE(lanex_executor_liveness(looker->executor, &live) == 0);
        LX_REQUIRE(live.phantom_workers == 0 && live.phantom_permits == 0);
        rc = lanex_executor_running_mutating_try(looker->executor, &jobs);
        LX_REQUIRE(rc == 0 || rc == -EBUSY);
        looker->busy += rc == -EBUSY;
        if (rc == 0)
            lanex_running_jobs_free(jobs);
        LX_REQUIRE(lanex_executor_census(looker->executor, 0, &jobs) == 0);
        lanex_running_jobs_free(jobs);
        LX_REQUIRE(lanex_job_blockers(looker->executor, "a", 1, "x", 1, &blockers) == 0);
        lanex_blockers_free(blockers);
        rc = lanex_explain_actor(looker->executor, "a", 1, &why);
        LX_REQUIRE(rc == 0 || rc == -ENOENT);
        if (rc == 0)
            lanex_explanation_free(why);
        atomic_fetch_add(&looker->looks, 1);
    }
    return NULL;
}

Test(inspect, looking_disturbs_nothing_while_jobs_run_and_actors_go)
{
    lanex_executor *executor = lx_test_executor(2);
    struct looker looker = {.executor = executor};
    unsigned rounds = (unsigned)lx_test_scaled(300);
    pthread_t thread;

    LX_REQUIRE(pthread_create(&thread, NULL, look_all_the_time, &looker) == 0);
    for (unsigned round = 0; round < rounds || atomic_load(&looker.looks) < LOOKS; round++) {
        lanex_actor *actor = named(executor, "a");

        for (unsigned i = 0; i < 40; i++) {
            lanex_job_options options =
                lx_test_job(i % 4 == 0 ? LANEX_LANE_MUTATING : LANEX_LANE_PURE_READ, nothing, NULL);
            options.request_id = i % 7 == 0 ? "x" : "a request id that is longer than a small text";
            options.job_class = i % 5 == 0 ? LANEX_CLASS_MAINTENANCE : LANEX_CLASS_INTERACTIVE;
            LX_REQUIRE(lanex_submit(actor, &options, NULL) == 0);
        }
        LX_REQUIRE(lanex_actor_remove(executor, "a", 1) == 0);
        lanex_actor_unref(actor);
    }
    atomic_store(&looker.stop, true);
    pthread_join(thread, NULL);
    cr_log_info("%lu looks, %lu times busy", atomic_load(&looker.looks), looker.busy);
    end(executor);
}

Test(inspect, a_try_view_is_busy_or_right_and_never_waits_for_a_flood)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = named(executor, "k");
    struct body body = {LATCH_INIT, LATCH_INIT};
    unsigned right = 0;

    submit(actor, LANEX_LANE_MUTATING, &body, "first");
    latch_wait(&body.begun, 1);
    /* Ordered after the caller's own submissions, or busy. */
    for (unsigned i = 0; i < 200; i++) {
        char id[16];
        int rc;

        snprintf(id, sizeof id, "j%u", i);
        submit(actor, LANEX_LANE_MUTATING, &body, id);
        rc = lanex_job_state_try(executor, "k", 1, id, 0);
        cr_assert(rc == -EBUSY || rc == LANEX_STATE_QUEUED);
        right += rc == LANEX_STATE_QUEUED;
        cr_assert_eq(lanex_job_state(executor, "k", 1, id, 0), LANEX_STATE_QUEUED);
    }
    cr_assert(right > 0 || lx_test_env_dispatch() == LX_TEST_DISPATCH_SCHEDULER);
    latch_arrive(&body.go);
    lanex_actor_unref(actor);
    end(executor);
}

/* Every try form, each expected to be busy; liveness, which is not. */
static void expect_all_busy(lanex_executor *executor)
{
    lanex_running_jobs *jobs;
    lanex_blockers *blockers;
    lanex_explanation *why;
    lanex_liveness live = {.size = sizeof live};

    cr_assert_eq(lanex_job_state_try(executor, "k", 1, "x", 1), -EBUSY);
    cr_assert_eq(lanex_job_blockers_try(executor, "k", 1, "x", 1, &blockers), -EBUSY);
    cr_assert_eq(lanex_explain_actor_try(executor, "k", 1, &why), -EBUSY);
    cr_assert_eq(lanex_executor_liveness(executor, &live), 0);
    if (atomic_load(&executor->seat) == 0)
        return; /* the others need no key */
    cr_assert_eq(lanex_executor_running_mutating_try(executor, &jobs), -EBUSY);
    cr_assert_eq(lanex_executor_census_try(executor, 0, &jobs), -EBUSY);
    cr_assert_eq(lanex_explain_job_try(executor, 1, &why), -EBUSY);
}

Test(inspect, a_try_view_is_busy_while_somebody_is_in_the_seat_or_changes_the_registry)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = named(executor, "k");
    uint32_t free_seat = 0;

    LX_EVENTUALLY((free_seat = 0, atomic_compare_exchange_strong(&executor->seat, &free_seat, 1)));
    expect_all_busy(executor);
    atomic_store(&executor->seat, 0);
    cr_assert_eq(lx_registry_lock(executor, LX_REGISTRY_CHANGE), 0);
    expect_all_busy(executor);
    lx_registry_unlock(executor, LX_REGISTRY_CHANGE);
    cr_assert_eq(TRY(lanex_job_state_try(executor, "k", 1, "x", 1)), LANEX_STATE_NOT_FOUND);
    lanex_actor_unref(actor);
    end(executor);
}

Test(inspect, bad_calls_are_refused)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_running_jobs *jobs;
    lanex_blockers *blockers;
    lanex_explanation *why;
    lanex_liveness live = {.size = 1};

    cr_assert_eq(lanex_executor_liveness(executor, &live), -EINVAL);
    cr_assert_eq(lanex_executor_running_mutating(executor, NULL), -EINVAL);
    cr_assert_eq(lanex_executor_running_mutating(NULL, &jobs), -EINVAL);
    cr_assert_eq(lanex_executor_census_try(NULL, 1, &jobs), -EINVAL);
    cr_assert_eq(lanex_job_blockers(executor, "k", 1, "x", 1, NULL), -EINVAL);
    cr_assert_eq(lanex_job_blockers(executor, NULL, 1, "x", 1, &blockers), -EINVAL);
    cr_assert_eq(lanex_job_blockers_try(executor, "k", 1, NULL, 0, &blockers), -EINVAL);
    cr_assert_eq(lanex_explain_actor(executor, NULL, 0, &why), -EINVAL);
    cr_assert_eq(lanex_explain_job(executor, 1, NULL), -EINVAL);
    cr_assert_null(lanex_job_state_text(0));
    cr_assert_null(lanex_wait_reason_text(-1));
    lanex_running_jobs_free(NULL);
    lanex_blockers_free(NULL);
    lanex_explanation_free(NULL);
    lanex_executor_ref(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    cr_assert_eq(lanex_executor_census(executor, 1, &jobs), -ESHUTDOWN);
    lanex_executor_unref(executor);
}

/* Every answer without a result: its code, its message, whether a retry can help, and what it
 * costs the queues: nothing. */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <time.h>

TestSuite(refusals, .timeout = 60);

#define MS      UINT64_C(1000000)
#define FOREVER LANEX_TIME_NEVER

struct answer {
    struct latch over;
    int status;
    bool retryable;
    char code[40], message[128];
    int refusal_rc;
    lanex_refusal refusal;
};

static void note(lanex_completion *completion, void *arg)
{
    struct answer *answer = arg;

    answer->status = lanex_completion_status(completion);
    answer->retryable = lanex_completion_retryable(completion);
    snprintf(answer->code, sizeof answer->code, "%s", lanex_completion_code(completion));
    snprintf(answer->message, sizeof answer->message, "%s", lanex_completion_message(completion));
    answer->refusal_rc = lanex_completion_refusal(completion, &answer->refusal);
    latch_arrive(&answer->over);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void panic_body(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
    lanex_panic("on purpose");
}

static void fail_body(lanex_job *job, void *context, void *arg)
{
    const bool *retryable = arg;

    (void)context;
    LX_REQUIRE(lanex_job_respond_error(job, "no_such_row", "row 7 is not there", *retryable) == 0);
}

static void abandon_body(lanex_job *job, void *context, void *arg)
{
    lanex_deferred *deferred;

    (void)context;
    (void)arg;
    LX_REQUIRE(lanex_job_defer(job, &deferred) == 0);
    lanex_deferred_drop(deferred);
}

struct blocker {
    struct latch entered, leave;
};

static void block(lanex_job *job, void *context, void *arg)
{
    struct blocker *blocker = arg;

    (void)job;
    (void)context;
    latch_arrive(&blocker->entered);
    latch_wait(&blocker->leave, 1);
}

/* A writer holds the actor: whatever is submitted then waits. */
static void hold(lanex_actor *actor, struct blocker *blocker)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, block, blocker);

    *blocker = (struct blocker){.leave = LATCH_INIT};
    cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
    latch_wait(&blocker->entered, 1);
}

static lanex_job_options job_of(enum lanex_class job_class, struct answer *answer)
{
    lanex_job_options options =
        lx_test_callback_job(LANEX_LANE_PURE_READ, nothing, NULL, note, answer);

    *answer = (struct answer){.status = -1};
    options.job_class = job_class;
    return options;
}

static uint64_t submit(lanex_actor *actor, const lanex_job_options *options)
{
    uint64_t number;

    cr_assert_eq(lanex_submit(actor, options, &number), 0);
    return number;
}

static void check(struct answer *answer, enum lanex_status status, const char *code,
                  const char *message, bool retryable)
{
    latch_wait(&answer->over, 1);
    cr_assert_eq(answer->status, (int)status, "%d (%s) instead of %s", answer->status, answer->code,
                 code);
    cr_assert_str_eq(answer->code, code);
    if (message != NULL)
        cr_assert_str_eq(answer->message, message);
    if (status != LANEX_STATUS_OK)
        cr_assert_str_not_empty(answer->message, "%s says nothing", code);
    cr_assert_eq(answer->retryable, retryable, "%s", code);
    if (status != LANEX_STATUS_MAINTENANCE_BACKPRESSURE &&
        status != LANEX_STATUS_EXECUTOR_BACKPRESSURE)
        cr_assert_eq(answer->refusal_rc, -ENODATA);
}

static void check_full(struct answer *answer, enum lanex_class job_class, enum lanex_scope scope,
                       uint64_t cap)
{
    bool maintenance = job_class == LANEX_CLASS_MAINTENANCE;

    check(answer,
          maintenance ? LANEX_STATUS_MAINTENANCE_BACKPRESSURE : LANEX_STATUS_EXECUTOR_BACKPRESSURE,
          maintenance ? "maintenance_backpressure" : "executor_backpressure", NULL, true);
    cr_assert_eq(answer->refusal_rc, 0);
    cr_assert_eq(answer->refusal.queue_class, (uint32_t)job_class);
    cr_assert_eq(answer->refusal.scope, (uint32_t)scope);
    cr_assert_eq(answer->refusal.depth, cap);
    cr_assert_eq(answer->refusal.cap, cap);
}

static void check_expired(struct answer *answer)
{
    check(answer, LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED, "request_deadline_exceeded", NULL, false);
}

static void end(lanex_executor *executor)
{
    cr_assert_eq(lanex_executor_drain(executor, FOREVER, NULL), 0);
    lx_test_at_rest(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

static lanex_executor *capped(uint32_t actor_cap, uint32_t global_cap)
{
    lanex_executor_options options = lx_test_executor_options(4);
    lanex_executor *executor = NULL;

    options.interactive_actor_queue_cap = actor_cap;
    options.interactive_queue_cap = global_cap;
    options.maintenance_queue_cap = actor_cap;
    options.maintenance_total_queue_cap = global_cap;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    return executor;
}

/* ---- what a job's own end can be ---- */

Test(refusals, each_way_to_end_says_what_it_is)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct answer answer;
    lanex_job_options options = job_of(LANEX_CLASS_INTERACTIVE, &answer);

    submit(actor, &options);
    latch_wait(&answer.over, 1);
    cr_assert_eq(answer.status, LANEX_STATUS_OK);
    cr_assert_str_eq(answer.code, "ok");
    cr_assert_not(answer.retryable);

    for (unsigned i = 0; i < 2; i++) {
        bool retryable = i == 1;
        options = job_of(LANEX_CLASS_INTERACTIVE, &answer);
        options.run = fail_body;
        options.arg = &retryable;
        submit(actor, &options);
        check(&answer, LANEX_STATUS_JOB_FAILED, "no_such_row", "row 7 is not there", retryable);
    }

    options = job_of(LANEX_CLASS_INTERACTIVE, &answer);
    options.run = abandon_body;
    submit(actor, &options);
    check(&answer, LANEX_STATUS_JOB_ABANDONED, "job_abandoned", NULL, false);

    options = job_of(LANEX_CLASS_INTERACTIVE, &answer);
    options.run = panic_body;
    options.label = "get row";
    submit(actor, &options);
    check(&answer, LANEX_STATUS_JOB_PANICKED, "job_panicked",
          "command 'get row' panicked: on purpose", false);

    options.lane = LANEX_LANE_MUTATING;
    answer = (struct answer){.status = -1};
    submit(actor, &options);
    check(&answer, LANEX_STATUS_ACTOR_FATAL, "actor_fatal",
          "command 'get row' panicked: on purpose", false);
    options = job_of(LANEX_CLASS_INTERACTIVE, &answer); /* the next one meets a fatal actor */
    submit(actor, &options);
    check(&answer, LANEX_STATUS_ACTOR_FATAL, "actor_fatal", NULL, false);

    options = job_of(LANEX_CLASS_INTERACTIVE, &answer);
    cr_assert_eq(lanex_submit_by_key(executor, "nobody", 6, &options, NULL), 0);
    check(&answer, LANEX_STATUS_ACTOR_NOT_REGISTERED, "actor_not_registered", NULL, false);
    lanex_actor_unref(actor);
    end(executor);
}

Test(refusals, each_answer_without_running_says_what_it_is)
{
    lanex_executor *executor = lx_test_executor(4);
    lanex_actor *actor = lx_test_actor(executor, 1);
    unsigned key = 1;
    struct blocker blocker;
    struct answer answer, first, second;
    lanex_job_options options;

    hold(actor, &blocker);
    options = job_of(LANEX_CLASS_INTERACTIVE, &answer);
    cr_assert_eq(lanex_cancel(executor, submit(actor, &options)), LANEX_CANCEL_QUEUED_REMOVED);
    check(&answer, LANEX_STATUS_REQUEST_CANCELLED, "request_cancelled",
          "request cancelled before execution", false);

    options = job_of(LANEX_CLASS_INTERACTIVE, &answer);
    options.deadline_ns = 1;
    submit(actor, &options);
    check_expired(&answer);

    options = job_of(LANEX_CLASS_MAINTENANCE, &first);
    options.coalesce_key = LANEX_COALESCE_WATCHER_DRAIN;
    submit(actor, &options);
    options = job_of(LANEX_CLASS_MAINTENANCE, &answer);
    options.coalesce_key = LANEX_COALESCE_WATCHER_DRAIN;
    submit(actor, &options);
    check(&answer, LANEX_STATUS_MAINTENANCE_CANCELLED, "maintenance_cancelled",
          "maintenance drain coalesced behind an identical queued drain", false);
    options = job_of(LANEX_CLASS_MAINTENANCE, &second);
    submit(actor, &options);
    cr_assert_eq(lanex_actor_cancel_queued_maintenance(executor, &key, sizeof key), 2);
    check(&first, LANEX_STATUS_MAINTENANCE_CANCELLED, "maintenance_cancelled",
          "maintenance cancelled because the actor has no bound routes", false);
    check(&second, LANEX_STATUS_MAINTENANCE_CANCELLED, "maintenance_cancelled",
          "maintenance cancelled because the actor has no bound routes", false);

    options = job_of(LANEX_CLASS_INTERACTIVE, &answer);
    submit(actor, &options);
    cr_assert_eq(lanex_actor_remove(executor, &key, sizeof key), 0);
    check(&answer, LANEX_STATUS_ACTOR_FATAL, "actor_fatal", NULL, false);
    options = job_of(LANEX_CLASS_INTERACTIVE, &answer); /* through the old handle */
    submit(actor, &options);
    check(&answer, LANEX_STATUS_ACTOR_NOT_REGISTERED, "actor_not_registered", NULL, false);
    latch_arrive(&blocker.leave);
    lanex_actor_unref(actor);

    actor = lx_test_actor(executor, 2);
    cr_assert_eq(lanex_executor_drain(executor, FOREVER, NULL), 0);
    options = job_of(LANEX_CLASS_INTERACTIVE, &answer);
    submit(actor, &options);
    check(&answer, LANEX_STATUS_EXECUTOR_SHUTDOWN, "executor_shutdown", NULL, false);
    lanex_actor_unref(actor);
    end(executor);
}

/* ---- caps ---- */

enum { CAP = 3 };

/* Fills up with jobs that wait until the actor is let go. */
static void fill(lanex_actor *actor, enum lanex_class job_class, struct answer *waiting,
                 uint64_t *numbers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        lanex_job_options options = job_of(job_class, &waiting[i]);
        numbers[i] = submit(actor, &options);
    }
}

static void expect_full(lanex_actor *actor, enum lanex_class job_class, enum lanex_scope scope)
{
    struct answer answer;
    lanex_job_options options = job_of(job_class, &answer);

    submit(actor, &options);
    check_full(&answer, job_class, scope, CAP);
}

/* There is exactly one place: `next` takes it. */
static void expect_one_place(lanex_actor *actor, enum lanex_class job_class, enum lanex_scope scope,
                             struct answer *next)
{
    lanex_job_options options = job_of(job_class, next);

    submit(actor, &options);
    expect_full(actor, job_class, scope);
    cr_assert_eq(latch_count(&next->over), 0);
}

static void expect_all_ok(struct answer *answers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        check(&answers[i], LANEX_STATUS_OK, "ok", NULL, false);
}

/* Ways in which a place becomes free, one after the other, at a full queue. */
static void check_cap(enum lanex_class job_class, enum lanex_scope scope)
{
    bool global = scope == LANEX_SCOPE_GLOBAL;
    lanex_executor *executor = capped(global ? 0 : CAP, global ? CAP : 0);
    lanex_actor *actor = lx_test_actor(executor, 1), *other = lx_test_actor(executor, 2);
    struct answer waiting[CAP], timed, more[2];
    uint64_t numbers[CAP];
    struct blocker blocker;
    lanex_job_options options;

    for (unsigned round = 0; round < 2; round++) { /* the second: dispatch has freed every place */
        hold(actor, &blocker);
        fill(actor, job_class, waiting, numbers, CAP);
        expect_full(actor, job_class, scope);
        if (global)
            expect_full(other, job_class, scope); /* it has nothing queued, the executor is full */

        cr_assert_eq(lanex_cancel(executor, numbers[1]), LANEX_CANCEL_QUEUED_REMOVED);
        expect_one_place(actor, job_class, scope, &more[0]);

        cr_assert_eq(lanex_cancel(executor, numbers[2]), LANEX_CANCEL_QUEUED_REMOVED);
        options = job_of(job_class, &timed);
        options.deadline_ns = lx_test_now_ns() + 20 * MS;
        submit(actor, &options);
        check_expired(&timed);
        expect_one_place(actor, job_class, scope, &more[1]);

        latch_arrive(&blocker.leave);
        expect_all_ok(waiting, 1);
        expect_all_ok(more, 2);
    }
    lanex_actor_unref(actor);
    lanex_actor_unref(other);
    end(executor);
}

Test(refusals, an_actors_cap_counts_waiting_jobs_exactly)
{
    check_cap(LANEX_CLASS_INTERACTIVE, LANEX_SCOPE_ACTOR);
    check_cap(LANEX_CLASS_MAINTENANCE, LANEX_SCOPE_ACTOR);
}

Test(refusals, the_executors_cap_counts_waiting_jobs_exactly)
{
    check_cap(LANEX_CLASS_INTERACTIVE, LANEX_SCOPE_GLOBAL);
    check_cap(LANEX_CLASS_MAINTENANCE, LANEX_SCOPE_GLOBAL);
}

Test(refusals, a_removed_or_fatal_actor_gives_its_places_back)
{
    lanex_executor *executor = capped(0, CAP);
    lanex_actor *actor = lx_test_actor(executor, 1), *gone = lx_test_actor(executor, 2);
    unsigned gone_key = 2;
    struct answer waiting[CAP], lost[2], panics, next;
    uint64_t numbers[CAP];
    struct blocker blocker, gone_blocker;
    lanex_job_options options;

    hold(actor, &blocker);
    hold(gone, &gone_blocker);
    fill(gone, LANEX_CLASS_INTERACTIVE, lost, numbers, 1);
    fill(actor, LANEX_CLASS_INTERACTIVE, waiting, numbers, CAP - 1);
    expect_full(actor, LANEX_CLASS_INTERACTIVE, LANEX_SCOPE_GLOBAL);
    cr_assert_eq(lanex_actor_remove(executor, &gone_key, sizeof gone_key), 0);
    expect_one_place(actor, LANEX_CLASS_INTERACTIVE, LANEX_SCOPE_GLOBAL, &next);
    check(&lost[0], LANEX_STATUS_ACTOR_FATAL, "actor_fatal", NULL, false);
    latch_arrive(&blocker.leave);
    latch_arrive(&gone_blocker.leave);
    expect_all_ok(waiting, CAP - 1);
    expect_all_ok(&next, 1);
    lanex_actor_unref(gone);

    /* The writer that panics runs before what was queued behind it. */
    hold(actor, &blocker);
    options = job_of(LANEX_CLASS_INTERACTIVE, &panics);
    options.lane = LANEX_LANE_MUTATING;
    options.run = panic_body;
    submit(actor, &options);
    options = job_of(LANEX_CLASS_INTERACTIVE, &lost[0]);
    options.lane = LANEX_LANE_SERIAL_STATUS;
    submit(actor, &options);
    options = job_of(LANEX_CLASS_INTERACTIVE, &lost[1]);
    options.lane = LANEX_LANE_SERIAL_STATUS;
    submit(actor, &options);
    latch_arrive(&blocker.leave);
    check(&panics, LANEX_STATUS_ACTOR_FATAL, "actor_fatal", NULL, false);
    check(&lost[0], LANEX_STATUS_ACTOR_FATAL, "actor_fatal", NULL, false);
    check(&lost[1], LANEX_STATUS_ACTOR_FATAL, "actor_fatal", NULL, false);
    gone = lx_test_actor(executor, 3);
    hold(gone, &gone_blocker);
    fill(gone, LANEX_CLASS_INTERACTIVE, waiting, numbers, CAP);
    expect_full(gone, LANEX_CLASS_INTERACTIVE, LANEX_SCOPE_GLOBAL);
    latch_arrive(&gone_blocker.leave);
    expect_all_ok(waiting, CAP);
    lanex_actor_unref(actor);
    lanex_actor_unref(gone);
    end(executor);
}

/* ---- the order of checks ---- */

Test(refusals, coalescing_comes_before_caps_and_needs_no_place)
{
    lanex_executor *executor = capped(CAP, 0);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct answer keyed, waiting[CAP], same, other;
    uint64_t numbers[CAP];
    struct blocker blocker;
    lanex_job_options options;

    hold(actor, &blocker);
    options = job_of(LANEX_CLASS_MAINTENANCE, &keyed);
    options.coalesce_key = 7;
    submit(actor, &options);
    fill(actor, LANEX_CLASS_MAINTENANCE, waiting, numbers, CAP - 1);
    expect_full(actor, LANEX_CLASS_MAINTENANCE, LANEX_SCOPE_ACTOR);
    options = job_of(LANEX_CLASS_MAINTENANCE, &same);
    options.coalesce_key = 7;
    options.deadline_ns = 1; /* and before the deadline */
    submit(actor, &options);
    check(&same, LANEX_STATUS_MAINTENANCE_CANCELLED, "maintenance_cancelled",
          "maintenance drain coalesced behind an identical queued drain", false);
    options = job_of(LANEX_CLASS_MAINTENANCE, &other);
    options.coalesce_key = 8;
    submit(actor, &options);
    check_full(&other, LANEX_CLASS_MAINTENANCE, LANEX_SCOPE_ACTOR, CAP);
    latch_arrive(&blocker.leave);
    expect_all_ok(&keyed, 1);
    expect_all_ok(waiting, CAP - 1);
    lanex_actor_unref(actor);
    end(executor);
}

Test(refusals, the_actors_cap_comes_before_the_deadline_and_that_before_the_executors)
{
    struct answer waiting[CAP], late;
    uint64_t numbers[CAP];
    struct blocker blocker;

    for (unsigned global = 0; global < 2; global++) {
        lanex_executor *executor = capped(global ? 0 : CAP, global ? CAP : 0);
        lanex_actor *actor = lx_test_actor(executor, 1);
        lanex_job_options options;

        hold(actor, &blocker);
        fill(actor, LANEX_CLASS_INTERACTIVE, waiting, numbers, CAP);
        options = job_of(LANEX_CLASS_INTERACTIVE, &late);
        options.deadline_ns = 1;
        submit(actor, &options);
        if (global)
            check_expired(&late);
        else
            check_full(&late, LANEX_CLASS_INTERACTIVE, LANEX_SCOPE_ACTOR, CAP);
        latch_arrive(&blocker.leave);
        expect_all_ok(waiting, CAP);
        lanex_actor_unref(actor);
        end(executor);
    }
    /* Both full: the actor's is the one that is named. */
    lanex_executor *executor = capped(CAP, CAP);
    lanex_actor *actor = lx_test_actor(executor, 1), *other = lx_test_actor(executor, 2);
    hold(actor, &blocker);
    fill(actor, LANEX_CLASS_INTERACTIVE, waiting, numbers, CAP);
    expect_full(actor, LANEX_CLASS_INTERACTIVE, LANEX_SCOPE_ACTOR);
    expect_full(other, LANEX_CLASS_INTERACTIVE, LANEX_SCOPE_GLOBAL);
    latch_arrive(&blocker.leave);
    expect_all_ok(waiting, CAP);
    lanex_actor_unref(actor);
    lanex_actor_unref(other);
    end(executor);
}

Test(refusals, unknown_comes_before_fatal_and_that_before_shutdown)
{
    lanex_executor *executor = capped(CAP, CAP);
    lanex_actor *gone = lx_test_actor(executor, 1), *fatal = lx_test_actor(executor, 2),
                *sound = lx_test_actor(executor, 3);
    unsigned gone_key = 1;
    struct answer answer;
    lanex_job_options options = job_of(LANEX_CLASS_INTERACTIVE, &answer);

    options.lane = LANEX_LANE_MUTATING;
    options.run = panic_body;
    submit(fatal, &options);
    check(&answer, LANEX_STATUS_ACTOR_FATAL, "actor_fatal", NULL, false);
    cr_assert_eq(lanex_actor_remove(executor, &gone_key, sizeof gone_key), 0);
    cr_assert_eq(lanex_executor_drain(executor, FOREVER, NULL), 0);
    options = job_of(LANEX_CLASS_INTERACTIVE, &answer);
    options.deadline_ns = 1;
    submit(gone, &options);
    check(&answer, LANEX_STATUS_ACTOR_NOT_REGISTERED, "actor_not_registered", NULL, false);
    answer = (struct answer){.status = -1};
    submit(fatal, &options);
    check(&answer, LANEX_STATUS_ACTOR_FATAL, "actor_fatal", NULL, false);
    answer = (struct answer){.status = -1};
    submit(sound, &options);
    check(&answer, LANEX_STATUS_EXECUTOR_SHUTDOWN, "executor_shutdown", NULL, false);
    lanex_actor_unref(gone);
    lanex_actor_unref(fatal);
    lanex_actor_unref(sound);
    end(executor);
}

/* ---- a client that believes `retryable` ---- */

struct client {
    unsigned attempts;
    struct answer answer;
};

static void retry_while_told_so(struct client *client, lanex_actor *actor, struct blocker *blocker,
                                unsigned let_go_after)
{
    const struct timespec pause = {.tv_nsec = 10 * (long)MS};

    for (;;) {
        lanex_job_options options = job_of(LANEX_CLASS_INTERACTIVE, &client->answer);
        submit(actor, &options);
        client->attempts++;
        if (client->attempts == let_go_after)
            latch_arrive(&blocker->leave);
        latch_wait(&client->answer.over, 1);
        if (client->answer.status == LANEX_STATUS_OK || !client->answer.retryable)
            return;
        (void)nanosleep(&pause, NULL);
    }
}

Test(refusals, a_client_that_retries_while_it_may_ends)
{
    lanex_executor *executor = capped(1, 0);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct client client = {.attempts = 0};
    struct answer waiting;
    uint64_t number;
    struct blocker blocker;
    unsigned key = 1;

    hold(actor, &blocker);
    fill(actor, LANEX_CLASS_INTERACTIVE, &waiting, &number, 1);
    retry_while_told_so(&client, actor, &blocker, 3);
    cr_assert_geq(client.attempts, 4); /* the first three met a full queue */
    cr_assert_eq(client.answer.status, LANEX_STATUS_OK);
    expect_all_ok(&waiting, 1);

    /* Full, and then gone: the retry is told that no more of them help. */
    hold(actor, &blocker);
    fill(actor, LANEX_CLASS_INTERACTIVE, &waiting, &number, 1);
    cr_assert_eq(lanex_actor_remove(executor, &key, sizeof key), 0);
    client = (struct client){.attempts = 0};
    retry_while_told_so(&client, actor, &blocker, 1);
    cr_assert_eq(client.attempts, 1);
    cr_assert_eq(client.answer.status, LANEX_STATUS_ACTOR_NOT_REGISTERED);
    lanex_actor_unref(actor);
    end(executor);
}

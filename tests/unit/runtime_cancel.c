/*
 * Cancelling jobs through the executor and through their tokens: each outcome, and what becomes of
 * the job.
 */
#include "runtime_rig.h"

#include <lanex/epoch.h>

static void expect_cancelled(lanex_ticket *ticket)
{
    lanex_completion *completion = rig_wait(ticket);

    cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_REQUEST_CANCELLED);
    cr_assert_str_eq(lanex_completion_code(completion), "request_cancelled");
    cr_assert_str_eq(lanex_completion_message(completion), "request cancelled before execution");
    cr_assert_not(lanex_completion_retryable(completion));
    lanex_ticket_drop(ticket);
}

/* A body that runs until it is cancelled, or is let go. */
struct stoppable {
    struct latch entered, leave;
    bool seals;
    atomic_int sealed; /* what seal said, plus 1 */
    bool stopped;
};

static void stoppable(lanex_job *job, void *context, void *arg)
{
    struct stoppable *s = arg;
    uint64_t start = lx_test_now_ns();

    (void)context;
    if (s->seals)
        atomic_store(&s->sealed, 1 + lanex_seal());
    latch_arrive(&s->entered);
    while (!lanex_cancelled() && latch_count(&s->leave) == 0)
        lx_test_pause_or_die(start, __FILE__, __LINE__, "cancelled");
    s->stopped = lanex_cancelled();
    if (s->stopped)
        LX_REQUIRE(lanex_job_respond_error(job, "stopped", NULL, false) == 0);
}

Test(cancellation, a_queued_job_is_removed)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_block block = {0};
    struct latch ran = LATCH_INIT;
    lanex_cancellation *token;
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, rig_block, &block);
    lanex_ticket *running = rig_submit(actor, &job), *queued[8];

    latch_wait(&block.entered, 1);
    cr_assert_eq(lanex_cancellation_create(&token), 0);
    cr_assert(lanex_cancellation_seal(token));
    for (unsigned i = 0; i < 8; i++) {
        job = rig_job(i % 2 == 0 ? LANEX_LANE_PURE_READ : LANEX_LANE_MUTATING, rig_count, &ran);
        job.job_class = i / 4;
        job.flags = i % 4 < 2 ? LANEX_JOB_CANCELLABLE : 0;
        if (i == 3)
            job.cancellation = token; /* whatever it says */
        queued[i] = rig_submit(actor, &job);
    }
    for (unsigned i = 0; i < 8; i++) {
        uint64_t number = lanex_ticket_job(queued[i]);
        rig_in_call = true;
        cr_assert_eq(lanex_cancel(executor, number), LANEX_CANCEL_QUEUED_REMOVED);
        rig_in_call = false;
        cr_assert_eq(lanex_cancel(executor, number), LANEX_CANCEL_NOT_FOUND);
        expect_cancelled(queued[i]);
        cr_assert_eq(lanex_cancel(executor, number), LANEX_CANCEL_NOT_FOUND);
    }
    latch_arrive(&block.leave);
    rig_expect(running, LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&ran), 0);
    lanex_cancellation_unref(token);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(cancellation, a_running_job_is_signalled_again_and_again)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");

    for (int shared = 0; shared < 2; shared++) {
        struct stoppable s = {.stopped = false};
        lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, stoppable, &s);
        if (shared)
            cr_assert_eq(lanex_cancellation_create(&job.cancellation), 0);
        else
            job.flags = LANEX_JOB_CANCELLABLE;
        lanex_ticket *ticket = rig_submit(actor, &job);
        uint64_t number = lanex_ticket_job(ticket);
        latch_wait(&s.entered, 1);
        cr_assert_eq(lanex_cancel(executor, number), LANEX_CANCEL_RUNNING_SIGNALLED);
        rig_expect(ticket, LANEX_STATUS_JOB_FAILED);
        cr_assert(s.stopped);
        cr_assert_eq(lanex_cancel(executor, number), LANEX_CANCEL_NOT_FOUND);
        if (shared)
            cr_assert(lanex_cancellation_is_cancelled(job.cancellation));
        lanex_cancellation_unref(job.cancellation);
    }
    struct rig_block block = {0};
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, rig_block, &block);
    job.flags = LANEX_JOB_CANCELLABLE;
    lanex_ticket *ticket = rig_submit(actor, &job);
    latch_wait(&block.entered, 1);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(lanex_cancel(executor, lanex_ticket_job(ticket)),
                     LANEX_CANCEL_RUNNING_SIGNALLED);
    latch_arrive(&block.leave);
    rig_expect(ticket, LANEX_STATUS_OK); /* it ends through its own completion */
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(cancellation, a_sealed_job_is_committed_also_when_its_actor_is_gone)
{
    lanex_executor *executor = rig_executor();

    for (int removed = 0; removed < 2; removed++) {
        lanex_actor *actor = rig_actor(executor, "a");
        struct stoppable sealed = {.seals = true}, open = {.seals = false};
        lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, stoppable, &sealed);
        job.flags = LANEX_JOB_CANCELLABLE;
        lanex_ticket *committed = rig_submit(actor, &job);
        job.arg = &open;
        lanex_ticket *signalled = rig_submit(actor, &job);
        latch_wait(&sealed.entered, 1);
        latch_wait(&open.entered, 1);
        if (removed)
            cr_assert_eq(rig_remove(executor, "a"), 0);
        for (int i = 0; i < 2; i++)
            cr_assert_eq(lanex_cancel(executor, lanex_ticket_job(committed)),
                         LANEX_CANCEL_RUNNING_COMMITTED);
        cr_assert_eq(lanex_cancel(executor, lanex_ticket_job(signalled)),
                     LANEX_CANCEL_RUNNING_SIGNALLED);
        rig_expect(signalled, LANEX_STATUS_JOB_FAILED);
        latch_arrive(&sealed.leave);
        rig_expect(committed, LANEX_STATUS_OK);
        cr_assert_eq(atomic_load(&sealed.sealed), 2);
        if (!removed)
            cr_assert_eq(rig_remove(executor, "a"), 0);
        lanex_actor_unref(actor);
    }
    rig_destroy_executor(executor);
}

Test(cancellation, a_job_without_a_token_cannot_be_stopped_once_it_runs)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct stoppable s = {.seals = true};
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, stoppable, &s);
    lanex_ticket *ticket = rig_submit(actor, &job);

    latch_wait(&s.entered, 1);
    cr_assert_eq(atomic_load(&s.sealed), 2, "seal is true without a token");
    cr_assert_eq(lanex_cancel(executor, lanex_ticket_job(ticket)), LANEX_CANCEL_NOT_FOUND);
    latch_arrive(&s.leave);
    rig_expect(ticket, LANEX_STATUS_OK);
    cr_assert_eq(lanex_cancel(executor, 0), LANEX_CANCEL_NOT_FOUND);
    cr_assert_eq(lanex_cancel(executor, 1), LANEX_CANCEL_NOT_FOUND);
    cr_assert_eq(lanex_cancel(executor, UINT64_MAX), LANEX_CANCEL_NOT_FOUND);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(cancellation, a_token_cancelled_before_or_while_queued_lets_nothing_run)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_block block = {0};
    struct latch ran = LATCH_INIT;
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, rig_count, &ran);
    lanex_job_options blocker = rig_job(LANEX_LANE_MUTATING, rig_block, &block);

    cr_assert_eq(lanex_cancellation_create(&job.cancellation), 0);
    cr_assert_eq(lanex_cancellation_cancel(job.cancellation), LANEX_CANCELLATION_PENDING);
    expect_cancelled(rig_submit(actor, &job));
    lanex_cancellation_unref(job.cancellation);

    lanex_ticket *running = rig_submit(actor, &blocker);
    latch_wait(&block.entered, 1);
    cr_assert_eq(lanex_cancellation_create(&job.cancellation), 0);
    lanex_ticket *queued = rig_submit(actor, &job);
    lanex_cancellation_cancel(job.cancellation);
    lanex_cancellation_unref(job.cancellation);
    latch_arrive(&block.leave);
    rig_expect(running, LANEX_STATUS_OK);
    expect_cancelled(queued); /* when its turn came */
    cr_assert_eq(latch_count(&ran), 0);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- at the gate ---- */

static bool one_runs(lanex_executor *executor)
{
    lanex_liveness liveness = {.size = sizeof liveness};

    LX_REQUIRE(lanex_executor_liveness(executor, &liveness) == 0);
    return liveness.running[0] == 1;
}

/* Admitted, but somebody outside holds the epoch: it can be cancelled there, and never runs. */
static void cancel_at_the_gate(enum lanex_lane lane, bool through_executor)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    lanex_epoch *epoch = lanex_actor_epoch(actor);
    struct latch ran = LATCH_INIT;
    lanex_job_options job = rig_job(lane, rig_count, &ran);
    bool writes = lane == LANEX_LANE_MUTATING;

    cr_assert_eq(writes ? lanex_epoch_read_acquire(epoch) : lanex_epoch_write_acquire(epoch), 0);
    cr_assert_eq(lanex_cancellation_create(&job.cancellation), 0);
    lanex_ticket *ticket = rig_submit(actor, &job);
    LX_EVENTUALLY(one_runs(executor));
    if (writes)
        LX_EVENTUALLY(lanex_epoch_writer_waiting(epoch));
    if (through_executor)
        cr_assert_eq(lanex_cancel(executor, lanex_ticket_job(ticket)),
                     LANEX_CANCEL_RUNNING_SIGNALLED);
    else
        lanex_cancellation_cancel(job.cancellation);
    expect_cancelled(ticket); /* while the epoch is held */
    if (writes)
        lanex_epoch_read_release(epoch);
    else
        lanex_epoch_write_release(epoch);
    lanex_cancellation_unref(job.cancellation);
    job.cancellation = NULL;
    rig_run(actor, &job, LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&ran), 1);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(cancellation, a_wait_for_the_gate_ends)
{
    cancel_at_the_gate(LANEX_LANE_PURE_READ, false);
    cancel_at_the_gate(LANEX_LANE_PURE_READ, true);
    cancel_at_the_gate(LANEX_LANE_MUTATING, false);
    cancel_at_the_gate(LANEX_LANE_MUTATING, true);
    cancel_at_the_gate(LANEX_LANE_MAINTENANCE_COMMIT, true);
}

/* ---- the current token ---- */

struct current {
    lanex_cancellation *expected;
    bool owned;
};

static void *part_of_the_work(void *token)
{
    LX_REQUIRE(lanex_current_cancellation() == NULL);
    LX_REQUIRE(!lanex_cancelled() && lanex_seal());
    LX_REQUIRE(lanex_cancellation_install(token) == NULL);
    LX_REQUIRE(lanex_current_cancellation() == token);
    LX_REQUIRE(lanex_cancellation_cancel(lanex_current_cancellation()) ==
               LANEX_CANCELLATION_RUNNING);
    LX_REQUIRE(lanex_cancelled() && !lanex_seal());
    LX_REQUIRE(lanex_cancellation_install(NULL) == token);
    LX_REQUIRE(!lanex_cancelled() && lanex_seal());
    return NULL;
}

static void look_at_the_token(lanex_job *job, void *context, void *arg)
{
    const struct current *current = arg;
    lanex_cancellation *token = lanex_current_cancellation();
    pthread_t thread;

    (void)job;
    (void)context;
    if (current->owned)
        LX_REQUIRE(token != NULL && lanex_cancellation_ref(token) == NULL);
    else
        LX_REQUIRE(token == current->expected);
    if (token == NULL)
        return;
    LX_REQUIRE(lanex_cancellation_state(token) == LANEX_CANCELLATION_RUNNING);
    LX_REQUIRE(pthread_create(&thread, NULL, part_of_the_work, token) == 0);
    LX_REQUIRE(pthread_join(thread, NULL) == 0);
    LX_REQUIRE(lanex_cancelled() && !lanex_seal());
}

Test(cancellation, the_current_token_is_the_jobs_and_can_be_lent)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct current current = {0};
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, look_at_the_token, &current);

    rig_run(actor, &job, LANEX_STATUS_OK);
    current.owned = true;
    job.flags = LANEX_JOB_CANCELLABLE;
    rig_run(actor, &job, LANEX_STATUS_OK);
    current.owned = false;
    job.flags = 0;
    cr_assert_eq(lanex_cancellation_create(&job.cancellation), 0);
    current.expected = job.cancellation;
    rig_run(actor, &job, LANEX_STATUS_OK);
    lanex_cancellation_unref(job.cancellation);
    cr_assert_null(lanex_current_cancellation());
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- install steps ---- */

struct build {
    struct rig_data data;
    struct latch built, installed;
    bool seals, cancels;
};

static void build(lanex_job *job, void *context, void *arg)
{
    struct build *b = arg;

    (void)context;
    lanex_job_respond(job, &b->data, rig_destroy);
    if (b->seals)
        LX_REQUIRE(lanex_seal());
    if (b->cancels)
        lanex_cancellation_cancel(lanex_current_cancellation());
    latch_arrive(&b->built);
}

static void install(lanex_job *job, void *context, void *arg)
{
    struct build *b = arg;

    (void)job;
    (void)context;
    latch_arrive(&b->installed);
}

static lanex_job_options builder(struct build *b)
{
    lanex_job_options job = rig_job(LANEX_LANE_HEAVY_INIT, build, b);

    job.install = install;
    job.flags = LANEX_JOB_CANCELLABLE;
    return job;
}

Test(cancellation, a_build_that_was_cancelled_is_not_installed)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct build b = {.cancels = true};
    lanex_job_options job = builder(&b);

    expect_cancelled(rig_submit(actor, &job));
    cr_assert_eq(latch_count(&b.installed), 0);
    cr_assert(rig_destroyed(&b.data));
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* Built, and waiting for a reader to leave. */
static void cancel_between(bool sealed)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_block reader = {0};
    struct build b = {.seals = sealed};
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, rig_block, &reader);
    lanex_ticket *reading = rig_submit(actor, &job), *building;

    latch_wait(&reader.entered, 1);
    job = builder(&b);
    building = rig_submit(actor, &job);
    latch_wait(&b.built, 1);
    LX_EVENTUALLY(one_runs(executor)); /* the reader: the build has ended */
    cr_assert_eq(lanex_cancel(executor, lanex_ticket_job(building)),
                 sealed ? LANEX_CANCEL_RUNNING_COMMITTED : LANEX_CANCEL_RUNNING_SIGNALLED);
    latch_arrive(&reader.leave);
    rig_expect(reading, LANEX_STATUS_OK);
    if (sealed)
        rig_expect(building, LANEX_STATUS_OK);
    else
        expect_cancelled(building);
    cr_assert_eq(latch_count(&b.installed), sealed);
    cr_assert(rig_destroyed(&b.data));
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(cancellation, between_build_and_install)
{
    cancel_between(false);
    cancel_between(true);
}

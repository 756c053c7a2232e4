/*
 * Deferred answers: who answers, when the rest of the job is free, and exactly one completion
 * whoever comes first: the holder, a panic, the end of the executor.
 */
#include "runtime_rig.h"

struct kept {
    lanex_deferred *_Atomic handle;
    struct latch kept;
    /* Then, in this order, as the test asks: */
    bool blocks, panics;
    struct rig_block block;
    struct rig_data *answered_before;
};

static void keep(lanex_job *job, void *context, void *arg)
{
    struct kept *kept = arg;
    lanex_deferred *handle = NULL, *second = NULL;

    if (kept->answered_before != NULL)
        lanex_job_respond(job, kept->answered_before, rig_destroy);
    LX_REQUIRE(lanex_job_defer(job, NULL) == -EINVAL);
    LX_REQUIRE(lanex_job_defer(job, &handle) == 0);
    LX_REQUIRE(lanex_job_defer(job, &second) == -EALREADY);
    LX_REQUIRE(second == NULL);
    LX_REQUIRE(lanex_job_respond_error(job, "code", NULL, false) == -EINVAL);
    atomic_store(&kept->handle, handle);
    latch_arrive(&kept->kept);
    if (kept->blocks)
        rig_block(job, context, &kept->block);
    if (kept->panics)
        lanex_panic("after all");
}

static lanex_ticket *submit_kept(lanex_actor *actor, enum lanex_lane lane, struct kept *kept)
{
    lanex_job_options job = rig_job(lane, keep, kept);
    lanex_ticket *ticket = rig_submit(actor, &job);

    latch_wait(&kept->kept, 1);
    return ticket;
}

static void *respond_from_another_thread(void *arg)
{
    void **args = arg;

    LX_REQUIRE(lanex_deferred_respond(args[0], args[1], rig_destroy) == 0);
    return NULL;
}

static void elsewhere(void *(*run)(void *), void *arg)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, run, arg), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

static void wait_idle(lanex_executor *executor)
{
    for (;;) {
        lanex_liveness liveness = {.size = sizeof liveness};
        cr_assert_eq(lanex_executor_liveness(executor, &liveness), 0);
        if (liveness.running[0] + liveness.queued[0] == 0)
            return;
    }
}

/* Lane, gate, worker and permit are free at once: that many jobs of the same lane and of the writer
 * lane run meanwhile. */
static void others_run_meanwhile(enum lanex_lane lane)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data before = {0}, data = {0};
    struct kept kept = {.answered_before = &before};
    lanex_ticket *ticket = submit_kept(actor, lane, &kept);
    struct latch ran = LATCH_INIT;
    lanex_job_options job = rig_job(lane, rig_count, &ran);

    cr_assert(rig_destroyed(&before), "the handle's answer is the only one");
    for (int i = 0; i < 100; i++)
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    job.lane = LANEX_LANE_MUTATING;
    for (int i = 0; i < 10; i++)
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_wait(&ran, 110);
    wait_idle(executor);
    cr_assert_eq(lanex_ticket_poll(ticket), 0);
    void *args[2] = {atomic_load(&kept.handle), &data};
    elsewhere(respond_from_another_thread, args);
    lanex_completion *completion = rig_wait(ticket);
    cr_assert_eq(lanex_completion_data(completion), (void *)&data);
    cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_OK);
    lanex_ticket_drop(ticket);
    cr_assert(rig_destroyed(&data));
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(deferred, what_the_job_held_is_free_until_it_is_answered)
{
    others_run_meanwhile(LANEX_LANE_SERIAL_STATUS);
    others_run_meanwhile(LANEX_LANE_PURE_READ);
    others_run_meanwhile(LANEX_LANE_MUTATING);
    others_run_meanwhile(LANEX_LANE_HEAVY_INIT);
    others_run_meanwhile(LANEX_LANE_MAINTENANCE_COMMIT);
}

Test(deferred, errors_and_drops_are_answers)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct kept failed = {.handle = NULL}, dropped = {.handle = NULL};
    lanex_ticket *ticket = submit_kept(actor, LANEX_LANE_PURE_READ, &failed);

    cr_assert_eq(lanex_deferred_respond_error(failed.handle, NULL, "m", true), -EINVAL);
    cr_assert_eq(lanex_deferred_respond_error(failed.handle, "late", "too late", true), 0);
    lanex_completion *completion = rig_wait(ticket);
    cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_JOB_FAILED);
    cr_assert_str_eq(lanex_completion_code(completion), "late");
    cr_assert_str_eq(lanex_completion_message(completion), "too late");
    cr_assert(lanex_completion_retryable(completion));
    lanex_ticket_drop(ticket);
    ticket = submit_kept(actor, LANEX_LANE_PURE_READ, &dropped);
    lanex_deferred_drop(dropped.handle);
    completion = rig_wait(ticket);
    cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_JOB_ABANDONED);
    cr_assert_str_eq(lanex_completion_code(completion), "job_abandoned");
    lanex_ticket_drop(ticket);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(deferred, shutdown_answers_and_the_handle_outlives_the_executor)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data data = {0};
    struct kept kept[3] = {{.handle = NULL}};
    lanex_ticket *tickets[3];

    for (int i = 0; i < 3; i++)
        tickets[i] = submit_kept(actor, LANEX_LANE_PURE_READ, &kept[i]);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor); /* drain does not wait for them */
    for (int i = 0; i < 3; i++) {
        lanex_completion *completion = rig_wait(tickets[i]);
        cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_EXECUTOR_SHUTDOWN);
        cr_assert_str_eq(lanex_completion_code(completion), "executor_shutdown");
        lanex_ticket_drop(tickets[i]);
    }
    cr_assert_eq(lanex_deferred_respond(kept[0].handle, &data, rig_destroy), -EALREADY);
    cr_assert(rig_destroyed(&data));
    cr_assert_eq(lanex_deferred_respond_error(kept[1].handle, "c", NULL, false), -EALREADY);
    lanex_deferred_drop(kept[2].handle);
}

Test(deferred, a_panic_answers_and_makes_the_handle_inert)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data data = {0};
    struct kept kept = {.panics = true};
    lanex_ticket *ticket = submit_kept(actor, LANEX_LANE_PURE_READ, &kept);

    rig_expect(ticket, LANEX_STATUS_JOB_PANICKED);
    cr_assert_eq(lanex_deferred_respond(kept.handle, &data, rig_destroy), -EALREADY);
    cr_assert(rig_destroyed(&data));
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* Answered while the body runs: the completion waits for the end to be filed, so that the actor is
 * idle for whoever sees it. */
Test(deferred, an_answer_before_the_end_is_delivered_with_the_end)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data data = {0};
    struct kept kept = {.blocks = true};
    lanex_ticket *ticket = submit_kept(actor, LANEX_LANE_MUTATING, &kept);

    latch_wait(&kept.block.entered, 1);
    cr_assert_eq(lanex_deferred_respond(kept.handle, &data, rig_destroy), 0);
    cr_assert_eq(lanex_ticket_poll(ticket), 0);
    latch_arrive(&kept.block.leave);
    lanex_completion *completion = rig_wait(ticket);
    cr_assert_eq(rig_retire(executor, "a"), 0);
    cr_assert_eq(lanex_completion_data(completion), (void *)&data);
    lanex_ticket_drop(ticket);
    cr_assert(rig_destroyed(&data));
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(deferred, an_answer_before_a_panic_stays_and_the_actor_is_fatal)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data data = {0};
    struct kept kept = {.blocks = true, .panics = true};
    lanex_ticket *ticket = submit_kept(actor, LANEX_LANE_MUTATING, &kept);

    latch_wait(&kept.block.entered, 1);
    cr_assert_eq(lanex_deferred_respond(kept.handle, &data, rig_destroy), 0);
    latch_arrive(&kept.block.leave);
    rig_expect(ticket, LANEX_STATUS_OK);
    cr_assert(rig_destroyed(&data));
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
    rig_run(actor, &job, LANEX_STATUS_ACTOR_FATAL);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- install steps ---- */

static void defers_too_early(lanex_job *job, void *context, void *arg)
{
    lanex_deferred *handle;

    (void)context;
    (void)arg;
    LX_REQUIRE(lanex_job_defer(job, &handle) == -EINVAL);
}

Test(deferred, a_heavy_init_defers_from_its_install_step)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct kept kept = {.handle = NULL};
    lanex_job_options job = rig_job(LANEX_LANE_HEAVY_INIT, defers_too_early, &kept);

    job.install = keep;
    lanex_ticket *ticket = rig_submit(actor, &job);
    latch_wait(&kept.kept, 1);
    lanex_job_options write = rig_job(LANEX_LANE_MUTATING, rig_nothing, NULL);
    rig_run(actor, &write, LANEX_STATUS_OK);
    cr_assert_eq(lanex_ticket_poll(ticket), 0);
    cr_assert_eq(lanex_deferred_respond(kept.handle, NULL, NULL), 0);
    rig_expect(ticket, LANEX_STATUS_OK);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- on whose thread ---- */

struct destroyer {
    lanex_executor *executor;
    int result;
    struct latch called;
};

static void destroys(lanex_completion *completion, void *arg)
{
    struct destroyer *destroyer = arg;

    (void)completion;
    destroyer->result = lanex_executor_destroy(destroyer->executor);
    latch_arrive(&destroyer->called);
}

Test(deferred, a_callback_on_the_answering_thread_cannot_destroy_what_waits_for_it)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct destroyer destroyer = {.executor = executor};
    struct kept kept = {.handle = NULL};
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, keep, &kept);

    job.sink =
        (lanex_sink){.kind = LANEX_SINK_CALLBACK, .callback = destroys, .callback_arg = &destroyer};
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_wait(&kept.kept, 1);
    wait_idle(executor);
    cr_assert_eq(lanex_deferred_respond(kept.handle, NULL, NULL), 0);
    latch_wait(&destroyer.called, 1);
    cr_assert_eq(destroyer.result, -EDEADLK);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* Answers race with the body's end, with panics and with destroy: one completion each. */
struct racer {
    struct kept *kept;
    unsigned count;
    struct rig_data *data;
};

static void *answer_all(void *arg)
{
    struct racer *racer = arg;

    for (unsigned i = 0; i < racer->count; i++) {
        latch_wait(&racer->kept[i].kept, 1);
        int rc = lanex_deferred_respond(racer->kept[i].handle, &racer->data[i], rig_destroy);
        LX_REQUIRE(rc == 0 || rc == -EALREADY);
    }
    return NULL;
}

Test(deferred, answers_race_with_ends_panics_and_destroy)
{
    enum { KEPT = 40 };
    unsigned rounds = (unsigned)lx_test_scaled(20);

    for (unsigned round = 0; round < rounds; round++) {
        lanex_executor *executor = rig_executor();
        lanex_actor *actor = rig_actor(executor, "a");
        static struct kept kept[KEPT];
        static struct rig_data data[KEPT];
        lanex_ticket *tickets[KEPT];
        struct racer racer = {kept, KEPT, data};
        pthread_t thread;

        memset(kept, 0, sizeof kept);
        memset(data, 0, sizeof data);
        cr_assert_eq(pthread_create(&thread, NULL, answer_all, &racer), 0);
        for (unsigned i = 0; i < KEPT; i++) {
            kept[i].panics = i % 3 == 0;
            lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, keep, &kept[i]);
            tickets[i] = rig_submit(actor, &job);
        }
        for (unsigned i = 0; i < KEPT; i++)
            latch_wait(&kept[i].kept, 1);
        lanex_actor_unref(actor);
        cr_assert_eq(lanex_executor_destroy(executor), 0);
        for (unsigned i = 0; i < KEPT; i++) {
            int status = lanex_completion_status(rig_wait(tickets[i]));
            cr_assert(status == LANEX_STATUS_OK || status == LANEX_STATUS_EXECUTOR_SHUTDOWN ||
                      (status == LANEX_STATUS_JOB_PANICKED && i % 3 == 0));
            lanex_ticket_drop(tickets[i]);
        }
        cr_assert_eq(pthread_join(thread, NULL), 0);
        for (unsigned i = 0; i < KEPT; i++)
            cr_assert(rig_destroyed(&data[i]));
    }
}

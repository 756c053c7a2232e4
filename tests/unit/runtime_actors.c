/*
 * Actors in a running executor: registering, removing, retiring, incarnations, when the context is
 * released and on which thread; install steps; and what maintenance queues answer.
 */
#include "runtime_rig.h"

/* ---- the context ---- */

struct context {
    struct latch released;
    atomic_int users;
    char thread[16];
};

static void release_context(void *arg)
{
    struct context *context = arg;

    LX_REQUIRE(!rig_in_call);
    LX_REQUIRE(atomic_load(&context->users) == 0);
    LX_REQUIRE(latch_count(&context->released) == 0);
    LX_REQUIRE(pthread_getname_np(pthread_self(), context->thread, sizeof context->thread) == 0);
    latch_arrive(&context->released);
}

static void use_context(lanex_job *job, void *arg_context, void *arg)
{
    struct context *context = arg_context;

    atomic_fetch_add(&context->users, 1);
    LX_REQUIRE(lanex_actor_context(lanex_job_actor(job)) == context);
    rig_block(job, context, arg);
    LX_REQUIRE(latch_count(&context->released) == 0);
    atomic_fetch_sub(&context->users, 1);
}

Test(actors, the_context_is_released_once_when_the_last_job_is_over)
{
    lanex_executor *executor = rig_executor();
    struct context idle = {0}, running = {0}, retired = {0}, left = {0}, held = {0};
    struct rig_block block = {0};
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, use_context, &block);
    lanex_actor *actors[] = {rig_actor_with(executor, "idle", &idle, release_context),
                             rig_actor_with(executor, "running", &running, release_context),
                             rig_actor_with(executor, "retired", &retired, release_context),
                             rig_actor_with(executor, "left", &left, release_context),
                             rig_actor_with(executor, "held", &held, release_context)};

    lanex_ticket *ticket = rig_submit(actors[1], &job);
    latch_wait(&block.entered, 1);
    rig_in_call = true;
    cr_assert_eq(rig_remove(executor, "idle"), 0);
    cr_assert_eq(rig_remove(executor, "running"), 0);
    cr_assert_eq(rig_retire(executor, "retired"), 0);
    rig_in_call = false;
    latch_wait(&idle.released, 1); /* handles do not count */
    latch_wait(&retired.released, 1);
    cr_assert_str_eq(idle.thread, "lanex-reap");
    cr_assert_str_eq(retired.thread, "lanex-reap");
    cr_assert_eq(latch_count(&running.released), 0);
    latch_arrive(&block.leave);
    rig_expect(ticket, LANEX_STATUS_OK);
    latch_wait(&running.released, 1);
    cr_assert_str_eq(running.thread, "lanex-reap");
    for (int i = 0; i < 4; i++)
        lanex_actor_unref(actors[i]);
    rig_destroy_executor(executor);
    latch_wait(&left.released, 1);
    latch_wait(&held.released, 1);
    size_t length = 0;
    cr_assert_eq(memcmp(lanex_actor_key(actors[4], &length), "held", 4), 0);
    cr_assert_eq(length, 4);
    lanex_actor_unref(actors[4]);
    cr_assert(latch_count(&idle.released) == 1 && latch_count(&held.released) == 1);
}

Test(actors, registering_a_key_again_changes_nothing)
{
    lanex_executor *executor = rig_executor();
    struct context first = {0}, second = {0};
    lanex_actor *actor = rig_actor_with(executor, "a\0b", &first, release_context), *again = NULL;
    lanex_actor_options options = {
        .size = sizeof options, .context = &second, .context_release = release_context};

    cr_assert_eq(lanex_actor_register(executor, "a", 1, &options, &again), 0);
    cr_assert_eq(again, actor);
    cr_assert_eq(lanex_actor_context(again), (void *)&first);
    lanex_actor_unref(again);
    /* Bytes, not strings. */
    cr_assert_eq(lanex_actor_register(executor, "a\0b", 3, &options, &again), 1);
    cr_assert_neq(again, actor);
    lanex_actor_unref(again);
    cr_assert_eq(lanex_actor_lookup(executor, "a\0b", 3, &again), 0);
    cr_assert_eq(lanex_actor_context(again), (void *)&second);
    lanex_actor_unref(again);
    cr_assert_eq(lanex_actor_lookup(executor, "a\0c", 3, &again), -ENOENT);
    lanex_counters counters = {.size = sizeof counters};
    cr_assert_eq(lanex_executor_counters(executor, &counters), 0);
    cr_assert_eq(counters.actors, 2);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
    cr_assert(latch_count(&first.released) == 1 && latch_count(&second.released) == 1);
}

/* ---- removing ---- */

struct order {
    atomic_uint next;
    struct latch answered;
    unsigned count;
};
struct place {
    struct order *order;
    unsigned number;
};

static void note_order(lanex_completion *completion, void *arg)
{
    struct place *place = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_ACTOR_FATAL);
    LX_REQUIRE(atomic_fetch_add(&place->order->next, 1) == place->number);
    latch_arrive(&place->order->answered);
}

#define QUEUED_MAX 200

/* The counts around a slice of answers (64) included: there the end of the queue is special. */
static void remove_with_queued(unsigned count)
{
    lanex_executor *executor = rig_executor();
    struct context context = {0};
    struct order order = {.count = count};
    static struct place places[QUEUED_MAX];
    struct rig_block block = {0};
    lanex_actor *actor = rig_actor_with(executor, "a", &context, release_context);
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, use_context, &block);
    lanex_ticket *running = rig_submit(actor, &job);

    latch_wait(&block.entered, 1);
    for (unsigned i = 0; i < count; i++) {
        places[i] = (struct place){&order, i};
        job = rig_job((enum lanex_lane)(i % 5), rig_nothing, NULL);
        job.job_class = i % 3 == 0;
        job.sink = (lanex_sink){
            .kind = LANEX_SINK_CALLBACK, .callback = note_order, .callback_arg = &places[i]};
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    }
    cr_assert_eq(rig_remove(executor, "a"), 0);
    cr_assert_eq(rig_remove(executor, "a"), -ENOENT);
    latch_wait(&order.answered, count);
    job = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
    rig_run(actor, &job, LANEX_STATUS_ACTOR_NOT_REGISTERED);
    lanex_actor_unref(actor);
    latch_arrive(&block.leave);
    rig_expect(running, LANEX_STATUS_OK);
    latch_wait(&context.released, 1);
    rig_destroy_executor(executor);
}

Test(actors, removing_answers_the_queue_in_order_of_arrival)
{
    static const unsigned counts[] = {0, 1, 63, 64, 65, 128, QUEUED_MAX};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        remove_with_queued(counts[i]);
}

static void panic_at_last(lanex_job *job, void *context, void *arg)
{
    use_context(job, context, arg);
    lanex_panic("the old one");
}

Test(actors, a_key_registered_anew_is_another_actor)
{
    lanex_executor *executor = rig_executor();
    struct context first = {0}, second = {0};
    struct rig_block old_block = {0}, new_block = {0};
    lanex_actor *old = rig_actor_with(executor, "a", &first, release_context);
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, panic_at_last, &old_block);
    lanex_ticket *last = rig_submit(old, &job);

    latch_wait(&old_block.entered, 1);
    cr_assert_eq(rig_remove(executor, "a"), 0);
    lanex_actor *new = rig_actor_with(executor, "a", &second, release_context);
    cr_assert_neq(new, old);
    job = rig_job(LANEX_LANE_MUTATING, use_context, &new_block);
    lanex_ticket *both = rig_submit(new, &job);
    latch_wait(&new_block.entered, 1); /* two writers: of two contexts */
    latch_arrive(&old_block.leave);
    rig_expect(last, LANEX_STATUS_ACTOR_FATAL);
    latch_wait(&first.released, 1);
    latch_arrive(&new_block.leave);
    rig_expect(both, LANEX_STATUS_OK);
    job = rig_job(LANEX_LANE_MUTATING, rig_nothing, NULL);
    rig_run(new, &job, LANEX_STATUS_OK);
    rig_run(old, &job, LANEX_STATUS_ACTOR_NOT_REGISTERED);
    cr_assert_eq(latch_count(&second.released), 0);
    lanex_actor_unref(old);
    lanex_actor_unref(new);
    rig_destroy_executor(executor);
}

Test(actors, only_an_idle_one_is_retired)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");

    for (unsigned lane = 0; lane < 5; lane++) {
        struct rig_block block = {0};
        lanex_job_options job = rig_job((enum lanex_lane)lane, rig_block, &block);
        lanex_ticket *ticket = rig_submit(actor, &job);
        cr_assert_eq(rig_retire(executor, "a"), -EBUSY);
        latch_wait(&block.entered, 1);
        cr_assert_eq(rig_retire(executor, "a"), -EBUSY);
        latch_arrive(&block.leave);
        rig_expect(ticket, LANEX_STATUS_OK);
        cr_assert_eq(rig_retire(executor, "a"), 0);
        lanex_actor_unref(actor);
        actor = rig_actor(executor, "a");
    }
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- install steps ---- */

struct steps {
    atomic_uint clock;
    unsigned built_at, installed_at, read_at;
    struct latch built;
    struct rig_block install;
    bool blocks, fails, panics;
    struct rig_data data;
};

static void build_step(lanex_job *job, void *context, void *arg)
{
    struct steps *steps = arg;

    (void)context;
    steps->built_at = 1 + atomic_fetch_add(&steps->clock, 1);
    lanex_job_respond(job, &steps->data, rig_destroy);
    if (steps->fails)
        LX_REQUIRE(lanex_job_respond_error(job, "no_file", NULL, false) == 0);
    latch_arrive(&steps->built);
    if (steps->panics)
        lanex_panic("while building");
}

static void install_step(lanex_job *job, void *context, void *arg)
{
    struct steps *steps = arg;

    steps->installed_at = 1 + atomic_fetch_add(&steps->clock, 1);
    if (steps->blocks)
        rig_block(job, context, &steps->install);
}

static void read_step(lanex_job *job, void *context, void *arg)
{
    struct steps *steps = arg;

    (void)job;
    (void)context;
    steps->read_at = 1 + atomic_fetch_add(&steps->clock, 1);
}

static lanex_job_options stepper(struct steps *steps)
{
    lanex_job_options job = rig_job(LANEX_LANE_HEAVY_INIT, build_step, steps);

    job.install = install_step;
    return job;
}

static bool runs(lanex_executor *executor, uint64_t running)
{
    lanex_liveness liveness = {.size = sizeof liveness};

    LX_REQUIRE(lanex_executor_liveness(executor, &liveness) == 0);
    return liveness.running[0] == running;
}

Test(actors, an_install_step_goes_before_waiting_reads_and_keeps_its_permit)
{
    lanex_executor_options options = rig_options();
    options.heavy_permits = 1;
    lanex_executor *executor = rig_executor_with(&options);
    lanex_actor *actor = rig_actor(executor, "a"), *other = rig_actor(executor, "b");
    struct rig_block reader = {0};
    struct steps steps = {.blocks = true}, second = {.blocks = false};
    lanex_job_options read = rig_job(LANEX_LANE_PURE_READ, rig_block, &reader);
    lanex_job_options heavy = stepper(&steps);
    lanex_ticket *reading = rig_submit(actor, &read), *heavies[2], *late;

    latch_wait(&reader.entered, 1);
    heavies[0] = rig_submit(actor, &heavy);
    latch_wait(&steps.built, 1); /* beside the reader */
    LX_EVENTUALLY(runs(executor, 1));
    read = rig_job(LANEX_LANE_PURE_READ, read_step, &steps);
    late = rig_submit(actor, &read);
    heavy = stepper(&second);
    heavies[1] = rig_submit(other, &heavy);
    cr_assert_eq(latch_count(&steps.install.entered), 0);
    latch_arrive(&reader.leave);
    rig_expect(reading, LANEX_STATUS_OK);
    latch_wait(&steps.install.entered, 1);
    /* A whole turn later still: the permit is not back, and no read beside the install step. */
    cr_assert_eq(lanex_cancel(executor, 0), LANEX_CANCEL_NOT_FOUND);
    cr_assert_eq(latch_count(&second.built), 0);
    cr_assert_eq(lanex_ticket_poll(late), 0);
    latch_arrive(&steps.install.leave);
    rig_expect(late, LANEX_STATUS_OK);
    for (int i = 0; i < 2; i++) {
        struct steps *each = i == 0 ? &steps : &second;
        lanex_completion *completion = rig_wait(heavies[i]);
        cr_assert_eq(lanex_completion_data(completion), (void *)&each->data,
                     "what the build answered stays");
        lanex_ticket_drop(heavies[i]);
        cr_assert(rig_destroyed(&each->data));
    }
    cr_assert(steps.built_at < steps.installed_at && steps.installed_at < steps.read_at);
    cr_assert(second.built_at < second.installed_at);
    lanex_actor_unref(actor);
    lanex_actor_unref(other);
    rig_destroy_executor(executor);
}

Test(actors, a_build_that_failed_or_panicked_is_not_installed)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct steps failing = {.fails = true}, panicking = {.panics = true};
    lanex_job_options job = stepper(&failing);

    rig_run(actor, &job, LANEX_STATUS_JOB_FAILED);
    job = stepper(&panicking);
    rig_run(actor, &job, LANEX_STATUS_JOB_PANICKED);
    cr_assert(failing.installed_at == 0 && panicking.installed_at == 0);
    cr_assert(rig_destroyed(&failing.data) && rig_destroyed(&panicking.data));
    job = rig_job(LANEX_LANE_MUTATING, rig_nothing, NULL);
    rig_run(actor, &job, LANEX_STATUS_OK);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(actors, an_install_step_whose_actor_went_is_answered_and_its_data_destroyed)
{
    lanex_executor *executor = rig_executor();
    struct context context = {0};
    lanex_actor *actor = rig_actor_with(executor, "a", &context, release_context);
    struct rig_block reader = {0};
    struct steps steps = {.blocks = false};
    lanex_job_options read = rig_job(LANEX_LANE_PURE_READ, rig_block, &reader);
    lanex_job_options heavy = stepper(&steps);
    lanex_ticket *reading = rig_submit(actor, &read), *building;

    latch_wait(&reader.entered, 1);
    building = rig_submit(actor, &heavy);
    latch_wait(&steps.built, 1);
    LX_EVENTUALLY(runs(executor, 1));
    cr_assert_eq(rig_remove(executor, "a"), 0);
    rig_expect(building, LANEX_STATUS_ACTOR_FATAL);
    cr_assert_eq(steps.installed_at, 0);
    cr_assert(rig_destroyed(&steps.data));
    latch_arrive(&reader.leave);
    rig_expect(reading, LANEX_STATUS_OK);
    latch_wait(&context.released, 1);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- maintenance ---- */

static void expect_text(lanex_ticket *ticket, enum lanex_status status, const char *message)
{
    lanex_completion *completion = rig_wait(ticket);

    cr_assert_eq(lanex_completion_status(completion), (int)status);
    cr_assert_str_eq(lanex_completion_message(completion), message);
    cr_assert_eq(lanex_completion_retryable(completion),
                 status == LANEX_STATUS_MAINTENANCE_BACKPRESSURE);
    lanex_ticket_drop(ticket);
}

Test(actors, maintenance_is_coalesced_bounded_and_cancelled)
{
    lanex_executor_options options = rig_options();
    options.maintenance_queue_cap = 3;
    lanex_executor *executor = rig_executor_with(&options);
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_block block = {0};
    lanex_job_options blocker = rig_job(LANEX_LANE_MUTATING, rig_block, &block);
    lanex_job_options job = rig_job(LANEX_LANE_MAINTENANCE_COMMIT, rig_nothing, NULL);
    lanex_job_options interactive = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
    lanex_ticket *running = rig_submit(actor, &blocker), *kept[3], *refused, *reading;
    lanex_refusal refusal;

    latch_wait(&block.entered, 1);
    reading = rig_submit(actor, &interactive);
    job.job_class = LANEX_CLASS_MAINTENANCE;
    job.coalesce_key = LANEX_COALESCE_WATCHER_DRAIN;
    kept[0] = rig_submit(actor, &job);
    expect_text(rig_submit(actor, &job), LANEX_STATUS_MAINTENANCE_CANCELLED,
                "maintenance drain coalesced behind an identical queued drain");
    job.coalesce_key = LANEX_COALESCE_NONE;
    kept[1] = rig_submit(actor, &job);
    kept[2] = rig_submit(actor, &job);
    refused = rig_submit(actor, &job);
    lanex_completion *completion = rig_wait(refused);
    cr_assert_eq(lanex_completion_refusal(completion, NULL), -EINVAL);
    cr_assert_eq(lanex_completion_refusal(completion, &refusal), 0);
    cr_assert(refusal.queue_class == LANEX_CLASS_MAINTENANCE &&
              refusal.scope == LANEX_SCOPE_ACTOR && refusal.depth == 3 && refusal.cap == 3);
    cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_MAINTENANCE_BACKPRESSURE);
    cr_assert(lanex_completion_retryable(completion));
    lanex_ticket_drop(refused);
    rig_in_call = true;
    cr_assert_eq(lanex_actor_cancel_queued_maintenance(executor, "a", 1), 3);
    cr_assert_eq(lanex_actor_cancel_queued_maintenance(executor, "a", 1), 0);
    rig_in_call = false;
    for (int i = 0; i < 3; i++)
        expect_text(kept[i], LANEX_STATUS_MAINTENANCE_CANCELLED,
                    "maintenance cancelled because the actor has no bound routes");
    kept[0] = rig_submit(actor, &job); /* the places are free */
    latch_arrive(&block.leave);
    rig_expect(running, LANEX_STATUS_OK);
    rig_expect(reading, LANEX_STATUS_OK);
    rig_expect(kept[0], LANEX_STATUS_OK);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

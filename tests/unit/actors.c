/* Actors' ends: retired, removed, and registered again while jobs of the old one are still running.
 */
#include "tests/unit/actors_rig.h"

TestSuite(actors, .timeout = 60);

static int register_again(lanex_executor *executor, const char *key, lanex_actor **ret_actor)
{
    lanex_actor_options options = {.size = sizeof options};

    return lanex_actor_register(executor, key, strlen(key), &options, ret_actor);
}

/* ---- retire ---- */

Test(actors, retire_tears_down_then_releases_in_the_background)
{
    lanex_executor *executor = rig_executor();
    struct counted counted = COUNTED_INIT;
    lanex_actor *actor = counted_actor(executor, "a", &counted), *again = NULL;
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, rig_nothing, NULL);

    counted.hold_teardown = true;
    rig_run(actor, &job, LANEX_STATUS_OK);
    cr_assert_eq(rig_retire(executor, "a"), 0);
    /* Retire has returned although the teardown cannot end; the key is free meanwhile. */
    latch_wait(&counted.torn_down, 1);
    cr_assert_eq(latch_count(&counted.released), 0);
    cr_assert_eq(rig_retire(executor, "a"), -ENOENT);
    cr_assert_eq(register_again(executor, "a", &again), 1);
    rig_run(again, &job, LANEX_STATUS_OK);
    latch_arrive(&counted.may_end);
    latch_wait(&counted.released, 1);
    cr_assert(counted.in_order, "released before it was torn down");
    cr_assert_str_eq(counted.thread, "lanex-reap");
    lanex_actor_unref(actor);
    lanex_actor_unref(again);
    rig_destroy_executor(executor);
    cr_assert_eq(latch_count(&counted.torn_down), 1);
    cr_assert_eq(latch_count(&counted.released), 1);
}

Test(actors, retire_of_a_busy_actor_changes_nothing)
{
    lanex_executor *executor = rig_executor();
    struct counted counted = COUNTED_INIT;
    lanex_actor *actor = counted_actor(executor, "a", &counted);
    struct rig_block reader = {LATCH_INIT, LATCH_INIT}, other = {LATCH_INIT, LATCH_INIT};
    struct latch installed = LATCH_INIT;
    lanex_job_options read = rig_job(LANEX_LANE_PURE_READ, rig_block, &reader);
    lanex_job_options write = rig_job(LANEX_LANE_MUTATING, rig_nothing, NULL);
    lanex_job_options heavy = rig_job(LANEX_LANE_HEAVY_INIT, build_and_install, &installed);
    lanex_ticket *tickets[3];

    tickets[0] = rig_submit(actor, &read);
    latch_wait(&reader.entered, 1);
    cr_assert_eq(rig_retire(executor, "a"), -EBUSY, "a job is running");
    tickets[1] = rig_submit(actor, &write);
    cr_assert_eq(rig_retire(executor, "a"), -EBUSY, "one is queued too");
    latch_arrive(&reader.leave);
    rig_expect(tickets[0], LANEX_STATUS_OK);
    rig_expect(tickets[1], LANEX_STATUS_OK);
    /* A build that has returned and waits for its install step has neither a worker nor a place in
     * a queue. */
    read.arg = &other;
    tickets[0] = rig_submit(actor, &read);
    latch_wait(&other.entered, 1);
    heavy.install = build_and_install;
    tickets[1] = rig_submit(actor, &heavy);
    latch_wait(&installed, 1);
    LX_EVENTUALLY(idle_workers(executor) == 3);
    cr_assert_eq(rig_retire(executor, "a"), -EBUSY, "an install step is to come");
    cr_assert_eq(latch_count(&installed), 1);
    latch_arrive(&other.leave);
    rig_expect(tickets[0], LANEX_STATUS_OK);
    rig_expect(tickets[1], LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&installed), 2);
    cr_assert_eq(latch_count(&counted.torn_down), 0);
    cr_assert_eq(rig_retire(executor, "a"), 0);
    latch_wait(&counted.released, 1);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
    cr_assert_eq(latch_count(&counted.torn_down), 1);
}

static void defer(lanex_job *job, void *context, void *arg)
{
    (void)context;
    LX_REQUIRE(lanex_job_defer(job, arg) == 0);
}

Test(actors, retire_and_idle_ignore_deferred_answers)
{
    lanex_executor *executor = rig_executor();
    struct counted counted = COUNTED_INIT;
    lanex_actor *actor = counted_actor(executor, "a", &counted);
    lanex_deferred *deferred = NULL;
    lanex_job_options job = rig_job(LANEX_LANE_SERIAL_STATUS, defer, &deferred);
    lanex_ticket *ticket = rig_submit(actor, &job);

    LX_EVENTUALLY(lanex_actor_idle(executor, "a", 1) == 1);
    cr_assert_eq(rig_retire(executor, "a"), 0);
    latch_wait(&counted.released, 1);
    cr_assert_eq(lanex_ticket_poll(ticket), 0);
    cr_assert_eq(lanex_deferred_respond(deferred, NULL, NULL), 0);
    rig_expect(ticket, LANEX_STATUS_OK);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

struct seen {
    lanex_executor *executor;
    struct latch retired;
};

static void retire_at_once(lanex_completion *completion, void *arg)
{
    struct seen *seen = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    LX_REQUIRE(lanex_actor_idle(seen->executor, "a", 1) == 1);
    LX_REQUIRE(lanex_actor_retire(seen->executor, "a", 1) == 0);
    latch_arrive(&seen->retired);
}

Test(actors, whoever_sees_the_last_completion_may_retire)
{
    lanex_executor *executor = rig_executor();
    struct seen seen = {executor, LATCH_INIT};

    for (unsigned i = 0; i < 200; i++) {
        lanex_actor *actor = rig_actor(executor, "a");
        lanex_job_options job = rig_job(i % 5, rig_nothing, NULL);

        job.sink = (lanex_sink){
            .kind = LANEX_SINK_CALLBACK, .callback = retire_at_once, .callback_arg = &seen};
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
        lanex_actor_unref(actor);
        latch_wait(&seen.retired, i + 1);
    }
    rig_destroy_executor(executor);
}

static void end_oneself(lanex_job *job, void *context, void *arg)
{
    lanex_executor *executor = arg;

    (void)job;
    (void)context;
    LX_REQUIRE(lanex_actor_retire(executor, "a", 1) == -EBUSY);
    LX_REQUIRE(lanex_actor_remove(executor, "a", 1) == 0);
    LX_REQUIRE(lanex_actor_remove(executor, "a", 1) == -ENOENT);
}

Test(actors, a_job_may_remove_its_own_actor_but_not_retire_it)
{
    lanex_executor *executor = rig_executor();
    struct counted counted = COUNTED_INIT;
    lanex_actor *actor = counted_actor(executor, "a", &counted);
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, end_oneself, executor);

    rig_run(actor, &job, LANEX_STATUS_OK);
    latch_wait(&counted.released, 1);
    cr_assert_eq(latch_count(&counted.torn_down), 0, "a removed actor is not torn down");
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(actors, the_executors_end_waits_for_a_teardown_and_makes_none)
{
    lanex_executor *executor = rig_executor();
    struct counted retired = COUNTED_INIT, stays = COUNTED_INIT;

    lanex_actor_unref(counted_actor(executor, "retired", &retired));
    lanex_actor_unref(counted_actor(executor, "stays", &stays));
    cr_assert_eq(rig_retire(executor, "retired"), 0);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    cr_assert_eq(latch_count(&retired.torn_down), 1);
    cr_assert_eq(latch_count(&retired.released), 1);
    cr_assert_eq(latch_count(&stays.torn_down), 0);
    cr_assert_eq(latch_count(&stays.released), 1);
}

/* ---- remove ---- */

#define QUEUED 300u /* more than a slice of answering */

struct order {
    struct latch answered;
    unsigned number[QUEUED];
};
struct numbered {
    struct order *order;
    unsigned number;
};

static void note_order(lanex_completion *completion, void *arg)
{
    struct numbered *numbered = arg;
    struct order *order = numbered->order;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_ACTOR_FATAL);
    LX_REQUIRE(strcmp(lanex_completion_code(completion), "actor_fatal") == 0);
    /* One thread answers them all. */
    order->number[latch_count(&order->answered)] = numbered->number;
    latch_arrive(&order->answered);
}

Test(actors, remove_answers_what_is_queued_in_order_of_arrival)
{
    static struct order order;
    static struct numbered numbered[QUEUED];
    lanex_executor *executor = rig_executor();
    struct counted counted = COUNTED_INIT;
    lanex_actor *actor = counted_actor(executor, "a", &counted);
    struct rig_block block = {LATCH_INIT, LATCH_INIT};
    lanex_job_options writer = rig_job(LANEX_LANE_MUTATING, rig_block, &block);
    lanex_ticket *running = rig_submit(actor, &writer);
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());

    latch_wait(&block.entered, 1);
    for (unsigned i = 0; i < QUEUED; i++) {
        lanex_job_options job = rig_job((enum lanex_lane)lx_rng_below(&rng, 5), must_not_run, NULL);

        numbered[i] = (struct numbered){&order, i};
        job.job_class = (uint32_t)lx_rng_below(&rng, 2);
        job.deadline_ns = lx_rng_below(&rng, 4) == 0 ? lx_test_now_ns() + 3600 * RIG_NS_PER_S : 0;
        job.sink = (lanex_sink){
            .kind = LANEX_SINK_CALLBACK, .callback = note_order, .callback_arg = &numbered[i]};
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    }
    cr_assert_eq(rig_remove(executor, "a"), 0);
    latch_wait(&order.answered, QUEUED);
    for (unsigned i = 0; i < QUEUED; i++)
        cr_assert_eq(order.number[i], i, "answer %u was job %u's", i, order.number[i]);
    /* The running one goes on, with its worker and its context. */
    LX_EVENTUALLY(idle_workers(executor) == 3);
    cr_assert_eq(latch_count(&counted.released), 0);
    latch_arrive(&block.leave);
    rig_expect(running, LANEX_STATUS_OK);
    latch_wait(&counted.released, 1);
    cr_assert_eq(latch_count(&counted.torn_down), 0);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(actors, a_key_that_is_not_registered_is_answered_so)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *old = rig_actor(executor, "a"), *again = NULL;
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, must_not_run, NULL);
    lanex_submission batch[2] = {{old, &job}, {old, &job}};
    struct answers answers = {LATCH_INIT, {0}};
    uint64_t number = 0;

    job.sink = (lanex_sink){
        .kind = LANEX_SINK_CALLBACK, .callback = count_answer, .callback_arg = &answers};
    cr_assert_eq(lanex_submit_by_key(executor, "none", 4, &job, &number), 0);
    cr_assert_neq(number, 0);
    latch_wait(&answers.all, 1);
    cr_assert_eq(answers.by_status[LANEX_STATUS_ACTOR_NOT_REGISTERED], 1);
    cr_assert_eq(rig_remove(executor, "a"), 0);
    cr_assert_eq(rig_remove(executor, "a"), -ENOENT);
    cr_assert_eq(lanex_submit_by_key(executor, "a", 1, &job, NULL), 0);
    cr_assert_eq(lanex_submit(old, &job, NULL), 0);
    cr_assert_eq(register_again(executor, "a", &again), 1);
    /* An old handle stays with the old actor. */
    cr_assert_eq(lanex_submit(old, &job, NULL), 0);
    cr_assert_eq(lanex_submit_batch(batch, 2, NULL), 0);
    latch_wait(&answers.all, 6);
    cr_assert_eq(answers.by_status[LANEX_STATUS_ACTOR_NOT_REGISTERED], 6);
    job.sink = (lanex_sink){.kind = LANEX_SINK_NONE};
    lanex_ticket *ticket = rig_submit(old, &job);
    cr_assert_str_eq(lanex_completion_code(rig_wait(ticket)), "actor_not_registered");
    cr_assert_not(lanex_completion_retryable(rig_wait(ticket)));
    lanex_ticket_drop(ticket);
    job.run = rig_nothing;
    rig_run(again, &job, LANEX_STATUS_OK);
    lanex_actor_unref(old);
    lanex_actor_unref(again);
    rig_destroy_executor(executor);
}

/* ---- registered again while the old one's last job runs ---- */

/* A body that waits, then panics if it is told to. */
struct old_job {
    struct rig_block block;
    bool panics;
};

static void old_body(lanex_job *job, void *context, void *arg)
{
    struct old_job *old = arg;

    rig_block(job, context, &old->block);
    if (old->panics)
        lanex_panic("the old one fell");
}

static void see_context(lanex_job *job, void *context, void *arg)
{
    (void)job;
    LX_REQUIRE(context == arg);
}

static void old_job_ends_beside_the_new_actor(enum lanex_lane lane, bool panics)
{
    lanex_executor *executor = rig_executor();
    struct counted old_context = COUNTED_INIT, new_context = COUNTED_INIT;
    struct old_job body = {{LATCH_INIT, LATCH_INIT}, panics};
    struct rig_block first = {LATCH_INIT, LATCH_INIT}, second = {LATCH_INIT, LATCH_INIT};
    lanex_actor *old = counted_actor(executor, "a", &old_context), *new;
    lanex_job_options job = rig_job(lane, old_body, &body);
    lanex_ticket *running = rig_submit(old, &job), *tickets[2];
    int status = !panics                       ? LANEX_STATUS_OK
                 : lane == LANEX_LANE_MUTATING ? LANEX_STATUS_ACTOR_FATAL
                                               : LANEX_STATUS_JOB_PANICKED;

    latch_wait(&body.block.entered, 1);
    cr_assert_eq(rig_remove(executor, "a"), 0);
    new = counted_actor(executor, "a", &new_context);
    cr_assert_eq(lanex_actor_idle(executor, "a", 1), 1, "the old job counts for the new actor");
    job = rig_job(LANEX_LANE_MUTATING, see_context, &new_context);
    rig_run(new, &job, LANEX_STATUS_OK);
    /* One of a lane of one is in; the end of the old one's job must not let the next in. */
    job = rig_job(LANEX_LANE_SERIAL_STATUS, rig_block, &first);
    tickets[0] = rig_submit(new, &job);
    latch_wait(&first.entered, 1);
    job.arg = &second;
    tickets[1] = rig_submit(new, &job);
    latch_arrive(&body.block.leave);
    rig_expect(running, status);
    latch_wait(&old_context.released, 1);
    job = rig_job(LANEX_LANE_PURE_READ, see_context, &new_context);
    rig_run(new, &job, LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&second.entered), 0);
    cr_assert_eq(lanex_actor_fatal(executor, "a", 1), 0);
    latch_arrive(&second.leave);
    latch_arrive(&first.leave);
    rig_expect(tickets[0], LANEX_STATUS_OK);
    rig_expect(tickets[1], LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&new_context.released), 0);
    lanex_actor_unref(old);
    lanex_actor_unref(new);
    rig_destroy_executor(executor);
    cr_assert_eq(latch_count(&new_context.released), 1);
    cr_assert_eq(latch_count(&old_context.released), 1);
}

Test(actors, ends_of_a_removed_actors_jobs_do_not_touch_the_next_one)
{
    for (unsigned lane = 0; lane < 5; lane++)
        old_job_ends_beside_the_new_actor((enum lanex_lane)lane, false);
}

Test(actors, panics_of_a_removed_actors_jobs_do_not_touch_the_next_one)
{
    for (unsigned lane = 0; lane < 5; lane++)
        old_job_ends_beside_the_new_actor((enum lanex_lane)lane, true);
}

Test(actors, a_removed_actors_heavy_job_keeps_its_permit_and_loses_its_install_step)
{
    lanex_executor_options options = rig_options();
    struct rig_block old_build = {LATCH_INIT, LATCH_INIT};
    struct latch new_built = LATCH_INIT;
    lanex_executor *executor;
    lanex_actor *old, *new;
    lanex_job_options heavy = rig_job(LANEX_LANE_HEAVY_INIT, rig_block, &old_build);
    lanex_job_options read = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
    lanex_ticket *running, *waiting;

    options.heavy_permits = 1;
    executor = rig_executor_with(&options);
    old = rig_actor(executor, "a");
    heavy.install = must_not_run;
    running = rig_submit(old, &heavy);
    latch_wait(&old_build.entered, 1);
    cr_assert_eq(rig_remove(executor, "a"), 0);
    new = rig_actor(executor, "a");
    heavy = rig_job(LANEX_LANE_HEAVY_INIT, rig_count, &new_built);
    waiting = rig_submit(new, &heavy);
    rig_run(new, &read, LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&new_built), 0, "the permit came back too early");
    LX_EVENTUALLY(idle_workers(executor) == 3);
    latch_arrive(&old_build.leave);
    rig_expect(running, LANEX_STATUS_ACTOR_FATAL);
    rig_expect(waiting, LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&new_built), 1);
    lanex_actor_unref(old);
    lanex_actor_unref(new);
    rig_destroy_executor(executor);
}

Test(actors, a_build_that_waits_for_its_install_step_is_answered_at_removal)
{
    lanex_executor_options options = rig_options();
    struct rig_block reader = {LATCH_INIT, LATCH_INIT};
    struct latch built = LATCH_INIT;
    lanex_executor *executor;
    lanex_actor *old, *new;
    lanex_job_options read = rig_job(LANEX_LANE_PURE_READ, rig_block, &reader);
    lanex_job_options heavy = rig_job(LANEX_LANE_HEAVY_INIT, rig_count, &built);
    lanex_ticket *reading, *building;

    options.heavy_permits = 1;
    executor = rig_executor_with(&options);
    old = rig_actor(executor, "a");
    reading = rig_submit(old, &read);
    latch_wait(&reader.entered, 1);
    heavy.install = must_not_run;
    building = rig_submit(old, &heavy);
    latch_wait(&built, 1);
    LX_EVENTUALLY(idle_workers(executor) == 3);
    cr_assert_eq(lanex_ticket_poll(building), 0);
    cr_assert_eq(rig_remove(executor, "a"), 0);
    rig_expect(building, LANEX_STATUS_ACTOR_FATAL);
    /* Its permit is free while the old reader still runs. */
    new = rig_actor(executor, "a");
    heavy.install = NULL;
    rig_run(new, &heavy, LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&reader.leave), 0);
    latch_arrive(&reader.leave);
    rig_expect(reading, LANEX_STATUS_OK);
    lanex_actor_unref(old);
    lanex_actor_unref(new);
    rig_destroy_executor(executor);
}

Test(actors, a_fatal_actor_is_usable_again_once_it_is_registered_anew)
{
    lanex_executor *executor = rig_executor();
    struct counted counted = COUNTED_INIT;
    struct old_job body = {{LATCH_INIT, {1}}, true};
    lanex_actor *actor = counted_actor(executor, "a", &counted), *again = NULL;
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, old_body, &body);

    cr_assert_eq(lanex_actor_fatal(executor, "a", 1), 0);
    rig_run(actor, &job, LANEX_STATUS_ACTOR_FATAL);
    cr_assert_eq(lanex_actor_fatal(executor, "a", 1), 1);
    cr_assert_eq(register_again(executor, "a", NULL), 0, "registering alone makes it no better");
    job = rig_job(LANEX_LANE_PURE_READ, must_not_run, NULL);
    rig_run(actor, &job, LANEX_STATUS_ACTOR_FATAL);
    cr_assert_eq(rig_retire(executor, "a"), 0);
    latch_wait(&counted.torn_down, 1);
    cr_assert_eq(register_again(executor, "a", &again), 1);
    cr_assert_eq(lanex_actor_fatal(executor, "a", 1), 0);
    job.run = rig_nothing;
    rig_run(again, &job, LANEX_STATUS_OK);
    lanex_actor_unref(actor);
    lanex_actor_unref(again);
    rig_destroy_executor(executor);
}

/* ---- contexts ---- */

static void retain_counted(void *context)
{
    struct counted *counted = context;

    atomic_fetch_add(&counted->references, 1);
}

static void release_counted(void *context)
{
    struct counted *counted = context;

    if (atomic_fetch_sub(&counted->references, 1) == 1)
        latch_arrive(&counted->released);
}

Test(actors, an_acquired_context_outlives_its_actor)
{
    lanex_executor *executor = rig_executor();
    struct counted counted = COUNTED_INIT;
    lanex_actor_options options = {
        .size = sizeof options,
        .context = &counted,
        .context_retain = retain_counted,
        .context_release = release_counted,
    };
    lanex_actor *actor = NULL, *plain = rig_actor(executor, "plain");
    void *context = NULL, *untouched = &options;

    counted.references = 1;
    cr_assert_eq(lanex_actor_register(executor, "a", 1, &options, &actor), 1);
    cr_assert_eq(lanex_actor_register(executor, "a", 1, &options, NULL), 0);
    cr_assert_eq(lanex_actor_context_acquire(actor, &context), 0);
    cr_assert_eq(context, &counted);
    cr_assert_eq(lanex_actor_context_acquire(plain, &untouched), -ENOTSUP);
    cr_assert_eq(lanex_actor_context_acquire(NULL, &untouched), -EINVAL);
    cr_assert_eq(lanex_actor_context_acquire(actor, NULL), -EINVAL);
    cr_assert_eq(rig_remove(executor, "a"), 0);
    /* The actor's own reference goes; ours stays. */
    LX_EVENTUALLY(lanex_actor_context_acquire(actor, &untouched) == -ENOENT ||
                  (release_counted(untouched), false));
    LX_EVENTUALLY(atomic_load(&counted.references) == 1);
    cr_assert_eq(latch_count(&counted.released), 0);
    release_counted(context);
    cr_assert_eq(latch_count(&counted.released), 1);
    lanex_actor_unref(plain);
    rig_destroy_executor(executor);
    cr_assert_eq(lanex_actor_context_acquire(actor, &untouched), -ESHUTDOWN);
    lanex_actor_unref(actor);
}

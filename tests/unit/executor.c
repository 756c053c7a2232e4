/* An executor's life: create, references, drain, destroy, from outside and from inside. */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

TestSuite(executor, .timeout = 60);

#define WORKERS 2u

/* ---- what the jobs here do ---- */

struct gate_job {
    struct latch begun;
    struct latch may_end;
};

static void hold_worker(lanex_job *job, void *context, void *arg)
{
    struct gate_job *gate = arg;

    (void)job;
    (void)context;
    latch_arrive(&gate->begun);
    latch_wait(&gate->may_end, 1);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

/* How the jobs of a test ended. */
struct ends {
    struct latch all;
    atomic_uint by_status[LANEX_STATUS_EXECUTOR_SHUTDOWN + 1];
};

static void note_end(lanex_completion *completion, void *arg)
{
    struct ends *ends = arg;

    atomic_fetch_add(&ends->by_status[lanex_completion_status(completion)], 1);
    latch_arrive(&ends->all);
}

static void submit(lanex_actor *actor, enum lanex_lane lane, lanex_job_fn run, void *arg,
                   struct ends *ends)
{
    lanex_job_options options = lx_test_callback_job(lane, run, arg, note_end, ends);

    cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
}

/* ---- arguments ---- */

Test(executor, create_refuses_what_it_does_not_know)
{
    lanex_executor_options options = lx_test_executor_options(WORKERS);
    lanex_executor *executor = (lanex_executor *)&options;

    cr_assert_eq(lanex_executor_create(&options, NULL), -EINVAL);
    options.size = 1;
    cr_assert_eq(lanex_executor_create(&options, &executor), -EINVAL);
    options = lx_test_executor_options(WORKERS);
    options.flags = UINT32_MAX;
    cr_assert_eq(lanex_executor_create(&options, &executor), -EINVAL);
    cr_assert_eq(executor, (lanex_executor *)&options, "the output was touched on failure");
    cr_assert_eq(lanex_executor_destroy(NULL), 0);
    lanex_executor_unref(NULL);
    cr_assert_null(lanex_executor_ref(NULL));
}

Test(executor, tells_its_effective_values)
{
    lanex_executor *executor = lx_test_executor(WORKERS);
    lanex_config config = {.size = sizeof config};
    lanex_counters counters = {.size = sizeof counters};
    lanex_config unknown = {.size = 3};

    cr_assert_eq(lanex_executor_config(executor, &config), 0);
    cr_assert_eq(config.pool_size, WORKERS);
    cr_assert_eq(lanex_executor_config(executor, &unknown), -EINVAL);
    cr_assert_eq(lanex_executor_counters(executor, &counters), 0);
    cr_assert_eq(counters.phantom_workers, 0);
    cr_assert_neq(lanex_executor_backend_text(executor)[0], '\0');
    if (lx_test_env_backend() == LX_TEST_BACKEND_POLL)
        cr_assert_eq(config.backend, LANEX_BACKEND_POLL);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* ---- drain ---- */

Test(executor, drain_says_how_much_is_left)
{
    lanex_executor *executor = lx_test_executor(WORKERS);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct gate_job gate = {LATCH_INIT, LATCH_INIT};
    struct ends ends = {LATCH_INIT, {0}};
    size_t left = 99;

    submit(actor, LANEX_LANE_MUTATING, hold_worker, &gate, &ends);
    for (unsigned i = 0; i < 5; i++)
        submit(actor, LANEX_LANE_MUTATING, nothing, NULL, &ends);
    latch_wait(&gate.begun, 1);
    cr_assert_eq(lanex_executor_drain(executor, 1000000, &left), -ETIMEDOUT);
    cr_assert_eq(left, 6);
    /* New ones are refused from then on, by a completion; what was there runs. */
    submit(actor, LANEX_LANE_PURE_READ, nothing, NULL, &ends);
    latch_wait(&ends.all, 1);
    cr_assert_eq(ends.by_status[LANEX_STATUS_EXECUTOR_SHUTDOWN], 1);
    latch_arrive(&gate.may_end);
    left = 99;
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, &left), 0);
    cr_assert_eq(left, 99, "the output was touched on success");
    /* Delivered, not merely ended. */
    cr_assert_eq(latch_count(&ends.all), 7);
    cr_assert_eq(ends.by_status[LANEX_STATUS_OK], 6);
    lx_test_at_rest(executor);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

Test(executor, drain_of_an_idle_executor_is_at_once_and_may_be_repeated)
{
    lanex_executor *executor = lx_test_executor(WORKERS);

    cr_assert_eq(lanex_executor_drain(executor, 0, NULL), 0);
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

static void drain_and_destroy_inside(lanex_job *job, void *context, void *arg)
{
    lanex_executor *executor = arg;

    (void)job;
    (void)context;
    LX_REQUIRE(lanex_executor_drain(executor, 0, NULL) == -EDEADLK);
    LX_REQUIRE(lanex_executor_destroy(executor) == -EDEADLK);
}

static void destroy_in_callback(lanex_completion *completion, void *arg)
{
    lanex_executor *executor = lanex_completion_arg(completion);

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    LX_REQUIRE(lanex_executor_drain(executor, 0, NULL) == -EDEADLK);
    LX_REQUIRE(lanex_executor_destroy(executor) == -EDEADLK);
    latch_arrive(arg);
}

Test(executor, its_own_threads_cannot_wait_for_their_end)
{
    lanex_executor *executor = lx_test_executor(WORKERS);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct latch called = LATCH_INIT;
    lanex_job_options options = lx_test_callback_job(LANEX_LANE_MUTATING, drain_and_destroy_inside,
                                                     executor, destroy_in_callback, &called);

    cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
    latch_wait(&called, 1);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* ---- destroy ---- */

static void defer(lanex_job *job, void *context, void *arg)
{
    (void)context;
    LX_REQUIRE(lanex_job_defer(job, arg) == 0);
}

static void *destroy_it(void *executor)
{
    LX_REQUIRE(lanex_executor_destroy(executor) == 0);
    return NULL;
}

Test(executor, destroy_answers_queued_running_and_deferred)
{
    lanex_executor *executor = lx_test_executor(WORKERS);
    lanex_actor *actor = lx_test_actor(executor, 1), *other = lx_test_actor(executor, 2);
    struct gate_job gate = {LATCH_INIT, LATCH_INIT};
    struct ends ends = {LATCH_INIT, {0}}, deferred_ends = {LATCH_INIT, {0}};
    lanex_deferred *handle = NULL;
    pthread_t destroyer;

    submit(other, LANEX_LANE_MUTATING, defer, &handle, &deferred_ends);
    submit(other, LANEX_LANE_MUTATING, nothing, NULL, &ends);
    latch_wait(&ends.all, 1);
    submit(actor, LANEX_LANE_MUTATING, hold_worker, &gate, &ends);
    latch_wait(&gate.begun, 1);
    for (unsigned i = 0; i < 200; i++)
        submit(actor, LANEX_LANE_MUTATING, nothing, NULL, &ends);
    cr_assert_eq(latch_count(&deferred_ends.all), 0);
    cr_assert_eq(pthread_create(&destroyer, NULL, destroy_it, executor), 0);
    /* The queued ones are answered while the running one still runs. */
    latch_wait(&ends.all, 201);
    cr_assert_eq(ends.by_status[LANEX_STATUS_EXECUTOR_SHUTDOWN], 200);
    latch_arrive(&gate.may_end);
    pthread_join(destroyer, NULL);
    cr_assert_eq(latch_count(&ends.all), 202);
    cr_assert_eq(ends.by_status[LANEX_STATUS_OK], 2);
    cr_assert_eq(deferred_ends.by_status[LANEX_STATUS_EXECUTOR_SHUTDOWN], 1);
    /* Handles outlive it. */
    cr_assert_eq(lanex_deferred_respond(handle, NULL, NULL), -EALREADY);
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    cr_assert_eq(lanex_submit(actor, &options, NULL), -ESHUTDOWN);
    lanex_actor_unref(actor);
    lanex_actor_unref(other);
}

struct holder {
    lanex_executor *executor;
    struct latch *go;
};

static void *destroy_together(void *arg)
{
    struct holder *holder = arg;

    latch_arrive(holder->go);
    latch_wait(holder->go, 3);
    LX_REQUIRE(lanex_executor_destroy(holder->executor) == 0);
    return NULL;
}

Test(executor, holders_destroy_at_once)
{
    for (unsigned round = 0; round < lx_test_scaled(100); round++) {
        struct latch go = LATCH_INIT;
        struct holder holder = {lx_test_executor(WORKERS), &go};
        struct ends ends = {LATCH_INIT, {0}};
        lanex_actor *actor = lx_test_actor(holder.executor, round);
        pthread_t threads[3];

        for (unsigned i = 0; i < 10; i++)
            submit(actor, LANEX_LANE_PURE_READ, nothing, NULL, &ends);
        lanex_executor_ref(holder.executor);
        lanex_executor_ref(holder.executor);
        for (unsigned i = 0; i < 3; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, destroy_together, &holder), 0);
        for (unsigned i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
        cr_assert_eq(latch_count(&ends.all), 10);
        lanex_actor_unref(actor);
    }
}

Test(executor, calls_of_other_holders_give_eshutdown)
{
    lanex_executor *executor = lx_test_executor(WORKERS);
    lanex_actor *actor = lx_test_actor(executor, 1), *found;
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    lanex_liveness liveness = {.size = sizeof liveness};
    lanex_port *port;
    unsigned key = 1;

    lanex_executor_ref(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    cr_assert_eq(lanex_submit(actor, &options, NULL), -ESHUTDOWN);
    cr_assert_eq(lanex_submit_by_key(executor, &key, sizeof key, &options, NULL), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_register(executor, "x", 1, NULL, NULL), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_lookup(executor, &key, sizeof key, &found), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_remove(executor, &key, sizeof key), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_retire(executor, &key, sizeof key), -ESHUTDOWN);
    cr_assert_eq(lanex_cancel(executor, 1), -ESHUTDOWN);
    cr_assert_eq(lanex_executor_drain(executor, 0, NULL), -ESHUTDOWN);
    cr_assert_eq(lanex_port_create(executor, NULL, &port), -ESHUTDOWN);
    cr_assert_eq(lanex_executor_liveness(executor, &liveness), 0);
    cr_assert_eq(liveness.queued[0], 0);
    lanex_actor_unref(actor);
    lanex_executor_unref(executor);
}

/* ---- the last reference ---- */

struct last {
    lanex_executor *executor;
    lanex_actor *actor;
    struct latch begun;
    struct latch may_go;
    struct latch released; /* the context: the last thing of an actor's life */
};

static void drop_last_inside(lanex_job *job, void *context, void *arg)
{
    struct last *last = arg;

    (void)job;
    (void)context;
    latch_arrive(&last->begun);
    latch_wait(&last->may_go, 1);
    lanex_executor_unref(last->executor);
}

static void context_released(void *context)
{
    latch_arrive(context);
}

Test(executor, the_last_reference_dropped_inside_a_job)
{
    for (unsigned round = 0; round < 20; round++) {
        struct last last = {.executor = lx_test_executor(WORKERS)};
        lanex_actor_options actor_options = {.size = sizeof actor_options,
                                             .context = &last.released,
                                             .context_release = context_released};
        struct ends ends = {LATCH_INIT, {0}}, queued = {LATCH_INIT, {0}};

        cr_assert_eq(lanex_actor_register(last.executor, "a", 1, &actor_options, &last.actor), 1);
        submit(last.actor, LANEX_LANE_MUTATING, drop_last_inside, &last, &ends);
        latch_wait(&last.begun, 1);
        for (unsigned i = 0; i < 3; i++)
            submit(last.actor, LANEX_LANE_MUTATING, nothing, NULL, &queued);
        lanex_actor_unref(last.actor);
        latch_arrive(&last.may_go);
        latch_wait(&ends.all, 1);
        cr_assert_eq(ends.by_status[LANEX_STATUS_OK], 1);
        latch_wait(&queued.all, 3);
        /* The actor goes when lanex-reap has shut the executor down. */
        latch_wait(&last.released, 1);
    }
}

static void drop_in_callback(lanex_completion *completion, void *arg)
{
    struct last *last = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_ACTOR_NOT_REGISTERED);
    latch_wait(&last->may_go, 1);
    lanex_executor_unref(last->executor);
}

Test(executor, the_last_reference_dropped_in_the_reapers_callback)
{
    struct last last = {.executor = lx_test_executor(WORKERS)};
    lanex_actor_options actor_options = {.size = sizeof actor_options,
                                         .context = &last.released,
                                         .context_release = context_released};
    lanex_job_options options =
        lx_test_callback_job(LANEX_LANE_MUTATING, nothing, NULL, drop_in_callback, &last);

    cr_assert_eq(lanex_actor_register(last.executor, "a", 1, &actor_options, NULL), 1);
    cr_assert_eq(lanex_submit_by_key(last.executor, "b", 1, &options, NULL), 0);
    /* The reference must cover the call. */
    latch_arrive(&last.may_go);
    latch_wait(&last.released, 1);
}

/* Tickets and completions that are given back after the end, or while it comes. */
struct dropper {
    lanex_ticket **tickets;
    unsigned count;
    struct latch *go;
};

static void *drop_tickets(void *arg)
{
    struct dropper *dropper = arg;

    latch_arrive(dropper->go);
    latch_wait(dropper->go, 2);
    for (unsigned i = 0; i < dropper->count; i++)
        lanex_ticket_drop(dropper->tickets[i]);
    return NULL;
}

Test(executor, tickets_dropped_while_it_ends)
{
    enum { TICKETS = 64 };

    for (unsigned round = 0; round < lx_test_scaled(100); round++) {
        lanex_executor *executor = lx_test_executor(WORKERS);
        lanex_actor *actor = lx_test_actor(executor, round);
        lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
        lanex_ticket *tickets[TICKETS];
        struct latch go = LATCH_INIT;
        struct dropper dropper = {tickets, TICKETS, &go};
        pthread_t thread;

        for (unsigned i = 0; i < TICKETS; i++)
            cr_assert_eq(lanex_submit_ticket(actor, &options, &tickets[i]), 0);
        lanex_actor_unref(actor);
        cr_assert_eq(pthread_create(&thread, NULL, drop_tickets, &dropper), 0);
        latch_arrive(&go);
        latch_wait(&go, 2);
        cr_assert_eq(lanex_executor_destroy(executor), 0);
        pthread_join(thread, NULL);
    }
}

/* ---- what the views show to who has just been told ---- */

struct looker {
    lanex_executor *executor;
    struct latch called;
};

static void look(lanex_completion *completion, void *arg)
{
    struct looker *looker = arg;
    lanex_liveness liveness = {.size = sizeof liveness};

    (void)completion;
    LX_REQUIRE(lanex_executor_liveness(looker->executor, &liveness) == 0);
    LX_REQUIRE(liveness.queued[0] == 0 && liveness.queued[1] == 0);
    LX_REQUIRE(liveness.running[0] == 0 && liveness.running[1] == 0);
    LX_REQUIRE(liveness.idle_workers == WORKERS);
    latch_arrive(&looker->called);
}

Test(executor, a_completed_job_is_nowhere_in_the_views)
{
    struct looker looker = {.executor = lx_test_executor(WORKERS)};
    lanex_actor *actor = lx_test_actor(looker.executor, 1);

    for (unsigned i = 1; i <= 2000; i++) {
        lanex_job_options options = lx_test_callback_job(
            i % 2 == 0 ? LANEX_LANE_MUTATING : LANEX_LANE_PURE_READ, nothing, NULL, look, &looker);
        options.job_class = i % 3 == 0 ? LANEX_CLASS_MAINTENANCE : LANEX_CLASS_INTERACTIVE;
        cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
        latch_wait(&looker.called, i);
    }
    cr_assert_eq(lanex_executor_drain(looker.executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(looker.executor);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(looker.executor), 0);
}

/* ---- caps, and who submits again at once ---- */

struct again {
    lanex_actor *actor;
    struct ends *ends;
};

static void submit_again(lanex_completion *completion, void *arg)
{
    struct again *again = arg;
    lanex_job_options options =
        lx_test_callback_job(LANEX_LANE_MUTATING, nothing, NULL, note_end, again->ends);

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    LX_REQUIRE(lanex_submit(again->actor, &options, NULL) == 0);
}

Test(executor, a_queue_is_not_full_because_of_the_job_just_completed)
{
    lanex_executor_options executor_options = lx_test_executor_options(WORKERS);

    /* One place of the actor's, then one of the whole executor's. */
    for (unsigned round = 0; round < 40; round++) {
        struct gate_job gate = {LATCH_INIT, LATCH_INIT};
        struct ends ends = {LATCH_INIT, {0}};
        lanex_executor *executor;

        executor_options.interactive_actor_queue_cap = round % 2 == 0;
        executor_options.interactive_queue_cap = round % 2 != 0;
        cr_assert_eq(lanex_executor_create(&executor_options, &executor), 0);
        lanex_actor *actor = lx_test_actor(executor, round);
        struct again again = {actor, &ends};
        lanex_job_options options =
            lx_test_callback_job(LANEX_LANE_MUTATING, hold_worker, &gate, submit_again, &again);
        cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
        latch_wait(&gate.begun, 1);
        submit(actor, LANEX_LANE_MUTATING, nothing, NULL, &ends); /* takes the place */
        submit(actor, LANEX_LANE_MUTATING, nothing, NULL, &ends); /* finds it taken */
        latch_wait(&ends.all, 1);
        cr_assert_eq(ends.by_status[LANEX_STATUS_EXECUTOR_BACKPRESSURE], 1);
        latch_arrive(&gate.may_end);
        latch_wait(&ends.all, 3);
        cr_assert_eq(ends.by_status[LANEX_STATUS_OK], 2);
        lanex_actor_unref(actor);
        cr_assert_eq(lanex_executor_destroy(executor), 0);
    }
}

Test(executor, a_batch_fills_idle_workers_before_it_fills_the_queue)
{
    lanex_executor_options executor_options = lx_test_executor_options(WORKERS);
    struct gate_job gate = {LATCH_INIT, LATCH_INIT};
    struct ends ends = {LATCH_INIT, {0}};
    lanex_submission batch[WORKERS + 2];
    lanex_executor *executor;

    executor_options.interactive_queue_cap = 1;
    cr_assert_eq(lanex_executor_create(&executor_options, &executor), 0);
    lanex_job_options options =
        lx_test_callback_job(LANEX_LANE_MUTATING, hold_worker, &gate, note_end, &ends);
    for (unsigned i = 0; i < WORKERS + 2; i++)
        batch[i] = (lanex_submission){lx_test_actor(executor, i), &options};
    cr_assert_eq(lanex_submit_batch(batch, WORKERS + 2, NULL), 0);
    latch_wait(&ends.all, 1); /* the last has neither a worker nor a place */
    latch_wait(&gate.begun, WORKERS);
    latch_arrive(&gate.may_end);
    latch_wait(&ends.all, WORKERS + 2);
    cr_assert_eq(ends.by_status[LANEX_STATUS_EXECUTOR_BACKPRESSURE], 1);
    cr_assert_eq(ends.by_status[LANEX_STATUS_OK], WORKERS + 1);
    for (unsigned i = 0; i < WORKERS + 2; i++)
        lanex_actor_unref(batch[i].actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* ---- time ---- */

static void must_not_run(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
    lx_test_die(__FILE__, __LINE__, "ran after its deadline");
}

Test(executor, a_deadline_that_has_just_passed_is_refused)
{
    lanex_executor *executor = lx_test_executor(WORKERS);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct ends ends = {LATCH_INIT, {0}};

    for (unsigned i = 1; i <= 200; i++) {
        lanex_job_options options =
            lx_test_callback_job(LANEX_LANE_PURE_READ, must_not_run, NULL, note_end, &ends);
        options.deadline_ns = lx_test_now_ns() - 1;
        cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
        latch_wait(&ends.all, i);
    }
    cr_assert_eq(ends.by_status[LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED], 200);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

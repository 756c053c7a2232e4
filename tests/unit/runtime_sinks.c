/*
 * The sinks that need no ring: none, ticket, callback, and the port with its eventfd. Each way a
 * completion can go destroys the response's data exactly once, or hands it over.
 */
#include "runtime_rig.h"

#include "runtime/executor.h"

#include <poll.h>
#include <unistd.h>

static lanex_job_options responder(struct rig_data *data)
{
    return rig_job(LANEX_LANE_PURE_READ, rig_respond, data);
}

/* ---- none ---- */

Test(sinks, without_a_sink_the_data_is_destroyed)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data data = {0};
    lanex_job_options job = responder(&data);

    rig_in_call = true;
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    rig_in_call = false;
    LX_EVENTUALLY(rig_destroyed(&data));
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- ticket ---- */

Test(sinks, a_ticket_is_waited_for_polled_and_timed_out)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_block block = {0};
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, rig_block, &block);
    lanex_ticket *ticket = rig_submit(actor, &job);

    latch_wait(&block.entered, 1);
    cr_assert_eq(lanex_ticket_poll(ticket), 0);
    cr_assert_null(lanex_ticket_completion(ticket));
    cr_assert_eq(lanex_ticket_wait(ticket, 0), -ETIMEDOUT);
    uint64_t before = lx_test_now_ns();
    cr_assert_eq(lanex_ticket_wait(ticket, 20000000), -ETIMEDOUT);
    cr_assert_geq(lx_test_now_ns() - before, 20000000u);
    latch_arrive(&block.leave);
    cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
    cr_assert_eq(lanex_ticket_wait(ticket, 0), 0);
    cr_assert_eq(lanex_ticket_poll(ticket), 1);
    cr_assert_eq(lanex_completion_status(lanex_ticket_completion(ticket)), LANEX_STATUS_OK);
    lanex_ticket_drop(ticket);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

static void respond_late(lanex_job *job, void *context, void *arg)
{
    void **args = arg;

    rig_block(job, context, args[0]);
    rig_respond(job, context, args[1]);
}

Test(sinks, a_dropped_ticket_destroys_the_data_once)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data early = {0}, late = {0}, taken = {0};
    struct rig_block block = {0};
    void *args[2] = {&block, &early};
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, respond_late, args);
    lanex_ticket *ticket = rig_submit(actor, &job);

    latch_wait(&block.entered, 1);
    lanex_ticket_drop(ticket);
    cr_assert_not(rig_destroyed(&early));
    latch_arrive(&block.leave);
    LX_EVENTUALLY(rig_destroyed(&early));

    job = responder(&late);
    ticket = rig_submit(actor, &job);
    lanex_completion *completion = rig_wait(ticket);
    cr_assert_eq(lanex_completion_data(completion), (void *)&late);
    cr_assert_not(rig_destroyed(&late));
    lanex_ticket_drop(ticket);
    cr_assert(rig_destroyed(&late));

    job = responder(&taken);
    ticket = rig_submit(actor, &job);
    completion = rig_wait(ticket);
    cr_assert_eq(lanex_completion_take_data(completion), (void *)&taken);
    cr_assert_null(lanex_completion_take_data(completion));
    lanex_ticket_drop(ticket);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
    cr_assert_eq(atomic_load(&taken.destroyed), 0);
}

Test(sinks, a_ticket_outlives_its_executor)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data data = {0};
    lanex_job_options job = responder(&data);
    job.label = "a label of more than thirty-two bytes, from the heap";
    lanex_ticket *ticket = rig_submit(actor, &job);

    rig_wait(ticket);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
    lanex_completion *completion = lanex_ticket_completion(ticket);
    cr_assert_eq(lanex_completion_data(completion), (void *)&data);
    cr_assert_str_eq(lanex_completion_label(completion), job.label);
    lanex_ticket_drop(ticket);
    cr_assert(rig_destroyed(&data));
}

/* The body's last answer counts; those before it are destroyed. */
static void respond_thrice(lanex_job *job, void *context, void *arg)
{
    struct rig_data *data = arg;

    (void)context;
    lanex_job_respond(job, &data[0], rig_destroy);
    LX_REQUIRE(lanex_job_respond_error(job, "code", "message", true) == 0);
    LX_REQUIRE(rig_destroyed(&data[0]));
    LX_REQUIRE(lanex_job_respond_error(job, NULL, "message", true) == -EINVAL);
    lanex_job_respond(job, &data[1], rig_destroy);
    lanex_job_respond(job, &data[2], rig_destroy);
    LX_REQUIRE(rig_destroyed(&data[1]));
}

static void respond_an_error(lanex_job *job, void *context, void *arg)
{
    (void)context;
    LX_REQUIRE(lanex_job_respond_error(job, "no_such_key", arg, true) == 0);
}

Test(sinks, the_last_answer_counts_and_errors_carry_their_texts)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data data[3] = {{0}};
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, respond_thrice, data);
    lanex_ticket *ticket = rig_submit(actor, &job);
    lanex_completion *completion = rig_wait(ticket);

    cr_assert_eq(lanex_completion_data(completion), (void *)&data[2]);
    cr_assert_str_eq(lanex_completion_code(completion), "ok");
    lanex_ticket_drop(ticket);
    cr_assert(rig_destroyed(&data[2]));
    char text[] = "there is no such key";
    job = rig_job(LANEX_LANE_PURE_READ, respond_an_error, text);
    ticket = rig_submit(actor, &job);
    completion = rig_wait(ticket);
    text[0] = 'X'; /* it was copied */
    cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_JOB_FAILED);
    cr_assert_str_eq(lanex_completion_code(completion), "no_such_key");
    cr_assert_str_eq(lanex_completion_message(completion), "there is no such key");
    cr_assert(lanex_completion_retryable(completion));
    cr_assert_null(lanex_completion_data(completion));
    lanex_ticket_drop(ticket);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- callback ---- */

struct called {
    struct latch latch;
    int status;
    char thread[16];
    pthread_t self;
    void *data;
};

static void callback(lanex_completion *completion, void *arg)
{
    struct called *called = arg;

    LX_REQUIRE(!rig_in_call);
    LX_REQUIRE(lanex_current_job() == NULL);
    called->status = lanex_completion_status(completion);
    called->self = pthread_self();
    LX_REQUIRE(pthread_getname_np(pthread_self(), called->thread, sizeof called->thread) == 0);
    called->data = lanex_completion_data(completion);
    latch_arrive(&called->latch);
}

static lanex_sink calls(struct called *called)
{
    return (lanex_sink){.kind = LANEX_SINK_CALLBACK, .callback = callback, .callback_arg = called};
}

Test(sinks, callbacks_of_run_jobs_come_on_the_worker_and_others_on_the_reaper)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data data = {0};
    struct called ran = {0}, refused = {0}, unregistered = {0};
    lanex_job_options job = responder(&data);

    job.sink = calls(&ran);
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_wait(&ran.latch, 1);
    cr_assert_eq(ran.status, LANEX_STATUS_OK);
    cr_assert_eq(ran.data, (void *)&data);
    cr_assert_eq(strncmp(ran.thread, "lanex-w", 7), 0, "ran on %s", ran.thread);
    LX_EVENTUALLY(rig_destroyed(&data));
    rig_in_call = true;
    job.deadline_ns = 1;
    job.sink = calls(&refused);
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    job.deadline_ns = 0;
    job.sink = calls(&unregistered);
    cr_assert_eq(lanex_submit_by_key(executor, "b", 1, &job, NULL), 0);
    rig_in_call = false;
    latch_wait(&refused.latch, 1);
    cr_assert_eq(refused.status, LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
    cr_assert_str_eq(refused.thread, "lanex-reap");
    latch_wait(&unregistered.latch, 1);
    cr_assert_eq(unregistered.status, LANEX_STATUS_ACTOR_NOT_REGISTERED);
    cr_assert_str_eq(unregistered.thread, "lanex-reap");
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* What a callback may do: submit, cancel, drop references, register and remove. */
struct busy_callback {
    lanex_executor *executor;
    lanex_actor *actor;
    atomic_int left;
    struct latch done;
};

static void busy_callback(lanex_completion *completion, void *arg)
{
    struct busy_callback *busy = arg;
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, rig_nothing, NULL);
    lanex_actor *actor;

    LX_REQUIRE(lanex_cancel(busy->executor, lanex_completion_job(completion)) ==
               LANEX_CANCEL_NOT_FOUND);
    LX_REQUIRE(lanex_actor_register(busy->executor, "other", 5, NULL, &actor) == 1);
    LX_REQUIRE(lanex_actor_remove(busy->executor, "other", 5) == 0);
    lanex_actor_unref(actor);
    if (atomic_fetch_sub(&busy->left, 1) == 1) {
        latch_arrive(&busy->done);
        return;
    }
    job.sink =
        (lanex_sink){.kind = LANEX_SINK_CALLBACK, .callback = busy_callback, .callback_arg = busy};
    /* Every other one is answered by the reaper. */
    if (atomic_load(&busy->left) % 2 != 0)
        job.deadline_ns = 1;
    LX_REQUIRE(lanex_submit(busy->actor, &job, NULL) == 0);
}

Test(sinks, a_callback_may_use_the_executor)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct busy_callback busy = {.executor = executor, .actor = actor, .left = 200};
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, rig_nothing, NULL);

    job.sink =
        (lanex_sink){.kind = LANEX_SINK_CALLBACK, .callback = busy_callback, .callback_arg = &busy};
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_wait(&busy.done, 1);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- port ---- */

static bool bell_rings(lanex_port *port)
{
    struct pollfd fd = {.fd = lanex_port_fd(port), .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

static void wait_bell(lanex_port *port)
{
    struct pollfd fd = {.fd = lanex_port_fd(port), .events = POLLIN};

    cr_assert_eq(poll(&fd, 1, (int)lx_test_liveness_s() * 1000), 1, "the doorbell stays silent");
}

#define PORT_JOBS 100u

static lanex_port *make_port(lanex_executor *executor)
{
    lanex_port *port = NULL;

    cr_assert_eq(lanex_port_create(executor, NULL, &port), 0);
    return port;
}

static bool all_delivered(lanex_executor *executor, unsigned count)
{
    lanex_counters counters = {.size = sizeof counters};

    LX_REQUIRE(lanex_executor_counters(executor, &counters) == 0);
    if (counters.completed[0] < count)
        return false;
    for (uint32_t i = 0; i < executor->config.pool_size; i++) {
        if (atomic_load(&executor->workers[i].busy) != 0)
            return false;
    }
    return true;
}

/* Submits jobs that respond with data[i] and waits until all are in the port's list. */
static void fill_port(lanex_executor *executor, lanex_actor *actor, lanex_port *port,
                      struct rig_data *data, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        lanex_job_options job = responder(&data[i]);
        job.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    }
    /* The end is filed before the delivery, so that the counters do not tell. */
    LX_EVENTUALLY(all_delivered(executor, count));
}

Test(sinks, a_port_hands_out_all_and_rings_for_the_rest)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    lanex_port *port = make_port(executor);
    static struct rig_data data[PORT_JOBS];
    lanex_completion *got[7];
    unsigned seen = 0;

    cr_assert_eq(lanex_port_drain(port, got, 7), 0);
    cr_assert_not(bell_rings(port));
    cr_assert_eq(lanex_port_drain(port, NULL, 0), 0);
    for (unsigned i = 0; i < PORT_JOBS; i++) {
        lanex_job_options job = responder(&data[i]);
        job.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    }
    while (seen < PORT_JOBS) {
        wait_bell(port); /* also for what a drain left over */
        int count = lanex_port_drain(port, got, 1 + seen % 7);
        cr_assert(count >= 0 && count <= (int)(1 + seen % 7));
        for (int i = 0; i < count; i++, seen++) {
            struct rig_data *one = lanex_completion_arg(got[i]);
            cr_assert_eq(lanex_completion_data(got[i]), (void *)one);
            lanex_completion_release(got[i]);
            cr_assert(rig_destroyed(one));
        }
    }
    cr_assert_eq(lanex_port_drain(port, got, 7), 0);
    cr_assert_not(bell_rings(port));
    lanex_port_unref(port);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(sinks, one_bell_tells_of_many)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    lanex_port *port = make_port(executor);
    static struct rig_data data[PORT_JOBS];
    static lanex_completion *got[PORT_JOBS];
    uint64_t rings = 0;

    fill_port(executor, actor, port, data, PORT_JOBS);
    cr_assert_eq(lanex_executor_drain(executor, rig_liveness_ns(), NULL), 0);
    cr_assert_eq(read(lanex_port_fd(port), &rings, sizeof rings), (ssize_t)sizeof rings);
    cr_assert_eq(rings, 1, "rung %llu times", (unsigned long long)rings);
    cr_assert_eq(lanex_port_drain(port, got, PORT_JOBS), (int)PORT_JOBS);
    for (unsigned i = 0; i < PORT_JOBS; i++)
        lanex_completion_release(got[i]);
    lanex_port_unref(port);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(sinks, a_detached_port_hands_back_and_stays_silent)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    lanex_port *port = make_port(executor);
    static struct rig_data data[10], late;
    lanex_completion *got[10];
    struct rig_block block = {0};
    void *args[2] = {&block, &late};
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, respond_late, args);

    fill_port(executor, actor, port, data, 10);
    job.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_wait(&block.entered, 1);
    LX_EVENTUALLY(bell_rings(port));
    cr_assert_eq(lanex_port_drain(port, got, 3), 3);
    LX_EVENTUALLY(bell_rings(port));
    cr_assert_eq(lanex_port_detach(port), 7);
    cr_assert_not(bell_rings(port));
    latch_arrive(&block.leave);
    LX_EVENTUALLY(rig_destroyed(&late));
    cr_assert_eq(lanex_port_drain(port, got + 3, 2), 2);
    cr_assert_not(bell_rings(port));
    cr_assert_eq(lanex_port_detach(port), 5);
    cr_assert_eq(lanex_port_drain(port, got + 5, 10), 5);
    for (int i = 0; i < 10; i++)
        cr_assert_not(rig_destroyed(&data[i]));
    for (int i = 0; i < 10; i++)
        lanex_completion_release(got[i]);
    for (int i = 0; i < 10; i++)
        cr_assert(rig_destroyed(&data[i]));
    lanex_port_unref(port);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(sinks, the_last_unref_destroys_what_waits_and_what_comes)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    lanex_port *port = make_port(executor);
    static struct rig_data data[10], late[2];
    static struct rig_block blocks[2];
    static void *args[2][2] = {{&blocks[0], &late[0]}, {&blocks[1], &late[1]}};

    fill_port(executor, actor, port, data, 10);
    for (int i = 0; i < 2; i++) {
        lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, respond_late, args[i]);
        job.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
        latch_wait(&blocks[i].entered, 1);
    }
    lanex_port_unref(lanex_port_ref(port));
    LX_EVENTUALLY(bell_rings(port));
    cr_assert_eq(lanex_executor_destroy(NULL), 0);
    lanex_port_unref(port);
    for (int i = 0; i < 2; i++)
        latch_arrive(&blocks[i].leave);
    for (int i = 0; i < 10; i++)
        LX_EVENTUALLY(rig_destroyed(&data[i]));
    LX_EVENTUALLY(rig_destroyed(&late[0]) && rig_destroyed(&late[1]));
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(sinks, a_port_and_its_completions_outlive_the_executor)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    lanex_port *port = make_port(executor);
    static struct rig_data data[10];
    lanex_completion *got[4];

    fill_port(executor, actor, port, data, 10);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
    cr_assert(bell_rings(port));
    cr_assert_eq(lanex_port_drain(port, got, 4), 4);
    cr_assert(bell_rings(port), "six are left");
    lanex_port_unref(port);
    for (int i = 0, destroyed = 0; i < 10; i++) {
        destroyed += rig_destroyed(&data[i]);
        if (i == 9)
            cr_assert_eq(destroyed, 6);
    }
    for (int i = 0; i < 4; i++)
        lanex_completion_release(got[i]);
    for (int i = 0; i < 10; i++)
        cr_assert(rig_destroyed(&data[i]));
}

/* Many threads deliver, one drains and one port after another is thrown away under way. */
Test(sinks, ports_that_go_under_load_lose_no_data)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    unsigned rounds = (unsigned)lx_test_scaled(200);
    enum { JOBS = 50 };
    struct rig_data *data = calloc(rounds, JOBS * sizeof *data);

    cr_assert_not_null(data);
    for (unsigned round = 0; round < rounds; round++) {
        lanex_port *port = make_port(executor);
        lanex_completion *got[JOBS];
        for (unsigned i = 0; i < JOBS; i++) {
            lanex_job_options job = responder(&data[round * JOBS + i]);
            job.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
            cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
        }
        if (round % 3 == 0)
            wait_bell(port);
        int count = lanex_port_drain(port, got, round % JOBS);
        for (int i = 0; i < count; i++)
            lanex_completion_release(got[i]);
        lanex_port_unref(port);
    }
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
    for (unsigned i = 0; i < rounds * JOBS; i++)
        cr_assert(rig_destroyed(&data[i]), "data of job %u", i);
    free(data);
}

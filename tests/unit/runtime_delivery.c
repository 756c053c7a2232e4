/*
 * A finished job is told of at once, and whoever is told finds all that the job held free.
 */
#include "runtime_rig.h"

#include <poll.h>
#include <unistd.h>

/*
 * From the end of a body to its doorbell: 5 ms are wanted. Other processes of a loaded machine can
 * keep the worker off its CPU between the two for much longer; what must not happen is that it
 * waits for another body, and those here do not end before.
 */
#define DELIVERED_NS UINT64_C(2000000000)

static void note_time(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    *(uint64_t *)arg = lx_test_now_ns();
}

/* All workers but one are in bodies; the receiver is busy with its own. */
Test(delivery, finished_means_delivered_whatever_other_bodies_run)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a"), *busy[3];
    struct rig_block block = {0};
    lanex_port *port = NULL;
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, rig_block, &block);
    lanex_ticket *tickets[3];

    for (unsigned i = 0; i < 3; i++) {
        const char key[] = {'b', (char)('0' + i), 0};
        busy[i] = rig_actor(executor, key);
        tickets[i] = rig_submit(busy[i], &job);
    }
    latch_wait(&block.entered, 3);
    cr_assert_eq(lanex_port_create(executor, NULL, &port), 0);
    for (unsigned i = 0; i < lx_test_scaled(500); i++) {
        struct pollfd fd = {.fd = lanex_port_fd(port), .events = POLLIN};
        lanex_completion *completion;
        uint64_t ended = 0;
        job = rig_job(LANEX_LANE_SERIAL_STATUS, note_time, &ended);
        job.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
        cr_assert_eq(poll(&fd, 1, (int)lx_test_liveness_s() * 1000), 1);
        uint64_t told = lx_test_now_ns();
        cr_assert_eq(lanex_port_drain(port, &completion, 1), 1);
        cr_assert_lt(told - ended, DELIVERED_NS);
        lanex_completion_release(completion);
    }
    latch_arrive(&block.leave);
    for (unsigned i = 0; i < 3; i++) {
        rig_expect(tickets[i], LANEX_STATUS_OK);
        lanex_actor_unref(busy[i]);
    }
    lanex_port_unref(port);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- the receiver's next step ---- */

#define STEPS 2000u

static void expect_nothing_runs(lanex_executor *executor)
{
    lanex_liveness liveness = {.size = sizeof liveness};

    LX_REQUIRE(lanex_executor_liveness(executor, &liveness) == 0);
    LX_REQUIRE(liveness.running[0] == 0 && liveness.running[1] == 0);
    LX_REQUIRE(liveness.queued[0] == 0 && liveness.queued[1] == 0);
    LX_REQUIRE(liveness.idle_workers == 4);
}

Test(delivery, whoever_sees_a_completion_sees_no_such_job_in_the_views)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");

    for (unsigned i = 0; i < lx_test_scaled(STEPS); i++) {
        lanex_job_options job = rig_job((enum lanex_lane)(i % 5), rig_nothing, NULL);
        job.job_class = i % 2;
        if (i % 7 == 0)
            job.deadline_ns = 1; /* refused */
        if (job.lane == LANEX_LANE_HEAVY_INIT)
            job.install = rig_nothing;
        lanex_ticket *ticket = rig_submit(actor, &job);
        rig_wait(ticket);
        expect_nothing_runs(executor);
        lanex_ticket_drop(ticket);
    }
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(delivery, whoever_sees_a_completion_can_retire_the_actor)
{
    lanex_executor *executor = rig_executor();

    for (unsigned i = 0; i < lx_test_scaled(STEPS); i++) {
        lanex_actor *actor = rig_actor(executor, "a");
        lanex_job_options job = rig_job((enum lanex_lane)(i % 5), rig_nothing, NULL);
        job.job_class = i % 2;
        if (i % 7 == 0)
            job.deadline_ns = 1;
        rig_expect(rig_submit(actor, &job),
                   i % 7 == 0 ? LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED : LANEX_STATUS_OK);
        cr_assert_eq(rig_retire(executor, "a"), 0);
        lanex_actor_unref(actor);
    }
    rig_destroy_executor(executor);
}

static void block_then_panic(lanex_job *job, void *context, void *arg)
{
    rig_block(job, context, arg);
    lanex_panic("enough");
}

/* Also after the last answer of a queue that a panic has emptied, whole slices of it or not. */
Test(delivery, whoever_sees_the_last_answer_of_a_fatal_actor_can_retire_it)
{
    lanex_executor *executor = rig_executor();
    static const unsigned counts[] = {1, 63, 64, 65, 128};

    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        lanex_actor *actor = rig_actor(executor, "a");
        struct rig_block block = {0};
        lanex_ticket *tickets[128];
        lanex_job_options job = rig_job(LANEX_LANE_MUTATING, block_then_panic, &block);
        lanex_ticket *first = rig_submit(actor, &job);
        latch_wait(&block.entered, 1);
        job = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
        for (unsigned i = 0; i < counts[c]; i++)
            tickets[i] = rig_submit(actor, &job);
        latch_arrive(&block.leave);
        rig_wait(tickets[counts[c] - 1]); /* the last one, in order of arrival */
        cr_assert_eq(rig_retire(executor, "a"), 0);
        rig_expect(first, LANEX_STATUS_ACTOR_FATAL);
        for (unsigned i = 0; i < counts[c]; i++)
            rig_expect(tickets[i], LANEX_STATUS_ACTOR_FATAL);
        lanex_actor_unref(actor);
    }
    rig_destroy_executor(executor);
}

/* A client that keeps one writer running and the queue full to its cap submits one more for each
 * completion: there is room for it. */
static void refill(lanex_executor_options options, unsigned job_class)
{
    lanex_executor *executor = rig_executor_with(&options);
    lanex_actor *actor = rig_actor(executor, "a");
    lanex_port *port = NULL;
    struct rig_block block = {0};
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, rig_block, &block);
    unsigned steps = (unsigned)lx_test_scaled(STEPS), seen = 0, submitted;

    cr_assert_eq(lanex_port_create(executor, NULL, &port), 0);
    job.job_class = job_class;
    job.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_wait(&block.entered, 1);
    job.run = rig_nothing;
    for (submitted = 1; submitted < 5; submitted++)
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_arrive(&block.leave);
    while (seen < submitted) {
        lanex_completion *completion;
        struct pollfd fd = {.fd = lanex_port_fd(port), .events = POLLIN};
        cr_assert_eq(poll(&fd, 1, (int)lx_test_liveness_s() * 1000), 1);
        if (lanex_port_drain(port, &completion, 1) == 0)
            continue;
        seen++;
        lanex_refusal refusal = {0};
        lanex_completion_refusal(completion, &refusal);
        cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_OK,
                     "job %u: %s, %llu of %llu, class %u scope %u", seen,
                     lanex_completion_code(completion), (unsigned long long)refusal.depth,
                     (unsigned long long)refusal.cap, refusal.queue_class, refusal.scope);
        lanex_completion_release(completion);
        if (submitted < steps) {
            cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
            submitted++;
        }
    }
    lanex_port_unref(port);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(delivery, whoever_sees_a_completion_finds_room_in_a_full_queue)
{
    lanex_executor_options actor_cap = rig_options(), total = actor_cap, maintenance = actor_cap;

    actor_cap.interactive_actor_queue_cap = 4;
    refill(actor_cap, LANEX_CLASS_INTERACTIVE);
    total.interactive_queue_cap = 4;
    refill(total, LANEX_CLASS_INTERACTIVE);
    maintenance.maintenance_queue_cap = 4;
    refill(maintenance, LANEX_CLASS_MAINTENANCE);
}

/* As many at once as there is room and a free place to run: whatever one turn sees of them. */
Test(delivery, a_burst_fills_the_places_to_run_first)
{
    lanex_executor_options options = rig_options();
    options.interactive_actor_queue_cap = 2;
    lanex_executor *executor = rig_executor_with(&options);
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_block block = {.entered = LATCH_INIT};
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, rig_block, &block);
    const lanex_submission burst[] = {{actor, &job}, {actor, &job}, {actor, &job}, {actor, &job}};

    cr_assert_eq(lanex_submit_batch(burst, 4, NULL), 0);
    latch_wait(&block.entered, 1);
    latch_arrive(&block.leave);
    cr_assert_eq(lanex_executor_drain(executor, rig_liveness_ns(), NULL), 0);
    lanex_counters counters = {.size = sizeof counters};
    cr_assert_eq(lanex_executor_counters(executor, &counters), 0);
    cr_assert_eq(counters.completed[0], 3, "one runs, two wait");
    cr_assert_eq(counters.refused[0], 1);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

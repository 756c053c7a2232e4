/* The end of an executor that comes in between: within a submission, before an install step. */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <liburing.h>
#include <pthread.h>

#include "runtime/executor.h"
#include "runtime/port.h"
#include "runtime/ring_sink.h"

TestSuite(shutdown_edges, .timeout = 60);

static lanex_executor *executor;
static lanex_actor *actor;

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

/* ---- within a submission: after its check, before its push ---- */

/* Linked with --wrap=lx_job_create, the call between the two. */
int __real_lx_job_create(struct lanex_executor *ex, struct lanex_actor *of,
                         const lanex_job_options *options, bool ticket, struct lanex_job **ret_job);
int __wrap_lx_job_create(struct lanex_executor *ex, struct lanex_actor *of,
                         const lanex_job_options *options, bool ticket, struct lanex_job **ret_job);
static unsigned created, destroy_at;

static void *destroy_it(void *arg)
{
    (void)arg;
    LX_REQUIRE(lanex_executor_destroy(executor) == 0);
    return NULL;
}

int __wrap_lx_job_create(struct lanex_executor *ex, struct lanex_actor *of,
                         const lanex_job_options *options, bool ticket, struct lanex_job **ret_job)
{
    pthread_t thread;
    int rc = __real_lx_job_create(ex, of, options, ticket, ret_job);

    if (++created == destroy_at) {
        LX_REQUIRE(pthread_create(&thread, NULL, destroy_it, NULL) == 0);
        LX_REQUIRE(pthread_join(thread, NULL) == 0);
    }
    return rc;
}

static void begin(unsigned destroy_at_creation)
{
    executor = lanex_executor_ref(lx_test_executor(4));
    actor = lx_test_actor(executor, 1);
    created = 0;
    destroy_at = destroy_at_creation;
}

/* The executor has ended; what the test has left keeps its memory. */
static void end(void)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);

    cr_assert_eq(lx_slab_in_use(&executor->jobs), 0, "a job that was refused was not given back");
    cr_assert_eq(lanex_submit(actor, &options, NULL), -ESHUTDOWN);
    lanex_actor_unref(actor);
    lanex_executor_unref(executor);
}

Test(shutdown_edges, a_submission_that_comes_too_late_leaves_nothing)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    lanex_ticket *ticket = NULL;
    uint64_t number = 4711;

    begin(1);
    cr_assert_eq(lanex_submit(actor, &options, &number), -ESHUTDOWN);
    cr_assert_eq(number, 4711, "the output was touched on failure");
    end();
    begin(1);
    cr_assert_eq(lanex_submit_ticket(actor, &options, &ticket), -ESHUTDOWN);
    cr_assert_null(ticket);
    end();
}

Test(shutdown_edges, a_port_does_not_expect_what_came_too_late)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    lanex_port *port;

    begin(1);
    cr_assert_eq(lanex_port_create(executor, NULL, &port), 0);
    options.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
    cr_assert_eq(lanex_submit(actor, &options, NULL), -ESHUTDOWN);
    cr_assert_eq(atomic_load(&port->expected), 0);
    lanex_port_unref(port);
    end();
}

Test(shutdown_edges, a_ring_is_let_go_by_what_came_too_late)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    struct io_uring theirs;
    lanex_ring *ring;
    int rc;

    begin(1);
    if (io_uring_queue_init(4, &theirs, 0) < 0)
        cr_skip("no rings here");
    rc = lanex_ring_attach(executor, theirs.ring_fd, &ring);
    if (rc < 0) {
        cr_assert_eq(rc, -EOPNOTSUPP);
        cr_skip("ring sinks are refused here");
    }
    options.sink = (lanex_sink){.kind = LANEX_SINK_RING, .ring = ring};
    cr_assert_eq(lanex_submit(actor, &options, NULL), -ESHUTDOWN);
    cr_assert_eq(atomic_load(&ring->refs), 1);
    lanex_ring_unref(ring);
    end();
    io_uring_queue_exit(&theirs);
}

Test(shutdown_edges, a_batch_that_comes_too_late_leaves_nothing)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL), to_port = options;
    uint64_t numbers[3] = {1, 2, 3};
    lanex_port *port;

    begin(3);
    cr_assert_eq(lanex_port_create(executor, NULL, &port), 0);
    to_port.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
    const lanex_submission batch[] = {{actor, &options}, {actor, &to_port}, {actor, &options}};
    cr_assert_eq(lanex_submit_batch(batch, 3, numbers), -ESHUTDOWN);
    cr_assert_eq(created, 3);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(numbers[i], i + 1, "the output was touched on failure");
    cr_assert_eq(atomic_load(&port->expected), 0);
    lanex_port_unref(port);
    end();
}

/* ---- before an install step ---- */

static struct latch reads = LATCH_INIT, built = LATCH_INIT, may_end = LATCH_INIT;
static struct latch installed = LATCH_INIT, shut_down = LATCH_INIT;

static void read_long(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
    latch_arrive(&reads);
    latch_wait(&may_end, 1);
}

static void build(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
    latch_arrive(&built);
}

static void install(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
    latch_arrive(&installed);
}

static void *shut_it_down(void *arg)
{
    (void)arg;
    LX_REQUIRE(lanex_executor_destroy(executor) == 0);
    latch_arrive(&shut_down);
    return NULL;
}

static bool install_waits_for_readers(uint64_t number)
{
    lanex_explanation *explanation = NULL;
    bool waits;

    LX_REQUIRE(lanex_explain_job(executor, number, &explanation) == 0);
    waits = explanation->chain[0].reason == LANEX_WAIT_READERS;
    lanex_explanation_free(explanation);
    return waits;
}

/* It has been built, so it runs: it is answered as what it did, and destroy waits for it. */
Test(shutdown_edges, an_install_step_that_waits_for_a_reader_is_finished_by_destroy)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, read_long, NULL);
    lanex_ticket *heavy = NULL, *queued = NULL;
    pthread_t thread;

    begin(0);
    cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
    latch_wait(&reads, 1);
    options = lx_test_job(LANEX_LANE_HEAVY_INIT, build, NULL);
    options.install = install;
    cr_assert_eq(lanex_submit_ticket(actor, &options, &heavy), 0);
    latch_wait(&built, 1);
    LX_EVENTUALLY(install_waits_for_readers(lanex_ticket_job(heavy)));
    options = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
    cr_assert_eq(lanex_submit_ticket(actor, &options, &queued), 0);
    cr_assert_eq(pthread_create(&thread, NULL, shut_it_down, NULL), 0);
    /* The end has begun: what is queued is answered, while the reader still reads. */
    cr_assert_eq(lanex_ticket_wait(queued, LANEX_TIME_NEVER), 0);
    cr_assert_eq(lanex_completion_status(lanex_ticket_completion(queued)),
                 LANEX_STATUS_EXECUTOR_SHUTDOWN);
    cr_assert_eq(latch_count(&installed), 0);
    cr_assert_eq(latch_count(&shut_down), 0);
    latch_arrive(&may_end);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(lanex_ticket_wait(heavy, LANEX_TIME_NEVER), 0);
    cr_assert_eq(lanex_completion_status(lanex_ticket_completion(heavy)), LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&installed), 1);
    lanex_ticket_drop(heavy);
    lanex_ticket_drop(queued);
    end();
}

/* ---- becoming quiet ---- */

/* A server whose jobs come one by one becomes quiet after each: that is told to nobody. */
Test(shutdown_edges, becoming_quiet_is_told_only_where_it_is_awaited)
{
    uint32_t told;

    begin(0);
    told = atomic_load(&executor->quiet_word);
    for (unsigned i = 0; i < 100; i++) {
        lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);

        cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
        LX_EVENTUALLY(atomic_load(&executor->published.of[0].completed) == i + 1);
    }
    cr_assert_eq(atomic_load(&executor->quiet_word), told);
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    lanex_executor_unref(executor);
}

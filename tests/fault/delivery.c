/* No memory while a job is answered: what was answered still counts, and nothing is lost. */
#include "refuse.h"

#include "tests/support/lx_executor.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>

TestSuite(fault_delivery, .timeout = 60);

#define JOBS 50u

/* ---- a deferred answer ---- */

static atomic_uint destroyed;

static void count_destroyed(void *data)
{
    LX_REQUIRE(data == &destroyed);
    atomic_fetch_add(&destroyed, 1);
}

static void answer_then_defer(lanex_job *job, void *context, void *arg)
{
    lanex_deferred *deferred = (lanex_deferred *)(uintptr_t)8;

    (void)context;
    (void)arg;
    lanex_job_respond(job, &destroyed, count_destroyed);
    refuse_each_of(REFUSE_ALL);
    errno = 4711;
    LX_REQUIRE(lanex_job_defer(job, &deferred) == -ENOMEM);
    LX_REQUIRE(errno == 4711);
    LX_REQUIRE(deferred == (lanex_deferred *)(uintptr_t)8);
    LX_REQUIRE(refuse_stop() == 1);
}

Test(fault_delivery, an_answer_counts_though_a_later_defer_finds_no_memory)
{
    lanex_executor *executor;
    lanex_actor *actor;
    lanex_ticket *ticket;
    lanex_completion *completion;
    lanex_job_options job = lx_test_job(LANEX_LANE_MUTATING, answer_then_defer, NULL);

    refuse_install();
    executor = lx_test_executor(2);
    actor = lx_test_actor(executor, 1);
    cr_assert_eq(lanex_submit_ticket(actor, &job, &ticket), 0);
    cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
    completion = lanex_ticket_completion(ticket);
    cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_OK);
    cr_assert_eq(lanex_completion_data(completion), &destroyed);
    cr_assert_eq(atomic_load(&destroyed), 0);
    lanex_ticket_drop(ticket);
    lanex_actor_unref(actor);
    lanex_executor_destroy(executor);
    cr_assert_eq(atomic_load(&destroyed), 1);
}

/* ---- a ring that cannot be posted to yet ---- */

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

struct late_ring {
    struct io_uring uring;
    lanex_executor *executor;
    lanex_actor *actor;
    lanex_ring *ring;
    unsigned seen[JOBS], total;
};

/* False where the executor runs without rings. */
static bool open_late_ring(struct late_ring *late)
{
    struct io_uring_params params = {.flags = IORING_SETUP_R_DISABLED};
    lanex_config config = {.size = sizeof config};

    memset(late, 0, sizeof *late);
    late->executor = lx_test_executor(2);
    LX_REQUIRE(lanex_executor_config(late->executor, &config) == 0);
    if (config.backend != LANEX_BACKEND_RING) {
        LX_REQUIRE(lanex_ring_attach(late->executor, 0, &late->ring) == -EOPNOTSUPP);
        LX_REQUIRE(lanex_executor_destroy(late->executor) == 0);
        return false;
    }
    LX_REQUIRE(io_uring_queue_init_params(64, &late->uring, &params) == 0);
    late->actor = lx_test_actor(late->executor, 1);
    LX_REQUIRE(lanex_ring_attach(late->executor, late->uring.ring_fd, &late->ring) == 0);
    return true;
}

static void submit_writes(struct late_ring *late)
{
    for (unsigned i = 0; i < JOBS; i++) {
        lanex_job_options job = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
        lanex_ticket *ticket;

        job.sink = (lanex_sink){.kind = LANEX_SINK_RING, .ring = late->ring, .user_data = i};
        LX_REQUIRE(lanex_submit_ticket(late->actor, &job, &ticket) == 0);
        /* With no memory from here on: its message is refused, and must be kept without. */
        refuse_each_of(REFUSE_ALL);
        LX_REQUIRE(lanex_ticket_wait(ticket, LANEX_TIME_NEVER) == 0);
        LX_REQUIRE(lanex_completion_status(lanex_ticket_completion(ticket)) == LANEX_STATUS_OK);
        lanex_ticket_drop(ticket);
        LX_REQUIRE(refuse_stop() == 0); /* it asked for none */
    }
}

static bool all_came(struct late_ring *late)
{
    struct io_uring_cqe *cqe;

    LX_REQUIRE(io_uring_get_events(&late->uring) >= 0);
    while (io_uring_peek_cqe(&late->uring, &cqe) == 0) {
        LX_REQUIRE(cqe->user_data < JOBS && late->seen[cqe->user_data]++ == 0);
        LX_REQUIRE(cqe->res == 0);
        late->total++;
        io_uring_cqe_seen(&late->uring, cqe);
    }
    return late->total == JOBS;
}

static void close_late_ring(struct late_ring *late)
{
    lanex_ring_unref(late->ring);
    lanex_actor_unref(late->actor);
    lanex_executor_destroy(late->executor);
    io_uring_queue_exit(&late->uring);
}

Test(fault_delivery, messages_that_must_wait_need_no_memory)
{
    struct late_ring late;
    struct io_uring_cqe *cqe;

    refuse_install();
    if (!open_late_ring(&late))
        cr_skip("there are no rings");
    submit_writes(&late);
    cr_assert_neq(io_uring_peek_cqe(&late.uring, &cqe), 0, "no message was refused");
    /* io_uring_enable_rings is declared by liburing 2.3 but missing from its library. */
    cr_assert_eq(
        io_uring_register((unsigned)late.uring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0), 0);
    LX_EVENTUALLY(all_came(&late));
    close_late_ring(&late);
}

/* The messages are given up then; what must not happen is a leak or a wait for ever. */
Test(fault_delivery, an_executor_ends_before_its_messages_could_be_sent)
{
    struct refuse_left before;
    struct late_ring late;

    refuse_install();
    if (!open_late_ring(&late))
        cr_skip("there are no rings");
    close_late_ring(&late);
    before = refuse_count_left();
    LX_REQUIRE(open_late_ring(&late));
    submit_writes(&late);
    close_late_ring(&late);
    cr_assert_eq(late.total, 0);
    refuse_must_be(before);
}

/* No memory while a job is answered: what was answered still counts, and nothing is lost. */
#include "tests/support/lx_executor.h"

#include "sync/seams.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>

TestSuite(fault_delivery, .timeout = 60);

#define JOBS 50u

static struct lx_seams real;
static atomic_bool refusing;

static void *maybe_allocate(size_t size, bool zeroed)
{
    return atomic_load(&refusing) ? NULL : real.allocate(size, zeroed);
}

static void *maybe_map(size_t size)
{
    return atomic_load(&refusing) ? NULL : real.map(size);
}

static void begin(void)
{
    real = lx_seams;
    lx_seams.allocate = maybe_allocate;
    lx_seams.map = maybe_map;
}

static void end(void)
{
    atomic_store(&refusing, false);
    lx_seams = real;
}

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
    atomic_store(&refusing, true);
    errno = 4711;
    LX_REQUIRE(lanex_job_defer(job, &deferred) == -ENOMEM);
    LX_REQUIRE(errno == 4711);
    LX_REQUIRE(deferred == (lanex_deferred *)(uintptr_t)8);
    atomic_store(&refusing, false);
}

Test(fault_delivery, an_answer_counts_though_a_later_defer_finds_no_memory)
{
    lanex_executor *executor;
    lanex_actor *actor;
    lanex_ticket *ticket;
    lanex_completion *completion;
    lanex_job_options job = lx_test_job(LANEX_LANE_MUTATING, answer_then_defer, NULL);

    begin();
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
    end();
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

/* False where rings are refused, or this kernel does not know the kind. */
static bool open_late_ring(struct late_ring *late)
{
    struct io_uring_params params = {.flags = IORING_SETUP_R_DISABLED};

    memset(late, 0, sizeof *late);
    if (io_uring_queue_init_params(64, &late->uring, &params) != 0)
        return false;
    late->executor = lx_test_executor(2);
    late->actor = lx_test_actor(late->executor, 1);
    if (lanex_ring_attach(late->executor, late->uring.ring_fd, &late->ring) == 0)
        return true;
    lanex_actor_unref(late->actor);
    lanex_executor_destroy(late->executor);
    io_uring_queue_exit(&late->uring);
    return false;
}

static void submit_writes(struct late_ring *late)
{
    for (unsigned i = 0; i < JOBS; i++) {
        lanex_job_options job = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
        lanex_ticket *ticket;

        job.sink = (lanex_sink){.kind = LANEX_SINK_RING, .ring = late->ring, .user_data = i};
        LX_REQUIRE(lanex_submit_ticket(late->actor, &job, &ticket) == 0);
        /* With no memory from here on: its message is refused, and must be kept without. */
        atomic_store(&refusing, true);
        LX_REQUIRE(lanex_ticket_wait(ticket, LANEX_TIME_NEVER) == 0);
        LX_REQUIRE(lanex_completion_status(lanex_ticket_completion(ticket)) == LANEX_STATUS_OK);
        lanex_ticket_drop(ticket);
        atomic_store(&refusing, false);
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

    begin();
    if (open_late_ring(&late)) {
        submit_writes(&late);
        /* io_uring_enable_rings is declared by liburing 2.3 but missing from its library. */
        cr_assert_eq(
            io_uring_register((unsigned)late.uring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0),
            0);
        LX_EVENTUALLY(all_came(&late));
        close_late_ring(&late);
    }
    end();
}

/* The messages are given up then; what must not happen is a leak or a wait for ever. */
Test(fault_delivery, an_executor_ends_before_its_messages_could_be_sent)
{
    struct late_ring late;

    begin();
    if (open_late_ring(&late)) {
        submit_writes(&late);
        close_late_ring(&late);
        cr_assert_eq(late.total, 0);
    }
    end();
}

/*
 * A hundred thousand actors each wait for the one heavy permit; one actor has reads. They cost what
 * they cost without the others: judged by how many actors the scheduler visits, not by time.
 */
#include "tests/support/lx_executor.h"

#include "runtime/executor.h"

#include <errno.h>

TestSuite(permit_famine);

#define READS 2000u

/* Each waits for its turn on the scheduler's thread where that runs all turns. */
static unsigned waiting_actors(void)
{
    return (unsigned)lx_test_scaled(lx_test_env_dispatch() == LX_TEST_DISPATCH_SEAT ? 100000
                                                                                    : 20000);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

struct blocker {
    struct latch entered, leave;
};

static void block(lanex_job *job, void *context, void *arg)
{
    struct blocker *blocker = arg;

    (void)job;
    (void)context;
    latch_arrive(&blocker->entered);
    latch_wait(&blocker->leave, 1);
}

static void read_visits(struct lanex_executor *ex, struct lx_request *request)
{
    request->number = ex->admission.visits;
    request->result = 0;
}

static uint64_t visits(lanex_executor *executor)
{
    struct lx_request request = {.apply = read_visits};

    LX_REQUIRE(lx_seat_request(executor, &request) == 0);
    return request.number;
}

/* Visits that so many reads cost, one after the other. */
static uint64_t cost_of_reads(lanex_executor *executor, lanex_actor *reader)
{
    lanex_job_options read = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    uint64_t before = visits(executor);

    for (unsigned i = 0; i < READS; i++) {
        lanex_ticket *ticket;
        LX_REQUIRE(lanex_submit_ticket(reader, &read, &ticket) == 0);
        LX_REQUIRE(lanex_ticket_wait(ticket, LANEX_TIME_NEVER) == 0);
        lanex_ticket_drop(ticket);
    }
    return visits(executor) - before;
}

static void note_over(lanex_completion *completion, void *arg)
{
    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    latch_arrive(arg);
}

static void check_famine(enum lanex_class job_class, uint32_t flags)
{
    lanex_executor_options options = lx_test_executor_options(4);
    lanex_executor *executor = NULL;
    lanex_actor *reader, *holder;
    unsigned count = waiting_actors();
    struct blocker blocker = {.leave = LATCH_INIT};
    static struct latch over;
    lanex_job_options heavy = lx_test_job(LANEX_LANE_HEAVY_INIT, block, &blocker);
    uint64_t alone, among;

    latch_init(&over);
    options.heavy_permits = 1;
    options.flags = flags;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    reader = lx_test_actor(executor, 0);
    holder = lx_test_actor(executor, 1);
    cr_assert_eq(lanex_submit(holder, &heavy, NULL), 0);
    latch_wait(&blocker.entered, 1);
    alone = cost_of_reads(executor, reader);
    heavy = lx_test_callback_job(LANEX_LANE_HEAVY_INIT, nothing, NULL, note_over, &over);
    heavy.job_class = job_class;
    for (unsigned i = 0; i < count; i++) {
        lanex_actor *actor = lx_test_actor(executor, 2 + i);
        cr_assert_eq(lanex_submit(actor, &heavy, NULL), 0);
        lanex_actor_unref(actor);
    }
    among = cost_of_reads(executor, reader);
    fprintf(stderr, "[----] %u reads: %llu visits alone, %llu among %u that wait\n", READS,
            (unsigned long long)alone, (unsigned long long)among, count);
    cr_assert_geq(alone, READS);
    cr_assert_leq(among, alone + READS / 10);
    cr_assert_eq(latch_count(&over), 0);
    latch_arrive(&blocker.leave);
    latch_wait(&over, count); /* then each gets the permit */
    lanex_actor_unref(reader);
    lanex_actor_unref(holder);
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

Test(permit_famine, reads_cost_the_same_among_actors_that_wait_for_a_permit)
{
    check_famine(LANEX_CLASS_INTERACTIVE, 0);
}

Test(permit_famine, and_where_maintenance_waits_for_it)
{
    check_famine(LANEX_CLASS_MAINTENANCE, 0);
}

Test(permit_famine, and_where_a_heavy_job_may_not_be_stepped_over)
{
    check_famine(LANEX_CLASS_INTERACTIVE, LANEX_EXECUTOR_NO_PERMIT_STEP_OVER);
}

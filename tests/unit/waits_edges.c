/* Waits of jobs for jobs: what stands in line with the awaited one, and what explain says of it. */
#include "tests/support/lx_executor.h"

#include <errno.h>

#include "admission/timer.h"

TestSuite(waits_edges, .timeout = 60);

#define FOREVER LANEX_TIME_NEVER

static lanex_executor *executor;

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

/* A body that comes, waits to be let go, and then waits for a ticket. */
struct waiter {
    struct latch begun, go;
    lanex_ticket *ticket; /* NULL: none */
    uint64_t number;
    int rc;
};

static void wait_for(lanex_job *job, void *context, void *arg)
{
    struct waiter *waiter = arg;

    (void)context;
    waiter->number = lanex_job_number(job);
    latch_arrive(&waiter->begun);
    latch_wait(&waiter->go, 1);
    if (waiter->ticket != NULL)
        waiter->rc = lanex_ticket_wait(waiter->ticket, FOREVER);
}

static lanex_ticket *submit(lanex_actor *actor, enum lanex_class job_class, enum lanex_lane lane,
                            lanex_job_fn run, void *arg)
{
    lanex_job_options options = lx_test_job(lane, run, arg);
    lanex_ticket *ticket = NULL;

    options.job_class = job_class;
    LX_REQUIRE(lanex_submit_ticket(actor, &options, &ticket) == 0);
    return ticket;
}

static lanex_ticket *begin_waiter(lanex_actor *actor, struct waiter *waiter)
{
    lanex_ticket *ticket =
        submit(actor, LANEX_CLASS_INTERACTIVE, LANEX_LANE_PURE_READ, wait_for, waiter);

    latch_wait(&waiter->begun, 1);
    return ticket;
}

static void drop(lanex_ticket *ticket)
{
    LX_REQUIRE(lanex_ticket_wait(ticket, FOREVER) == 0);
    lanex_ticket_drop(ticket);
}

static void begin(unsigned pool, bool many)
{
    lanex_executor_options options = lx_test_executor_options(pool);

    options.profile = many ? LANEX_PROFILE_MANY_CORE : LANEX_PROFILE_STANDARD;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
}

static void end(void)
{
    cr_assert_eq(lanex_executor_drain(executor, FOREVER, NULL), 0);
    lx_test_at_rest(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

static enum lanex_wait_reason reason_of(uint64_t number, uint64_t *ret_next, bool *ret_circle)
{
    lanex_explanation *explanation = NULL;
    enum lanex_wait_reason reason;

    LX_REQUIRE(lanex_explain_job(executor, number, &explanation) == 0);
    reason = explanation->chain[0].reason;
    *ret_next = explanation->count > 1 ? explanation->chain[1].job.job : 0;
    *ret_circle = explanation->circle;
    LX_REQUIRE((strstr(explanation->text, "a circle") != NULL) == explanation->circle);
    lanex_explanation_free(explanation);
    return reason;
}

static enum lanex_wait_reason reason(uint64_t number)
{
    uint64_t next;
    bool circle;

    return reason_of(number, &next, &circle);
}

Test(waits_edges, maintenance_behind_a_writer_of_its_own_kind_cannot_come_before_a_reader_ends)
{
    struct waiter reader = {.rc = 1};
    lanex_ticket *first, *writer, *behind;
    lanex_actor *actor;

    begin(4, false);
    actor = lx_test_actor(executor, 1);
    first = begin_waiter(actor, &reader);
    writer = submit(actor, LANEX_CLASS_MAINTENANCE, LANEX_LANE_MUTATING, nothing, NULL);
    behind = submit(actor, LANEX_CLASS_MAINTENANCE, LANEX_LANE_PURE_READ, nothing, NULL);
    reader.ticket = behind;
    latch_arrive(&reader.go);
    drop(first);
    cr_assert_eq(reader.rc, -EDEADLK, "strict order: the writer goes first, and waits for us");
    drop(writer);
    drop(behind);
    lanex_actor_unref(actor);
    end();
}

Test(waits_edges, an_install_step_that_runs_can_be_waited_for)
{
    struct waiter stepping = {.rc = 1}, waiting = {.rc = 1};
    lanex_job_options options = lx_test_job(LANEX_LANE_HEAVY_INIT, nothing, &stepping);
    lanex_ticket *waiter;
    lanex_actor *actors[2];

    begin(4, false);
    actors[0] = lx_test_actor(executor, 1);
    actors[1] = lx_test_actor(executor, 2);
    options.install = wait_for;
    cr_assert_eq(lanex_submit_ticket(actors[0], &options, &waiting.ticket), 0);
    latch_wait(&stepping.begun, 1);
    waiter = begin_waiter(actors[1], &waiting);
    latch_arrive(&waiting.go);
    LX_EVENTUALLY(reason(waiting.number) == LANEX_WAIT_TICKET);
    latch_arrive(&stepping.go);
    drop(waiter);
    cr_assert_eq(waiting.rc, 0);
    drop(waiting.ticket);
    lanex_actor_unref(actors[0]);
    lanex_actor_unref(actors[1]);
    end();
}

Test(waits_edges, install_steps_wait_for_readers_and_for_each_other)
{
    struct waiter reader = {.rc = 1}, builds[2] = {{.rc = 1}, {.rc = 1}};
    lanex_executor_options executor_options = lx_test_executor_options(6);
    lanex_ticket *heavy[2], *read;
    lanex_actor *actor;
    uint64_t next;
    bool circle;

    executor_options.profile = LANEX_PROFILE_MANY_CORE;
    executor_options.heavy_permits = 2;
    cr_assert_eq(lanex_executor_create(&executor_options, &executor), 0);
    actor = lx_test_actor(executor, 1);
    read = begin_waiter(actor, &reader);
    for (unsigned i = 0; i < 2; i++) {
        lanex_job_options options = lx_test_job(LANEX_LANE_HEAVY_INIT, wait_for, &builds[i]);
        options.install = nothing;
        cr_assert_eq(lanex_submit_ticket(actor, &options, &heavy[i]), 0);
        latch_wait(&builds[i].begun, 1);
    }
    for (unsigned i = 0; i < 2; i++) {
        latch_arrive(&builds[i].go);
        LX_EVENTUALLY(reason(lanex_ticket_job(heavy[i])) ==
                      (i == 0 ? LANEX_WAIT_READERS : LANEX_WAIT_INSTALL));
    }
    (void)reason_of(lanex_ticket_job(heavy[0]), &next, &circle);
    cr_assert_eq(next, reader.number);
    (void)reason_of(lanex_ticket_job(heavy[1]), &next, &circle);
    cr_assert_eq(next, lanex_ticket_job(heavy[0]));
    latch_arrive(&reader.go);
    drop(read);
    drop(heavy[0]);
    drop(heavy[1]);
    lanex_actor_unref(actor);
    end();
}

/* More waiting bodies than a turn looks at (LX_WAITS_EXAMINED): a circle is let be, and explained.
 */
#define FILLERS 65u

Test(waits_edges, a_circle_among_more_waits_than_are_looked_at_is_explained)
{
    static struct waiter fillers[FILLERS];
    static lanex_ticket *tickets[FILLERS];
    struct waiter awaited = {.rc = 1}, reader = {.rc = 1}, outer = {.rc = 1};
    lanex_ticket *kept, *first, *second, *writer;
    lanex_actor *actors[4];
    uint64_t next;
    bool circle = false;

    begin(FILLERS + 5, true);
    for (unsigned i = 0; i < 4; i++)
        actors[i] = lx_test_actor(executor, i);
    kept = begin_waiter(actors[0], &awaited);
    for (unsigned i = 0; i < FILLERS; i++) {
        fillers[i].ticket = kept;
        tickets[i] = begin_waiter(actors[1], &fillers[i]);
        latch_arrive(&fillers[i].go);
    }
    for (unsigned i = 0; i < FILLERS; i++)
        LX_EVENTUALLY(reason(fillers[i].number) == LANEX_WAIT_TICKET);
    /* The reader waits for the outer one, that for the writer, and the writer for the reader. */
    first = begin_waiter(actors[2], &reader);
    writer = submit(actors[2], LANEX_CLASS_INTERACTIVE, LANEX_LANE_MUTATING, nothing, NULL);
    outer.ticket = writer;
    second = begin_waiter(actors[3], &outer);
    reader.ticket = second;
    latch_arrive(&reader.go);
    LX_EVENTUALLY(reason(reader.number) == LANEX_WAIT_TICKET);
    latch_arrive(&outer.go);
    LX_EVENTUALLY(reason(outer.number) == LANEX_WAIT_TICKET);
    cr_assert_eq(reason_of(lanex_ticket_job(writer), &next, &circle), LANEX_WAIT_READERS);
    cr_assert_eq(next, reader.number);
    cr_assert(circle);
    /* Somebody outside breaks it. */
    cr_assert_eq(lanex_cancel(executor, lanex_ticket_job(writer)), LANEX_CANCEL_QUEUED_REMOVED);
    latch_arrive(&awaited.go);
    drop(first);
    drop(second);
    cr_assert(reader.rc == 0 && outer.rc == 0);
    drop(writer);
    for (unsigned i = 0; i < FILLERS; i++)
        drop(tickets[i]);
    drop(kept);
    for (unsigned i = 0; i < 4; i++)
        lanex_actor_unref(actors[i]);
    end();
}

/* ---- timers ---- */

Test(waits_edges, timers_of_one_moment_and_one_order_all_fire_once)
{
    struct lx_timer timers[5] = {{.when_ns = 0}};
    bool fired[5] = {false};
    struct lx_timers set;
    struct lx_timer *timer;

    lx_timers_init(&set);
    for (unsigned i = 0; i < 5; i++)
        lx_timer_arm(&set, &timers[i], LX_TIMER_ACTOR, 100, 7);
    cr_assert_null(lx_timers_take_due(&set, 99));
    lx_timer_disarm(&set, &timers[2]);
    lx_timer_disarm(&set, &timers[2]);
    for (unsigned count = 0; count < 4; count++) {
        timer = lx_timers_take_due(&set, 100);
        cr_assert_not_null(timer);
        cr_assert_not(fired[timer - timers]);
        fired[timer - timers] = true;
    }
    cr_assert_not(fired[2]);
    cr_assert_null(lx_timers_take_due(&set, 100));
}

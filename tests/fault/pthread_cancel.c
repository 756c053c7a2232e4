/*
 * A thread that has been cancelled by pthread_cancel goes through every call that lanex makes
 * system calls in: none is a cancellation point, so none ends half way.
 */
#include "refuse.h"

#include "tests/support/lx_executor.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

TestSuite(fault_pthread_cancel, .timeout = 60);

#define JOBS 20u

static atomic_uint passed; /* calls that returned */

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void defer(lanex_job *job, void *context, void *arg)
{
    (void)context;
    LX_REQUIRE(lanex_job_defer(job, arg) == 0);
}

static void pass(bool worked)
{
    LX_REQUIRE(worked);
    atomic_fetch_add(&passed, 1);
}

/* sched_yield is no cancellation point either. */
static void take_all(lanex_port *port, unsigned count)
{
    lanex_completion *taken[4];

    while (count > 0) {
        int n = lanex_port_drain(port, taken, 4);
        LX_REQUIRE(n >= 0);
        for (int i = 0; i < n; i++)
            lanex_completion_release(taken[i]);
        count -= (unsigned)n;
        sched_yield();
    }
    pass(true);
}

static void wait_for_jobs(lanex_executor *executor, lanex_actor *actor)
{
    lanex_job_options job = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
    lanex_deferred *deferred = NULL;
    lanex_ticket *ticket;

    for (unsigned i = 0; i < JOBS; i++) {
        pass(lanex_submit_ticket(actor, &job, &ticket) == 0);
        pass(lanex_ticket_wait(ticket, LANEX_TIME_NEVER) == 0);
        lanex_ticket_drop(ticket);
    }
    job.run = defer;
    job.arg = &deferred;
    pass(lanex_submit_ticket(actor, &job, &ticket) == 0);
    pass(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL) == 0);
    pass(lanex_deferred_respond(deferred, NULL, NULL) == 0);
    pass(lanex_ticket_wait(ticket, LANEX_TIME_NEVER) == 0);
    lanex_ticket_drop(ticket);
    pass(lanex_cancel(executor, 1) == LANEX_CANCEL_NOT_FOUND);
}

/* What the library calls, by way of the linker: the C library's own happens to be no cancellation
 * point. */
char *__real_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved);

static atomic_uint resolved_paths;

char *__wrap_realpath(const char *path, char *resolved)
{
    atomic_fetch_add(&resolved_paths, 1);
    pthread_testcancel();
    return __real_realpath(path, resolved);
}

static void name_root(void)
{
    char key[LANEX_KEY_MAX];
    size_t length;

    pass(lanex_root_key(".", key, sizeof key, &length) == 0);
    pass(lanex_root_key("none", key, sizeof key, &length) == -ENOENT);
    LX_REQUIRE(atomic_load(&resolved_paths) == 2);
}

static void *live_cancelled(void *arg)
{
    lanex_executor *executor;
    lanex_actor *actor;
    lanex_port *port;
    lanex_job_options job = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);

    (void)arg;
    LX_REQUIRE(pthread_cancel(pthread_self()) == 0);
    executor = lx_test_executor(2);
    pass(true);
    name_root();
    pass(lanex_actor_register(executor, "a", 1, NULL, &actor) == 1);
    pass(lanex_port_create(executor, NULL, &port) == 0);
    job.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
    for (unsigned i = 0; i < JOBS; i++)
        pass(lanex_submit(actor, &job, NULL) == 0);
    take_all(port, JOBS);
    wait_for_jobs(executor, actor);
    lanex_port_unref(port);
    lanex_actor_unref(actor);
    pass(lanex_actor_retire(executor, "a", 1) == 0);
    pass(lanex_executor_destroy(executor) == 0);
    /* That it was cancelled all along. AddressSanitizer does not clean the stack of a thread that
     * ends so. */
    if (!LX_TEST_SANITIZED)
        pthread_testcancel();
    LX_REQUIRE(LX_TEST_SANITIZED);
    LX_REQUIRE(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    return NULL;
}

Test(fault_pthread_cancel, no_call_is_a_cancellation_point)
{
    struct refuse_left before;
    pthread_t thread;
    void *result = NULL;

    refuse_install();
    lanex_executor_destroy(lx_test_executor(2));
    before = refuse_count_left();
    cr_assert_eq(pthread_create(&thread, NULL, live_cancelled, NULL), 0);
    cr_assert_eq(pthread_join(thread, &result), 0);
    cr_assert_eq(result, LX_TEST_SANITIZED ? NULL : PTHREAD_CANCELED);
    cr_assert_eq(atomic_load(&passed), 3 * JOBS + 13);
    refuse_must_be(before);
}

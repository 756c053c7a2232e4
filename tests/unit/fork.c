/* A forked child has no threads of lanex's: every call says so, and the parent goes on unharmed. */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(fork, .timeout = 60);

#define IN_FLIGHT 300u
#define DONE      42 /* the exit code of a child that found all as it should be */

struct parent {
    lanex_executor *executor;
    lanex_actor *actor;
    lanex_port *port;
    struct latch may_run;
    struct latch ended;
    lanex_ticket *ticket;
};

static void wait_then_end(lanex_job *job, void *context, void *arg)
{
    struct parent *parent = arg;

    (void)job;
    (void)context;
    latch_wait(&parent->may_run, 1);
}

static void note_end(lanex_completion *completion, void *arg)
{
    struct parent *parent = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    latch_arrive(&parent->ended);
}

static void begin(struct parent *parent)
{
    lanex_job_options options;

    *parent = (struct parent){.executor = lx_test_executor(2)};
    parent->actor = lx_test_actor(parent->executor, 1);
    cr_assert_eq(lanex_port_create(parent->executor, NULL, &parent->port), 0);
    for (unsigned i = 0; i < IN_FLIGHT; i++) {
        options = lx_test_callback_job(i % 3 == 0 ? LANEX_LANE_MUTATING : LANEX_LANE_PURE_READ,
                                       wait_then_end, parent, note_end, parent);
        cr_assert_eq(lanex_submit(parent->actor, &options, NULL), 0);
    }
    options = lx_test_job(LANEX_LANE_PURE_READ, wait_then_end, parent);
    cr_assert_eq(lanex_submit_ticket(parent->actor, &options, &parent->ticket), 0);
}

/* The child is over; everything that was in flight still gets its one completion. */
static void finish(struct parent *parent, pid_t child, int code)
{
    int status;

    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "the child died of signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), code);
    cr_assert_eq(latch_count(&parent->ended), 0);
    latch_arrive(&parent->may_run);
    latch_wait(&parent->ended, IN_FLIGHT);
    cr_assert_eq(lanex_ticket_wait(parent->ticket, LANEX_TIME_NEVER), 0);
    lanex_ticket_drop(parent->ticket);
    cr_assert_eq(lanex_executor_drain(parent->executor, LANEX_TIME_NEVER, NULL), 0);
    cr_assert_eq(latch_count(&parent->ended), IN_FLIGHT);
    lx_test_at_rest(parent->executor);
    lanex_port_unref(parent->port);
    lanex_actor_unref(parent->actor);
    cr_assert_eq(lanex_executor_destroy(parent->executor), 0);
}

Test(fork, the_child_leaves_by__exit)
{
    struct parent parent;

    begin(&parent);
    pid_t child = fork();
    if (child == 0)
        _exit(DONE);
    finish(&parent, child, DONE);
}

Test(fork, the_child_execs)
{
    struct parent parent;

    begin(&parent);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    finish(&parent, child, 0);
}

/* exit() runs what atexit has: nothing of lanex's. Not under sanitizers, whose own exit is at
 * stake. */
Test(fork, the_child_exits)
{
    struct parent parent;

    if (LX_TEST_SANITIZED)
        cr_skip("a sanitizer runs checks of its own at exit");
    begin(&parent);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        exit(DONE);
    }
    finish(&parent, child, DONE);
}

#define IN_CHILD(condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "in the child, line %d: not %s\n", __LINE__, #condition);              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void call_everything(struct parent *parent)
{
    lanex_executor *executor = parent->executor;
    lanex_actor *actor = parent->actor, *found;
    lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, wait_then_end, parent);
    lanex_submission submission = {actor, &options};
    lanex_config config = {.size = sizeof config};
    lanex_completion *completion;
    lanex_ticket *ticket;
    lanex_port *port;
    unsigned key = 1;

    IN_CHILD(lanex_submit(actor, &options, NULL) == -ECHILD);
    IN_CHILD(lanex_submit_ticket(actor, &options, &ticket) == -ECHILD);
    IN_CHILD(lanex_submit_by_key(executor, &key, sizeof key, &options, NULL) == -ECHILD);
    IN_CHILD(lanex_submit_batch(&submission, 1, NULL) == -ECHILD);
    IN_CHILD(lanex_cancel(executor, 1) == -ECHILD);
    IN_CHILD(lanex_ticket_wait(parent->ticket, LANEX_TIME_NEVER) == -ECHILD);
    IN_CHILD(lanex_ticket_wait(parent->ticket, 0) == -ECHILD);
    IN_CHILD(lanex_ticket_poll(parent->ticket) == -ECHILD);
    lanex_ticket_drop(parent->ticket);
    IN_CHILD(lanex_actor_register(executor, "x", 1, NULL, &found) == -ECHILD);
    IN_CHILD(lanex_actor_lookup(executor, &key, sizeof key, &found) == -ECHILD);
    IN_CHILD(lanex_actor_remove(executor, &key, sizeof key) == -ECHILD);
    IN_CHILD(lanex_actor_retire(executor, &key, sizeof key) == -ECHILD);
    IN_CHILD(lanex_actor_cancel_queued_maintenance(executor, &key, sizeof key) == -ECHILD);
    IN_CHILD(lanex_port_create(executor, NULL, &port) == -ECHILD);
    IN_CHILD(lanex_port_drain(parent->port, &completion, 1) == -ECHILD);
    IN_CHILD(lanex_port_detach(parent->port) == -ECHILD);
    IN_CHILD(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL) == -ECHILD);
    IN_CHILD(lanex_executor_config(executor, &config) == -ECHILD);
    IN_CHILD(lanex_executor_destroy(executor) == -ECHILD);
    lanex_port_unref(parent->port);
    lanex_actor_unref(lanex_actor_ref(actor));
    lanex_actor_unref(actor);
    lanex_executor_unref(executor);
    /* Nothing was freed by that. */
    IN_CHILD(lanex_submit(actor, &options, NULL) == -ECHILD);
}

Test(fork, every_call_in_the_child_says_so_and_does_nothing)
{
    struct parent parent;

    begin(&parent);
    pid_t child = fork();
    if (child == 0) {
        call_everything(&parent);
        _exit(DONE);
    }
    finish(&parent, child, DONE);
}

static void count_run(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* Threads after a fork of a threaded process are no use under ThreadSanitizer. */
Test(fork, the_child_makes_an_executor_of_its_own)
{
    struct parent parent;

    if (LX_TEST_SANITIZED)
        cr_skip("sanitizers do not support threads in a child of a threaded process");
    begin(&parent);
    pid_t child = fork();
    if (child == 0) {
        lanex_executor *executor = lx_test_executor(2);
        lanex_actor *actor = lx_test_actor(executor, 1);
        atomic_uint runs = 0;
        lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, count_run, &runs);

        for (unsigned i = 0; i < 100; i++)
            IN_CHILD(lanex_submit(actor, &options, NULL) == 0);
        IN_CHILD(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL) == 0);
        IN_CHILD(atomic_load(&runs) == 100);
        lanex_actor_unref(actor);
        IN_CHILD(lanex_executor_destroy(executor) == 0);
        _exit(DONE);
    }
    finish(&parent, child, DONE);
}

/* Leaving main with everything under way: in a process of its own, made before any thread. */
Test(fork, a_process_may_end_without_destroy)
{
    if (LX_TEST_SANITIZED)
        cr_skip("a sanitizer reports what is left at exit, as it should");
    for (unsigned round = 0; round < 20; round++) {
        int status;
        pid_t child = fork();

        if (child == 0) {
            struct parent *parent = calloc(1, sizeof *parent);
            parent->executor = lx_test_executor(2);
            parent->actor = lx_test_actor(parent->executor, 1);
            latch_arrive(&parent->may_run);
            for (unsigned i = 0; i < IN_FLIGHT; i++) {
                lanex_job_options options = lx_test_callback_job(
                    LANEX_LANE_PURE_READ, wait_then_end, parent, note_end, parent);
                IN_CHILD(lanex_submit(parent->actor, &options, NULL) == 0);
            }
            exit(DONE);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == DONE, "status %x", (unsigned)status);
    }
}

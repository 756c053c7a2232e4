/*
 * A process that is stopped and continued again and again (SIGSTOP, SIGCONT, as by a debugger, a
 * job-control shell or a freezer) in the middle of everything: nothing is lost, and what became due
 * meanwhile is answered afterwards.
 *
 * The load runs in a child, which tells of its progress by a pipe; the parent stops it, sees that
 * it has stopped, holds it for some time and lets it go on, and says by another pipe when it is
 * enough.
 */
#include "mixed.h"
#include "tests/support/lx_left.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(stopped); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define JOBS         40000u /* of a round */
#define SUBMITTERS   2u
#define MARK_EVERY   200u /* jobs between two words to the parent */
#define STOPS        150u /* of the short form */
#define HELD_NS_MAX  3000000u
#define ALL_WAS_WELL 42 /* the child's exit code */

static struct mixed mixed;

struct pipes {
    int progress[2];
    int enough[2];
};

/* ---- the child ---- */

static void tell_progress(void *arg, uint64_t number)
{
    const int *fd = arg;
    const char mark = 0;

    if (number % MARK_EVERY != 0)
        return;
    /* A full pipe: the parent has enough to read. */
    while (write(*fd, &mark, 1) < 0 && errno != EAGAIN)
        LX_REQUIRE(errno == EINTR);
}

static void one_round(struct pipes *pipes, struct lx_rng *rng)
{
    struct mixed_options options = {
        .jobs = lx_test_scaled(JOBS),
        .seed = lx_rng_next(rng),
        .submitters = SUBMITTERS,
        .executor = lx_test_executor_options((unsigned)lx_rng_between(rng, 2, 8)),
        .before_job = tell_progress,
        .arg = &pipes->progress[1],
    };

    mixed_begin(&mixed, &options);
    mixed_end(&mixed);
}

/* Rounds until the parent says that it is enough. */
static _Noreturn void run_load(struct pipes *pipes, uint64_t seed)
{
    struct pollfd enough = {.fd = pipes->enough[0], .events = POLLIN};
    struct lx_rng rng = lx_rng_seeded(seed);
    struct lx_test_left before;

    LX_REQUIRE(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    (void)signal(SIGABRT, SIG_DFL); /* what fails here is for the parent to report */
    one_round(pipes, &rng);         /* with what the C library makes once */
    before = lx_test_left();
    do
        one_round(pipes, &rng);
    while (poll(&enough, 1, 0) <= 0);
    lx_test_nothing_left(before);
    _exit(ALL_WAS_WELL);
}

/* ---- the parent ---- */

static void hold(struct lx_rng *rng)
{
    struct timespec held = {.tv_nsec = (long)lx_rng_below(rng, HELD_NS_MAX)};

    if (lx_rng_percent(rng, 70))
        (void)nanosleep(&held, NULL);
}

static void stop_once(pid_t child, const struct pipes *pipes, struct lx_rng *rng)
{
    char marks[64];
    int status = 0;

    cr_assert_gt(read(pipes->progress[0], marks, lx_rng_between(rng, 1, sizeof marks)), 0,
                 "the load has ended");
    cr_assert_eq(kill(child, SIGSTOP), 0);
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    cr_assert(WIFSTOPPED(status), "the child ended with status %x", (unsigned)status);
    hold(rng);
    cr_assert_eq(kill(child, SIGCONT), 0);
    cr_assert_eq(waitpid(child, &status, WCONTINUED), child);
    cr_assert(WIFCONTINUED(status), "the child ended with status %x", (unsigned)status);
}

Test(stopped, again_and_again_loses_nothing)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t end = lx_test_soak_end_ns(1);
    uint64_t seed = lx_rng_next(&rng);
    struct pipes pipes;
    unsigned stops = 0;
    int status;
    pid_t child;

    cr_assert_eq(pipe2(pipes.progress, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(pipes.enough, O_CLOEXEC), 0);
    cr_assert_eq(fcntl(pipes.progress[1], F_SETFL, O_NONBLOCK), 0);
    child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        close(pipes.progress[0]);
        close(pipes.enough[1]);
        run_load(&pipes, seed);
    }
    close(pipes.progress[1]); /* so that the parent sees the child's end */
    close(pipes.enough[0]);
    for (; stops < STOPS || lx_test_now_ns() < end; stops++)
        stop_once(child, &pipes, &rng);
    cr_assert_eq(write(pipes.enough[1], "", 1), 1);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == ALL_WAS_WELL, "status %x",
              (unsigned)status);
    close(pipes.progress[0]);
    close(pipes.enough[1]);
    fprintf(stderr, "[----] stopped %u times\n", stops);
}

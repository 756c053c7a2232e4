/*
 * Clocks that are not as one expects. The wall clock may jump as it likes: lanex neither reads it
 * nor sleeps by it, which the linker sees to (--wrap), so nothing has to set the machine's. And the
 * monotonic clock may say anything: just after boot, where "a minute ago" is before its zero, or
 * after a hundred years; a time namespace of the test's own tells it so.
 */
#include "mixed.h"
#include "tests/support/lx_left.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(clocks); /* share LANEX_SOAK_SECONDS: no timeout of their own */

#define TESTS 3u /* that share the time of a soak */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#define IO_URING_REGISTER_CLOCK 29L /* which clock the waits in a ring go by (Linux 6.12) */

#define JOBS         40000u /* of a round */
#define SUBMITTERS   2u
#define NS_PER_S     UINT64_C(1000000000)
#define SHORT_NS     UINT64_C(1000000)  /* a wait that times out */
#define DEADLINE_NS  UINT64_C(20000000) /* of a job that has to wait for longer */
#define WILD_S       1000000000         /* the wall clock jumps by up to so much either way */
#define YEAR_S       (UINT64_C(365) * 24 * 3600)
#define ALL_WAS_WELL 42 /* a child's exit code */

static struct mixed mixed;

/* ---- what the linker catches ---- */

static _Atomic uint64_t wall_reads, monotonic_reads;
static _Atomic uint64_t wall_waits, monotonic_waits, monotonic_pair_waits;
static _Atomic uint64_t clocks_registered;

int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static bool is_monotonic(clockid_t clock)
{
    return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int rc = __real_clock_gettime(clock, ret_time);

    if (is_monotonic(clock)) {
        atomic_fetch_add_explicit(&monotonic_reads, 1, memory_order_relaxed);
    } else {
        uint64_t jumps = atomic_fetch_add(&wall_reads, 1);
        struct lx_rng rng = lx_rng_seeded(jumps);
        ret_time->tv_sec += (time_t)lx_rng_below(&rng, 2 * WILD_S) - WILD_S;
    }
    return rc;
}

static void look_at_wait(long number, const long *a)
{
    if (number == SYS_futex && a[3] != 0 && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)
        atomic_fetch_add((a[1] & FUTEX_CLOCK_REALTIME) != 0 ? &wall_waits : &monotonic_waits, 1);
    if (number == SYS_futex_waitv && a[3] != 0)
        atomic_fetch_add(a[4] == CLOCK_MONOTONIC ? &monotonic_pair_waits : &wall_waits, 1);
    if (number == SYS_io_uring_register && a[1] == IO_URING_REGISTER_CLOCK)
        atomic_fetch_add(&clocks_registered, 1);
}

long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list args;

    va_start(args, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    look_at_wait(number, a);
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- timed waits of each kind ---- */

struct blocked {
    struct latch begun, may_end;
};

static void block(lanex_job *job, void *context, void *arg)
{
    struct blocked *blocked = arg;

    (void)job;
    (void)context;
    latch_arrive(&blocked->begun);
    latch_wait(&blocked->may_end, 1);
}

/* One job runs, and not for long yet, whatever the clock says. */
static void look_at_ages(lanex_executor *executor)
{
    const uint64_t hang_ms = lx_test_liveness_s() * UINT64_C(1000);
    lanex_liveness liveness = {.size = sizeof liveness};
    lanex_running_jobs *jobs;

    LX_REQUIRE(lanex_executor_census(executor, hang_ms, &jobs) == 0);
    LX_REQUIRE(jobs->count == 0);
    lanex_running_jobs_free(jobs);
    LX_REQUIRE(lanex_executor_census(executor, 0, &jobs) == 0);
    LX_REQUIRE(jobs->count == 1 && jobs->jobs[0].age_ms < hang_ms);
    lanex_running_jobs_free(jobs);
    LX_REQUIRE(lanex_executor_liveness(executor, &liveness) == 0);
    LX_REQUIRE(liveness.oldest_age_ms[0] == LANEX_AGE_NONE || liveness.oldest_age_ms[0] < hang_ms);
}

/* Behind a job that blocks: a job with a deadline, and waits that give up. */
static void wait_in_vain(lanex_executor *executor)
{
    struct blocked blocked = {LATCH_INIT, LATCH_INIT};
    lanex_actor *actor = lx_test_actor(executor, 1);
    lanex_job_options first = lx_test_job(LANEX_LANE_MUTATING, block, &blocked), late;
    lanex_epoch *epoch = lanex_actor_epoch(actor);
    lanex_cancellation *token;
    lanex_ticket *begun, *expired;
    uint64_t due;

    LX_REQUIRE(lanex_cancellation_create(&token) == 0);
    LX_REQUIRE(lanex_submit_ticket(actor, &first, &begun) == 0);
    latch_wait(&blocked.begun, 1);
    late = first;
    due = late.deadline_ns = lx_test_now_ns() + DEADLINE_NS;
    LX_REQUIRE(lanex_submit_ticket(actor, &late, &expired) == 0);
    look_at_ages(executor);
    LX_REQUIRE(lanex_ticket_wait(begun, SHORT_NS) == -ETIMEDOUT);
    LX_REQUIRE(lanex_epoch_read_acquire_until(epoch, lx_test_now_ns() + SHORT_NS, NULL) ==
               -ETIMEDOUT);
    LX_REQUIRE(lanex_epoch_write_acquire_until(epoch, lx_test_now_ns() + SHORT_NS, token) ==
               -ETIMEDOUT);
    LX_REQUIRE(lanex_ticket_wait(expired, LANEX_TIME_NEVER) == 0);
    LX_REQUIRE(lx_test_now_ns() >= due);
    LX_REQUIRE(lanex_completion_status(lanex_ticket_completion(expired)) ==
               LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
    LX_REQUIRE(lanex_executor_drain(executor, SHORT_NS, NULL) == -ETIMEDOUT);
    latch_arrive(&blocked.may_end);
    LX_REQUIRE(lanex_ticket_wait(begun, LANEX_TIME_NEVER) == 0);
    lanex_ticket_drop(begun);
    lanex_ticket_drop(expired);
    lanex_cancellation_unref(token);
    lanex_actor_unref(actor);
}

static void one_round(struct lx_rng *rng)
{
    struct mixed_options options = {
        .jobs = lx_test_scaled(JOBS),
        .seed = lx_rng_next(rng),
        .submitters = SUBMITTERS,
        .executor = lx_test_executor_options((unsigned)lx_rng_between(rng, 2, 8)),
    };
    lanex_executor *executor = lx_test_executor(2);

    mixed_begin(&mixed, &options);
    wait_in_vain(executor);
    mixed_end(&mixed);
    LX_REQUIRE(lanex_executor_destroy(executor) == 0);
}

/* ---- the wall clock ---- */

Test(clocks, the_wall_clock_is_neither_read_nor_slept_by)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t end = lx_test_soak_end_ns(TESTS);
    struct timespec now;

    do
        one_round(&rng);
    while (lx_test_now_ns() < end);
    cr_assert_eq(atomic_load(&wall_reads), 0);
    cr_assert_eq(atomic_load(&wall_waits), 0);
    cr_assert_eq(atomic_load(&clocks_registered), 0);
    fprintf(stderr, "[----] %lu reads, %lu timed waits, %lu for two words\n",
            (unsigned long)atomic_load(&monotonic_reads),
            (unsigned long)atomic_load(&monotonic_waits),
            (unsigned long)atomic_load(&monotonic_pair_waits));
    /* The linker does see what there is. */
    cr_assert_gt(atomic_load(&monotonic_reads), 0);
    cr_assert_gt(atomic_load(&monotonic_waits), 0);
    cr_assert_gt(atomic_load(&monotonic_pair_waits), 0);
    cr_assert_eq(clock_gettime(CLOCK_REALTIME, &now), 0);
    cr_assert_eq(atomic_load(&wall_reads), 1);
}

/* ---- the monotonic clock ---- */

/* The children of this process get a clock that says about `first_s` when they begin; 0, or the
 * errno of what is not permitted. */
static int move_clock_of_children(uint64_t first_s)
{
    char text[64];
    int64_t by = (int64_t)first_s - (int64_t)(lx_test_now_ns() / NS_PER_S);
    int length = snprintf(text, sizeof text, "monotonic %ld 0", (long)by), fd, rc = 0;

    /* Without privileges, in a user namespace of its own. */
    if (unshare(CLONE_NEWTIME) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0)
        return errno;
    fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (write(fd, text, (size_t)length) != length)
        rc = errno;
    close(fd);
    return rc;
}

static _Noreturn void run_rounds(uint64_t first_s, uint64_t seed)
{
    struct lx_rng rng = lx_rng_seeded(seed);
    uint64_t end = lx_test_soak_end_ns(TESTS);
    struct lx_test_left before;

    LX_REQUIRE(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    (void)signal(SIGABRT, SIG_DFL); /* what fails here is for the parent to report */
    LX_REQUIRE(lx_test_now_ns() / NS_PER_S - first_s < lx_test_liveness_s());
    one_round(&rng); /* with what the C library makes once */
    before = lx_test_left();
    do
        one_round(&rng);
    while (lx_test_now_ns() < end);
    lx_test_nothing_left(before);
    _exit(ALL_WAS_WELL);
}

static void with_clock_at(uint64_t first_s)
{
    uint64_t seed = lx_test_seed();
    int refused = move_clock_of_children(first_s), status;
    pid_t child;

    if (refused != 0)
        cr_skip("no time namespace for a test here: %s", strerror(refused));
    child = fork();
    cr_assert_geq(child, 0);
    if (child == 0)
        run_rounds(first_s, seed);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == ALL_WAS_WELL, "status %x",
              (unsigned)status);
}

Test(clocks, a_monotonic_clock_that_has_just_begun)
{
    with_clock_at(0);
}

Test(clocks, a_monotonic_clock_of_a_hundred_years)
{
    with_clock_at(100 * YEAR_S);
}

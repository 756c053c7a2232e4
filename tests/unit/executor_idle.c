/* An executor with nothing to do: it uses no CPU, reads as idle, and takes no signals. */
#include "tests/support/lx_executor.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

TestSuite(idle, .timeout = 60);

#define ACTORS    1000u
#define SILENCE_S 2
/*
 * CPU time, ns, that the whole process may use in that time. Nothing is due, so each thread sleeps
 * once; what remains is the test's own sleep and what the kernel bills for interrupts, which a
 * loaded machine makes more of.
 */
#define CPU_MOST_NS (LX_TEST_SANITIZED ? 20000000 : 2000000)
/* Turns, and wakes, that may still come behind the last job: drain returns once all ended, while
 * threads that were told of it look once more. A timer that goes on would make hundreds. */
#define LATE 4

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static void idle(uint32_t spin_us)
{
    lanex_executor_options idle_options = lx_test_executor_options(4);
    lanex_executor *executor;
    lanex_actor **actors = calloc(ACTORS, sizeof *actors);
    lanex_counters before = {.size = sizeof before}, after = {.size = sizeof after};

    idle_options.spin_us = spin_us;
    cr_assert_eq(lanex_executor_create(&idle_options, &executor), 0);
    for (unsigned i = 0; i < ACTORS; i++)
        actors[i] = lx_test_actor(executor, i);
    for (unsigned i = 0; i < ACTORS; i++) {
        lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
        cr_assert_eq(lanex_submit(actors[i], &options, NULL), 0);
    }
    /* A drained executor takes no jobs, and idles like any other. */
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    cr_assert_eq(lanex_executor_counters(executor, &before), 0);
    cr_assert_eq(before.actors, ACTORS);
    cr_assert_eq(before.completed[0], ACTORS);

    struct timespec silence = {.tv_sec = SILENCE_S};
    uint64_t used = cpu_ns();
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &silence, &silence) != 0)
        ;
    used = cpu_ns() - used;

    lx_test_at_rest(executor);
    cr_assert_eq(lanex_executor_counters(executor, &after), 0);
    fprintf(stderr, "[----] %lu us of CPU, %lu turns and %lu wakes in %d s\n",
            (unsigned long)(used / 1000), (unsigned long)(after.turns - before.turns),
            (unsigned long)(after.wakes - before.wakes), SILENCE_S);
    cr_assert_lt(used, CPU_MOST_NS);
    cr_assert_leq(after.turns - before.turns, LATE);
    cr_assert_leq(after.wakes - before.wakes, LATE);
    for (unsigned i = 0; i < ACTORS; i++)
        lanex_actor_unref(actors[i]);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    free(actors);
}

Test(idle, a_thousand_actors_cost_nothing)
{
    idle(0);
}

/* The last spins are part of what is measured. */
Test(idle, nor_do_they_where_threads_spin_before_they_sleep)
{
    idle(50);
}

/* ---- signals ---- */

static pid_t test_thread;
static atomic_uint handled;
static atomic_uint elsewhere;

static void on_signal(int signo)
{
    (void)signo;
    atomic_fetch_add(syscall(SYS_gettid) == test_thread ? &handled : &elsewhere, 1);
}

static void keep_busy(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    latch_wait(arg, 1);
}

/* What `SigBlk` of a thread's status says, and its name. */
static uint64_t blocked_signals(const char *task, char name[32])
{
    char path[300], line[200];
    uint64_t mask = 0;

    snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "r");
    LX_REQUIRE(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "Name: %31s", name);
        sscanf(line, "SigBlk: %lx", &mask);
    }
    fclose(file);
    return mask;
}

static unsigned check_masks(unsigned pool)
{
    static const int open_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    unsigned seen = 0, named = 0;
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;

    while ((entry = readdir(folder)) != NULL) {
        char name[32] = "";
        if (entry->d_name[0] == '.')
            continue;
        uint64_t mask = blocked_signals(entry->d_name, name);
        if (strncmp(name, "lanex-", 6) != 0)
            continue;
        seen++;
        named += strcmp(name, "lanex-sched") == 0 || strcmp(name, "lanex-reap") == 0;
        for (int signo = 1; signo < 32; signo++) {
            bool open = signo == SIGKILL || signo == SIGSTOP;
            for (size_t i = 0; i < sizeof open_signals / sizeof *open_signals; i++)
                open = open || signo == open_signals[i];
            cr_assert_eq((mask >> (signo - 1)) & 1, !open, "%s: signal %d", name, signo);
        }
    }
    closedir(folder);
    cr_assert_eq(named, 2);
    cr_assert_eq(seen, pool + 2);
    return seen;
}

Test(idle, signals_to_the_process_run_on_other_threads)
{
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGPROF};
    lanex_executor *executor = lx_test_executor(4);
    lanex_actor *actors[2] = {lx_test_actor(executor, 1), lx_test_actor(executor, 2)};
    struct latch may_end = LATCH_INIT;
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t all, before;
    unsigned sent = 0;

    check_masks(4);
    test_thread = (pid_t)syscall(SYS_gettid);
    /* Some threads busy, some asleep. */
    for (unsigned i = 0; i < 2; i++) {
        lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, keep_busy, &may_end);
        cr_assert_eq(lanex_submit(actors[i], &options, NULL), 0);
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        cr_assert_eq(sigaction(signals[i], &action, NULL), 0);
    sigfillset(&all);
    /* Blocked here, a signal would go to any thread that takes it: none of lanex's may. */
    for (unsigned round = 0; round < 50; round++) {
        cr_assert_eq(pthread_sigmask(SIG_BLOCK, &all, &before), 0);
        for (size_t i = 0; i < sizeof signals / sizeof *signals; i++, sent++)
            cr_assert_eq(kill(getpid(), signals[i]), 0);
        cr_assert_eq(atomic_load(&elsewhere), 0);
        cr_assert_eq(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    }
    LX_EVENTUALLY(atomic_load(&handled) + atomic_load(&elsewhere) >= sent);
    cr_assert_eq(atomic_load(&elsewhere), 0);
    cr_assert_eq(atomic_load(&handled), sent);
    latch_arrive(&may_end);
    lanex_actor_unref(actors[0]);
    lanex_actor_unref(actors[1]);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

Test(idle, sigprof_stays_open_by_option)
{
    lanex_executor_options options = lx_test_executor_options(2);
    lanex_executor *executor;
    DIR *folder;
    struct dirent *entry;
    unsigned seen = 0;

    options.flags = LANEX_EXECUTOR_ALLOW_SIGPROF;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    folder = opendir("/proc/self/task");
    while ((entry = readdir(folder)) != NULL) {
        char name[32] = "";
        if (entry->d_name[0] == '.')
            continue;
        uint64_t mask = blocked_signals(entry->d_name, name);
        if (strncmp(name, "lanex-", 6) != 0)
            continue;
        seen++;
        cr_assert_eq((mask >> (SIGPROF - 1)) & 1, 0);
        cr_assert_eq((mask >> (SIGTERM - 1)) & 1, 1);
    }
    closedir(folder);
    cr_assert_eq(seen, 4);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/*
 * A profiler's signals: SIGPROF a thousand times a second to the process and to each of its
 * threads, while jobs, submissions and waits of all kinds go on. Nothing that a signal interrupts
 * is lost, with SA_RESTART or without; and an executor that was not asked to let SIGPROF in keeps
 * it off its threads.
 */
#include "mixed.h"
#include "tests/support/lx_left.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

TestSuite(sigprof); /* share LANEX_SOAK_SECONDS: no timeout of their own */

#define TESTS       3u     /* that share the time of a soak */
#define JOBS        30000u /* of a round */
#define SUBMITTERS  3u
#define PERIOD_NS   1000000
#define THREADS_MAX 64u
#define HITS        1000u /* signals that the threads of each side take at least */

/* The threads of a round; the handler only looks and counts. */
static struct thread {
    pid_t tid;
    bool of_lanex;
    timer_t timer;
    atomic_uint hits;
} threads[THREADS_MAX];
static atomic_uint thread_count;
static atomic_uint unknown_hits; /* of threads that were made or gone while the round began */

static struct mixed mixed;

static void take_sample(int signo)
{
    int saved = errno;
    pid_t tid = (pid_t)syscall(SYS_gettid);
    unsigned count = atomic_load(&thread_count);

    (void)signo;
    for (unsigned i = 0; i < count; i++) {
        if (threads[i].tid == tid) {
            atomic_fetch_add(&threads[i].hits, 1);
            errno = saved;
            return;
        }
    }
    atomic_fetch_add(&unknown_hits, 1);
    errno = saved;
}

static bool is_of_lanex(pid_t tid)
{
    char path[64], name[32] = "";
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)tid);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    if (fgets(name, sizeof name, file) == NULL)
        name[0] = '\0';
    fclose(file);
    return strncmp(name, "lanex-", 6) == 0;
}

static void list_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;
    unsigned count = 0;

    LX_REQUIRE(folder != NULL);
    while ((entry = readdir(folder)) != NULL && count < THREADS_MAX) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid == 0)
            continue;
        threads[count].tid = tid;
        threads[count].of_lanex = is_of_lanex(tid);
        atomic_store(&threads[count].hits, 0);
        count++;
    }
    closedir(folder);
    atomic_store(&thread_count, count);
}

/* A timer for each thread, and the process's own, which counts processor time. */
static void start_timers(void)
{
    struct itimerval profile = {{0, PERIOD_NS / 1000}, {0, PERIOD_NS / 1000}};
    struct itimerspec period = {{0, PERIOD_NS}, {0, PERIOD_NS}};

    for (unsigned i = 0; i < atomic_load(&thread_count); i++) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
        event._sigev_un._tid = threads[i].tid;
        /* A submitter that is done already has no thread any more. */
        if (timer_create(CLOCK_MONOTONIC, &event, &threads[i].timer) != 0) {
            LX_REQUIRE(errno == EINVAL);
            threads[i].timer = NULL;
            threads[i].tid = -1;
            continue;
        }
        LX_REQUIRE(timer_settime(threads[i].timer, 0, &period, NULL) == 0);
    }
    LX_REQUIRE(setitimer(ITIMER_PROF, &profile, NULL) == 0);
}

static void stop_timers(void)
{
    const struct itimerval never = {{0, 0}, {0, 0}};

    LX_REQUIRE(setitimer(ITIMER_PROF, &never, NULL) == 0);
    for (unsigned i = 0; i < atomic_load(&thread_count); i++) {
        if (threads[i].tid != -1)
            LX_REQUIRE(timer_delete(threads[i].timer) == 0);
    }
}

struct hits {
    unsigned lanex, others;
};

static void add_hits(struct hits *hits)
{
    for (unsigned i = 0; i < atomic_load(&thread_count); i++)
        *(threads[i].of_lanex ? &hits->lanex : &hits->others) += atomic_load(&threads[i].hits);
    /* Only whoever is known to be of lanex's is off limits. */
    hits->others += atomic_exchange(&unknown_hits, 0);
}

static void one_round(struct lx_rng *rng, bool let_in, struct hits *hits)
{
    struct mixed_options options = {
        .jobs = lx_test_scaled(JOBS),
        .seed = lx_rng_next(rng),
        .submitters = SUBMITTERS,
        .executor = lx_test_executor_options((unsigned)lx_rng_between(rng, 2, 8)),
    };

    options.executor.flags = let_in ? LANEX_EXECUTOR_ALLOW_SIGPROF : 0;
    mixed_begin(&mixed, &options);
    list_threads();
    start_timers();
    mixed_end(&mixed);
    stop_timers();
    add_hits(hits);
}

static void profiled(int flags, bool let_in)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    struct sigaction action = {.sa_handler = take_sample, .sa_flags = flags};
    uint64_t end = lx_test_soak_end_ns(TESTS);
    uint64_t hang = lx_test_now_ns() + lx_test_liveness_s() * UINT64_C(1000000000);
    struct lx_test_left before;
    struct hits hits = {0, 0};
    unsigned rounds = 0;
    bool enough;

    cr_assert_eq(sigaction(SIGPROF, &action, NULL), 0);
    one_round(&rng, let_in, &hits); /* with what the C library makes once */
    before = lx_test_left();
    do {
        one_round(&rng, let_in, &hits);
        rounds++;
        enough = hits.others >= HITS && (!let_in || hits.lanex >= HITS);
        cr_assert(enough || lx_test_now_ns() < hang, "%u and %u signals", hits.lanex, hits.others);
    } while (!enough || lx_test_now_ns() < end);
    lx_test_nothing_left(before);
    if (!let_in)
        cr_assert_eq(hits.lanex, 0, "%u signals ran on threads of lanex's", hits.lanex);
    fprintf(stderr, "[----] %u rounds; signals: %u on lanex's threads, %u on others\n", rounds + 1,
            hits.lanex, hits.others);
}

/* ThreadSanitizer (clang 14) handles a signal inside its own free(), and waits there for a lock
 * that the interrupted part of it holds: one run in twenty at a thousand signals a second. */
static void leave_out_thread_sanitizer(void)
{
    if (LX_TEST_THREAD_SANITIZER)
        cr_skip("ThreadSanitizer waits for itself in a handler");
}

Test(sigprof, interrupts_nothing_with_restart)
{
    leave_out_thread_sanitizer();
    profiled(SA_RESTART, true);
}

Test(sigprof, interrupts_nothing_without_restart)
{
    leave_out_thread_sanitizer();
    profiled(0, true);
}

Test(sigprof, stays_off_lanexs_threads_unless_asked_for)
{
    leave_out_thread_sanitizer();
    profiled(0, false);
}

/* The runner behind lx_shim.h: main, one child process per test, Criterion's closing line. */
#include "lx_test.h"

#include "lx_shim.h"

#include <errno.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A .timeout was chosen for a plain build; this runner serves sanitizers, which slow everything. */
#define TIMEOUT_FACTOR 8.0
#define MAX_JOBS       64
#define NS_PER_S       1e9

/* What a child tells the parent; shared memory, since exit codes may belong to the test. */
struct verdict {
    int failed;   /* failed assertions */
    int finished; /* the test function came to its end, or skipped */
    int skipped;
    char reason[256];
};

struct child {
    pid_t pid; /* 0 is a free place */
    struct lx_shim_test *test;
    struct verdict *verdict;
    uint64_t start_ns;
    bool killed;
};

struct totals {
    unsigned tested, passing, failing, crashing, skipped;
};

static struct lx_shim_test *tests;
static struct lx_shim_test **tests_tail = &tests;
static struct lx_shim_test *suites;

/* In a child: where a failed or skipped test leaves to, and which thread may do so. */
static sigjmp_buf leave_test;
static pid_t test_thread;
static struct verdict *own_verdict;

void lx_shim_register(struct lx_shim_test *test)
{
    *tests_tail = test;
    tests_tail = &test->next_;
}

void lx_shim_register_suite(struct lx_shim_test *suite)
{
    suite->next_ = suites;
    suites = suite;
}

int lx_shim_strcmp(const char *a, const char *b)
{
    if (a == NULL || b == NULL) {
        return (a != NULL) - (b != NULL);
    }
    return strcmp(a, b);
}

static bool in_test_thread(void)
{
    return (pid_t)syscall(SYS_gettid) == test_thread;
}

void lx_shim_failed(bool fatal, const char *file, int line, const char *condition,
                    const char *format, ...)
{
    char text[512] = "";

    if (format != NULL) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(text, sizeof(text), format, args);
        va_end(args);
    }
    (void)fprintf(stderr, "[----] %s:%d: Assertion Failed\n[----]   %s\n[----]   %s\n", file, line,
                  condition, text);
    if (!in_test_thread()) {
        lx_test_die(file, line, "a cr_ macro belongs to the test's own thread: use LX_REQUIRE");
    }
    own_verdict->failed++;
    if (fatal) {
        siglongjmp(leave_test, 1);
    }
}

_Noreturn void lx_shim_skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(own_verdict->reason, sizeof(own_verdict->reason), format, args);
    va_end(args);
    own_verdict->skipped = 1;
    siglongjmp(leave_test, 1);
}

void lx_shim_log(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)fprintf(stderr, "[----] %s\n", text);
}

/* A suite's settings reach the tests that do not have their own. */
static void inherit_suites(void)
{
    for (struct lx_shim_test *test = tests; test != NULL; test = test->next_) {
        for (const struct lx_shim_test *suite = suites; suite != NULL; suite = suite->next_) {
            if (strcmp(suite->suite_, test->suite_) != 0) {
                continue;
            }
            test->init = test->init != NULL ? test->init : suite->init;
            test->fini = test->fini != NULL ? test->fini : suite->fini;
            test->timeout = test->timeout > 0 ? test->timeout : suite->timeout;
            test->signal = test->signal != 0 ? test->signal : suite->signal;
            test->exit_code = test->exit_code != 0 ? test->exit_code : suite->exit_code;
            test->disabled = test->disabled || suite->disabled;
        }
    }
}

static bool selected(const struct lx_shim_test *test, const char *filter)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", test->suite_, test->name_);
    return filter == NULL || fnmatch(filter, path, FNM_EXTMATCH) == 0;
}

/* Criterion's form, but with one heading per run of tests of a suite. */
static void list(void)
{
    const char *suite = "";

    for (const struct lx_shim_test *test = tests; test != NULL; test = test->next_) {
        if (strcmp(test->suite_, suite) != 0) {
            suite = test->suite_;
            (void)printf("%s:\n", suite);
        }
        (void)printf("|-- %s%s\n", test->name_, test->disabled ? " (skipped)" : "");
    }
}

static _Noreturn void run_in_child(struct lx_shim_test *test, struct verdict *verdict,
                                   const sigset_t *old_mask)
{
    own_verdict = verdict;
    test_thread = (pid_t)syscall(SYS_gettid);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sigprocmask(SIG_SETMASK, old_mask, NULL);
    if (sigsetjmp(leave_test, 1) == 0) {
        if (test->init != NULL) {
            test->init();
        }
        test->body_();
    }
    if (test->fini != NULL && sigsetjmp(leave_test, 1) == 0) {
        test->fini();
    }
    verdict->finished = 1;
    /* exit, not _exit: the sanitizer reports at exit. */
    exit(verdict->failed != 0 ? 1 : 0);
}

static void start(struct child *child, struct lx_shim_test *test, const sigset_t *old_mask)
{
    struct verdict *verdict =
        mmap(NULL, sizeof(*verdict), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (verdict == MAP_FAILED) {
        lx_test_die(__FILE__, __LINE__, "mmap: %s", strerror(errno));
    }
    (void)fflush(NULL);
    *child = (struct child){.test = test, .verdict = verdict, .start_ns = lx_test_now_ns()};
    pid_t pid = fork();
    if (pid < 0) {
        lx_test_die(__FILE__, __LINE__, "fork: %s", strerror(errno));
    }
    if (pid == 0) {
        run_in_child(test, verdict, old_mask);
    }
    child->pid = pid;
}

static void judge(const struct child *child, int status, struct totals *totals)
{
    const struct lx_shim_test *test = child->test;
    const struct verdict *verdict = child->verdict;
    const double seconds = (double)(lx_test_now_ns() - child->start_ns) / NS_PER_S;
    const bool signalled = WIFSIGNALED(status);
    const bool as_expected = test->signal != 0
                                 ? signalled && WTERMSIG(status) == test->signal
                                 : WIFEXITED(status) && WEXITSTATUS(status) == test->exit_code &&
                                       (verdict->finished == (test->exit_code == 0));

    if (verdict->skipped && verdict->failed == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        totals->skipped++;
        (void)fprintf(stderr, "[SKIP] %s::%s: %s\n", test->suite_, test->name_, verdict->reason);
        return;
    }
    totals->tested++;
    if (as_expected && verdict->failed == 0 && !child->killed) {
        totals->passing++;
        (void)fprintf(stderr, "[PASS] %s::%s: (%.2fs)\n", test->suite_, test->name_, seconds);
        return;
    }
    totals->failing++;
    if (child->killed) {
        (void)fprintf(stderr, "[FAIL] %s::%s: Timed out. (%.2fs)\n", test->suite_, test->name_,
                      seconds);
        return;
    }
    if (signalled) {
        totals->crashing++;
        (void)fprintf(stderr, "[FAIL] %s::%s: CRASH! %s (%.2fs)\n", test->suite_, test->name_,
                      strsignal(WTERMSIG(status)), seconds);
        return;
    }
    (void)fprintf(stderr, "[FAIL] %s::%s: exit code %d%s (%.2fs)\n", test->suite_, test->name_,
                  WEXITSTATUS(status), verdict->finished ? "" : ", before the test function's end",
                  seconds);
}

/* Ends what is over its time; the soak sets no limit. */
static void enforce_timeouts(struct child *children, unsigned jobs)
{
    for (unsigned i = 0; i < jobs; i++) {
        struct child *child = &children[i];
        if (child->pid == 0 || child->killed || child->test->timeout <= 0 ||
            lx_test_soak_seconds() != 0) {
            continue;
        }
        const double limit_ns = child->test->timeout * TIMEOUT_FACTOR * NS_PER_S;
        if ((double)(lx_test_now_ns() - child->start_ns) > limit_ns) {
            child->killed = true;
            (void)kill(child->pid, SIGKILL);
        }
    }
}

/* Waits for a child's end, or a little while, so that timeouts are seen. */
static void reap(struct child *children, unsigned jobs, const sigset_t *chld, struct totals *totals)
{
    const struct timespec look_again = {.tv_nsec = 100 * 1000 * 1000};
    int status = 0;

    (void)sigtimedwait(chld, NULL, &look_again);
    for (unsigned i = 0; i < jobs; i++) {
        struct child *child = &children[i];
        if (child->pid != 0 && waitpid(child->pid, &status, WNOHANG) == child->pid) {
            judge(child, status, totals);
            (void)munmap(child->verdict, sizeof(*child->verdict));
            child->pid = 0;
        }
    }
    enforce_timeouts(children, jobs);
}

static struct child *find_child(struct child *children, unsigned jobs, bool busy)
{
    for (unsigned i = 0; i < jobs; i++) {
        if ((children[i].pid != 0) == busy) {
            return &children[i];
        }
    }
    return NULL;
}

static void run(const char *filter, unsigned jobs, struct totals *totals)
{
    struct child children[MAX_JOBS] = {0};
    sigset_t chld;
    sigset_t old_mask;

    (void)sigemptyset(&chld);
    (void)sigaddset(&chld, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &chld, &old_mask);
    for (struct lx_shim_test *test = tests; test != NULL; test = test->next_) {
        if (!selected(test, filter)) {
            continue;
        }
        if (test->disabled) {
            totals->skipped++;
            (void)fprintf(stderr, "[SKIP] %s::%s: Test is disabled\n", test->suite_, test->name_);
            continue;
        }
        struct child *place = find_child(children, jobs, false);
        while (place == NULL) {
            reap(children, jobs, &chld, totals);
            place = find_child(children, jobs, false);
        }
        start(place, test, &old_mask);
    }
    while (find_child(children, jobs, true) != NULL) {
        reap(children, jobs, &chld, totals);
    }
}

/* The value of an option: in the same word (-j2, --filter=x) or the next one. */
static const char *option_value(const char *word, const char *option, const char *next, int *index)
{
    const size_t length = strlen(option);

    if (strncmp(word, option, length) != 0) {
        return NULL;
    }
    if (word[length] == '\0') {
        (*index)++;
        return next;
    }
    return word[length] == '=' ? word + length + 1 : word + length;
}

int main(int argc, char **argv)
{
    const char *filter = NULL;
    unsigned jobs = 1;
    struct totals totals = {0};

    inherit_suites();
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        const char *value = NULL;
        if (strcmp(argv[i], "--list") == 0 || strcmp(argv[i], "-l") == 0) {
            list();
            return 0;
        }
        if ((value = option_value(argv[i], "--filter", next, &i)) != NULL) {
            filter = value;
        } else if ((value = option_value(argv[i], "--jobs", next, &i)) != NULL ||
                   (value = option_value(argv[i], "-j", next, &i)) != NULL) {
            jobs = (unsigned)strtoul(value, NULL, 10);
        }
    }
    jobs = jobs < 1 ? 1 : jobs;
    jobs = jobs > MAX_JOBS ? MAX_JOBS : jobs;
    run(filter, jobs, &totals);
    (void)fprintf(stderr,
                  "[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: %u \n",
                  totals.tested, totals.passing, totals.failing, totals.crashing);
    return totals.failing == 0 ? 0 : 1;
}

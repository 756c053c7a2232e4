/*
 * Create fails clean: whichever thread, allocation, map or descriptor is refused, the errno comes
 * back and no thread, descriptor or memory is left.
 */
#include "refuse.h"

#include "tests/support/lx_executor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(create, .timeout = 120);

#define WORKERS 3u
#define NOBODY  65534

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

/* It works, and leaves nothing behind either. */
static void whole_life(void)
{
    lanex_executor *executor = lx_test_executor(WORKERS);
    lanex_actor *actor = lx_test_actor(executor, 1);
    lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
    lanex_ticket *ticket;

    cr_assert_eq(lanex_submit_ticket(actor, &options, &ticket), 0);
    cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
    lanex_ticket_drop(ticket);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

static uint32_t backend_of(const lanex_executor *executor)
{
    lanex_config config = {.size = sizeof config};

    LX_REQUIRE(lanex_executor_config(executor, &config) == 0);
    return config.backend;
}

/* Create with the k-th call of the kind refused. False if there is no k-th call. */
static bool create_refusing(const lanex_executor_options *options, enum refuse_kind kind,
                            unsigned k, int expected)
{
    lanex_executor *executor = (lanex_executor *)&executor;
    bool was_refused;
    int rc, seen;

    refuse_kth(kind, k);
    errno = 4711;
    rc = lanex_executor_create(options, &executor);
    seen = errno;
    was_refused = refuse_stop() != 0;
    cr_assert_eq(seen, 4711, "errno was touched");
    if (rc < 0) {
        cr_assert(was_refused);
        cr_assert_eq(rc, expected, "call %u: %d", k, rc);
        cr_assert_eq(executor, (lanex_executor *)&executor, "the output was touched on failure");
    } else {
        /* What the probe of the rings lacked is a reason to go without them. */
        cr_assert(!was_refused || (options->backend == LANEX_BACKEND_AUTO &&
                                   backend_of(executor) == LANEX_BACKEND_POLL));
        cr_assert_eq(lanex_executor_destroy(executor), 0);
        cr_assert_eq(errno, 4711, "errno was touched by destroy");
    }
    return was_refused;
}

/* Refuses the k-th call for each k; returns how many calls there were. */
static unsigned refuse_each(enum refuse_kind kind, int expected, uint32_t flags)
{
    lanex_executor_options options = lx_test_executor_options(WORKERS);
    struct refuse_left before;
    unsigned k = 1;

    options.flags = flags;
    refuse_install();
    whole_life();
    before = refuse_count_left();
    for (; create_refusing(&options, kind, k, expected); k++)
        refuse_must_be(before);
    refuse_must_be(before);
    whole_life();
    refuse_must_be(before);
    return k - 1;
}

Test(create, without_a_thread_at_each_start)
{
    /* lanex-reap, lanex-sched and the workers; first, the one that tries whether rings work. */
    unsigned probe = lx_test_env_backend() == LX_TEST_BACKEND_POLL ? 0 : 1;

    cr_assert_eq(refuse_each(REFUSE_THREADS, -EAGAIN, 0), probe + WORKERS + 2);
}

Test(create, without_memory_at_each_allocation)
{
    cr_assert_gt(refuse_each(REFUSE_MEMORY, -ENOMEM, 0), 5);
}

Test(create, without_a_map_at_each_call)
{
    /* The page that tells a forked child, and the workers' stacks for signals. */
    cr_assert_eq(refuse_each(REFUSE_MAPS, -ENOMEM, LANEX_EXECUTOR_CONTAIN_SIGNALS), 1 + WORKERS);
}

/* Chunks are made when the first job needs them: create has nothing to do with that. */
Test(create, without_memory_for_jobs_submit_says_so)
{
    refuse_install();
    whole_life(); /* what the C library and sanitizers make once */
    struct refuse_left before = refuse_count_left();
    lanex_executor *executor = lx_test_executor(WORKERS);
    lanex_actor *actor = lx_test_actor(executor, 1);
    lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);

    options.request_id = "0123456789abcdef01234567";
    options.deadline_ns = UINT64_MAX - 1;
    /* The jobs, the texts, and what a deadline needs: each has a slab of its own, whose first chunk
     * takes a row of its directory and a map. */
    for (unsigned missing = 0; missing < 3; missing++) {
        refuse_kth(REFUSE_MAPS, 1);
        cr_assert_eq(lanex_submit(actor, &options, NULL), -ENOMEM);
        refuse_kth(REFUSE_MEMORY, 1);
        int rc = lanex_submit(actor, &options, NULL);
        cr_assert(rc == -ENOMEM || rc == 0);
        refuse_stop();
        /* Whichever was refused: the next attempt gets one slab further. */
    }
    cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    refuse_must_be(before);
}

Test(create, registering_without_memory)
{
    unsigned refusals = 0;

    refuse_install();
    whole_life();
    struct refuse_left before = refuse_count_left();
    lanex_executor *executor = lx_test_executor(WORKERS);
    for (unsigned k = 1;; k++) {
        lanex_actor *actor = (lanex_actor *)&refusals;
        refuse_kth(REFUSE_MEMORY, k);
        int rc = lanex_actor_register(executor, "key", 3, NULL, &actor);
        refuse_stop();
        if (rc == 1) {
            lanex_actor_unref(actor);
            break;
        }
        cr_assert_eq(rc, -ENOMEM);
        cr_assert_eq(actor, (lanex_actor *)&refusals);
        cr_assert_eq(lanex_actor_lookup(executor, "key", 3, &actor), -ENOENT);
        refusals++;
    }
    /* The actor, the table, room in the rotation. */
    cr_assert_geq(refusals, 2);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    refuse_must_be(before);
}

/* ---- the kernel refuses ---- */

static int lowest_free_descriptor(void)
{
    int fd = dup(STDERR_FILENO);

    LX_REQUIRE(fd >= 0);
    close(fd);
    return fd;
}

Test(create, without_descriptors)
{
    lanex_executor_options options = lx_test_executor_options(WORKERS);
    struct rlimit limit;
    unsigned refusals = 0;

    refuse_install();
    whole_life();
    struct refuse_left before = refuse_count_left();
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t whole = limit.rlim_cur, first = (rlim_t)lowest_free_descriptor();
    for (rlim_t more = 0;; more++) {
        lanex_executor *executor = NULL;
        limit.rlim_cur = first + more;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        int rc = lanex_executor_create(&options, &executor);
        limit.rlim_cur = whole;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        if (rc == 0) {
            /* Where rings are a matter of choice, too few descriptors for the probe's may have
             * chosen the poll backend; one eventfd a thread is needed in any case. */
            cr_assert_geq(more, WORKERS + 2);
            cr_assert_eq(lanex_executor_destroy(executor), 0);
            refuse_must_be(before);
            break;
        }
        cr_assert_eq(rc, -EMFILE, "with %lu descriptors: %d", (unsigned long)more, rc);
        refuse_must_be(before);
        refusals++;
    }
    cr_assert_geq(refusals, WORKERS + 2);
    whole_life();
    refuse_must_be(before);
}

/* Root is not bound by RLIMIT_NPROC, so the test becomes somebody else. */
Test(create, without_processes)
{
    lanex_executor_options options = lx_test_executor_options(WORKERS);
    struct rlimit limit = {0, RLIM_INFINITY};
    lanex_executor *executor = NULL;

    if (LX_TEST_SANITIZED)
        cr_skip("a sanitizer's own threads and files are in the way of that");
    if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        cr_skip("cannot drop root");
    /* Another uid's /proc entries cannot be read by a process that changed its own. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
        cr_skip("cannot be dumpable again");
    refuse_install();
    struct refuse_left before = refuse_count_left();
    limit.rlim_max = 0;
    if (setrlimit(RLIMIT_NPROC, &limit) != 0)
        cr_skip("cannot lower RLIMIT_NPROC");
    cr_assert_eq(lanex_executor_create(&options, &executor), -EAGAIN);
    refuse_must_be(before);
}

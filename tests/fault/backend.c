/* What the executor says of its backend, and what `force ring` says where rings are refused. */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(backend, .timeout = 60);

/* What refuse_ring was asked for, else the errno of io_uring_setup where the kernel itself refuses
 * (a bad address is only found after that); 0 if nothing refuses. */
static int refusal_expected(void)
{
    const char *told = getenv("LANEX_REFUSED_ERRNO");
    long rc;

    if (told != NULL)
        return atoi(told);
    rc = syscall(SYS_io_uring_setup, 1, NULL);
    return rc < 0 && errno != EFAULT ? errno : 0;
}

static bool text_has(const lanex_executor *executor, const char *part)
{
    return strstr(lanex_executor_backend_text(executor), part) != NULL;
}

Test(backend, the_text_says_what_it_runs_on_and_why)
{
    lanex_executor_options options = lx_test_executor_options(2);
    lanex_executor *executor;
    lanex_config config = {.size = sizeof config};

    /* A cell that forces rings runs this under the launcher that refuses them, too. */
    if (options.backend == LANEX_BACKEND_RING)
        options.backend = LANEX_BACKEND_AUTO;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    cr_assert_eq(lanex_executor_config(executor, &config), 0);
    fprintf(stderr, "[----] %s\n", lanex_executor_backend_text(executor));
    cr_assert_null(strchr(lanex_executor_backend_text(executor), '\n'), "more than one line");
    if (config.backend == LANEX_BACKEND_RING) {
        cr_assert(text_has(executor, "io_uring"));
    } else if (lx_test_env_backend() == LX_TEST_BACKEND_POLL) {
        cr_assert(text_has(executor, "as asked"));
    } else {
        static const struct {
            int error;
            const char *name;
        } names[] = {
            {EPERM, "EPERM"}, {ENOSYS, "ENOSYS"}, {EOPNOTSUPP, "EOPNOTSUPP"}, {ENOMEM, "ENOMEM"}};
        int refusal = refusal_expected();

        cr_assert(text_has(executor, "kernel.io_uring_disabled"));
        cr_assert(text_has(executor, "RLIMIT_MEMLOCK"));
        cr_assert(text_has(executor, "seccomp"));
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            cr_assert(refusal != names[i].error || text_has(executor, names[i].name));
    }
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

Test(backend, forced_rings_or_the_kernels_error)
{
    lanex_executor_options options = lx_test_executor_options(2);
    lanex_executor *automatic, *forced = NULL;
    lanex_config config = {.size = sizeof config};
    int refusal = refusal_expected(), rc;

    options.backend = LANEX_BACKEND_AUTO;
    cr_assert_eq(lanex_executor_create(&options, &automatic), 0);
    cr_assert_eq(lanex_executor_config(automatic, &config), 0);
    options.backend = LANEX_BACKEND_RING;
    rc = lanex_executor_create(&options, &forced);
    if (config.backend == LANEX_BACKEND_RING) {
        cr_assert_eq(rc, 0);
        cr_assert_eq(lanex_executor_config(forced, &config), 0);
        cr_assert_eq(config.backend, LANEX_BACKEND_RING);
        cr_assert_eq(lanex_executor_destroy(forced), 0);
    } else {
        cr_assert_lt(rc, 0);
        cr_assert(refusal == 0 || rc == -refusal, "%d where the kernel says %d", rc, -refusal);
        cr_assert_null(forced);
    }
    cr_assert_eq(lanex_executor_destroy(automatic), 0);
}

static void ring_targets_are_refused(lanex_executor *executor)
{
    lanex_ring *ring;

    cr_assert_eq(lanex_ring_attach(executor, STDERR_FILENO, &ring), -EOPNOTSUPP);
}

Test(backend, without_rings_ring_sinks_say_so)
{
    lanex_executor_options options = lx_test_executor_options(2);
    lanex_executor *executor;

    options.backend = LANEX_BACKEND_POLL;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    ring_targets_are_refused(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* A broken invariant stops the process, and says where. */
#include "tests/support/lx_test.h"

#include "sync/assert.h"

#include <sys/wait.h>
#include <unistd.h>

TestSuite(assertions, .timeout = 30);

/* What a child that runs `die` writes; it must end by SIGABRT. */
static void death_of(void (*die)(void), char *ret_text, size_t size)
{
    int pipe_ends[2], status;
    size_t length = 0;
    ssize_t got;
    pid_t child;

    cr_assert_eq(pipe(pipe_ends), 0);
    child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        lx_test_keep_counts();
        die();
        _exit(0);
    }
    close(pipe_ends[1]);
    while ((got = read(pipe_ends[0], ret_text + length, size - 1 - length)) > 0)
        length += (size_t)got;
    ret_text[length] = '\0';
    close(pipe_ends[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %x: %s", status,
              ret_text);
}

static volatile int two = 2;

static void break_one(void)
{
    LX_ASSERT(two == 2);
    LX_ASSERT(two == 3);
}

Test(assertions, a_broken_invariant_is_named_with_its_place)
{
    char text[1024];

    death_of(break_one, text, sizeof text);
    cr_assert_not_null(strstr(text, "lanex: "), "%s", text);
    cr_assert_not_null(strstr(text, "assertions.c:"), "%s", text);
    cr_assert_not_null(strstr(text, ": assertion failed: two == 3\n"), "%s", text);
}

static void break_a_long_one(void)
{
    char text[2000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    lx_assert_failed("file.c", 7, text);
}

Test(assertions, a_long_text_is_cut)
{
    char text[4096];

    death_of(break_a_long_one, text, sizeof text);
    cr_assert_eq(strlen(text), 511);
    cr_assert_eq(strncmp(text, "lanex: file.c:7: assertion failed: xxx", 38), 0, "%s", text);
}

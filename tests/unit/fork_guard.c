/*
 * The fork guard: the maker's process is no child, a forked one is, by either way of telling.
 */
#include "lx_test.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/fork_guard.h"

/* What a child exits with. */
enum { LX_SEEN_PARENT = 10, LX_SEEN_CHILD = 11 };

static int seen_by_child(const struct lx_fork_guard *guard)
{
    pid_t pid = fork();
    LX_REQUIRE(pid >= 0);
    if (pid == 0)
        _exit(lx_fork_guard_is_child(guard) ? LX_SEEN_CHILD : LX_SEEN_PARENT);
    int status = 0;
    LX_REQUIRE(waitpid(pid, &status, 0) == pid);
    LX_REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

Test(fork_guard, tells_a_child_from_its_parent)
{
    struct lx_fork_guard guard;
    cr_assert_eq(lx_fork_guard_create(&guard), 0);
    cr_assert_not(lx_fork_guard_is_child(&guard));
    cr_assert_eq(seen_by_child(&guard), LX_SEEN_CHILD);
    cr_assert_not(lx_fork_guard_is_child(&guard), "forking changes nothing for the parent");
    lx_fork_guard_destroy(&guard);
}

Test(fork_guard, tells_by_pid_where_pages_cannot_be_wiped)
{
    struct lx_fork_guard guard;
    lx_fork_guard_create_by_pid(&guard);
    cr_assert_null(guard.word);
    cr_assert_not(lx_fork_guard_is_child(&guard));
    cr_assert_eq(seen_by_child(&guard), LX_SEEN_CHILD);
    lx_fork_guard_destroy(&guard);
}

Test(fork_guard, tells_a_grandchild_too)
{
    struct lx_fork_guard guard;
    cr_assert_eq(lx_fork_guard_create(&guard), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        pid_t below = fork();
        if (below == 0)
            _exit(lx_fork_guard_is_child(&guard) ? LX_SEEN_CHILD : LX_SEEN_PARENT);
        int status = 0;
        if (below < 0 || waitpid(below, &status, 0) != below || !WIFEXITED(status))
            _exit(1);
        _exit(WEXITSTATUS(status));
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), LX_SEEN_CHILD);
    lx_fork_guard_destroy(&guard);
}

Test(fork_guard, of_a_child_tells_the_child_that_it_is_the_owner)
{
    struct lx_fork_guard parents;
    cr_assert_eq(lx_fork_guard_create(&parents), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        struct lx_fork_guard own;
        lx_fork_guard_destroy(&parents);
        if (lx_fork_guard_create(&own) != 0)
            _exit(1);
        _exit(lx_fork_guard_is_child(&own) ? LX_SEEN_CHILD : LX_SEEN_PARENT);
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), LX_SEEN_PARENT);
    cr_assert_not(lx_fork_guard_is_child(&parents), "a child's destroy is the child's affair");
    lx_fork_guard_destroy(&parents);
}

Test(fork_guard, leaves_errno_alone_and_may_be_destroyed_twice)
{
    struct lx_fork_guard guard;
    errno = EXDEV;
    cr_assert_eq(lx_fork_guard_create(&guard), 0);
    (void)lx_fork_guard_is_child(&guard);
    (void)lx_fork_guard_pid_differs(&guard);
    lx_fork_guard_destroy(&guard);
    cr_assert_null(guard.word);
    lx_fork_guard_destroy(&guard);
    cr_assert_eq(errno, EXDEV);
}

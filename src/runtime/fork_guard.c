#include "runtime/fork_guard.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lanex/base.h>

#include "sync/seams.h"

/* Since glibc 2.26; the kernel's number on every architecture. */
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Raw: a C library may remember the pid, and one that did so told the parent's in a child. */
static int64_t raw_pid(void)
{
    return syscall(SYS_getpid);
}

void lx_fork_guard_create_by_pid(struct lx_fork_guard *ret_guard)
{
    ret_guard->word = NULL;
    ret_guard->pid = raw_pid();
}

int lx_fork_guard_create(struct lx_fork_guard *ret_guard)
{
    int saved_errno = errno;
    void *page = lx_seams.map(page_size());
    if (page == NULL)
        return -ENOMEM;
    if (madvise(page, page_size(), MADV_WIPEONFORK) == 0) {
        *(uint32_t *)page = 1;
        ret_guard->word = page;
        ret_guard->pid = raw_pid();
    } else {
        lx_seams.unmap(page, page_size());
        lx_fork_guard_create_by_pid(ret_guard);
    }
    errno = saved_errno;
    return 0;
}

void lx_fork_guard_destroy(struct lx_fork_guard *guard)
{
    if (guard->word != NULL)
        lx_seams.unmap((void *)(uintptr_t)guard->word, page_size());
    guard->word = NULL;
    guard->pid = 0;
}

void lx_fork_guard_exit(void)
{
    static const char why[] = "lanex: a forked child came back from a job, callback or hook of its "
                              "parent's: ended\n";
    ssize_t ignored = write(STDERR_FILENO, why, sizeof why - 1);

    (void)ignored;
    _exit(LANEX_FORKED_EXIT);
}

bool lx_fork_guard_pid_differs(const struct lx_fork_guard *guard)
{
    return raw_pid() != guard->pid;
}

/*
 * Tells a forked child from the process that made an object, so that every call can answer -ECHILD
 * there instead of waiting for threads that did not come along.
 *
 * A page that the kernel wipes in the child (MADV_WIPEONFORK, Linux 4.14) holds a word that is 1;
 * the child reads 0. Looking costs a load, where getpid is a system call. Where the kernel refuses,
 * the pid is compared instead.
 *
 * Not told: the child of vfork, or of clone with CLONE_VM, which shares the page; it may do nothing
 * but exec anyway. By pid alone, a child that has its parent's number in a new pid namespace.
 */
#ifndef LX_RUNTIME_FORK_GUARD_H
#define LX_RUNTIME_FORK_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Constant from create to destroy. */
struct lx_fork_guard {
    const uint32_t *word; /* 1; a child reads 0. NULL: the pid decides. On a page of its own. */
    int64_t pid;          /* of the process that called create */
};

/* 0 or -ENOMEM. Errno is untouched by all of these. */
int lx_fork_guard_create(struct lx_fork_guard *ret_guard);
/* The way of kernels without MADV_WIPEONFORK. */
void lx_fork_guard_create_by_pid(struct lx_fork_guard *ret_guard);
/* Also in a child. A guard that is all zero is left alone. */
void lx_fork_guard_destroy(struct lx_fork_guard *guard);

bool lx_fork_guard_pid_differs(const struct lx_fork_guard *guard);

/* True in a child of the process that called create, and in the child's children. */
static inline bool lx_fork_guard_is_child(const struct lx_fork_guard *guard)
{
    /* No atomic: the word changes only while this process does not exist yet. */
    if (__builtin_expect(guard->word != NULL, 1))
        return *(const volatile uint32_t *)guard->word == 0;
    return lx_fork_guard_pid_differs(guard);
}

/* Says why on stderr and ends the process with LANEX_FORKED_EXIT: no atexit, no flush of what the
 * parent has buffered too. */
_Noreturn void lx_fork_guard_exit(void);

/*
 * For a thread of lanex's that comes out of the program's code. If that forked and this is the
 * child, going on would answer the parent's jobs a second time through the descriptors that both
 * share: rings, bells, doors.
 */
static inline void lx_fork_guard_end_child(const struct lx_fork_guard *guard)
{
    if (__builtin_expect(lx_fork_guard_is_child(guard), 0))
        lx_fork_guard_exit();
}

#endif

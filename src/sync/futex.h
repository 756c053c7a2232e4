/*
 * The futex system calls, raw: errno is preserved, none is a pthread cancellation point, all
 * futexes are private to the process, all timeouts are points on CLOCK_MONOTONIC.
 *
 * Words are passed as `const void *` because some are halves of a 64-bit word (sync/epoch.h). The
 * kernel compares and sleeps in one step under its own lock, so a change of the word that is
 * followed by a wake cannot fall between a waiter's look and its sleep.
 */
#ifndef LX_FUTEX_H
#define LX_FUTEX_H

#include "lanex/base.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8, "struct timespec is the kernel's only where long has 64 bits");

#define LX_FUTEX_ALL   INT_MAX
#define LX_NS_PER_SEC  1000000000u
#define LX_FUTEX_WAITV 449 /* the number of futex_waitv (Linux 5.16) on every architecture */

/* The kernel's struct futex_waitv, spelled out for headers older than Linux 5.16. */
struct lx_futex_waitv {
    uint64_t val;
    uint64_t uaddr;
    uint32_t flags;
    uint32_t reserved;
};
#define LX_FUTEX_WAITV_32      2u
#define LX_FUTEX_WAITV_PRIVATE 128u

/* Tell the processor that this is a spin. */
static inline void lx_spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Now on CLOCK_MONOTONIC, in nanoseconds. */
static inline uint64_t lx_futex_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * LX_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* NULL, the kernel's "for ever", for LANEX_TIME_NEVER. */
static inline struct timespec *lx_futex_timeout(uint64_t deadline_ns, struct timespec *ts)
{
    if (deadline_ns == LANEX_TIME_NEVER)
        return NULL;
    ts->tv_sec = (time_t)(deadline_ns / LX_NS_PER_SEC);
    ts->tv_nsec = (long)(deadline_ns % LX_NS_PER_SEC);
    return ts;
}

/*
 * Sleeps while *word == expected. 0: woken, perhaps for nothing. -EAGAIN: the word differs.
 * -EINTR: a signal. -ETIMEDOUT: the deadline has passed.
 */
static inline int lx_futex_wait(const void *word, uint32_t expected, uint64_t deadline_ns)
{
    struct timespec ts;
    int saved = errno;
    long r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                     lx_futex_timeout(deadline_ns, &ts), NULL, FUTEX_BITSET_MATCH_ANY);
    int result = r == 0 ? 0 : -errno;
    errno = saved;
    return result;
}

/* Wakes up to `count` sleepers, the longest asleep first; returns how many. */
static inline int lx_futex_wake(const void *word, int count)
{
    int saved = errno;
    long r = syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
    errno = saved;
    return r > 0 ? (int)r : 0;
}

/*
 * Sleeps while both words have their expected values. 0: woken, perhaps for nothing; otherwise as
 * lx_futex_wait, and -ENOSYS (or what a filter chose to say) where the call is refused.
 */
static inline int lx_futex_wait_two(const void *word_a, uint32_t expected_a, const void *word_b,
                                    uint32_t expected_b, uint64_t deadline_ns)
{
    const uint32_t flags = LX_FUTEX_WAITV_32 | LX_FUTEX_WAITV_PRIVATE;
    struct lx_futex_waitv v[2] = {
        {.val = expected_a, .uaddr = (uint64_t)(uintptr_t)word_a, .flags = flags},
        {.val = expected_b, .uaddr = (uint64_t)(uintptr_t)word_b, .flags = flags},
    };
    struct timespec ts;
    int saved = errno;
    long r = syscall(LX_FUTEX_WAITV, v, 2u, 0u, lx_futex_timeout(deadline_ns, &ts),
                     (long)CLOCK_MONOTONIC);
    int result = r >= 0 ? 0 : -errno;
    errno = saved;
    return result;
}

/*
 * A mutex for cold paths, of one word. Zero is unlocked.
 *   0  free
 *   1  held, nobody sleeps
 *   2  held, somebody may sleep: the unlock wakes one, and whoever was asleep takes it with 2
 *      again, because others may sleep still.
 * It is not fair, and it spins not at all.
 */
struct lx_mutex {
    _Atomic uint32_t word;
};

static inline bool lx_mutex_trylock(struct lx_mutex *m)
{
    uint32_t free_word = 0;
    /* acquire: partner is the exchange in lx_mutex_unlock */
    return atomic_compare_exchange_strong_explicit(&m->word, &free_word, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void lx_mutex_lock(struct lx_mutex *m)
{
    if (lx_mutex_trylock(m))
        return;
    /* acquire: partner is the exchange in lx_mutex_unlock */
    while (atomic_exchange_explicit(&m->word, 2, memory_order_acquire) != 0)
        (void)lx_futex_wait(&m->word, 2, LANEX_TIME_NEVER);
}

static inline void lx_mutex_unlock(struct lx_mutex *m)
{
    /* release: partners are the acquires in lx_mutex_lock and lx_mutex_trylock. After the exchange
     * only the word's address is used: its owner may free it. */
    if (atomic_exchange_explicit(&m->word, 0, memory_order_release) == 2)
        (void)lx_futex_wake(&m->word, 1);
}

#endif

/*
 * The seams: what lanex asks of the world beside the kernel's rings (those are behind ring/door.h).
 * One table of functions, so that tests can put another world behind it: a clock that they move, an
 * allocation or a thread that fails at the k-th call. Nothing here is on the path of a warm job,
 * but the clock. None of these touches errno.
 */
#ifndef LX_SEAMS_H
#define LX_SEAMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LX_BRISK_NS UINT64_C(500)

struct lx_seams {
    /* CLOCK_MONOTONIC in nanoseconds: exact, and in steps of a scheduler tick but cheaper. */
    uint64_t (*now_ns)(void);
    uint64_t (*now_coarse_ns)(void);
    /* As malloc, or calloc of one if `zeroed` (large ones then cost only what is used), and free.
     */
    void *(*allocate)(size_t size, bool zeroed);
    void (*release)(void *memory);
    /* Zeroed memory of `size` bytes, aligned to `size` (a power of two of at least a page); NULL if
     * none. */
    void *(*map)(size_t size);
    void (*unmap)(void *memory, size_t size);
    /* Nanoseconds a job, turns and all, below which a worker is brisk: LX_BRISK_NS (nap.h). */
    uint64_t brisk_ns;
    /* As pthread_create with default attributes; 0 or a positive errno. */
    int (*thread_start)(pthread_t *ret_thread, void *(*run)(void *), void *arg);
};

/* The table in force. Replaced only by tests, while no executor lives. */
extern struct lx_seams lx_seams;

static inline uint64_t lx_now_ns(void)
{
    return lx_seams.now_ns();
}

static inline void *lx_allocate(size_t size)
{
    return lx_seams.allocate(size, false);
}

static inline void *lx_allocate_zeroed(size_t size)
{
    return lx_seams.allocate(size, true);
}

static inline void lx_release(void *memory)
{
    lx_seams.release(memory);
}

#endif

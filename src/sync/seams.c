#include "sync/seams.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define NS_PER_SEC UINT64_C(1000000000)
#define HUGE_PAGE  (UINT64_C(2) << 20) /* bytes, on most machines */

static uint64_t read_clock(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts); /* cannot fail for these clocks */
    return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t now_exact(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static uint64_t now_coarse(void)
{
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

/* Maps twice as much and gives back what lies before and after the aligned part. */
static void *map_aligned(size_t size)
{
    int saved = errno;
    char *memory = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;

    if (memory == MAP_FAILED) {
        errno = saved;
        return NULL;
    }
    before = (size - (uintptr_t)memory % size) % size;
    if (before > 0)
        munmap(memory, before);
    if (size - before > 0)
        munmap(memory + before + size, size - before);
    /* Advice: where there are no huge pages, or none is free, small ones will do. */
    if (size >= HUGE_PAGE)
        madvise(memory + before, size, MADV_HUGEPAGE);
    errno = saved;
    return memory + before;
}

static void unmap(void *memory, size_t size)
{
    int saved = errno;

    munmap(memory, size);
    errno = saved;
}

/* A call that fails for lack of memory says so by its result; errno stays the caller's. */
static void *allocate(size_t size, bool zeroed)
{
    int saved = errno;
    void *memory = zeroed ? calloc(1, size) : malloc(size);

    errno = saved;
    return memory;
}

/* Not every free keeps errno: before version 2.33 the GNU C library's did not. */
static void release(void *memory)
{
    int saved = errno;

    free(memory);
    errno = saved;
}

/* The result says why it failed; what was asked of the system on the way may be in errno too. */
static int thread_start(pthread_t *ret_thread, void *(*run)(void *), void *arg)
{
    int saved = errno, rc = pthread_create(ret_thread, NULL, run, arg);

    errno = saved;
    return rc;
}

struct lx_seams lx_seams = {
    .now_ns = now_exact,
    .now_coarse_ns = now_coarse,
    .allocate = allocate,
    .release = release,
    .map = map_aligned,
    .unmap = unmap,
    .brisk_ns = LX_BRISK_NS,
    .thread_start = thread_start,
};

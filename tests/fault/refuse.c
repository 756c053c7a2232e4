#include "refuse.h"

#include "sync/seams.h"
#include "tests/support/lx_test.h"

#include <dirent.h>
#include <errno.h>

static struct lx_seams real;
static _Atomic int64_t blocks; /* that were not given back */
static _Atomic enum refuse_kind refused;
static _Atomic int64_t calls_left; /* until the one; below 1: none any more */
static atomic_bool every;
static atomic_uint refusals;

static bool fails(enum refuse_kind kind)
{
    enum refuse_kind wanted = atomic_load(&refused);

    if (wanted != kind && wanted != REFUSE_ALL)
        return false;
    if (!atomic_load(&every) && atomic_fetch_sub(&calls_left, 1) != 1)
        return false;
    atomic_fetch_add(&refusals, 1);
    return true;
}

static void *refusing_allocate(size_t size, bool zeroed)
{
    void *memory = fails(REFUSE_MEMORY) ? NULL : real.allocate(size, zeroed);

    if (memory != NULL)
        atomic_fetch_add(&blocks, 1);
    return memory;
}

static void counting_release(void *memory)
{
    if (memory != NULL)
        atomic_fetch_sub(&blocks, 1);
    real.release(memory);
}

static void *refusing_map(size_t size)
{
    void *memory = fails(REFUSE_MAPS) ? NULL : real.map(size);

    if (memory != NULL)
        atomic_fetch_add(&blocks, 1);
    return memory;
}

static void counting_unmap(void *memory, size_t size)
{
    atomic_fetch_sub(&blocks, 1);
    real.unmap(memory, size);
}

static int refusing_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *arg)
{
    return fails(REFUSE_THREADS) ? EAGAIN : real.thread_start(ret_thread, run, arg);
}

void refuse_install(void)
{
    real = lx_seams;
    lx_seams.allocate = refusing_allocate;
    lx_seams.release = counting_release;
    lx_seams.map = refusing_map;
    lx_seams.unmap = counting_unmap;
    lx_seams.thread_start = refusing_thread_start;
}

static void begin(enum refuse_kind kind, int64_t k, bool each)
{
    atomic_store(&refusals, 0);
    atomic_store(&calls_left, k);
    atomic_store(&every, each);
    atomic_store(&refused, kind);
}

void refuse_kth(enum refuse_kind kind, unsigned k)
{
    begin(kind, (int64_t)k, false);
}

void refuse_each_of(enum refuse_kind kind)
{
    begin(kind, 0, true);
}

unsigned refuse_stop(void)
{
    atomic_store(&refused, REFUSE_NOTHING);
    return atomic_load(&refusals);
}

static unsigned entries(const char *path)
{
    unsigned count = 0;
    DIR *folder = opendir(path);

    LX_REQUIRE(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

struct refuse_left refuse_count_left(void)
{
    return (struct refuse_left){entries("/proc/self/task"), entries("/proc/self/fd"), blocks};
}

void refuse_must_be_at(struct refuse_left before, const char *file, int line)
{
    struct refuse_left now;

    /* A joined thread leaves /proc a moment later, and one that nobody joins gives its last block
     * back just before. */
    LX_EVENTUALLY(entries("/proc/self/task") == before.threads);
    now = refuse_count_left();
    if (now.descriptors != before.descriptors || now.blocks != before.blocks)
        lx_test_die(file, line, "%d descriptors and %lld blocks more than before",
                    (int)(now.descriptors - before.descriptors),
                    (long long)(now.blocks - before.blocks));
}

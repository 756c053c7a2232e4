/*
 * Every system call that lanex makes is refused in turn: the k-th call of a kind, with each errno
 * that its manual names and that can pass or be met at run time. Create then works or fails clean;
 * where it works every job gets its one answer. Afterwards nothing is left: no memory, no thread,
 * no descriptor.
 *
 * The calls are caught by the linker (--wrap): lanex makes them through syscall() and liburing.
 */
#include "tests/support/lx_executor.h"

#include "sync/seams.h"

#include <dirent.h>
#include <errno.h>
#include <liburing.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(fault_syscalls, .timeout = 280);

#define JOBS 60u
/* Of the calls of a kind, so many are refused, one a run; evenly spread if there are more. */
#define CALLS_TRIED 400u

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* Kinds that are no system calls of their own: liburing's. */
#define CALL_RING_SETUP  100001L
#define CALL_RING_SUBMIT 100002L

static const struct fault {
    const char *name;
    long call;
    int error;
} faults[] = {
    {"eventfd2 EMFILE", SYS_eventfd2, EMFILE},
    {"eventfd2 ENFILE", SYS_eventfd2, ENFILE},
    {"eventfd2 ENOMEM", SYS_eventfd2, ENOMEM},
    {"write EINTR", SYS_write, EINTR},
    {"read EINTR", SYS_read, EINTR},
    {"fcntl EMFILE", SYS_fcntl, EMFILE},
    {"openat EMFILE", SYS_openat, EMFILE},
    {"openat ENOENT", SYS_openat, ENOENT},
    {"ppoll EINTR", SYS_ppoll, EINTR},
    {"ppoll ENOMEM", SYS_ppoll, ENOMEM},
    {"futex wait EINTR", SYS_futex, EINTR},
    {"futex wait EAGAIN", SYS_futex, EAGAIN},
    {"futex_waitv EINTR", SYS_futex_waitv, EINTR},
    {"futex_waitv ENOMEM", SYS_futex_waitv, ENOMEM},
    {"futex_waitv ENOSYS", SYS_futex_waitv, ENOSYS},
    {"getrandom EAGAIN", SYS_getrandom, EAGAIN},
    {"getrandom ENOSYS", SYS_getrandom, ENOSYS},
    {"sched_getaffinity EINVAL", SYS_sched_getaffinity, EINVAL},
    {"io_uring_enter EINTR", SYS_io_uring_enter, EINTR},
    {"io_uring_enter EAGAIN", SYS_io_uring_enter, EAGAIN},
    {"io_uring_enter EBUSY", SYS_io_uring_enter, EBUSY},
    {"io_uring_enter ENOMEM", SYS_io_uring_enter, ENOMEM},
    {"io_uring_register EINTR", SYS_io_uring_register, EINTR},
    {"io_uring_register EAGAIN", SYS_io_uring_register, EAGAIN},
    {"io_uring_register ENOMEM", SYS_io_uring_register, ENOMEM},
    {"io_uring_register EOVERFLOW", SYS_io_uring_register, EOVERFLOW},
    {"io_uring_setup EPERM", CALL_RING_SETUP, EPERM},
    {"io_uring_setup ENOMEM", CALL_RING_SETUP, ENOMEM},
    {"io_uring_setup EMFILE", CALL_RING_SETUP, EMFILE},
    {"io_uring submit EINTR", CALL_RING_SUBMIT, EINTR},
    {"io_uring submit EAGAIN", CALL_RING_SUBMIT, EAGAIN},
    {"io_uring submit EBUSY", CALL_RING_SUBMIT, EBUSY},
};

/* Calls of the kind until now; which of them is refused (0: none); how often one was. */
static _Atomic long kind;
static atomic_uint calls, refused_call, refusals;
static _Atomic int refused_error;

static bool refuses(long call)
{
    if (call != atomic_load(&kind))
        return false;
    if (atomic_fetch_add(&calls, 1) + 1 != atomic_load(&refused_call))
        return false;
    atomic_fetch_add(&refusals, 1);
    return true;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
int __real_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                                      struct io_uring_params *params);
int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                                      struct io_uring_params *params);
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);

long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list args;

    va_start(args, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    /* A wake is not refused by any kernel. */
    if ((number != SYS_futex || (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) && refuses(number)) {
        errno = atomic_load(&refused_error);
        return -1;
    }
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                                      struct io_uring_params *params)
{
    return refuses(CALL_RING_SETUP) ? -atomic_load(&refused_error)
                                    : __real_io_uring_queue_init_params(entries, ring, params);
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
    return refuses(CALL_RING_SUBMIT) ? -atomic_load(&refused_error) : __real_io_uring_submit(ring);
}

/* ---- what may be left behind ---- */

static struct lx_seams real;
static atomic_int blocks, maps;

static void *counting_allocate(size_t size, bool zeroed)
{
    void *memory = real.allocate(size, zeroed);
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

static void *counting_map(size_t size)
{
    void *memory = real.map(size);
    if (memory != NULL)
        atomic_fetch_add(&maps, 1);
    return memory;
}

static void counting_unmap(void *memory, size_t size)
{
    atomic_fetch_sub(&maps, 1);
    real.unmap(memory, size);
}

static unsigned count_entries(const char *path)
{
    unsigned count = 0;
    DIR *folder = opendir(path);

    LX_REQUIRE(folder != NULL);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* ---- what is done meanwhile ---- */

static atomic_uint ran[JOBS], answered[JOBS];

static void run(lanex_job *job, void *context, void *arg)
{
    (void)context;
    atomic_fetch_add((atomic_uint *)arg, 1);
    if ((atomic_uint *)arg - ran == JOBS - 1)
        lanex_panic("as it shall");
    (void)job;
}

static void answer(lanex_completion *completion, void *arg)
{
    LX_REQUIRE(lanex_completion_arg(completion) == (atomic_uint *)arg - answered + ran);
    atomic_fetch_add((atomic_uint *)arg, 1);
}

static bool drained(lanex_port *port, unsigned *left)
{
    lanex_completion *taken[8];
    int count = lanex_port_drain(port, taken, 8);

    LX_REQUIRE(count >= 0);
    for (int i = 0; i < count; i++) {
        atomic_fetch_add((atomic_uint *)lanex_completion_arg(taken[i]) - ran + answered, 1);
        lanex_completion_release(taken[i]);
    }
    *left -= (unsigned)count;
    return *left == 0;
}

static void submit_all(lanex_executor *executor, lanex_actor **actors, lanex_port *port)
{
    static const uint32_t lanes[] = {LANEX_LANE_PURE_READ, LANEX_LANE_MUTATING,
                                     LANEX_LANE_SERIAL_STATUS, LANEX_LANE_HEAVY_INIT,
                                     LANEX_LANE_MAINTENANCE_COMMIT};
    lanex_ticket *tickets[JOBS] = {NULL};
    unsigned ported = 0;

    for (unsigned i = 0; i < JOBS; i++) {
        lanex_job_options job = lx_test_job(lanes[i % 5], run, &ran[i]);

        if (i % 5 == 4)
            job.job_class = LANEX_CLASS_MAINTENANCE;
        job.request_id = i % 2 == 0 ? "an id of twenty-four byte" : NULL;
        if (i % 3 == 0) {
            LX_REQUIRE(lanex_submit_ticket(actors[i % 2], &job, &tickets[i]) == 0);
            continue;
        }
        if (i % 3 == 1) {
            job.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
            ported++;
        } else {
            job.sink = (lanex_sink){
                .kind = LANEX_SINK_CALLBACK, .callback = answer, .callback_arg = &answered[i]};
        }
        LX_REQUIRE(lanex_submit(actors[i % 2], &job, NULL) == 0);
    }
    for (unsigned i = 0; i < JOBS; i++) {
        if (tickets[i] == NULL)
            continue;
        LX_REQUIRE(lanex_ticket_wait(tickets[i], LANEX_TIME_NEVER) == 0);
        atomic_fetch_add(&answered[i], 1);
        lanex_ticket_drop(tickets[i]);
    }
    LX_EVENTUALLY(drained(port, &ported));
    LX_REQUIRE(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL) == 0);
}

/* True if create worked. */
static bool live_once(int error)
{
    lanex_executor_options options = lx_test_executor_options(4);
    lanex_executor *executor = (lanex_executor *)(uintptr_t)8;
    lanex_actor *actors[2];
    lanex_port *port;
    int rc;

    memset(ran, 0, sizeof ran);
    memset(answered, 0, sizeof answered);
    errno = 4711;
    rc = lanex_executor_create(&options, &executor);
    LX_REQUIRE(errno == 4711);
    if (rc < 0) {
        if (rc != -error)
            lx_test_die(__FILE__, __LINE__, "create gave %d for %d", rc, error);
        LX_REQUIRE(executor == (lanex_executor *)(uintptr_t)8);
        return false;
    }
    for (unsigned i = 0; i < 2; i++)
        actors[i] = lx_test_actor(executor, i);
    /* The port's own descriptor is made by the C library. */
    LX_REQUIRE(lanex_port_create(executor, NULL, &port) == 0);
    submit_all(executor, actors, port);
    for (unsigned i = 0; i < JOBS; i++) {
        LX_REQUIRE(atomic_load(&answered[i]) == 1);
        LX_REQUIRE(atomic_load(&ran[i]) == 1);
    }
    lanex_port_unref(port);
    for (unsigned i = 0; i < 2; i++)
        lanex_actor_unref(actors[i]);
    LX_REQUIRE(lanex_executor_destroy(executor) == 0);
    LX_REQUIRE(errno == 4711);
    return true;
}

static unsigned descriptors_at_first, threads_at_first;

static bool threads_are_gone(void)
{
    return count_entries("/proc/self/task") <= threads_at_first;
}

static bool try_call(const struct fault *fault, unsigned number)
{
    bool worked;

    atomic_store(&calls, 0);
    atomic_store(&refused_error, fault->error);
    atomic_store(&refused_call, number);
    atomic_store(&kind, fault->call);
    worked = live_once(fault->error);
    atomic_store(&kind, 0);
    if (atomic_load(&blocks) != 0 || atomic_load(&maps) != 0 ||
        count_entries("/proc/self/fd") != descriptors_at_first)
        lx_test_die(__FILE__, __LINE__, "%s at call %u leaves %d blocks, %d maps, %d descriptors",
                    fault->name, number, atomic_load(&blocks), atomic_load(&maps),
                    (int)(count_entries("/proc/self/fd") - descriptors_at_first));
    LX_EVENTUALLY(threads_are_gone());
    return worked;
}

Test(fault_syscalls, each_call_refused_in_turn_ends_clean)
{
    unsigned absorbed = 0, failed = 0;

    real = lx_seams;
    lx_seams.allocate = counting_allocate;
    lx_seams.release = counting_release;
    lx_seams.map = counting_map;
    lx_seams.unmap = counting_unmap;
    threads_at_first = count_entries("/proc/self/task");
#ifdef LX_TEST_SHIM
    threads_at_first++; /* ThreadSanitizer's own, which comes with the first that is made */
#endif
    LX_REQUIRE(live_once(0)); /* what the C library opens and keeps */
    descriptors_at_first = count_entries("/proc/self/fd");
    for (unsigned f = 0; f < sizeof faults / sizeof *faults; f++) {
        unsigned known, step;

        cr_assert(try_call(&faults[f], 0)); /* counts */
        known = atomic_load(&calls);
        step = known / CALLS_TRIED + 1;
        for (unsigned number = 1; number <= known; number += step)
            *(try_call(&faults[f], number) ? &absorbed : &failed) += 1;
    }
    lx_seams = real;
    cr_assert_gt(atomic_load(&refusals), 40);
    printf("refused %u calls: %u times create failed with that errno, else all went on\n",
           atomic_load(&refusals), failed);
}

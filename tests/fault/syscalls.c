/*
 * Every system call that lanex makes is refused in turn: the k-th call of a kind, with each errno
 * that its manual names and that can pass or be met at run time; likewise every allocation, map and
 * thread. Create then works or fails clean; where it works each further call works or fails clean,
 * and each job that was accepted gets its one answer (scenario.h). Afterwards nothing is left: no
 * memory, no map, no thread, no descriptor.
 *
 * The calls are caught by the linker (--wrap): lanex makes them through syscall(), liburing, and
 * the C library.
 */
#include "refuse.h"
#include "scenario.h"

#include "sync/cancel.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(fault_syscalls, .timeout = 280);

/*
 * Of the calls of a kind, so many are refused, one a run; evenly spread if there are more, as there
 * are of those that wait and wake. A soak refuses each.
 */
#define CALLS_TRIED (lx_test_soak_seconds() > 0 ? UINT32_MAX : (LX_TEST_SANITIZED ? 16u : 48u))

#define TRIES 100u /* of a row in which nothing was refused yet */

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* Kinds that are no system calls of their own: liburing's and the C library's. */
enum {
    CALL_RING_SETUP = 100001,
    CALL_RING_SUBMIT,
    CALL_MMAP,
    CALL_MUNMAP,
    CALL_MADVISE,
    CALL_MPROTECT,
    CALL_SIGALTSTACK,
    CALL_PTHREAD_CREATE,
};

/* Where a kind of call is made at all. */
enum where {
    ALWAYS,
    WITH_PROBE, /* where rings are at least tried */
    ON_RINGS,
    ON_POLL,
    PLAIN, /* not beside a sanitizer: its runtime makes these calls too */
};

/* Which calls may give the errno: create at most, or others too. */
enum met { IN_CREATE, ANY_TIME };

static const struct fault {
    const char *name;
    long call;
    int error;
    enum where where;
    enum met met;
} faults[] = {
    {"eventfd2 EMFILE", SYS_eventfd2, EMFILE, ALWAYS, ANY_TIME},
    {"eventfd2 ENFILE", SYS_eventfd2, ENFILE, ALWAYS, ANY_TIME},
    {"eventfd2 ENOMEM", SYS_eventfd2, ENOMEM, ALWAYS, ANY_TIME},
    {"write EINTR", SYS_write, EINTR, ALWAYS, IN_CREATE},
    {"read EINTR", SYS_read, EINTR, ALWAYS, IN_CREATE},
    {"close EINTR", SYS_close, EINTR, ALWAYS, IN_CREATE},
    {"fcntl EMFILE", SYS_fcntl, EMFILE, ON_RINGS, ANY_TIME},
    {"openat EMFILE", SYS_openat, EMFILE, ALWAYS, IN_CREATE},
    {"openat ENOENT", SYS_openat, ENOENT, ALWAYS, IN_CREATE},
    {"ppoll EINTR", SYS_ppoll, EINTR, ON_POLL, IN_CREATE},
    {"ppoll ENOMEM", SYS_ppoll, ENOMEM, ON_POLL, IN_CREATE},
    {"futex wait EINTR", SYS_futex, EINTR, ALWAYS, IN_CREATE},
    {"futex wait EAGAIN", SYS_futex, EAGAIN, ALWAYS, IN_CREATE},
    {"futex_waitv EINTR", SYS_futex_waitv, EINTR, ALWAYS, IN_CREATE},
    {"futex_waitv ENOMEM", SYS_futex_waitv, ENOMEM, ALWAYS, IN_CREATE},
    {"futex_waitv ENOSYS", SYS_futex_waitv, ENOSYS, ALWAYS, IN_CREATE},
    {"getrandom EAGAIN", SYS_getrandom, EAGAIN, ALWAYS, IN_CREATE},
    {"getrandom ENOSYS", SYS_getrandom, ENOSYS, ALWAYS, IN_CREATE},
    {"sched_getaffinity EINVAL", SYS_sched_getaffinity, EINVAL, ALWAYS, IN_CREATE},
    {"sched_setaffinity EINVAL", SYS_sched_setaffinity, EINVAL, ALWAYS, IN_CREATE},
    {"mmap ENOMEM", CALL_MMAP, ENOMEM, PLAIN, ANY_TIME},
    {"munmap ENOMEM", CALL_MUNMAP, ENOMEM, PLAIN, IN_CREATE},
    {"madvise EINVAL", CALL_MADVISE, EINVAL, PLAIN, IN_CREATE},
    {"mprotect ENOMEM", CALL_MPROTECT, ENOMEM, PLAIN, IN_CREATE},
    {"sigaltstack EPERM", CALL_SIGALTSTACK, EPERM, PLAIN, IN_CREATE},
    {"pthread_create EAGAIN", CALL_PTHREAD_CREATE, EAGAIN, PLAIN, IN_CREATE},
    {"io_uring_setup EPERM", CALL_RING_SETUP, EPERM, WITH_PROBE, IN_CREATE},
    {"io_uring_setup ENOMEM", CALL_RING_SETUP, ENOMEM, WITH_PROBE, IN_CREATE},
    {"io_uring_setup EMFILE", CALL_RING_SETUP, EMFILE, WITH_PROBE, IN_CREATE},
    {"io_uring submit EINTR", CALL_RING_SUBMIT, EINTR, ON_RINGS, IN_CREATE},
    {"io_uring submit EAGAIN", CALL_RING_SUBMIT, EAGAIN, ON_RINGS, IN_CREATE},
    {"io_uring submit EBUSY", CALL_RING_SUBMIT, EBUSY, ON_RINGS, IN_CREATE},
    {"io_uring_enter EINTR", SYS_io_uring_enter, EINTR, ON_RINGS, IN_CREATE},
    {"io_uring_enter EAGAIN", SYS_io_uring_enter, EAGAIN, ON_RINGS, IN_CREATE},
    {"io_uring_enter EBUSY", SYS_io_uring_enter, EBUSY, ON_RINGS, IN_CREATE},
    {"io_uring_enter ENOMEM", SYS_io_uring_enter, ENOMEM, ON_RINGS, IN_CREATE},
    {"io_uring_register EINTR", SYS_io_uring_register, EINTR, ON_RINGS, IN_CREATE},
    {"io_uring_register EAGAIN", SYS_io_uring_register, EAGAIN, ON_RINGS, IN_CREATE},
    {"io_uring_register ENOMEM", SYS_io_uring_register, ENOMEM, ON_RINGS, IN_CREATE},
    {"io_uring_register EOVERFLOW", SYS_io_uring_register, EOVERFLOW, ON_RINGS, IN_CREATE},
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

/* As refuses, with errno set as by the call. */
static bool refuses_by_errno(long call)
{
    if (!refuses(call))
        return false;
    errno = atomic_load(&refused_error);
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
        if (number == SYS_close) /* which closes whatever it says */
            __real_syscall(number, a[0]);
        errno = atomic_load(&refused_error);
        return -1;
    }
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                                      struct io_uring_params *params)
{
    return refuses_by_errno(CALL_RING_SETUP)
               ? -atomic_load(&refused_error)
               : __real_io_uring_queue_init_params(entries, ring, params);
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
    return refuses_by_errno(CALL_RING_SUBMIT) ? -atomic_load(&refused_error)
                                              : __real_io_uring_submit(ring);
}

#if !LX_TEST_SANITIZED
void *__real_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
int __real_mprotect(void *at, size_t size, int protection);
int __wrap_mprotect(void *at, size_t size, int protection);
int __real_sigaltstack(const stack_t *stack, stack_t *before);
int __wrap_sigaltstack(const stack_t *stack, stack_t *before);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);

void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return refuses_by_errno(CALL_MMAP) ? MAP_FAILED
                                       : __real_mmap64(at, size, protection, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t size)
{
    return refuses_by_errno(CALL_MUNMAP) ? -1 : __real_munmap(at, size);
}

int __wrap_madvise(void *at, size_t size, int advice)
{
    return refuses_by_errno(CALL_MADVISE) ? -1 : __real_madvise(at, size, advice);
}

int __wrap_mprotect(void *at, size_t size, int protection)
{
    return refuses_by_errno(CALL_MPROTECT) ? -1 : __real_mprotect(at, size, protection);
}

int __wrap_sigaltstack(const stack_t *stack, stack_t *before)
{
    return refuses_by_errno(CALL_SIGALTSTACK) ? -1 : __real_sigaltstack(stack, before);
}

/* The result is the error; that errno is set too is what the GNU C library may leave. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg)
{
    return refuses_by_errno(CALL_PTHREAD_CREATE)
               ? atomic_load(&refused_error)
               : __real_pthread_create(thread, attributes, run, arg);
}

#endif

/* ---- the sweep ---- */

static struct refuse_left before;

/* How the runs of a row ended. */
struct tally {
    unsigned runs, refused, create_failed, call_failed, answered, jobs;
};

static void count_run(struct tally *tally, const struct scenario_outcome *outcome, unsigned refused)
{
    tally->runs++;
    tally->refused += refused;
    tally->create_failed += !outcome->created;
    tally->call_failed += outcome->created && outcome->failed > 0;
    tally->answered += outcome->created && outcome->failed == 0;
    tally->jobs += outcome->answered;
}

static void print_tally(const char *name, unsigned known, const struct tally *tally)
{
    printf("%-26s %5u calls, %4u refused: create failed %u times, another call %u times, else all "
           "went on (%u); %u jobs answered once\n",
           name, known, tally->refused, tally->create_failed, tally->call_failed, tally->answered,
           tally->jobs);
}

static void add_tally(struct tally *sum, const struct tally *tally)
{
    sum->runs += tally->runs;
    sum->refused += tally->refused;
    sum->create_failed += tally->create_failed;
    sum->call_failed += tally->call_failed;
    sum->answered += tally->answered;
    sum->jobs += tally->jobs;
}

static struct scenario_outcome live_once(int error)
{
    struct scenario_outcome outcome;

    lx_cancellation_force_slices(false); /* forgets that futex_waitv was refused */
    outcome = scenario_run(error, !LX_TEST_SANITIZED);
    return outcome;
}

/* How rings stand in this cell, found out while nothing is refused. */
static bool begin_sweep(void)
{
    struct scenario_outcome outcome;

    refuse_install();
    live_once(0); /* what the C library opens and keeps */
    before = refuse_count_left();
    outcome = live_once(0);
    LX_REQUIRE(outcome.created && outcome.failed == 0);
    refuse_must_be(before);
    return outcome.rings;
}

static void try_call(const struct fault *fault, unsigned number, struct tally *tally)
{
    struct scenario_outcome outcome;
    unsigned refused_before = atomic_load(&refusals);

    atomic_store(&calls, 0);
    atomic_store(&refused_error, fault->error);
    atomic_store(&refused_call, number);
    atomic_store(&kind, fault->call);
    outcome = live_once(fault->error);
    atomic_store(&kind, 0);
    refuse_must_be(before);
    count_run(tally, &outcome, atomic_load(&refusals) - refused_before);
}

static bool applies(const struct fault *fault, bool rings)
{
    switch (fault->where) {
    case WITH_PROBE:
        return lx_test_env_backend() != LX_TEST_BACKEND_POLL;
    case ON_RINGS:
        return rings;
    case ON_POLL:
        return !rings;
    case PLAIN:
        return !LX_TEST_SANITIZED;
    default:
        return true;
    }
}

Test(fault_syscalls, each_call_refused_in_turn_ends_clean)
{
    struct tally sum = {.runs = 0};
    bool rings = begin_sweep();

    for (unsigned f = 0; f < sizeof faults / sizeof *faults; f++) {
        struct tally tally = {.runs = 0}, counting = {.runs = 0};
        unsigned known, step;

        if (!applies(&faults[f], rings))
            continue;
        try_call(&faults[f], 0, &counting);
        cr_assert_eq(counting.refused, 0);
        known = atomic_load(&calls);
        step = known / CALLS_TRIED + 1;
        for (unsigned number = 1; number <= known; number += step)
            try_call(&faults[f], number, &tally);
        /* How often a thread waits depends on the others: there may have been no such call. */
        for (unsigned again = 0; again < TRIES && tally.refused == 0; again++)
            try_call(&faults[f], 1, &tally);
        print_tally(faults[f].name, known, &tally);
        cr_assert_gt(tally.refused, 0, "%s: nothing was refused", faults[f].name);
        if (faults[f].met == IN_CREATE)
            cr_assert_eq(tally.call_failed, 0, "%s: a call failed", faults[f].name);
        add_tally(&sum, &tally);
    }
    print_tally("all", atomic_load(&refusals), &sum);
}

/* ---- memory, maps and threads, at the seams ---- */

static struct tally sweep_seam(enum refuse_kind seam, const char *name, int error)
{
    struct tally tally = {.runs = 0};
    unsigned k = 1, refused;

    do {
        struct scenario_outcome outcome;

        refuse_kth(seam, k++);
        outcome = live_once(error);
        refused = refuse_stop();
        refuse_must_be(before);
        if (refused > 0)
            count_run(&tally, &outcome, refused);
        else
            LX_REQUIRE(outcome.created && outcome.failed == 0);
    } while (refused > 0);
    print_tally(name, tally.refused, &tally);
    return tally;
}

Test(fault_syscalls, each_allocation_map_and_thread_refused_in_turn_ends_clean)
{
    struct tally memory, maps, threads;

    begin_sweep();
    memory = sweep_seam(REFUSE_MEMORY, "allocations", ENOMEM);
    maps = sweep_seam(REFUSE_MAPS, "maps", ENOMEM);
    threads = sweep_seam(REFUSE_THREADS, "threads", EAGAIN);
    cr_assert_gt(memory.create_failed, 5);
    cr_assert_gt(memory.call_failed, 5);
    cr_assert_gt(maps.create_failed, 0);
    cr_assert_gt(maps.call_failed, 0);
    /* All are started in create. */
    cr_assert_geq(threads.create_failed, 6);
    cr_assert_eq(threads.call_failed, 0);
}

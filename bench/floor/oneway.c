/*
 * oneway: what a call costs who makes it: the entry into the kernel, telling somebody who does not
 * sleep, a ring message by the batch. Each figure is of one call, by the ticks before and after
 * it; the first line is what reading the ticks twice costs, which is in every other.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "floor.h"
#include "futex.h"
#include "report.h"
#include "ticks.h"

#define CALLS       400000L
#define CALLS_QUICK 100000L
#define BURST       256L /* calls between two drains of the target */
#define SENDER_SQ   64u
#define TARGET_SQ   256u
#define TARGET_CQ   16384u
#define BATCHES     3u

static const unsigned batches[BATCHES] = {1, 8, 32};
static const unsigned ring_flags[] = {FLOOR_PLAIN, FLOOR_COOP, FLOOR_DEFER};
static uint32_t *ticks;
static long calls;

static void report(const char *call, const char *flags, long count, unsigned batch)
{
    bench_report_begin("oneway");
    bench_param_text("call", call);
    bench_param_text("ring_flags", flags);
    bench_param_int("batch", batch);
    bench_sort_ticks(ticks, count);
    bench_report("p50", bench_rank_ns(ticks, count, 0.50) / batch, "ns");
    bench_report("p99", bench_rank_ns(ticks, count, 0.99) / batch, "ns");
}

/* ---- calls that reach nobody ---- */

static int event_fd;
static _Atomic uint32_t nobody;
static struct io_uring ring;
static unsigned batch_size;

static void call_nothing(void)
{
}

static void call_getppid(void)
{
    syscall(SYS_getppid);
}

static void call_write(void)
{
    uint64_t one = 1;

    if (write(event_fd, &one, sizeof one) != sizeof one)
        bench_die("write", errno);
}

static void call_futex(void)
{
    bench_futex_wake(&nobody, 1);
}

static void call_enter(void)
{
    syscall(SYS_io_uring_enter, ring.ring_fd, 0, 0, 0, NULL, 0);
}

static void call_nops(void)
{
    for (unsigned i = 0; i < batch_size; i++) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
        io_uring_prep_nop(sqe);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    }
    floor_check(io_uring_submit(&ring), "submit");
}

static void time_calls(const char *name, const char *flags, void (*call)(void), unsigned batch)
{
    long count = calls / batch;

    batch_size = batch;
    for (long i = -count / 20; i < count; i++) {
        uint64_t begin = bench_ticks();
        call();
        if (i >= 0)
            ticks[i] = bench_ticks_short(bench_ticks() - begin);
    }
    report(name, flags, count, batch);
}

/* ---- a running target: it spins in user space on the second CPU while the sender is timed ---- */

static struct {
    struct io_uring ring;
    unsigned flags;
    bool polls;
    _Atomic uint32_t ready, drain, quit;
    uint64_t seen;
} target;

static void take_all(void)
{
    unsigned count;

    /* A ring with deferred task work runs about 20 items an entry: go on till one brings none. */
    do {
        io_uring_get_events(&target.ring);
        count = io_uring_cq_ready(&target.ring);
        target.seen += count;
        io_uring_cq_advance(&target.ring, count);
    } while (count != 0);
}

static void *be_target(void *arg)
{
    struct io_uring_params params = {
        .flags = target.flags | IORING_SETUP_CQSIZE,
        .cq_entries = TARGET_CQ,
    };

    (void)arg;
    bench_pin(1);
    floor_check(io_uring_queue_init_params(TARGET_SQ, &target.ring, &params), "io_uring");
    if (target.polls) {
        io_uring_prep_poll_multishot(io_uring_get_sqe(&target.ring), event_fd, POLLIN);
        floor_check(io_uring_submit(&target.ring), "submit");
    }
    atomic_store(&target.ready, 1);
    while (atomic_load(&target.quit) == 0) {
        if (atomic_load(&target.drain) == 0)
            continue;
        take_all();
        atomic_store(&target.drain, 0);
    }
    io_uring_queue_exit(&target.ring);
    return NULL;
}

static void call_messages(void)
{
    for (unsigned i = 0; i < batch_size; i++)
        floor_prepare_message(&ring, target.ring.ring_fd);
    floor_check(io_uring_submit(&ring), "submit");
}

static void time_bursts(const char *name, void (*call)(void), unsigned batch)
{
    long count = calls / batch;

    batch_size = batch;
    for (long i = 0; i < count; i++) {
        uint64_t begin = bench_ticks();
        call();
        ticks[i] = bench_ticks_short(bench_ticks() - begin);
        if (i % BURST == BURST - 1) {
            atomic_store(&target.drain, 1);
            while (atomic_load(&target.drain) != 0)
                ;
        }
    }
    report(name, floor_ring_text(target.flags), count, batch);
}

static void time_target(unsigned flags, bool polls)
{
    pthread_t thread;

    memset(&target, 0, sizeof target);
    target.flags = flags;
    target.polls = polls;
    event_fd = floor_check(eventfd(0, EFD_CLOEXEC), "eventfd");
    if (pthread_create(&thread, NULL, be_target, NULL) != 0)
        bench_die("threads", EAGAIN);
    while (atomic_load(&target.ready) == 0)
        ;
    if (polls) {
        time_bursts("write to an eventfd that a running ring polls", call_write, 1);
    } else {
        floor_check(io_uring_queue_init(SENDER_SQ, &ring, flags), "io_uring");
        for (unsigned i = 0; i < BATCHES; i++)
            time_bursts("message to a running ring", call_messages, batches[i]);
        floor_check(io_uring_register_ring_fd(&ring), "register_ring_fd");
        for (unsigned i = 0; i < BATCHES; i++)
            time_bursts("message to a running ring, own descriptor registered", call_messages,
                        batches[i]);
        io_uring_queue_exit(&ring);
    }
    atomic_store(&target.quit, 1);
    pthread_join(thread, NULL);
    close(event_fd);
}

void floor_oneway(void)
{
    calls = bench_options.quick ? CALLS_QUICK : CALLS;
    ticks = malloc((size_t)calls * sizeof *ticks);
    if (ticks == NULL)
        bench_die("latencies", ENOMEM);
    memset(ticks, 1, (size_t)calls * sizeof *ticks);
    bench_pin(0);
    time_calls("nothing", "none", call_nothing, 1);
    time_calls("getppid", "none", call_getppid, 1);
    event_fd = floor_check(eventfd(0, EFD_CLOEXEC), "eventfd");
    time_calls("write to an eventfd that nobody reads", "none", call_write, 1);
    close(event_fd);
    time_calls("futex wake without a waiter", "none", call_futex, 1);
    for (unsigned k = 0; k < sizeof ring_flags / sizeof ring_flags[0]; k++) {
        const char *text = floor_ring_text(ring_flags[k]);
        floor_check(io_uring_queue_init(SENDER_SQ, &ring, ring_flags[k]), "io_uring");
        time_calls("io_uring_enter, nothing to do", text, call_enter, 1);
        for (unsigned i = 0; i < BATCHES; i++)
            time_calls("no-ops", text, call_nops, batches[i]);
        io_uring_queue_exit(&ring);
        time_target(ring_flags[k], false);
        time_target(ring_flags[k], true);
    }
    free(ticks);
}

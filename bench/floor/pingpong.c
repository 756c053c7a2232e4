/*
 * pingpong: two threads tell each other in turn; the time of a round trip. Placement: cross = on
 * two CPUs; same = both on one; free = wherever the kernel puts them; awake = cross, with a thread
 * of the idle class spinning on each CPU so that none ever halts (a wake without the leave of the
 * idle state).
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bench.h"
#include "floor.h"
#include "report.h"
#include "ticks.h"

#define TRIPS       200000L
#define TRIPS_QUICK 20000L
#define LIMIT_S     8.0 /* of one measurement */
#define RING_SIZE   64u

enum placement { CROSS, SAME, FREE, AWAKE, PLACEMENTS };
static const char *const placement_text[PLACEMENTS] = {"cross", "same", "free", "awake"};

static pthread_barrier_t barrier;
static enum placement placement;
static uint32_t *ticks;
static long trips, kept;
static struct bench_usage usage;
static _Atomic uint32_t over, idle_over;

static void set_up(unsigned me)
{
    struct floor_side *side = &floor_sides[me];

    memset(side, 0, sizeof *side);
    side->event_fd = -1;
    if (floor_method->event)
        side->event_fd = floor_check(eventfd(0, EFD_CLOEXEC), "eventfd");
    if (floor_method->ring) {
        floor_check(io_uring_queue_init(RING_SIZE, &side->ring, floor_method->flags), "io_uring");
        side->ring_fd = side->ring.ring_fd;
    }
    pthread_barrier_wait(&barrier);
    if (floor_method->init != NULL)
        floor_method->init(me);
    pthread_barrier_wait(&barrier);
}

static void tear_down(unsigned me)
{
    pthread_barrier_wait(&barrier);
    if (floor_method->ring)
        io_uring_queue_exit(&floor_sides[me].ring);
    pthread_barrier_wait(&barrier);
    if (floor_sides[me].event_fd >= 0)
        close(floor_sides[me].event_fd);
}

static void send_wait(unsigned me)
{
    if (floor_method->send_wait != NULL) {
        floor_method->send_wait(me);
        return;
    }
    floor_method->send(me);
    floor_method->wait(me);
}

static void *answer(void *arg)
{
    (void)arg;
    if (placement != FREE)
        bench_pin(placement == SAME ? 0 : 1);
    set_up(1);
    floor_method->wait(1);
    while (atomic_load(&over) == 0)
        send_wait(1);
    floor_method->send(1);
    tear_down(1);
    return NULL;
}

static void *ask(void *arg)
{
    uint64_t begin;

    (void)arg;
    if (placement != FREE)
        bench_pin(0);
    set_up(0);
    for (long i = 0; i < trips / 20; i++)
        send_wait(0);
    usage = bench_usage_begin();
    begin = bench_ticks();
    for (kept = 0; kept < trips;) {
        uint64_t end;
        send_wait(0);
        end = bench_ticks();
        ticks[kept++] = bench_ticks_short(end - begin);
        begin = end;
        if (kept % 1024 == 0 && (double)(bench_now() - usage.wall_ns) > LIMIT_S * 1e9)
            break;
    }
    bench_usage_end(&usage);
    atomic_store(&over, 1);
    send_wait(0); /* the other wakes, sees it, and answers for the last time */
    tear_down(0);
    return NULL;
}

static void *keep_awake(void *arg)
{
    struct sched_param param = {0};

    bench_pin((unsigned)(uintptr_t)arg);
    floor_check(sched_setscheduler(0, SCHED_IDLE, &param), "SCHED_IDLE");
    while (atomic_load_explicit(&idle_over, memory_order_relaxed) == 0)
        ;
    return NULL;
}

static void report(void)
{
    double sum = 0;

    for (long i = 0; i < kept; i++)
        sum += ticks[i];
    bench_report_begin("pingpong");
    bench_param_text("method", floor_method->name);
    bench_param_text("ring_flags",
                     floor_method->ring ? floor_ring_text(floor_method->flags) : "none");
    bench_param_text("placement", placement_text[placement]);
    bench_param_int("trips", kept);
    if (placement != AWAKE) {
        bench_param_real("cpu_us_per_trip", usage.cpu_s * 1e6 / (double)kept);
        bench_param_real("other_cpus", usage.busy_s);
    }
    bench_sort_ticks(ticks, kept);
    bench_report("p50", bench_rank_ns(ticks, kept, 0.50), "ns");
    bench_report("p99", bench_rank_ns(ticks, kept, 0.99), "ns");
    bench_report("mean", sum / (double)kept / bench_ticks_per_ns, "ns");
}

static void start(pthread_t *thread, void *(*run)(void *), uintptr_t arg)
{
    if (pthread_create(thread, NULL, run, (void *)arg) != 0)
        bench_die("threads", EAGAIN);
}

static void measure(void)
{
    pthread_t threads[2], awake[2];

    if (floor_method->spins && (placement == SAME || placement == AWAKE))
        return;
    atomic_store(&over, 0);
    atomic_store(&idle_over, 0);
    pthread_barrier_init(&barrier, NULL, 2);
    for (unsigned i = 0; placement == AWAKE && i < 2; i++)
        start(&awake[i], keep_awake, i);
    start(&threads[1], answer, 0);
    start(&threads[0], ask, 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&idle_over, 1);
    for (unsigned i = 0; placement == AWAKE && i < 2; i++)
        pthread_join(awake[i], NULL);
    pthread_barrier_destroy(&barrier);
    report();
}

/* Quick: what the bounds need, two threads on two CPUs. */
void floor_pingpong(void)
{
    trips =
        bench_options.jobs != 0 ? bench_options.jobs : (bench_options.quick ? TRIPS_QUICK : TRIPS);
    ticks = malloc((size_t)trips * sizeof *ticks);
    if (ticks == NULL)
        bench_die("latencies", ENOMEM);
    memset(ticks, 1, (size_t)trips * sizeof *ticks);
    for (placement = CROSS; placement < (bench_options.quick ? SAME : PLACEMENTS); placement++) {
        for (floor_method = floor_methods; floor_method->name != NULL; floor_method++)
            if (*bench_options.variant == '\0' ||
                strcmp(bench_options.variant, floor_method->name) == 0)
                measure();
    }
    free(ticks);
}

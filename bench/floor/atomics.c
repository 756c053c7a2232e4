/*
 * atomics: what single operations cost on a line that stays in one core, the clocks, and an
 * addition by two cores to one line. Median of 11 runs.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "bench.h"
#include "floor.h"
#include "report.h"
#include "ticks.h"

#define RUNS            11u
#define LOOPS           10000000L
#define LOOPS_QUICK     2000000L
#define CONTENDED_LOOPS 2000000L

static _Atomic uint64_t word __attribute__((aligned(128)));
static volatile uint64_t sink; /* keeps results from being left out */
static _Atomic uint32_t go;

static uint64_t op_ticks(void)
{
    return bench_ticks();
}

static uint64_t op_clock(void)
{
    return bench_now();
}

static uint64_t op_coarse(void)
{
    return bench_clock(CLOCK_MONOTONIC_COARSE);
}

static uint64_t op_exchange(void)
{
    return atomic_exchange(&word, 1);
}

static uint64_t op_add(void)
{
    return atomic_fetch_add(&word, 1);
}

static uint64_t op_swap(void)
{
    uint64_t expected = atomic_load_explicit(&word, memory_order_relaxed);

    atomic_compare_exchange_strong(&word, &expected, expected);
    return expected;
}

static uint64_t op_store_load(void)
{
    atomic_store_explicit(&word, 1, memory_order_release);
    return atomic_load_explicit(&word, memory_order_acquire);
}

static uint64_t op_store_fence(void)
{
    atomic_store_explicit(&word, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return 0;
}

static uint64_t op_nothing(void)
{
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, RUNS, sizeof *values, by_value);
    return values[RUNS / 2];
}

/* The loop is stamped out for each operation, so that the operation is inlined. */
static inline __attribute__((always_inline)) double time_of(uint64_t (*operation)(void))
{
    long loops = bench_options.quick ? LOOPS_QUICK : LOOPS;
    double ns[RUNS];

    for (unsigned run = 0; run < RUNS; run++) {
        uint64_t begin = bench_ticks(), last = 0;
        for (long i = 0; i < loops; i++) {
            last = operation();
            __asm__ volatile("" : "+r"(last)::"memory");
        }
        sink = last;
        ns[run] = (double)(bench_ticks() - begin) / bench_ticks_per_ns / (double)loops;
    }
    return median(ns);
}

static void report(const char *operation, double ns)
{
    bench_report_begin("atomics");
    bench_param_text("operation", operation);
    bench_report("median", ns, "ns");
}

struct adder {
    pthread_t thread;
    unsigned cpu;
    double ns;
};

static void *add_many(void *arg)
{
    struct adder *adder = arg;
    uint64_t begin;

    bench_pin(adder->cpu);
    while (atomic_load(&go) == 0)
        ;
    begin = bench_ticks();
    for (long i = 0; i < CONTENDED_LOOPS; i++)
        atomic_fetch_add_explicit(&word, 1, memory_order_relaxed);
    adder->ns = (double)(bench_ticks() - begin) / bench_ticks_per_ns / (double)CONTENDED_LOOPS;
    return NULL;
}

static double contended(void)
{
    double ns[RUNS];

    bench_unpin();
    for (unsigned run = 0; run < RUNS; run++) {
        struct adder adders[2] = {{.cpu = 0}, {.cpu = 1}};
        struct timespec both_there = {.tv_nsec = 2000000};
        atomic_store(&go, 0);
        for (unsigned i = 0; i < 2; i++)
            if (pthread_create(&adders[i].thread, NULL, add_many, &adders[i]) != 0)
                bench_die("threads", EAGAIN);
        nanosleep(&both_there, NULL);
        atomic_store(&go, 1);
        for (unsigned i = 0; i < 2; i++)
            pthread_join(adders[i].thread, NULL);
        ns[run] = (adders[0].ns + adders[1].ns) / 2;
    }
    return median(ns);
}

void floor_atomics(void)
{
    bench_pin(0);
    report("nothing: the loop", time_of(op_nothing));
    report("the counter that ticks", time_of(op_ticks));
    report("clock_gettime(CLOCK_MONOTONIC)", time_of(op_clock));
    report("clock_gettime(CLOCK_MONOTONIC_COARSE)", time_of(op_coarse));
    report("exchange", time_of(op_exchange));
    report("fetch_add", time_of(op_add));
    report("load, compare_exchange", time_of(op_swap));
    report("store release, load acquire", time_of(op_store_load));
    report("store, full fence", time_of(op_store_fence));
    report("fetch_add, two cores on one line, of each", contended());
}

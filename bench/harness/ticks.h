/*
 * bench/harness/ticks.h - time: the CPU's counter, which is cheaper to read than a clock.
 */
#ifndef BENCH_TICKS_H
#define BENCH_TICKS_H

#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Ticks in a nanosecond; set by bench_ticks_calibrate (1 where the clock itself is read). */
extern double bench_ticks_per_ns;
void bench_ticks_calibrate(void);

static inline uint64_t bench_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t bench_now(void)
{
    return bench_clock(CLOCK_MONOTONIC);
}

static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return bench_now();
#endif
}

static inline uint64_t bench_ticks_of(double ns)
{
    return (uint64_t)(ns * bench_ticks_per_ns);
}

static inline void bench_spin(uint64_t ticks)
{
    uint64_t begin = bench_ticks();

    while (bench_ticks() - begin < ticks)
        ;
}

/* Latencies are kept as 32 bits of ticks: about a second. */
static inline uint32_t bench_ticks_short(uint64_t ticks)
{
    return ticks > UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
}

#endif

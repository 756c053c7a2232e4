/*
 * bench/harness/futex.h - sleeping on a word.
 */
#ifndef BENCH_FUTEX_H
#define BENCH_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void bench_futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static inline void bench_futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* A flag that one thread sleeps on. */
static inline void bench_flag_wait(_Atomic uint32_t *flag)
{
    while (atomic_load(flag) == 0)
        bench_futex_wait(flag, 0);
}

static inline void bench_flag_set(_Atomic uint32_t *flag)
{
    atomic_store(flag, 1);
    bench_futex_wake(flag, 1);
}

#endif

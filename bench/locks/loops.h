/*
 * bench/locks/loops.h - the loops that every lock of W8 is put through, made by a macro so that
 * what a lock inlines is inlined, in C and in C++.
 */
#ifndef BENCH_LOOPS_H
#define BENCH_LOOPS_H

#include "bench.h"
#include "report.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_LOCK_SIZE   512u
#define BENCH_CONTENDERS  2u
#define BENCH_WRITE_IN_90 10u /* in 90/10, each 10th operation of a thread writes */

/* A lock, and two words that its writers keep equal. */
struct bench_box {
    unsigned char lock[BENCH_LOCK_SIZE] __attribute__((aligned(128)));
    volatile uint64_t first __attribute__((aligned(128)));
    volatile uint64_t second;
};

/*
 * One of two threads. go and stop are read by compiler built-ins, since C++ reads them too.
 */
struct bench_contender {
    struct bench_box *box;
    unsigned number;
    bool writes;
    const uint32_t *go, *stop;
    uint64_t operations, torn; /* results */
};

struct bench_lock {
    const char *name;
    bool excludes; /* false: a floor, only the atomics that a lock cannot do without */
    void (*init)(void *lock);
    void (*read_pairs)(void *lock, long count);
    void (*write_pairs)(void *lock, long count);
    void (*contend)(struct bench_contender *contender);
};

/* The locks of a program, from all of its files; each list ends with one without a name. */
extern const struct bench_lock *const bench_lock_lists[];

/* The W8 workload over those lists; --variant names one lock. */
void bench_rwlock(void);

/*
 * `type`, and statements that use `lock` (a type *) and `self` (0 or 1, the thread's number).
 */
#define BENCH_LOCK(id, type, initialise, read_in, read_out, write_in, write_out)                   \
    static void bench_##id##_init(void *memory)                                                    \
    {                                                                                              \
        type *lock = (type *)memory;                                                               \
        (void)lock;                                                                                \
        initialise;                                                                                \
    }                                                                                              \
    static void bench_##id##_read_pairs(void *memory, long count)                                  \
    {                                                                                              \
        type *lock = (type *)memory;                                                               \
        const unsigned self = 0;                                                                   \
        (void)self;                                                                                \
        for (long i = 0; i < count; i++) {                                                         \
            read_in;                                                                               \
            __asm__ volatile("" ::: "memory");                                                     \
            read_out;                                                                              \
        }                                                                                          \
    }                                                                                              \
    static void bench_##id##_write_pairs(void *memory, long count)                                 \
    {                                                                                              \
        type *lock = (type *)memory;                                                               \
        const unsigned self = 0;                                                                   \
        (void)self;                                                                                \
        for (long i = 0; i < count; i++) {                                                         \
            write_in;                                                                              \
            __asm__ volatile("" ::: "memory");                                                     \
            write_out;                                                                             \
        }                                                                                          \
    }                                                                                              \
    static void bench_##id##_contend(struct bench_contender *contender)                            \
    {                                                                                              \
        struct bench_box *box = contender->box;                                                    \
        type *lock = (type *)(void *)box->lock;                                                    \
        const unsigned self = contender->number;                                                   \
        uint64_t operations = 0, torn = 0;                                                         \
        unsigned turn = self * BENCH_WRITE_IN_90 / BENCH_CONTENDERS;                               \
        (void)self;                                                                                \
        while (__atomic_load_n(contender->go, __ATOMIC_ACQUIRE) == 0)                              \
            ;                                                                                      \
        while (__atomic_load_n(contender->stop, __ATOMIC_RELAXED) == 0) {                          \
            if (contender->writes && ++turn == BENCH_WRITE_IN_90) {                                \
                turn = 0;                                                                          \
                write_in;                                                                          \
                box->first = box->first + 1;                                                       \
                box->second = box->second + 1;                                                     \
                write_out;                                                                         \
            } else {                                                                               \
                read_in;                                                                           \
                torn += box->first != box->second;                                                 \
                read_out;                                                                          \
            }                                                                                      \
            operations++;                                                                          \
        }                                                                                          \
        contender->operations = operations;                                                        \
        contender->torn = torn;                                                                    \
    }

#define BENCH_LOCK_ENTRY(id, excludes)                                                             \
    {                                                                                              \
#id, excludes, bench_##id##_init, bench_##id##_read_pairs, bench_##id##_write_pairs,       \
            bench_##id##_contend                                                                   \
    }

#ifdef __cplusplus
}
#endif

#endif

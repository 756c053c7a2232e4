/*
 * W8 rwlock: reader/writer locks alone. First pairs of acquire and release by one pinned thread,
 * with a second thread alive (glibc leaves out the lock prefix of a mutex while there is one):
 * median of 9 runs. Then two threads, pinned to two CPUs, for a second: reads only, and 90 reads to
 * 10 writes, checked for exclusion.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "loops.h"
#include "ticks.h"

#define RUNS        9u
#define PAIRS       5000000L
#define PAIRS_QUICK 1000000L

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure_pairs(const struct bench_lock *lock, struct bench_box *box, bool writes)
{
    void (*pairs)(void *, long) = writes ? lock->write_pairs : lock->read_pairs;
    long count = bench_options.quick ? PAIRS_QUICK : PAIRS;
    double ns[RUNS];

    pairs(box->lock, count);
    for (unsigned run = 0; run < RUNS; run++) {
        uint64_t begin = bench_now();
        pairs(box->lock, count);
        ns[run] = (double)(bench_now() - begin) / (double)count;
    }
    qsort(ns, RUNS, sizeof ns[0], by_value);
    bench_report_begin("rwlock");
    bench_param_int("pairs", count);
    bench_param_real("best", ns[0]);
    bench_param_real("worst", ns[RUNS - 1]);
    bench_report(writes ? "write_pair" : "read_pair", ns[RUNS / 2], "ns");
}

struct thread {
    pthread_t thread;
    const struct bench_lock *lock;
    struct bench_contender contender;
};

static void *contend(void *arg)
{
    struct thread *thread = arg;

    bench_pin(thread->contender.number);
    thread->lock->contend(&thread->contender);
    return NULL;
}

static void measure_two(const struct bench_lock *lock, struct bench_box *box, bool writes,
                        unsigned rep)
{
    struct timespec period = {bench_options.quick ? 0 : 1, bench_options.quick ? 500000000 : 0};
    struct thread threads[BENCH_CONTENDERS];
    uint32_t go = 0, stop = 0;
    struct bench_usage usage;
    double seconds, sum = 0;

    bench_unpin();
    for (unsigned i = 0; i < BENCH_CONTENDERS; i++) {
        threads[i].lock = lock;
        threads[i].contender = (struct bench_contender){
            .box = box, .number = i, .writes = writes, .go = &go, .stop = &stop};
        if (pthread_create(&threads[i].thread, NULL, contend, &threads[i]) != 0)
            bench_die("threads", EAGAIN);
    }
    usage = bench_usage_begin();
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    nanosleep(&period, NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < BENCH_CONTENDERS; i++)
        pthread_join(threads[i].thread, NULL);
    bench_usage_end(&usage);
    seconds = (double)usage.wall_ns / 1e9;
    bench_report_begin("rwlock");
    bench_param_int("threads", BENCH_CONTENDERS);
    bench_param_int("rep", rep);
    bench_param_bool("pinned", true);
    bench_param_real("other_cpus", usage.busy_s);
    for (unsigned i = 0; i < BENCH_CONTENDERS; i++) {
        sum += (double)threads[i].contender.operations;
        if (threads[i].contender.torn != 0)
            bench_die("a reader saw half of a write", EPROTO);
    }
    bench_param_real("share_of_first", (double)threads[0].contender.operations / sum);
    bench_report(writes ? "two_threads_90_10" : "two_threads_read", sum / seconds, "1/s");
}

static void measure(const struct bench_lock *lock)
{
    struct bench_box *box = aligned_alloc(128, sizeof *box);

    if (box == NULL)
        bench_die("lock", ENOMEM);
    memset(box, 0, sizeof *box);
    lock->init(box->lock);
    bench_name = lock->name;
    bench_pin(0);
    measure_pairs(lock, box, false);
    measure_pairs(lock, box, true);
    for (unsigned rep = 0; lock->excludes && rep < bench_options.reps; rep++) {
        measure_two(lock, box, false, rep);
        measure_two(lock, box, true, rep);
    }
    bench_unpin();
    free(box);
}

static void *sleep_for_ever(void *arg)
{
    (void)arg;
    while (pause() < 0)
        ;
    return NULL;
}

void bench_rwlock(void)
{
    const char *name = bench_name;
    pthread_t second;

    if (pthread_create(&second, NULL, sleep_for_ever, NULL) != 0)
        bench_die("threads", EAGAIN);
    memcpy(bench_idiom, "the lock alone", sizeof "the lock alone");
    for (const struct bench_lock *const *list = bench_lock_lists; *list != NULL; list++)
        for (const struct bench_lock *lock = *list; lock->name != NULL; lock++)
            if (*bench_options.variant == '\0' || strcmp(bench_options.variant, lock->name) == 0)
                measure(lock);
    bench_name = name;
    pthread_cancel(second);
    pthread_join(second, NULL);
}

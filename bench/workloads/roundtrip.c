/*
 * W3 roundtrip: one job outstanding: submit, block until the completion is in the submitter; back
 * to back, and with 200 us of sleep before each so that every thread is idle. What it shows: the
 * way there and back between threads that sleep, which is mostly the kernel's; the floor's
 * ping-pong (bench/floor/) is the same without any system between.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "futex.h"
#include "report.h"
#include "stream.h"
#include "ticks.h"
#include "workloads.h"

#define TRIPS           50000L
#define TRIPS_QUICK     10000L
#define GAP_TRIPS       5000L
#define GAP_TRIPS_QUICK 2000L
#define GAP_US          200

static _Atomic uint32_t arrived;

static void done_flag(struct bench_job *job)
{
    (void)job;
    if (bench_traits.wait_some != NULL)
        atomic_store(&arrived, 1);
    else
        bench_flag_set(&arrived);
}

static void trip(struct bench_job *job)
{
    if (bench_traits.call != NULL) {
        bench_traits.call(job);
        return;
    }
    atomic_store(&arrived, 0);
    bench_submit(job);
    if (bench_traits.wait_some == NULL) {
        bench_flag_wait(&arrived);
        return;
    }
    while (atomic_load(&arrived) == 0)
        bench_traits.wait_some();
}

static void report(uint32_t *ticks, long count, unsigned gap_us, struct bench_usage *usage)
{
    bench_report_begin("roundtrip");
    bench_param_int("jobs", count);
    bench_param_int("gap_us", gap_us);
    bench_param_bool("pinned", bench_options.pin);
    bench_param_int("threads", bench_threads());
    bench_param_real("cpu_us_per_trip", usage->cpu_s * 1e6 / (double)(count != 0 ? count : 1));
    bench_param_real("other_cpus", usage->busy_s);
    bench_sort_ticks(ticks, count);
    bench_report("p50", bench_rank_ns(ticks, count, 0.50), "ns");
    bench_report("p99", bench_rank_ns(ticks, count, 0.99), "ns");
}

static void trips(long count, unsigned gap_us)
{
    struct bench_actor *actor = bench_traits.actor_new(BENCH_NORMAL);
    struct bench_jobs jobs = bench_jobs_new(1);
    struct bench_job *job = bench_jobs_at(&jobs, 0);
    struct timespec gap = {.tv_nsec = gap_us * 1000L};
    uint32_t *ticks = calloc((size_t)count, sizeof *ticks);
    uint64_t begin_ns = bench_now();
    struct bench_usage usage = {0};
    long kept = 0;

    if (ticks == NULL)
        bench_die("latencies", ENOMEM);
    job->body = bench_body_empty;
    job->done = done_flag;
    job->actor = actor;
    for (long i = -count / 20; i < count; i++) {
        uint64_t begin;
        if (i == 0)
            usage = bench_usage_begin();
        if (gap_us != 0)
            nanosleep(&gap, NULL);
        begin = bench_ticks();
        trip(job);
        if (i >= 0)
            ticks[kept++] = bench_ticks_short(bench_ticks() - begin);
        if (i % 256 == 0 && (double)(bench_now() - begin_ns) > bench_options.limit_s * 1e9)
            break;
    }
    bench_usage_end(&usage);
    report(ticks, kept, gap_us, &usage);
    free(ticks);
    bench_jobs_free(&jobs);
    bench_traits.actor_free(actor);
}

void bench_roundtrip(void)
{
    for (unsigned rep = 0; rep < bench_options.reps; rep++)
        trips(bench_jobs_wanted(TRIPS, TRIPS_QUICK), 0);
    trips(bench_jobs_wanted(GAP_TRIPS, GAP_TRIPS_QUICK), GAP_US);
}

/*
 * W7 isolation: 16 actors keep four background jobs of 100 us each waiting or running for 10 s;
 * every 2 ms one interactive read goes to another actor. What it shows: how long somebody who waits
 * is held up by background work, and how much background work is done meanwhile.
 */
#include <errno.h>
#include <stdlib.h>

#include "meter.h"
#include "report.h"
#include "stream.h"
#include "ticks.h"
#include "workloads.h"

#define BACKGROUND_ACTORS 16u
#define BACKGROUND_DEPTH  4u
#define BACKGROUND_NS     100000.0
#define READ_EACH_NS      2000000u
#define SECONDS           10
#define SECONDS_QUICK     3

static _Atomic uint32_t over;
static _Atomic uint64_t background_done;
static uint64_t background_ticks;
static uint32_t *latencies;

static void body_background(struct bench_job *job)
{
    (void)job;
    bench_spin(background_ticks);
}

/* Submits the same job again: the class is never without one. */
static void done_background(struct bench_job *job)
{
    if (atomic_load(&over) != 0) {
        bench_meter_add(0);
        return;
    }
    atomic_fetch_add_explicit(&background_done, 1, memory_order_relaxed);
    bench_submit(job);
}

static void done_read(struct bench_job *job)
{
    latencies[job->index] = bench_ticks_short(bench_ticks() - job->sent);
    bench_meter_add(0);
}

static void begin_background(struct bench_actor **actors, struct bench_jobs *jobs)
{
    for (unsigned i = 0; i < BACKGROUND_ACTORS * BACKGROUND_DEPTH; i++) {
        struct bench_job *job = bench_jobs_at(jobs, i);
        job->body = body_background;
        job->done = done_background;
        job->actor = actors[i % BACKGROUND_ACTORS];
        job->job_class = BENCH_BACKGROUND;
        bench_submit(job);
    }
}

static void sleep_until(uint64_t due)
{
    struct timespec at = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)};

    if (bench_traits.sleep_until != NULL)
        bench_traits.sleep_until(due);
    else
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void report(long reads, struct bench_usage *usage, uint64_t background)
{
    double seconds = (double)usage->wall_ns / 1e9;

    bench_report_begin("isolation");
    bench_param_real("seconds", seconds);
    bench_param_int("background_actors", BACKGROUND_ACTORS);
    bench_param_int("background_outstanding", BACKGROUND_ACTORS * BACKGROUND_DEPTH);
    bench_param_int("threads", bench_threads());
    bench_param_real("other_cpus", usage->busy_s);
    bench_sort_ticks(latencies, reads);
    bench_report("latency_p50", bench_rank_ns(latencies, reads, 0.50) / 1000, "us");
    bench_report("latency_p99", bench_rank_ns(latencies, reads, 0.99) / 1000, "us");
    bench_report("latency_p99.9", bench_rank_ns(latencies, reads, 0.999) / 1000, "us");
    bench_report("latency_max", bench_rank_ns(latencies, reads, 1) / 1000, "us");
    bench_report("background_jobs_per_s", (double)background / seconds, "1/s");
}

void bench_isolation(void)
{
    long reads = (bench_options.quick ? SECONDS_QUICK : SECONDS) * 1000000000L / READ_EACH_NS;
    struct bench_actor **actors = bench_actors_new(BACKGROUND_ACTORS, BENCH_BACKGROUND);
    struct bench_actor *actor = bench_traits.actor_new(BENCH_INTERACTIVE);
    struct bench_jobs background = bench_jobs_new(BACKGROUND_ACTORS * BACKGROUND_DEPTH);
    struct bench_jobs jobs = bench_jobs_new(reads);
    uint64_t base = bench_meter_sum(0), done;
    struct bench_usage usage;

    latencies = calloc((size_t)reads, sizeof *latencies);
    if (latencies == NULL)
        bench_die("latencies", ENOMEM);
    background_ticks = bench_ticks_of(BACKGROUND_NS);
    atomic_store(&over, 0);
    begin_background(actors, &background);
    usage = bench_usage_begin();
    done = atomic_load(&background_done);
    for (long i = 0; i < reads; i++) {
        struct bench_job *job = bench_jobs_at(&jobs, i);
        sleep_until(usage.wall_ns + (uint64_t)(i + 1) * READ_EACH_NS);
        job->body = bench_body_empty;
        job->done = done_read;
        job->actor = actor;
        job->job_class = BENCH_INTERACTIVE;
        job->index = (uint32_t)i;
        job->sent = bench_ticks();
        bench_submit(job);
    }
    done = atomic_load(&background_done) - done;
    bench_usage_end(&usage);
    atomic_store(&over, 1);
    bench_meter_wait_all(0, base + (uint64_t)reads + BACKGROUND_ACTORS * BACKGROUND_DEPTH);
    report(reads, &usage, done);
    free(latencies);
    bench_jobs_free(&jobs);
    bench_jobs_free(&background);
    bench_actors_free(actors, BACKGROUND_ACTORS);
    bench_traits.actor_free(actor);
}

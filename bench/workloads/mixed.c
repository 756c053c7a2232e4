/*
 * W2 mixed: as W1, but every 10th job of an actor writes and each body spins for 1 us. What it
 * shows: reads that overlap, writers that are alone, and whether a worker is kept busy meanwhile.
 * Latency is from just before the submission to the completion: with 4096 outstanding it is mostly
 * queueing.
 */
#include "report.h"
#include "stream.h"
#include "workloads.h"

#define JOBS       2000000
#define JOBS_QUICK 400000

void bench_mixed(void)
{
    unsigned count = bench_options.actors != 0 ? bench_options.actors : BENCH_ACTORS;
    struct bench_actor **actors = bench_actors_new(count, BENCH_NORMAL);
    struct bench_stream stream = {
        .actors = actors,
        .actor_count = count,
        .jobs = bench_jobs_wanted(JOBS, JOBS_QUICK),
        .mixed = true,
    };

    bench_stream_report("mixed", &stream, count, false);
    bench_actors_free(actors, count);
}

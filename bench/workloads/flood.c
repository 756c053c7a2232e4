/*
 * W1 flood: 2,000,000 reader jobs with an empty body, round-robin over 64 actors, at most 4096
 * outstanding, from one thread. What it shows: the price of a job when nothing else is to be done.
 */
#include "report.h"
#include "stream.h"
#include "workloads.h"

#define JOBS       2000000
#define JOBS_QUICK 400000

void bench_flood(void)
{
    unsigned count = bench_options.actors != 0 ? bench_options.actors : BENCH_ACTORS;
    struct bench_actor **actors = bench_actors_new(count, BENCH_NORMAL);
    struct bench_stream stream = {
        .actors = actors,
        .actor_count = count,
        .jobs = bench_jobs_wanted(JOBS, JOBS_QUICK),
        .submitters = bench_options.submitters,
    };

    bench_stream_report("flood", &stream, count, false);
    bench_actors_free(actors, count);
}

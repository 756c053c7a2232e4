/*
 * W9 submitters: W1 with 1, 2, 4, 16 and 64 submitting threads, which share the 4096 outstanding
 * jobs and begin at different actors. What it shows: what submitters cost each other. With more
 * threads than CPUs it also shows what the kernel's scheduler makes of it.
 */
#include "report.h"
#include "stream.h"
#include "workloads.h"

#define JOBS       2000000
#define JOBS_QUICK 400000

void bench_submitters(void)
{
    static const unsigned counts[] = {1, 2, 4, 16, 64};
    struct bench_actor **actors = bench_actors_new(BENCH_ACTORS, BENCH_NORMAL);

    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct bench_stream stream = {
            .actors = actors,
            .actor_count = BENCH_ACTORS,
            .jobs = bench_jobs_wanted(JOBS, JOBS_QUICK),
            .submitters = counts[i],
        };
        if (bench_options.submitters != 0 && bench_options.submitters != counts[i])
            continue;
        if (bench_traits.one_submitter && counts[i] > 1)
            break;
        bench_stream_report("submitters", &stream, BENCH_ACTORS, false);
    }
    bench_actors_free(actors, BENCH_ACTORS);
}

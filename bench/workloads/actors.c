/*
 * W4 actors: W1 with 1, 64, 1024, 16384 and 100,000 actors, in ns per job; then with 64 busy ones
 * among 100,000 registered. What it shows: whether a job's price grows with the number of actors,
 * beyond what a larger memory costs.
 */
#include <stdlib.h>

#include "report.h"
#include "stream.h"
#include "workloads.h"

#define JOBS       1000000L
#define JOBS_QUICK 200000L
#define REGISTERED 100000u

static void run(struct bench_actor **actors, unsigned count, unsigned registered)
{
    struct bench_stream stream = {.actors = actors, .actor_count = count};

    stream.jobs = bench_jobs_wanted(JOBS, JOBS_QUICK);
    /* Each actor more than once: its memory is fetched, not only made. */
    if (stream.jobs < 4L * (long)count)
        stream.jobs = 4L * (long)count;
    bench_stream_report("actors", &stream, registered, true);
}

void bench_actors(void)
{
    static const unsigned counts[] = {1, BENCH_ACTORS, 1024, 16384, REGISTERED};
    struct bench_actor **actors, *busy[BENCH_ACTORS];

    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (bench_options.actors != 0 && bench_options.actors != counts[i])
            continue;
        actors = bench_actors_new(counts[i], BENCH_NORMAL);
        run(actors, counts[i], counts[i]);
        if (counts[i] == REGISTERED) {
            /* The busy ones stand between the others, as they would. */
            for (unsigned k = 0; k < BENCH_ACTORS; k++)
                busy[k] = actors[(size_t)k * (REGISTERED / BENCH_ACTORS)];
            run(busy, BENCH_ACTORS, REGISTERED);
        }
        bench_actors_free(actors, counts[i]);
    }
}

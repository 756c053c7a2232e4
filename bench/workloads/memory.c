/*
 * W6 memory: resident bytes of each of 100,000 idle actors, and of each of 1,000,000 queued jobs.
 * A system that queues the caller's own record is charged for that record; one that copies is given
 * the same record again and again. The bytes of an actor's key are counted, and told.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blocked.h"
#include "meter.h"
#include "report.h"
#include "stream.h"
#include "workloads.h"

#define ACTORS  100000u
#define JOBS    1000000L
#define WARM_UP 100

static void fill(struct bench_job *job, struct bench_actor *actor)
{
    job->body = bench_body_empty;
    job->done = bench_done_count;
    job->actor = actor;
    job->kind = BENCH_READ;
}

/* Starts the threads and what is made once. */
static void warm_up(struct bench_job *job)
{
    struct bench_actor *actor = bench_traits.actor_new(BENCH_NORMAL);
    uint64_t base = bench_meter_sum(0);

    fill(job, actor);
    for (unsigned i = 1; i <= WARM_UP; i++) {
        bench_submit(job);
        bench_meter_wait(0, base + i, 0);
    }
    bench_traits.actor_free(actor);
}

static void queue(struct bench_actor *actor, struct bench_job *one, struct bench_job *holder)
{
    uint64_t base = bench_meter_sum(0);
    struct bench_jobs jobs = {0};
    long before, after;

    bench_block(actor, holder);
    before = bench_resident();
    if (bench_traits.intrusive)
        jobs = bench_jobs_new(JOBS);
    fill(one, actor);
    for (long i = 0; i < JOBS; i++) {
        struct bench_job *job = one;
        if (bench_traits.intrusive) {
            job = bench_jobs_at(&jobs, i);
            fill(job, actor);
        }
        bench_submit(job);
    }
    after = bench_resident();
    bench_report_begin("memory");
    bench_param_int("queued", JOBS);
    bench_param_int("id_bytes", bench_options.id_size);
    bench_param_text("record", bench_traits.intrusive ? "the caller's" : "the system's");
    bench_report("bytes_per_job", (double)(after - before) / (double)JOBS, "B");
    bench_unblock();
    bench_meter_wait_all(0, base + 1 + (uint64_t)JOBS);
    bench_jobs_free(&jobs);
}

void bench_memory(void)
{
    struct bench_jobs jobs = bench_jobs_new(2);
    struct bench_actor **actors = calloc(ACTORS, sizeof(struct bench_actor *));
    long before, after;

    if (actors == NULL)
        bench_die("actors", ENOMEM);
    warm_up(bench_jobs_at(&jobs, 0));
    memset(actors, 1, ACTORS * sizeof(struct bench_actor *)); /* resident before it counts */
    before = bench_resident();
    for (unsigned i = 0; i < ACTORS; i++)
        actors[i] = bench_traits.actor_new(BENCH_NORMAL);
    after = bench_resident();
    bench_report_begin("memory");
    bench_param_int("actors", ACTORS);
    bench_report("bytes_per_actor", (double)(after - before) / ACTORS, "B");
    queue(actors[0], bench_jobs_at(&jobs, 0), bench_jobs_at(&jobs, 1));
    bench_actors_free(actors, ACTORS);
    bench_jobs_free(&jobs);
}

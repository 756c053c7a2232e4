#include "stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "meter.h"
#include "report.h"
#include "ticks.h"

#define WARM_UP 20000L /* jobs: threads started, caches and allocators filled */

struct submitter {
    struct bench_stream *stream;
    pthread_t thread;
    uint64_t begin_ns;
    long jobs, window, done;
    unsigned number;
    bool cut;
};

static uint32_t *latencies; /* of a mixed stream, by job */
static uint64_t body_ticks;

struct bench_actor **bench_actors_new(unsigned count, enum bench_class job_class)
{
    struct bench_actor **actors = calloc(count, sizeof(struct bench_actor *));

    if (actors == NULL)
        bench_die("actors", ENOMEM);
    for (unsigned i = 0; i < count; i++)
        actors[i] = bench_traits.actor_new(job_class);
    return actors;
}

void bench_actors_free(struct bench_actor **actors, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        bench_traits.actor_free(actors[i]);
    free(actors);
}

struct bench_jobs bench_jobs_new(long count)
{
    struct bench_jobs jobs;

    jobs.stride = sizeof(struct bench_job) + bench_traits.job_extra;
    jobs.stride = (jobs.stride + BENCH_LINE - 1) / BENCH_LINE * BENCH_LINE;
    jobs.memory = aligned_alloc(BENCH_LINE, (size_t)count * jobs.stride);
    if (jobs.memory == NULL)
        bench_die("jobs", ENOMEM);
    memset(jobs.memory, 0, (size_t)count * jobs.stride);
    return jobs;
}

void bench_jobs_free(struct bench_jobs *jobs)
{
    free(jobs->memory);
}

void bench_body_empty(struct bench_job *job)
{
    (void)job;
}

void bench_done_count(struct bench_job *job)
{
    bench_meter_add(job->submitter);
}

static void body_spin(struct bench_job *job)
{
    (void)job;
    bench_spin(body_ticks);
}

/* Gives the slot back. Release: with the submitter's acquire before it writes the slot anew. */
static void done_slot(struct bench_job *job)
{
    unsigned submitter = job->submitter;

    atomic_store_explicit(&job->busy, 0, memory_order_release);
    bench_meter_add(submitter);
}

static void done_latency(struct bench_job *job)
{
    latencies[job->index] = bench_ticks_short(bench_ticks() - job->sent);
    done_slot(job);
}

long bench_jobs_wanted(long full, long quick)
{
    return bench_options.jobs != 0 ? bench_options.jobs : bench_options.quick ? quick : full;
}

/* Waits until there is room for job i; false if the time is up. */
static bool make_room(struct submitter *submitter, uint64_t base, long i, uint64_t *known)
{
    uint64_t window = (uint64_t)submitter->window, sent = base + (uint64_t)i;

    *known = bench_meter_sum(submitter->number);
    if (sent - *known >= window) {
        /* Till half of it is free: a submitter that wakes for each completion measures wakes. */
        bench_meter_wait(submitter->number, sent - window / 2, window / 2);
        *known = bench_meter_sum(submitter->number);
    }
    return (double)(bench_now() - submitter->begin_ns) < bench_options.limit_s * 1e9;
}

static void *submit_all(void *arg)
{
    struct submitter *submitter = arg;
    struct bench_stream *stream = submitter->stream;
    uint64_t base = bench_meter_sum(submitter->number), known = base;
    unsigned actor = submitter->number % stream->actor_count, round = 0;
    long slots = 1, slot = 0, i;
    struct bench_jobs jobs;

    while (slots < 2 * submitter->window)
        slots *= 2;
    jobs = bench_jobs_new(slots);
    for (i = 0; i < submitter->jobs; i++) {
        struct bench_job *job;

        if (base + (uint64_t)i - known >= (uint64_t)submitter->window &&
            !make_room(submitter, base, i, &known)) {
            submitter->cut = true;
            break;
        }
        /* The next that is free: at least half of them are, and where jobs overtake each other
           (reads before writers) one may be taken for long. Acquire: with the release in done_slot.
         */
        do
            job = bench_jobs_at(&jobs, slot++ & (slots - 1));
        while (atomic_load_explicit(&job->busy, memory_order_acquire) != 0);
        job->body = stream->mixed ? body_spin : bench_body_empty;
        job->done = stream->mixed ? done_latency : done_slot;
        job->actor = stream->actors[actor];
        job->index = (uint32_t)i;
        job->kind = stream->mixed && round % BENCH_WRITE_EACH == BENCH_WRITE_EACH - 1 ? BENCH_WRITE
                                                                                      : BENCH_READ;
        job->job_class = BENCH_NORMAL;
        job->submitter = (uint16_t)submitter->number;
        atomic_store_explicit(&job->busy, 1, memory_order_relaxed);
        if (stream->mixed)
            job->sent = bench_ticks();
        bench_submit(job);
        if (++actor == stream->actor_count) {
            actor = 0;
            round++;
        }
    }
    submitter->done = i;
    bench_meter_wait_all(submitter->number, base + (uint64_t)i);
    bench_jobs_free(&jobs);
    return NULL;
}

void bench_stream_run(struct bench_stream *stream)
{
    struct submitter all[BENCH_SUBMITTERS_MAX] = {0};
    unsigned count = stream->submitters != 0 ? stream->submitters : 1;
    struct bench_usage usage;
    long window = bench_options.window != 0 ? bench_options.window : BENCH_WINDOW;

    usage = bench_usage_begin();
    for (unsigned i = 0; i < count; i++) {
        all[i] = (struct submitter){
            .stream = stream,
            .jobs = stream->jobs / count,
            .window = window / count,
            .number = i,
            .begin_ns = usage.wall_ns,
        };
        if (i > 0 && pthread_create(&all[i].thread, NULL, submit_all, &all[i]) != 0)
            bench_die("threads", EAGAIN);
    }
    submit_all(&all[0]);
    stream->threads = bench_threads();
    for (unsigned i = 1; i < count; i++)
        pthread_join(all[i].thread, NULL);
    bench_usage_end(&usage);
    stream->done = 0;
    stream->cut = false;
    for (unsigned i = 0; i < count; i++) {
        stream->done += all[i].done;
        stream->cut |= all[i].cut;
    }
    stream->wall_s = (double)usage.wall_ns / 1e9;
    stream->cpu_s = usage.cpu_s;
    stream->others = usage.busy_s;
}

static void report_latencies(long count)
{
    bench_sort_ticks(latencies, count);
    bench_report("latency_p50", bench_rank_ns(latencies, count, 0.50), "ns");
    bench_report("latency_p99", bench_rank_ns(latencies, count, 0.99), "ns");
}

void bench_stream_report(const char *workload, struct bench_stream *stream, unsigned registered,
                         bool per_job_only)
{
    struct bench_stream warm = *stream;

    body_ticks = bench_ticks_of(BENCH_BODY_NS);
    if (stream->mixed) {
        latencies = malloc((size_t)stream->jobs * sizeof *latencies);
        if (latencies == NULL)
            bench_die("latencies", ENOMEM);
        memset(latencies, 1, (size_t)stream->jobs * sizeof *latencies);
    }
    warm.mixed = false;
    warm.jobs = stream->jobs / 20 < WARM_UP ? stream->jobs / 20 : WARM_UP;
    bench_stream_run(&warm);
    for (unsigned rep = 0; rep < bench_options.reps; rep++) {
        if (bench_traits.counters_begin != NULL)
            bench_traits.counters_begin();
        bench_stream_run(stream);
        bench_report_begin(workload);
        bench_param_int("actors", stream->actor_count);
        bench_param_int("registered", registered);
        bench_param_int("submitters", stream->submitters != 0 ? stream->submitters : 1);
        bench_param_int("jobs", stream->done);
        bench_param_int("rep", rep);
        bench_param_int("threads", stream->threads);
        bench_param_bool("cut_at_limit", stream->cut);
        bench_param_real("other_cpus", stream->others);
        if (per_job_only) {
            bench_report("ns_per_job", stream->wall_s * 1e9 / (double)stream->done, "ns");
        } else {
            bench_report("jobs_per_s", (double)stream->done / stream->wall_s, "1/s");
            bench_report("cpu_s_per_mjob", stream->cpu_s / ((double)stream->done / 1e6), "s");
            if (bench_traits.counters_report != NULL)
                bench_traits.counters_report(stream->done);
        }
        if (stream->mixed)
            report_latencies(stream->done);
        if (stream->cut)
            break;
    }
    free(latencies);
    latencies = NULL;
}

/*
 * bench/harness/stream.h - a stream of jobs, round-robin over actors, with a bound on how many are
 * outstanding: what W1, W2, W4 and W9 are made of.
 */
#ifndef BENCH_STREAM_H
#define BENCH_STREAM_H

#include "bench.h"

#define BENCH_WINDOW     4096u /* jobs outstanding at most, of all submitters together */
#define BENCH_ACTORS     64u
#define BENCH_WRITE_EACH 10u /* in mixed streams, of an actor's jobs */
#define BENCH_BODY_NS    1000.0

struct bench_actor **bench_actors_new(unsigned count, enum bench_class job_class);
void bench_actors_free(struct bench_actor **actors, unsigned count);

/* Jobs with the system's bytes behind each, all zero. */
struct bench_jobs {
    char *memory;
    size_t stride;
};
struct bench_jobs bench_jobs_new(long count);
void bench_jobs_free(struct bench_jobs *jobs);
static inline struct bench_job *bench_jobs_at(const struct bench_jobs *jobs, long i)
{
    return (struct bench_job *)(void *)(jobs->memory + (size_t)i * jobs->stride);
}

struct bench_stream {
    struct bench_actor **actors;
    unsigned actor_count;
    long jobs; /* of all submitters together */
    unsigned submitters;
    bool mixed; /* every 10th job of an actor writes, bodies spin, latencies are kept */
    /* Results: */
    double wall_s, cpu_s, others;
    long done;
    int threads;
    bool cut;
};
void bench_stream_run(struct bench_stream *stream);

/*
 * Warms up, runs the stream bench_options.reps times, and reports jobs_per_s and cpu_s_per_mjob
 * (and latencies if mixed). With per_job_only, ns_per_job alone.
 */
void bench_stream_report(const char *workload, struct bench_stream *stream, unsigned registered,
                         bool per_job_only);

/* Bodies and ends that several workloads share. */
void bench_body_empty(struct bench_job *job);
void bench_done_count(struct bench_job *job);

/* bench_options.jobs if given, else by --quick. */
long bench_jobs_wanted(long full, long quick);

#endif

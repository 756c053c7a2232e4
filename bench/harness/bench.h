/*
 * bench/harness/bench.h - what a workload and a system under test know of each other.
 *
 * A workload (bench/workloads/) is one file, written once; a system (lanex, or a peer of
 * bench/peers/) is one file that defines bench_traits and bench_submit. Each program is the
 * harness, all workloads and one system, so that every system does exactly the same work.
 *
 * A submitted job ends with job->body(job) on a thread of the system and then job->done(job): where
 * the system tells of completions (on the worker, in a callback, or on the submitter's loop).
 *
 * What the harness costs each system alike, per job: a record of one cache line from a ring, a call
 * of bench_submit and two indirect calls, one uncontended atomic addition to a counter of the
 * worker's own, and one load of a word that is seldom written.
 *
 * Read by C++ too: what only the harness touches is atomic in C alone.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define BENCH_ATOMIC(type) type
extern "C" {
#else
#include <stdatomic.h>
#define BENCH_ATOMIC(type) _Atomic(type)
#endif

#define BENCH_LINE 64u /* bytes of a cache line */

enum bench_kind {
    BENCH_READ = 0,
    BENCH_WRITE = 1,
};

enum bench_class {
    BENCH_NORMAL = 0,
    BENCH_INTERACTIVE = 1,
    BENCH_BACKGROUND = 2,
};
#define BENCH_CLASSES 3

struct bench_actor; /* the system's own */
struct bench_job;
typedef void (*bench_fn)(struct bench_job *job);

struct bench_job {
    bench_fn body;
    bench_fn done;
    struct bench_actor *actor;
    struct bench_job *next; /* the system's own, from submission to done */
    uint64_t sent;          /* ticks */
    uint32_t index;
    uint32_t mark; /* the workload's own */
    uint8_t kind;  /* enum bench_kind */
    uint8_t job_class;
    uint16_t submitter;          /* whose meter counts it */
    BENCH_ATOMIC(uint32_t) busy; /* the slot of the ring is in use; the harness's own */
} __attribute__((aligned(64)));

struct bench_options {
    const char *workload;
    const char *variant;  /* of the system; "" */
    const char *dispatch; /* lanex alone; NULL: its default */
    const char *backend;  /* likewise */
    const char *sink;     /* lanex alone: callback, ticket, port, port-ring, cqe; NULL */
    unsigned workers;
    unsigned actors; /* 0: what the workload says; so for all of these */
    unsigned reps;
    unsigned submitters;
    unsigned window;  /* jobs outstanding at most */
    unsigned id_size; /* bytes of each job's request id; lanex alone */
    unsigned spin_us; /* before a thread sleeps; lanex alone */
    long jobs;
    double limit_s; /* a run that takes longer is cut, and says so */
    bool quick;
    bool json;
    bool pin; /* the submitter on the first CPU, the system's threads on the second */
};
extern struct bench_options bench_options;

struct bench_traits {
    const char *name;
    size_t job_extra;   /* bytes that the system needs behind each job; bench_job_extra() */
    bool intrusive;     /* a queued job lives in the caller's memory */
    bool one_submitter; /* may be called from the thread that called start alone */
    /* Sets up, from bench_options; says in bench_idiom how a job is mapped to the system. */
    void (*start)(void);
    void (*stop)(void);
    struct bench_actor *(*actor_new)(enum bench_class job_class);
    void (*actor_free)(struct bench_actor *actor);
    /* For systems whose completions are told on the submitter's own loop, else NULL: */
    void (*wait_some)(void);           /* runs the loop until something has happened */
    void (*sleep_until)(uint64_t due); /* runs the loop until this time of CLOCK_MONOTONIC */
    /* Submits and waits for the completion, where the system has such a call; else NULL. */
    void (*call)(struct bench_job *job);
    /* What the system counts itself: begin remembers, report reports; while nothing runs. */
    void (*counters_begin)(void);
    void (*counters_report)(long jobs);
};
extern const struct bench_traits bench_traits;

/* Submits a job: actor, kind, job_class, body and done are set. */
void bench_submit(struct bench_job *job);

#define BENCH_TEXT 512u
extern char bench_idiom[BENCH_TEXT];
extern const char *bench_name; /* traits.name, or what start made of it */

static inline void bench_run(struct bench_job *job)
{
    job->body(job);
    job->done(job);
}

/* The system's bytes behind a job. */
static inline void *bench_job_extra(struct bench_job *job)
{
    return job + 1;
}

static inline struct bench_job *bench_job_of_extra(void *extra)
{
    return (struct bench_job *)extra - 1;
}

/* Ends the program with a message. */
void bench_die(const char *what, int error) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif

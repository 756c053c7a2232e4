/*
 * semantics: 100,000 jobs on 4 actors, 10% of them writers: what a system promises of exclusion
 * (never a writer beside anyone), order (a job sees exactly the writes that were submitted before
 * it) and overlap (reads side by side), counted. Not a measurement: it says what the others'
 * figures are figures of.
 */
#include <string.h>

#include "meter.h"
#include "report.h"
#include "stream.h"
#include "ticks.h"
#include "workloads.h"

#define JOBS    100000L
#define ACTORS  4u
#define BODY_NS 500.0
#define WINDOW  2048L

static struct actor_state {
    _Atomic uint32_t writes, readers, writers;
} __attribute__((aligned(BENCH_LINE))) states[ACTORS];

static _Atomic uint64_t exclusion, order, overlap;
static uint64_t body_ticks;

static void body(struct bench_job *job)
{
    struct actor_state *state = &states[job->index % ACTORS];

    if (atomic_load(&state->writes) != job->mark)
        atomic_fetch_add(&order, 1);
    if (job->kind == BENCH_WRITE) {
        if (atomic_fetch_add(&state->writers, 1) != 0 || atomic_load(&state->readers) != 0)
            atomic_fetch_add(&exclusion, 1);
        bench_spin(body_ticks);
        atomic_fetch_add(&state->writes, 1);
        atomic_fetch_sub(&state->writers, 1);
    } else {
        if (atomic_fetch_add(&state->readers, 1) != 0)
            atomic_fetch_add(&overlap, 1);
        if (atomic_load(&state->writers) != 0)
            atomic_fetch_add(&exclusion, 1);
        bench_spin(body_ticks);
        atomic_fetch_sub(&state->readers, 1);
    }
}

void bench_semantics(void)
{
    struct bench_actor **actors = bench_actors_new(ACTORS, BENCH_NORMAL);
    struct bench_jobs jobs = bench_jobs_new(JOBS);
    uint64_t base = bench_meter_sum(0);
    uint32_t writes[ACTORS] = {0};

    memset(states, 0, sizeof states);
    body_ticks = bench_ticks_of(BODY_NS);
    for (long i = 0; i < JOBS; i++) {
        struct bench_job *job = bench_jobs_at(&jobs, i);
        unsigned actor = (unsigned)(i % ACTORS);
        bool write = i / ACTORS % BENCH_WRITE_EACH == BENCH_WRITE_EACH - 1;
        job->body = body;
        job->done = bench_done_count;
        job->actor = actors[actor];
        job->kind = write ? BENCH_WRITE : BENCH_READ;
        job->index = (uint32_t)i;
        job->mark = writes[actor];
        writes[actor] += write;
        bench_submit(job);
        if (i % WINDOW == WINDOW - 1)
            bench_meter_wait(0, base + (uint64_t)(i + 1 - WINDOW / 2), 0);
    }
    bench_meter_wait_all(0, base + (uint64_t)JOBS);
    bench_report_begin("semantics");
    bench_param_int("jobs", JOBS);
    bench_param_int("actors", ACTORS);
    bench_report("exclusion_violations", (double)atomic_load(&exclusion), "1");
    bench_report("order_violations", (double)atomic_load(&order), "1");
    bench_report("overlapping_reads", (double)atomic_load(&overlap), "1");
    bench_jobs_free(&jobs);
    bench_actors_free(actors, ACTORS);
}

/*
 * bench/executor/system.c - lanex as a system under the common workloads.
 *
 * A job is a pure_read or a mutating job with the callback sink; background jobs are of the
 * maintenance class. Each submitting thread keeps its options filled and changes what differs.
 * Many-core profile with the caps at the number of workers; policy reads_first, but arrival where
 * order is checked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "executor.h"
#include "meter.h"
#include "report.h"
#include "workloads.h"

#define ID_FILL 'r'

lanex_executor *bench_executor;
static unsigned actors_made;
static char request_id[4097];

int bench_check(int rc, const char *what)
{
    if (rc < 0)
        bench_die(what, rc);
    return rc;
}

static void body(lanex_job *job, void *context, void *arg)
{
    struct bench_job *bench_job = arg;

    (void)job;
    (void)context;
    bench_job->body(bench_job);
}

static void completed(lanex_completion *completion, void *arg)
{
    struct bench_job *job = arg;

    if (lanex_completion_status(completion) != LANEX_STATUS_OK) {
        fprintf(stderr, "lanex: a job ended with %s\n", lanex_completion_code(completion));
        exit(1);
    }
    job->done(job);
}

static _Thread_local lanex_job_options template = {
    .size = sizeof(lanex_job_options),
    .run = body,
    .sink = {.kind = LANEX_SINK_CALLBACK, .callback = completed},
};

static inline lanex_job_options *options_of(struct bench_job *job)
{
    template.lane = job->kind == BENCH_WRITE ? LANEX_LANE_MUTATING : LANEX_LANE_PURE_READ;
    template.job_class =
        job->job_class == BENCH_BACKGROUND ? LANEX_CLASS_MAINTENANCE : LANEX_CLASS_INTERACTIVE;
    template.arg = job;
    template.sink.callback_arg = job;
    if (bench_options.id_size != 0) {
        template.request_id = request_id;
        template.request_id_length = bench_options.id_size;
    }
    return &template;
}

void bench_submit(struct bench_job *job)
{
    bench_check(lanex_submit((lanex_actor *)(void *)job->actor, options_of(job), NULL), "submit");
}

/* The blocking idiom: a ticket. */
static void call(struct bench_job *job)
{
    lanex_job_options options = *options_of(job);
    lanex_ticket *ticket;

    options.sink = (lanex_sink){.kind = LANEX_SINK_TICKET};
    bench_check(lanex_submit_ticket((lanex_actor *)(void *)job->actor, &options, &ticket),
                "submit_ticket");
    bench_check(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), "ticket_wait");
    lanex_ticket_drop(ticket);
}

static uint32_t choice(const char *text, const char *first, uint32_t is_first, const char *second,
                       uint32_t is_second)
{
    if (text == NULL)
        return 0;
    if (strcmp(text, first) != 0 && strcmp(text, second) != 0) {
        fprintf(stderr, "lanex: neither %s nor %s: %s\n", first, second, text);
        exit(2);
    }
    return strcmp(text, first) == 0 ? is_first : is_second;
}

lanex_executor_options bench_executor_options(void)
{
    static uint32_t cpu;
    bool binds = bench_options.pin && bench_options.spin_us != 0;

    cpu = bench_cpu(1);
    return (lanex_executor_options){
        .size = sizeof(lanex_executor_options),
        .profile = LANEX_PROFILE_MANY_CORE,
        .policy = strcmp(bench_options.workload, "semantics") == 0 ? LANEX_POLICY_ARRIVAL
                                                                   : LANEX_POLICY_READS_FIRST,
        .pool_size = bench_options.workers,
        .actor_cap = bench_options.workers,
        .read_cap = bench_options.workers,
        .dispatch = choice(bench_options.dispatch, "seat", LANEX_DISPATCH_SEAT, "scheduler",
                           LANEX_DISPATCH_SCHEDULER),
        .backend =
            choice(bench_options.backend, "ring", LANEX_BACKEND_RING, "poll", LANEX_BACKEND_POLL),
        .spin_us = bench_options.spin_us,
        .affinity = binds ? LANEX_AFFINITY_LIST : LANEX_AFFINITY_NONE,
        .affinity_count = binds ? 1 : 0,
        .affinity_cpus = binds ? &cpu : NULL,
    };
}

static void start(void)
{
    lanex_executor_options options = bench_executor_options();
    lanex_config config = {.size = sizeof config};

    memset(request_id, ID_FILL, sizeof request_id - 1);
    actors_made = 0;
    bench_check(lanex_executor_create(&options, &bench_executor), "create");
    bench_check(lanex_executor_config(bench_executor, &config), "config");
    snprintf(
        bench_idiom, sizeof bench_idiom,
        "pure_read and mutating jobs, callback sink (roundtrip: ticket); many-core profile, "
        "%u workers, actor_cap %u, read_cap %u, policy %s, dispatch %s, backend %s, spin %u us",
        config.pool_size, config.actor_cap, config.read_cap,
        config.policy == LANEX_POLICY_ARRIVAL ? "arrival" : "reads_first",
        config.dispatch == LANEX_DISPATCH_SEAT ? "seat" : "scheduler",
        bench_options.backend != NULL ? bench_options.backend : "auto", config.spin_us);
}

static void stop(void)
{
    bench_check(lanex_executor_destroy(bench_executor), "destroy");
    bench_executor = NULL;
}

static struct bench_actor *actor_new(enum bench_class job_class)
{
    lanex_actor *actor;
    char key[32];
    int length = snprintf(key, sizeof key, "actor-%08u", actors_made++);

    (void)job_class;
    bench_check(lanex_actor_register(bench_executor, key, (size_t)length, NULL, &actor),
                "register");
    return (struct bench_actor *)(void *)actor;
}

/* Its last job's end is filed before its completion is seen, so it is idle. */
static void actor_free(struct bench_actor *bench_actor)
{
    lanex_actor *actor = (lanex_actor *)(void *)bench_actor;
    size_t length;
    const void *key = lanex_actor_key(actor, &length);

    bench_check(lanex_actor_retire(bench_executor, key, length), "retire");
    lanex_actor_unref(actor);
}

static lanex_counters counters;

static void counters_begin(void)
{
    counters.size = sizeof counters;
    bench_check(lanex_executor_counters(bench_executor, &counters), "counters");
}

static void counters_report(long jobs)
{
    lanex_counters before = counters;
    uint64_t wakes;

    counters_begin();
    wakes = counters.wakes - before.wakes;
    bench_report("wakes_per_job", (double)wakes / (double)jobs, "1");
    bench_report("wakes_in_vain",
                 wakes == 0 ? 0
                            : (double)(counters.wakes_without_work - before.wakes_without_work) /
                                  (double)wakes,
                 "1");
    bench_report("turns_per_job", (double)(counters.turns - before.turns) / (double)jobs, "1");
    bench_report("messages_per_job",
                 (double)(counters.ring_messages - before.ring_messages) / (double)jobs, "1");
}

const struct bench_traits bench_traits = {
    .name = "lanex",
    .start = start,
    .stop = stop,
    .actor_new = actor_new,
    .actor_free = actor_free,
    .call = call,
    .counters_begin = counters_begin,
    .counters_report = counters_report,
};

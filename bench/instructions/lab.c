#include "lab.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

#include "futex.h"

lanex_executor *lab_executor;
lanex_actor *lab_actors[LAB_ACTORS];

static lanex_actor *holders[LAB_WORKERS];
static struct gate {
    _Atomic uint32_t begun, open;
    lanex_ticket *ticket;
} gates[LAB_WORKERS];
static unsigned held; /* gates from this one on are open */
static _Atomic uint32_t done;
static _Atomic uint32_t wanted;

int lab_check(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "bench-instructions: %s: %s\n", what, strerror(-rc));
        exit(1);
    }
    return rc;
}

static lanex_actor *actor(const char *kind, unsigned number)
{
    lanex_actor *made;
    char key[32];
    int length = snprintf(key, sizeof key, "%s-%04u", kind, number);

    lab_check(lanex_actor_register(lab_executor, key, (size_t)length, NULL, &made), "register");
    return made;
}

/* All threads on the CPU that this one is on: memory is handed out by CPU. */
static void bind_all(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)lab_check(sched_getcpu(), "getcpu"), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        lab_check(-errno, "affinity");
}

void lab_open(void)
{
    bind_all();
    lanex_executor_options options = {
        .size = sizeof options,
        .profile = LANEX_PROFILE_MANY_CORE,
        .pool_size = LAB_WORKERS,
        .actor_cap = LAB_WORKERS,
        .read_cap = LAB_WORKERS,
        .dispatch = LANEX_DISPATCH_SEAT,
        .backend = LANEX_BACKEND_POLL,
    };

    lab_check(lanex_executor_create(&options, &lab_executor), "create");
    for (unsigned i = 0; i < LAB_ACTORS; i++)
        lab_actors[i] = actor("actor", i);
    for (unsigned i = 0; i < LAB_WORKERS; i++)
        holders[i] = actor("holder", i);
}

void lab_close(void)
{
    for (unsigned i = 0; i < LAB_ACTORS; i++)
        lanex_actor_unref(lab_actors[i]);
    for (unsigned i = 0; i < LAB_WORKERS; i++)
        lanex_actor_unref(holders[i]);
    lab_check(lanex_executor_destroy(lab_executor), "destroy");
}

void lab_begin(void)
{
    CALLGRIND_START_INSTRUMENTATION;
}

void lab_end(const char *name, unsigned count)
{
    CALLGRIND_STOP_INSTRUMENTATION;
    CALLGRIND_DUMP_STATS_AT(name);
    printf("{\"case\":\"%s\",\"count\":%u}\n", name, count);
    fflush(stdout);
}

static void sleep_in_gate(lanex_job *job, void *context, void *arg)
{
    struct gate *gate = arg;

    (void)job;
    (void)context;
    bench_flag_set(&gate->begun);
    bench_flag_wait(&gate->open);
}

void lab_hold(void)
{
    for (held = 0; held < LAB_WORKERS; held++) {
        struct gate *gate = &gates[held];
        lanex_job_options options = lab_job(LANEX_LANE_MUTATING);
        atomic_store(&gate->begun, 0);
        atomic_store(&gate->open, 0);
        options.run = sleep_in_gate;
        options.arg = gate;
        lab_check(lanex_submit_ticket(holders[held], &options, &gate->ticket), "submit");
        bench_flag_wait(&gate->begun);
    }
}

void lab_release_one(void)
{
    bench_flag_set(&gates[--held].open);
}

void lab_release(void)
{
    while (held > 0)
        lab_release_one();
    for (unsigned i = 0; i < LAB_WORKERS; i++) {
        lab_check(lanex_ticket_wait(gates[i].ticket, LANEX_TIME_NEVER), "wait");
        lanex_ticket_drop(gates[i].ticket);
    }
    for (unsigned i = 0; i < LAB_ACTORS; i++) {
        size_t length;
        const void *key = lanex_actor_key(lab_actors[i], &length);
        while (lab_check(lanex_actor_idle(lab_executor, key, length), "idle") == 0)
            usleep(100);
    }
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

lanex_job_options lab_job(enum lanex_lane lane)
{
    return (lanex_job_options){.size = sizeof(lanex_job_options), .lane = lane, .run = nothing};
}

static void count_one(lanex_completion *completion, void *arg)
{
    (void)completion;
    (void)arg;
    if (atomic_fetch_add(&done, 1) + 1 == atomic_load(&wanted))
        bench_futex_wake(&done, 1);
}

lanex_job_options lab_counted_job(enum lanex_lane lane)
{
    lanex_job_options options = lab_job(lane);

    options.sink = (lanex_sink){.kind = LANEX_SINK_CALLBACK, .callback = count_one};
    return options;
}

void lab_count_from(void)
{
    atomic_store(&done, 0);
    atomic_store(&wanted, 0);
}

void lab_wait(unsigned count)
{
    uint32_t now;

    atomic_store(&wanted, count);
    while ((now = atomic_load(&done)) < count)
        bench_futex_wait(&done, now);
}

/*
 * Instructions per public call on actors, on locks, on views and on built values: with the workers
 * idle, on the caller's thread alone.
 */
#include <stdio.h>
#include <string.h>

#include "futex.h"
#include "lab.h"

/* Of lab_actors, in turn: where one key lies in a table differs from run to run. */
#define KEY        keys_of_actors[i % LAB_ACTORS]
#define KEY_LENGTH 10u
static const char *keys_of_actors[LAB_ACTORS];

/* Counts a statement, LAB_CALLS times; i is the number of the call. */
#define COUNT(name, statement)                                                                     \
    do {                                                                                           \
        lab_begin();                                                                               \
        for (unsigned i = 0; i < LAB_CALLS; i++) {                                                 \
            statement;                                                                             \
        }                                                                                          \
        lab_end(name, LAB_CALLS);                                                                  \
    } while (0)

static void look_up(void)
{
    lanex_actor *found;
    size_t count;

    COUNT("actor-lookup-and-unref", {
        lab_check(lanex_actor_lookup(lab_executor, KEY, KEY_LENGTH, &found), "lookup");
        lanex_actor_unref(found);
    });
    COUNT("actor-registered",
          lab_check(lanex_actor_registered(lab_executor, KEY, KEY_LENGTH), "registered"));
    COUNT("actor-idle", lab_check(lanex_actor_idle(lab_executor, KEY, KEY_LENGTH), "idle"));
    COUNT("actor-try-idle",
          lab_check(lanex_actor_try_idle(lab_executor, KEY, KEY_LENGTH), "try_idle"));
    COUNT("actor-count", lab_check(lanex_actor_count(lab_executor, &count), "count"));
}

static _Atomic uint32_t released;

static void release(void *context)
{
    (void)context;
    bench_flag_set(&released);
}

/* A removed actor's context is released on another thread: waited for, so that one works at a
 * time. */
static void come_and_go(void)
{
    static char keys[LAB_CALLS][16];
    lanex_actor_options options = {
        .size = sizeof options, .context = keys, .context_release = release};

    for (unsigned i = 0; i < LAB_CALLS; i++)
        snprintf(keys[i], sizeof keys[i], "other-%05u", i);
    COUNT("actor-register",
          lab_check(lanex_actor_register(lab_executor, keys[i], 11, &options, NULL), "register"));
    COUNT("actor-remove-and-release", {
        atomic_store(&released, 0);
        lab_check(lanex_actor_remove(lab_executor, keys[i], 11), "remove");
        bench_flag_wait(&released);
    });
}

static void look_inside(void)
{
    lanex_liveness liveness = {.size = sizeof liveness};
    lanex_counters counters = {.size = sizeof counters};

    COUNT("executor-liveness",
          lab_check(lanex_executor_liveness(lab_executor, &liveness), "liveness"));
    COUNT("executor-counters",
          lab_check(lanex_executor_counters(lab_executor, &counters), "counters"));
    COUNT("job-state",
          lab_check(lanex_job_state(lab_executor, KEY, KEY_LENGTH, "none", 4), "job_state"));
}

static void lock(void)
{
    lanex_epoch epoch = LANEX_EPOCH_INIT;

    COUNT("epoch-read-pair", {
        lab_check(lanex_epoch_read_acquire(&epoch), "read_acquire");
        lanex_epoch_read_release(&epoch);
    });
    COUNT("epoch-write-pair", {
        lab_check(lanex_epoch_write_acquire(&epoch), "write_acquire");
        lanex_epoch_write_release(&epoch);
    });
    lanex_epoch_fini(&epoch);
}

static int build(const lanex_flight_request *request, void **ret_data)
{
    (void)request;
    *ret_data = NULL;
    return 0;
}

static void build_once(void)
{
    lanex_flight_request request = {
        .size = sizeof request,
        .key = keys_of_actors[0],
        .key_length = KEY_LENGTH,
        .generation = 1,
        .build = build,
    };
    lanex_flight_value *value;
    lanex_flight *flight;

    lab_check(lanex_flight_create(NULL, &flight), "flight_create");
    lab_check(lanex_flight_get_or_build(flight, &request, &value), "get_or_build");
    lanex_flight_value_unref(value);
    COUNT("flight-hit", {
        lab_check(lanex_flight_get_or_build(flight, &request, &value), "get_or_build");
        lanex_flight_value_unref(value);
    });
    lanex_flight_destroy(flight);
}

void lab_lookups(void)
{
    size_t length;

    for (unsigned i = 0; i < LAB_ACTORS; i++)
        keys_of_actors[i] = lanex_actor_key(lab_actors[i], &length);
    look_up();
    look_inside();
    lock();
    build_once();
    come_and_go();
}

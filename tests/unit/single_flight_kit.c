#include "single_flight_kit.h"

#include "sync/single_flight.h"

static void thing_destroy(void *data)
{
    struct thing *thing = data;

    LX_REQUIRE(atomic_fetch_add(&thing->destroyed, 1) == 0);
}

lanex_flight *kit_flight(void)
{
    lanex_flight_options options = {.size = sizeof options, .destroy = thing_destroy};
    lanex_flight *flight = NULL;

    LX_REQUIRE(lanex_flight_create(&options, &flight) == 0);
    return flight;
}

lanex_flight_stats kit_stats(const lanex_flight *flight)
{
    lanex_flight_stats stats = {.size = sizeof stats};

    LX_REQUIRE(lanex_flight_stats_read(flight, &stats) == 0);
    return stats;
}

static int build_thing(const lanex_flight_request *request, void **ret_data)
{
    struct ask *ask = request->arg;
    int rc = 0;

    atomic_fetch_add(&ask->builds, 1);
    latch_arrive(&ask->begun);
    if (ask->hold != NULL)
        latch_wait(ask->hold, 1);
    if (ask->inside != NULL)
        rc = ask->inside(ask);
    if (rc < 0)
        return rc;
    if (ask->fail < 0)
        return ask->fail;
    ask->thing.generation = request->generation;
    *ret_data = &ask->thing;
    return 0;
}

int kit_ask(struct ask *ask)
{
    lanex_flight_request request = {
        .size = sizeof request,
        .key = ask->key,
        .key_length = strlen(ask->key),
        .generation = ask->generation,
        .build = build_thing,
        .arg = ask,
        .deadline_ns = ask->deadline_ns,
        .cancellation = ask->token,
    };

    ask->result = lanex_flight_get_or_build(ask->flight, &request, &ask->value);
    if (ask->result > 0) {
        const struct thing *thing = lanex_flight_value_data(ask->value);

        LX_REQUIRE(lanex_flight_value_generation(ask->value) >= ask->generation);
        LX_REQUIRE(thing->generation == lanex_flight_value_generation(ask->value));
        LX_REQUIRE(atomic_load(&thing->destroyed) == 0);
    } else {
        LX_REQUIRE(ask->value == NULL);
    }
    return ask->result;
}

static void *ask_thread(void *arg)
{
    struct ask *ask = arg;

    (void)kit_ask(ask);
    latch_arrive(&ask->done);
    return NULL;
}

void kit_start(struct ask *ask)
{
    LX_REQUIRE(pthread_create(&ask->thread, NULL, ask_thread, ask) == 0);
}

int kit_join(struct ask *ask)
{
    latch_wait(&ask->done, 1);
    LX_REQUIRE(pthread_join(ask->thread, NULL) == 0);
    return ask->result;
}

static uint32_t sleepers_now(lanex_flight *flight, const char *key)
{
    uint64_t hash = lx_hash(&flight->seed, key, strlen(key));
    const struct lx_flight_entry *e;
    uint32_t sleepers;

    lx_mutex_lock(&flight->mutex);
    e = lx_flight_find(flight, hash, key, strlen(key));
    sleepers = e != NULL ? e->sleepers : 0;
    lx_mutex_unlock(&flight->mutex);
    return sleepers;
}

void kit_sleepers(lanex_flight *flight, const char *key, uint32_t count)
{
    LX_EVENTUALLY(sleepers_now(flight, key) == count);
}

struct thing *kit_thing(const struct ask *ask)
{
    return ask->value != NULL ? lanex_flight_value_data(ask->value) : NULL;
}

void kit_drop(struct ask *ask)
{
    lanex_flight_value_unref(ask->value);
    ask->value = NULL;
}

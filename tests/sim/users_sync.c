/*
 * Users of the locks alone, without an executor: an epoch and a single flight under every schedule,
 * with deadlines and cancellations. Readers and writers stay apart, values are as new as asked and
 * destroyed once, nobody waits for ever.
 */
#include <lanex/lanex.h>

#include <errno.h>
#include <stdio.h>

#include "sim.h"

#define KEYS       2u
#define VALUES_MAX (SIM_USERS_MAX * SIM_OPS_MAX)
#define US         UINT64_C(1000)

enum kind {
    READ,
    WRITE,
    TRY_READ,
    TRY_WRITE,
    DOWNGRADE,
    CANCEL_TOKEN,
    FLIGHT,
    FORGET,
    REST,
    KINDS
};

struct value {
    uint64_t generation;
    unsigned key, destroyed;
    bool complete;
};

static struct world {
    const struct sim_scenario *scenario;
    lanex_epoch epoch;
    int readers, writers;
    lanex_flight *flight;
    lanex_cancellation *token[SIM_USERS_MAX];
    struct value value[VALUES_MAX];
    unsigned values;
} w;

/* ---- the epoch ---- */

static void hold(bool write)
{
    int *count = write ? &w.writers : &w.readers;

    ++*count;
    SIM_CHECK(w.writers == 0 || (w.writers == 1 && w.readers == 0));
    /* Sometimes for longer than those outside spin before they sleep. */
    for (uint64_t n = sim_random() % (sim_chance(250) ? 600 : 6); n > 0; n--)
        sim_yield();
    if (sim_chance(50))
        sim_sleep_ns(sim_random() % (30 * US));
    SIM_CHECK(w.writers == 0 || (w.writers == 1 && w.readers == 0));
    --*count;
}

static void check_refusal(int rc, const struct sim_op *op, unsigned user)
{
    SIM_CHECK(rc == 0 || (rc == -ETIMEDOUT && op->wide != 0) ||
              (rc == -ECANCELED && lanex_cancellation_is_cancelled(w.token[user])));
}

static void lock(unsigned user, const struct sim_op *op)
{
    uint64_t until = op->wide == 0 ? LANEX_TIME_NEVER : sim_now_ns() + op->wide;
    lanex_cancellation *token = op->arg[0] % 2 == 0 ? NULL : w.token[user];
    bool write = op->kind != READ;
    int rc = write ? lanex_epoch_write_acquire_until(&w.epoch, until, token)
                   : lanex_epoch_read_acquire_until(&w.epoch, until, token);

    check_refusal(rc, op, user);
    if (rc < 0)
        return;
    hold(write);
    if (op->kind == DOWNGRADE) {
        lanex_epoch_write_downgrade(&w.epoch);
        hold(false);
        write = false;
    }
    if (write)
        lanex_epoch_write_release(&w.epoch);
    else
        lanex_epoch_read_release(&w.epoch);
}

static void try_lock(bool write)
{
    int rc =
        write ? lanex_epoch_write_try_acquire(&w.epoch) : lanex_epoch_read_try_acquire(&w.epoch);

    SIM_CHECK(rc == 0 || rc == -EBUSY);
    if (rc < 0)
        return;
    hold(write);
    if (write)
        lanex_epoch_write_release(&w.epoch);
    else
        lanex_epoch_read_release(&w.epoch);
}

/* ---- the flight ---- */

static void destroy_value(void *data)
{
    struct value *value = data;

    SIM_CHECK(value->complete && value->destroyed == 0);
    value->destroyed++;
}

static const char keys[] = "ab";

static int build(const lanex_flight_request *request, void **ret_data)
{
    const struct sim_op *op = request->arg;

    for (uint64_t n = sim_random() % 20; n > 0; n--)
        sim_yield();
    if (op->arg[1] % 5 == 0)
        return -EIO;
    if (op->arg[1] % 7 == 0)
        (void)lanex_flight_forget(w.flight, request->key, request->key_length);
    SIM_CHECK(w.values < VALUES_MAX);
    struct value *value = &w.value[w.values++];
    *value = (struct value){.generation = request->generation, .key = op->arg[0] % KEYS};
    sim_yield();
    value->complete = true;
    *ret_data = value;
    return 0;
}

static void fly(unsigned user, const struct sim_op *op)
{
    lanex_flight_request request = {
        .size = sizeof request,
        .key = &keys[op->arg[0] % KEYS],
        .key_length = 1,
        .generation = op->arg[2] % 5,
        .build = build,
        .arg = (void *)(uintptr_t)op,
        .deadline_ns = op->wide == 0 ? 0 : sim_now_ns() + op->wide,
        .cancellation = op->arg[3] % 2 == 0 ? NULL : w.token[user],
    };
    lanex_flight_value *value;
    int rc = lanex_flight_get_or_build(w.flight, &request, &value);

    if (rc < 0) {
        if (rc != -EIO && !(rc == -ENOMEM && (w.scenario->faults & SIM_FAULT_MEMORY) != 0))
            check_refusal(rc, op, user);
        else
            SIM_CHECK(rc != -EIO || op->arg[1] % 5 == 0);
        return;
    }
    const struct value *data = lanex_flight_value_data(value);
    SIM_CHECK(lanex_flight_value_generation(value) >= request.generation);
    for (uint64_t n = sim_random() % 8; n > 0; n--) {
        SIM_CHECK(data->complete && data->destroyed == 0 && data->key == op->arg[0] % KEYS);
        sim_yield();
    }
    lanex_flight_value_unref(value);
}

/* ---- the whole ---- */

static void perform(unsigned user, const struct sim_op *op)
{
    switch (op->kind) {
    case READ:
    case WRITE:
    case DOWNGRADE:
        lock(user, op);
        break;
    case TRY_READ:
    case TRY_WRITE:
        try_lock(op->kind == TRY_WRITE);
        break;
    case CANCEL_TOKEN:
        (void)lanex_cancellation_cancel(w.token[op->arg[0] % w.scenario->users]);
        break;
    case FLIGHT:
        fly(user, op);
        break;
    case FORGET:
        (void)lanex_flight_forget(w.flight, &keys[op->arg[0] % KEYS], 1);
        break;
    case REST:
        sim_sleep_ns(op->wide);
        break;
    default:
        break;
    }
}

static void user_main(void *arg)
{
    unsigned user = *(unsigned *)arg;

    for (uint32_t i = 0; i < w.scenario->count[user]; i++)
        perform(user, &w.scenario->op[user][i]);
}

static void play(const struct sim_scenario *s)
{
    static unsigned index[SIM_USERS_MAX];
    unsigned thread[SIM_USERS_MAX];
    lanex_flight_options options = {.size = sizeof options, .destroy = destroy_value};

    w.scenario = s;
    lanex_epoch_init(&w.epoch);
    sim_no_memory_faults(1);
    SIM_CHECK(lanex_flight_create(&options, &w.flight) == 0);
    for (unsigned i = 0; i < s->users; i++)
        SIM_CHECK(lanex_cancellation_create(&w.token[i]) == 0);
    sim_no_memory_faults(-1);
    for (unsigned i = 0; i < s->users; i++) {
        char name[16] = {'u', 's', 'e', 'r', '-', (char)('0' + i)};
        index[i] = i;
        thread[i] = sim_spawn(user_main, &index[i], name);
    }
    for (unsigned i = 0; i < s->users; i++)
        sim_join(thread[i]);
    lanex_epoch_fini(&w.epoch);
    lanex_flight_destroy(w.flight);
    for (unsigned i = 0; i < w.values; i++)
        SIM_CHECK(w.value[i].destroyed == 1);
    for (unsigned i = 0; i < s->users; i++)
        lanex_cancellation_unref(w.token[i]);
}

static void generate(struct sim_scenario *s)
{
    uint64_t state = s->seed ^ UINT64_C(0x27D4EB2F);
    uint64_t flights = sim_draw(&state) % 100, cancels = sim_draw(&state) % 12;

    /* Mostly few: what comes later would wake whom a bug has left asleep. */
    uint64_t most = sim_draw(&state) % 4 == 0 ? SIM_OPS_MAX : 3;

    s->users = 2 + (uint32_t)(sim_draw(&state) % 4);
    for (uint32_t u = 0; u < s->users; u++) {
        s->count[u] = 1 + (uint32_t)(sim_draw(&state) % most);
        for (uint32_t i = 0; i < s->count[u]; i++) {
            struct sim_op *op = &s->op[u][i];
            if (sim_draw(&state) % 100 < flights)
                op->kind = sim_draw(&state) % 9 == 0 ? FORGET : FLIGHT;
            else
                op->kind = (uint32_t)(sim_draw(&state) % CANCEL_TOKEN);
            if (sim_draw(&state) % 100 < cancels)
                op->kind = sim_draw(&state) % 3 == 0 ? CANCEL_TOKEN : REST;
            for (unsigned k = 0; k < 5; k++)
                op->arg[k] = (uint32_t)sim_draw(&state);
            op->wide = sim_draw(&state) % 3 == 0 || op->kind == REST
                           ? 1 + sim_draw(&state) % (100 * US)
                           : 0;
        }
    }
}

static void describe(const struct sim_op *op, char *text, size_t size)
{
    static const char *const kinds[KINDS] = {
        "read",         "write",        "try read", "try write", "write, downgrade",
        "cancel token", "get or build", "forget",   "rest"};

    snprintf(text, size, "%s: %u %u %u %u, %llu ns", kinds[op->kind], op->arg[0], op->arg[1],
             op->arg[2], op->arg[3], (unsigned long long)op->wide);
}

const struct sim_users sim_users_sync = {
    .name = "sync",
    .generate = generate,
    .play = play,
    .describe = describe,
};

/* The full set of users: scenarios from a seed, and how one is played. */
#include "users.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAP_MAX    (150 * USERS_MS) /* a door that sleeps beside its ring looks again by then */
#define COARSE     (15 * USERS_MS)  /* steps of the coarse clock, and a turn that has begun */
#define TURN_STEPS 20000u           /* within which the turn that takes a job runs, mostly */
#define DRAIN_AT   50u              /* operations before a user may drain */

struct users_world users;

/* ---- scenarios ---- */

static uint32_t draw(uint64_t *state, uint32_t bound)
{
    return (uint32_t)(sim_draw(state) % bound);
}

static void generate_settings(struct sim_scenario *s, uint64_t *state)
{
    s->users = 1 + draw(state, 5);
    s->set[USERS_POOL] = 2 + draw(state, draw(state, 3) == 0 ? 7 : 3);
    s->set[USERS_PROFILE] = draw(state, 5) == 0;
    s->set[USERS_POLICY] = draw(state, 4) == 0;
    s->set[USERS_DISPATCH] = draw(state, 3) == 0 ? LANEX_DISPATCH_SCHEDULER : LANEX_DISPATCH_SEAT;
    s->set[USERS_FLAGS] = draw(state, 2) == 0 ? draw(state, 32) : 0;
    s->set[USERS_ACTOR_CAP] = draw(state, 5);
    s->set[USERS_READ_CAP] = draw(state, 5);
    s->set[USERS_PERMITS] = draw(state, 4);
    s->set[USERS_QUANTUM] = draw(state, 3);
    s->set[USERS_PROMOTION_MS] = draw(state, 3) == 0 ? 0 : 1 + draw(state, 60);
    s->set[USERS_WAIT_MS] = draw(state, 2) == 0 ? 0 : 1 + draw(state, 200);
    s->set[USERS_QUEUE_CAP] = draw(state, 2) == 0 ? 0 : 1 + draw(state, 6);
    s->set[USERS_OTHER_CAPS] = draw(state, 4) == 0 ? 2 + draw(state, 12) : 0;
    s->set[USERS_EARLY] = draw(state, 4) == 0 ? 1 + draw(state, 8000000) : 0;
    s->set[USERS_HOOKS] = draw(state, 2);
    s->set[USERS_LEAVE_OWED] = draw(state, 3) == 0;
}

static const struct {
    uint32_t kind, share; /* of 200 */
} shares[] = {
    {USERS_SUBMIT, 104}, {USERS_BATCH_SUBMIT, 6}, {USERS_CANCEL, 16}, {USERS_TOKEN, 6},
    {USERS_REGISTER, 6}, {USERS_REMOVE, 2},       {USERS_RETIRE, 4},  {USERS_CANCEL_MAINTENANCE, 3},
    {USERS_ANSWER, 8},   {USERS_TAKE, 12},        {USERS_DETACH, 1},  {USERS_TICKET, 8},
    {USERS_QUERY, 10},   {USERS_STILL, 2},        {USERS_REST, 11},   {USERS_DRAIN, 1},
};

static uint32_t kind_of(uint32_t dice)
{
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        if (dice < shares[i].share)
            return shares[i].kind;
        dice -= shares[i].share;
    }
    return USERS_REST;
}

static void generate(struct sim_scenario *s)
{
    uint64_t state = s->seed ^ UINT64_C(0x5851F42D4C957F2D);
    static const uint32_t lanes[] = {0, 0, 0, 0, 1, 1, 2, 3, 3, 4};
    uint32_t keys, calm;

    generate_settings(s, &state);
    keys = 1 + draw(&state, USERS_KEYS);
    calm = draw(&state, 3); /* how seldom bodies do other than return */
    for (uint32_t u = 0; u < s->users; u++) {
        s->count[u] = 4 + draw(&state, SIM_OPS_MAX - 4);
        for (uint32_t i = 0; i < s->count[u]; i++) {
            struct sim_op *op = &s->op[u][i];
            op->kind = kind_of(draw(&state, 200));
            op->arg[0] = draw(&state, keys);
            op->arg[1] = (uint32_t)sim_draw(&state);
            op->arg[2] = (uint32_t)sim_draw(&state);
            op->arg[3] = draw(&state, 2) == 0 ? USERS_TO_CALLBACK : draw(&state, USERS_SINKS);
            op->arg[4] = (uint32_t)sim_draw(&state);
            if (op->kind == USERS_SUBMIT || op->kind == USERS_BATCH_SUBMIT) {
                uint32_t lane = lanes[draw(&state, 10)];
                op->arg[1] = (op->arg[1] & 0xffff0000u) | lane |
                             (draw(&state, 100) < (lane == 4 ? 70u : 25u) ? 0x100u : 0);
                if (draw(&state, 4) < calm)
                    op->arg[2] &= ~0xffu;
            }
            op->wide = op->kind == USERS_REST || op->kind == USERS_DRAIN
                           ? sim_draw(&state) % (5 * USERS_MS)
                       : draw(&state, 10) == 0 ? 1 + sim_draw(&state) % (20 * USERS_MS)
                                               : 0;
            if (op->kind == USERS_DRAIN && i < DRAIN_AT)
                op->kind = USERS_TAKE;
        }
    }
}

static void describe(const struct sim_op *op, char *text, size_t size)
{
    static const char *const kinds[USERS_KINDS] = {
        "submit",   "submit a batch",   "cancel", "cancel the token",
        "register", "remove",           "retire", "cancel queued maintenance",
        "answer",   "take completions", "detach", "ticket",
        "look",     "look when still",  "rest",   "drain"};

    snprintf(text, size, "%s: actor %u, %u %x %u %x, %llu ns",
             op->kind < USERS_KINDS ? kinds[op->kind] : "nothing", op->arg[0] % USERS_KEYS,
             op->arg[1], op->arg[2], op->arg[3], op->arg[4], (unsigned long long)op->wide);
}

/* ---- playing ---- */

static void on_turn(void)
{
    users.turns++;
}

/* Every thread sleeps, and nothing will wake one soon: what could start has started. */
static void on_quiet(uint64_t next_ns)
{
    if (next_ns != UINT64_MAX && next_ns - sim_now_ns() < NAP_MAX)
        return;
    check_tick(&users.check);
    users.still_events = users.check.events;
    users.still_turns = users.turns;
}

static void on_fail(struct check *check)
{
    sim_fail("%s", check->error);
}

static void open_ports(struct user *user)
{
    lanex_port_options options = {.size = sizeof options, .doorbell = LANEX_DOORBELL_RING};

    user->ring_fd = -1;
    if (lanex_port_create(users.executor, NULL, &user->port) < 0)
        user->port = NULL;
    if (sim_chance(400))
        return;
    user->ring_fd = sim_ring_open(sim_chance(500) ? 4 : 64, sim_chance(500));
    if (user->ring_fd < 0)
        return;
    if (lanex_ring_attach(users.executor, user->ring_fd, &user->ring) < 0) {
        user->ring = NULL;
        return;
    }
    options.ring = user->ring;
    if (lanex_port_create(users.executor, &options, &user->ring_port) < 0)
        user->ring_port = NULL;
}

static bool owes(const struct user *user)
{
    for (uint32_t i = 0; i < users.jobs; i++) {
        const struct users_job *job = &users.job[i];
        const struct check_job *known = &users.check.jobs[i];
        if (job->owner == user->index && known->accepted && !known->completed && !known->untold &&
            job->sink != USERS_TO_CALLBACK)
            return true;
    }
    return false;
}

/* Until everything that comes to this user has come. */
static void await_rest(struct user *user)
{
    for (;;) {
        users_take(user);
        if (!owes(user))
            return;
        users_answer_one(sim_random());
        if (user->port != NULL && sim_chance(500))
            sim_fd_wait(lanex_port_fd(user->port), USERS_MS);
        else
            sim_sleep_ns(USERS_MS);
        check_tick(&users.check);
    }
}

static void user_main(void *arg)
{
    struct user *user = arg;
    const struct sim_scenario *s = user->scenario;

    open_ports(user);
    for (uint32_t key = 0; key < USERS_KEYS; key++)
        users_register(user, key, key);
    for (uint32_t i = 0; i < s->count[user->index]; i++)
        users_perform(user, &s->op[user->index][i]);
    await_rest(user);
    lanex_port_unref(user->port);
    lanex_port_unref(user->ring_port);
    lanex_ring_unref(user->ring);
    for (uint32_t key = 0; key < USERS_KEYS; key++)
        lanex_actor_unref(user->handle[key]);
    if (user->ring_fd >= 0)
        sim_fd_close(user->ring_fd);
    lanex_executor_unref(users.executor);
}

static bool start(const struct sim_scenario *s)
{
    lanex_executor_options options = {
        .size = sizeof options,
        .profile = s->set[USERS_PROFILE],
        .policy = s->set[USERS_POLICY],
        .dispatch = s->set[USERS_DISPATCH],
        .flags = s->set[USERS_FLAGS],
        .pool_size = s->set[USERS_POOL],
        .actor_cap = s->set[USERS_ACTOR_CAP],
        .read_cap = s->set[USERS_READ_CAP],
        .heavy_permits = s->set[USERS_PERMITS],
        .drr_quantum = s->set[USERS_QUANTUM],
        .promotion_age_ms = s->set[USERS_PROMOTION_MS],
        .maintenance_max_wait_ms = s->set[USERS_WAIT_MS],
        .maintenance_queue_cap = s->set[USERS_QUEUE_CAP],
        .interactive_actor_queue_cap = s->set[USERS_OTHER_CAPS],
        .interactive_queue_cap = s->set[USERS_OTHER_CAPS] * 2,
        .maintenance_total_queue_cap = s->set[USERS_OTHER_CAPS],
        .spin_us = sim_spin_us(),
    };
    lanex_config config = {.size = sizeof config};
    uint64_t slack_ns = COARSE + TURN_STEPS * sim_step_ns();
    struct check_limits limits = {.clock_ns = slack_ns,
                                  .deadline_ns = 5 * USERS_MS + NAP_MAX,
                                  .progress_ns = NAP_MAX + slack_ns};
    int rc = lanex_executor_create(&options, &users.executor);

    if (rc < 0) {
        SIM_CHECK((s->faults & (SIM_FAULT_MEMORY | SIM_FAULT_ERRORS)) != 0);
        return false;
    }
    SIM_CHECK(lanex_executor_config(users.executor, &config) == 0);
    check_init(&users.check, &config, &limits, sim_now_ns);
    users.check.on_fail = on_fail;
    return true;
}

static void destroy(void)
{
    check_destroy_begin(&users.check);
    check_destroy_end(&users.check, lanex_executor_destroy(users.executor));
}

/* All users have gone: everything ends, and every counter equals its recount. */
static void wind_up(const struct sim_scenario *s)
{
    lanex_liveness live = {.size = sizeof live};
    lanex_counters counters = {.size = sizeof counters};
    uint64_t began_ns = sim_now_ns();
    size_t left = 0;
    int rc;

    check_drain_begin(&users.check);
    rc = lanex_executor_drain(users.executor, LANEX_TIME_NEVER, &left);
    check_drain_end(&users.check, rc, left, began_ns, LANEX_TIME_NEVER);
    while (s->set[USERS_LEAVE_OWED] == 0 && users_answer_one(sim_random()))
        continue;
    SIM_CHECK(lanex_executor_liveness(users.executor, &live) == 0);
    SIM_CHECK(lanex_executor_counters(users.executor, &counters) == 0);
    check_quiet(&users.check, &live, &counters);
    destroy();
}

static void play(const struct sim_scenario *s)
{
    static struct user list[SIM_USERS_MAX];
    unsigned thread[SIM_USERS_MAX];

    if (!start(s))
        return;
    sim_hooks.on_turn = on_turn;
    sim_hooks.on_quiet = on_quiet;
    if (s->set[USERS_HOOKS] != 0)
        users_set_hooks();
    for (unsigned i = 0; i < s->users; i++) {
        char name[16] = {'u', 's', 'e', 'r', '-', (char)('0' + i)};
        list[i] = (struct user){.scenario = s, .index = i};
        lanex_executor_ref(users.executor);
        thread[i] = sim_spawn(user_main, &list[i], name);
    }
    if (s->set[USERS_EARLY] != 0) {
        sim_sleep_ns(s->set[USERS_EARLY]);
        destroy();
    }
    for (unsigned i = 0; i < s->users; i++)
        sim_join(thread[i]);
    if (s->set[USERS_EARLY] == 0)
        wind_up(s);
    while (users_answer_one(0))
        continue;
    for (uint32_t i = 0; i < users.jobs; i++) {
        lanex_ticket_drop(users.job[i].ticket);
        lanex_cancellation_unref(users.job[i].token);
    }
    check_finish(&users.check);
}

const struct sim_users sim_users_full = {
    .name = "full", .generate = generate, .play = play, .describe = describe};

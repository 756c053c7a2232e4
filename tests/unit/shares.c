/* Weights and costs on a running executor; the exact form is admission_shares.c. */
#include "tests/support/lx_executor.h"

TestSuite(shares, .timeout = 60);

#define ACTORS      3u
#define WEIGHTS     (1u + 2u + 4u)
#define OUTSTANDING 128u /* jobs of each actor at all times: far more than can run */
#define COST_MAX    10u
#define TURNS_MAX                                                                                  \
    8u /* of a job's life, where nothing else happens: submitted, ended, and looks in vain */

static const uint32_t weights[ACTORS] = {1, 2, 4};

struct client {
    lanex_actor *actor;
    atomic_ulong served; /* cost of the jobs that have run */
    atomic_uint left;    /* outstanding */
    struct lx_rng rng;   /* of whoever delivers: one completion at a time submits */
    atomic_flag busy;
};

static struct client clients[ACTORS];
static atomic_ulong total;
static uint64_t wanted;
static struct latch ended;
static atomic_bool saturated;

struct piece {
    struct client *client;
    uint32_t cost;
};

static struct piece pieces[ACTORS][OUTSTANDING];

static void serve(lanex_job *job, void *context, void *arg)
{
    struct piece *piece = arg;

    (void)job;
    (void)context;
    /* What counts is what runs while all queues are full. */
    if (atomic_load(&saturated) && atomic_fetch_add(&total, piece->cost) < wanted)
        atomic_fetch_add(&piece->client->served, piece->cost);
}

static void again(lanex_completion *completion, void *arg);

static void submit(struct piece *piece)
{
    struct client *client = piece->client;
    lanex_job_options job = lx_test_callback_job(LANEX_LANE_PURE_READ, serve, piece, again, piece);

    while (atomic_flag_test_and_set(&client->busy))
        ;
    piece->cost = (uint32_t)lx_rng_between(&client->rng, 1, COST_MAX);
    atomic_flag_clear(&client->busy);
    job.cost = piece->cost;
    LX_REQUIRE(lanex_submit(client->actor, &job, NULL) == 0);
}

static void again(lanex_completion *completion, void *arg)
{
    struct piece *piece = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    if (atomic_load(&total) < wanted)
        submit(piece);
    else
        latch_arrive(&ended);
}

Test(shares, weights_share_a_saturated_executor)
{
    lanex_executor_options options = lx_test_executor_options(8);
    lanex_executor *executor;
    uint64_t served = 0;

    /* The profile whose actor_cap no share comes near. */
    options.profile = LANEX_PROFILE_MANY_CORE;
    wanted = lx_test_scaled(200000);
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    for (unsigned i = 0; i < ACTORS; i++) {
        lanex_actor_options actor = {.size = sizeof actor, .weight = weights[i]};
        cr_assert_eq(lanex_actor_register(executor, &i, sizeof i, &actor, &clients[i].actor), 1);
        clients[i].rng = lx_rng_seeded(lx_test_seed() + i);
    }
    for (unsigned j = 0; j < OUTSTANDING; j++) {
        for (unsigned i = 0; i < ACTORS; i++) {
            pieces[i][j].client = &clients[i];
            submit(&pieces[i][j]);
        }
    }
    atomic_store(&saturated, true);
    latch_wait(&ended, ACTORS * OUTSTANDING);
    for (unsigned i = 0; i < ACTORS; i++)
        served += atomic_load(&clients[i].served);
    for (unsigned i = 0; i < ACTORS; i++) {
        double share = (double)atomic_load(&clients[i].served) / (double)served;
        double ideal = (double)weights[i] / WEIGHTS;

        /* Jobs whose worker waits for a CPU count late: 15% is room for that. */
        cr_assert(share > ideal * 0.85 && share < ideal * 1.15, "weight %u: %.3f, ideal %.3f",
                  weights[i], share, ideal);
        cr_log_info("weight %u: %.4f, ideal %.4f", weights[i], share, ideal);
        lanex_actor_unref(clients[i].actor);
    }
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

/* A costly job is no long-lasting wait for a credit: the passes are computed. */
Test(shares, a_costly_job_on_an_idle_executor_starts_at_once)
{
    static const uint32_t costs[] = {1, 1000, LANEX_COST_MAX};
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);

    for (unsigned class = 0; class < 2; class ++) {
        for (unsigned i = 0; i < 3; i++) {
            lanex_job_options job = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
            lanex_counters before = {.size = sizeof before}, after = {.size = sizeof after};
            lanex_ticket *ticket;

            job.cost = costs[i];
            job.job_class = class;
            cr_assert_eq(lanex_executor_counters(executor, &before), 0);
            cr_assert_eq(lanex_submit_ticket(actor, &job, &ticket), 0);
            cr_assert_eq(lanex_ticket_wait(ticket, lx_test_liveness_s() * UINT64_C(1000000000)), 0);
            lanex_ticket_drop(ticket);
            cr_assert_eq(lanex_executor_counters(executor, &after), 0);
            cr_assert_leq(after.turns - before.turns, TURNS_MAX, "cost %u took %lu turns", costs[i],
                          (unsigned long)(after.turns - before.turns));
        }
    }
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

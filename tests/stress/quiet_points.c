/*
 * Random submit, cancel, expire, retire, panic, remove and register anew; now and then everything
 * is let come to an end, and then every counter must equal its recount, and be 0 where nothing is
 * left: in the views, and in the admission state itself.
 */
#include "tests/support/lx_executor.h"

#include "runtime/actor.h"
#include "runtime/executor.h"

#include <errno.h>

TestSuite(quiet_points); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define ACTORS 24u
#define POINTS 60u  /* quiet points of the short form */
#define STEPS  400u /* between two of them, at most */
#define RECENT 64u  /* numbers that cancels choose among */
#define POOL   4u

struct world {
    lanex_executor *executor;
    lanex_actor *actors[ACTORS];
    uint64_t recent[RECENT];
    uint64_t submitted[2]; /* by class */
    atomic_ullong over[2];
    atomic_ullong panics;
    atomic_ullong statuses[LANEX_STATUS_EXECUTOR_SHUTDOWN + 1];
    uint64_t retired, removed;
    struct lx_rng rng;
};

static struct world world;

static void body(lanex_job *job, void *context, void *arg)
{
    (void)context;
    (void)arg;
    if (lanex_job_number(job) % 16 == 0)
        (void)lanex_seal();
}

static void panic_body(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
    atomic_fetch_add(&world.panics, 1);
    lanex_panic("at random");
}

static void note_end(lanex_completion *completion, void *arg)
{
    unsigned job_class = (unsigned)(uintptr_t)arg;

    atomic_fetch_add(&world.statuses[lanex_completion_status(completion)], 1);
    /* Last: what counts as over has been counted above. */
    atomic_fetch_add(&world.over[job_class], 1);
}

static void submit_one(unsigned number)
{
    struct lx_rng *rng = &world.rng;
    unsigned job_class = lx_rng_percent(rng, 30) ? LANEX_CLASS_MAINTENANCE : 0;
    lanex_job_options options = lx_test_callback_job((enum lanex_lane)lx_rng_below(rng, 5), body,
                                                     NULL, note_end, (void *)(uintptr_t)job_class);
    uint64_t *recent = &world.recent[lx_rng_below(rng, RECENT)];

    options.job_class = job_class;
    options.coalesce_key = lx_rng_percent(rng, 50) ? (uint32_t)lx_rng_between(rng, 1, 3) : 0;
    options.cost = (uint32_t)lx_rng_between(rng, 1, 5);
    options.flags = lx_rng_percent(rng, 50) ? LANEX_JOB_CANCELLABLE : 0;
    if (options.lane == LANEX_LANE_HEAVY_INIT && lx_rng_percent(rng, 50))
        options.install = body;
    if (lx_rng_percent(rng, 30))
        options.deadline_ns = lx_test_now_ns() + lx_rng_below(rng, 3000000);
    if (lx_rng_percent(rng, 3))
        options.run = panic_body;
    LX_REQUIRE(lanex_submit(world.actors[number], &options, recent) == 0);
    world.submitted[job_class]++;
}

static void replace(unsigned number)
{
    lanex_actor_unref(world.actors[number]);
    world.actors[number] = lx_test_actor(world.executor, number);
}

static void step(void)
{
    struct lx_rng *rng = &world.rng;
    unsigned number = (unsigned)lx_rng_below(rng, ACTORS);
    int rc;

    switch (lx_rng_below(rng, 40)) {
    case 0:
        LX_REQUIRE(lanex_actor_remove(world.executor, &number, sizeof number) == 0);
        world.removed++;
        replace(number);
        break;
    case 1:
        rc = lanex_actor_retire(world.executor, &number, sizeof number);
        LX_REQUIRE(rc == 0 || rc == -EBUSY);
        world.retired += rc == 0;
        if (rc == 0)
            replace(number);
        break;
    case 2:
        LX_REQUIRE(lanex_actor_cancel_queued_maintenance(world.executor, &number, sizeof number) >=
                   0);
        break;
    case 3:
    case 4:
    case 5:
    case 6:
        LX_REQUIRE(lanex_cancel(world.executor, world.recent[lx_rng_below(rng, RECENT)]) >= 0);
        break;
    default:
        submit_one(number);
        break;
    }
}

/* In the seat: what the admission state says, when nothing is queued or in flight. */
static void recount(struct lanex_executor *ex, struct lx_request *request)
{
    const struct lx_admission *adm = &ex->admission;
    uint32_t actors = 0;

    for (uint32_t slot = 0; slot < adm->space.capacity; slot++) {
        const struct lx_actor_entry *actor = adm->space.by_slot[slot];
        if (actor == NULL)
            continue;
        actors++;
        LX_REQUIRE(actor->queued[0] == 0 && actor->queued[1] == 0);
        LX_REQUIRE(actor->queue == lx_queue_none() && actor->deficit == 0);
        LX_REQUIRE(actor->in_flight == 0 && actor->reads == 0 && actor->heavies == 0);
        LX_REQUIRE(actor->serials == 0 && actor->commits == 0 && actor->writers == 0);
        LX_REQUIRE(actor->built == NULL);
        LX_REQUIRE(atomic_load(&actor->writers_queued) == 0);
    }
    LX_REQUIRE(actors == adm->actors && actors == ACTORS);
    LX_REQUIRE(adm->queued[0] == 0 && adm->queued[1] == 0);
    LX_REQUIRE(adm->running[0] == 0 && adm->running[1] == 0 && adm->overdue_running == 0);
    LX_REQUIRE(adm->idle_workers == adm->config.pool_size);
    LX_REQUIRE(adm->free_permits == adm->config.heavy_permits);
    for (uint32_t place = 0; place < adm->config.pool_size; place++)
        LX_REQUIRE(adm->running_jobs[place] == NULL && adm->waits_for[place] == NULL);
    LX_REQUIRE(adm->dispatched.head == NULL && adm->detached == NULL);
    for (unsigned c = 0; c < LX_CLASSES; c++)
        LX_REQUIRE(adm->completed[c] + adm->refused[c] == world.submitted[c]);
    LX_REQUIRE(adm->panicked == atomic_load(&world.panics));
    LX_REQUIRE(adm->non_runnable_dispatches == 0);
    request->result = 0;
}

static void quiet_point(void)
{
    struct lx_request request = {.apply = recount};

    for (unsigned c = 0; c < 2; c++)
        LX_EVENTUALLY(atomic_load(&world.over[c]) == world.submitted[c]);
    cr_assert_eq(lx_seat_request(world.executor, &request), 0);
    lx_test_at_rest(world.executor);
}

Test(quiet_points, every_counter_equals_its_recount)
{
    lanex_executor_options options = lx_test_executor_options(POOL);
    uint64_t stop = lx_test_now_ns() + lx_test_soak_seconds() * UINT64_C(1000000000);
    uint64_t points = lx_test_scaled(POINTS);

    options.heavy_permits = 1;
    options.maintenance_queue_cap = 8;
    options.interactive_actor_queue_cap = 16;
    options.interactive_queue_cap = 100;
    options.maintenance_total_queue_cap = 50;
    cr_assert_eq(lanex_executor_create(&options, &world.executor), 0);
    world.rng = lx_rng_seeded(lx_test_seed());
    for (unsigned i = 0; i < ACTORS; i++)
        world.actors[i] = lx_test_actor(world.executor, i);
    for (uint64_t point = 0; point < points || lx_test_now_ns() < stop; point++) {
        for (uint64_t steps = lx_rng_below(&world.rng, STEPS); steps > 0; steps--)
            step();
        quiet_point();
    }
    /* The mixture was one. */
    cr_assert_gt(atomic_load(&world.statuses[LANEX_STATUS_OK]), 0);
    cr_assert_gt(atomic_load(&world.panics), 0);
    cr_assert_gt(world.removed, 0);
    for (int status = 0; status <= LANEX_STATUS_EXECUTOR_SHUTDOWN; status++)
        fprintf(stderr, "[----] status %d: %llu\n", status,
                (unsigned long long)atomic_load(&world.statuses[status]));
    fprintf(stderr, "[----] %llu retired, %llu removed\n", (unsigned long long)world.retired,
            (unsigned long long)world.removed);
    for (unsigned i = 0; i < ACTORS; i++)
        lanex_actor_unref(world.actors[i]);
    cr_assert_eq(lanex_executor_destroy(world.executor), 0);
}

/* Who is next among actors, and what a turn costs: SPEC 5. */
#include "tests/support/lx_test.h"

#include "admission_rig.h"

TestSuite(admission_rotation, .timeout = 60);

#define INTERACTIVE LANEX_CLASS_INTERACTIVE
#define MAINTENANCE LANEX_CLASS_MAINTENANCE
#define READ        LANEX_LANE_PURE_READ
#define HEAVY       LANEX_LANE_HEAVY_INIT

static struct rig rig;

static void fini(void)
{
    rig_fini(&rig);
}

/*
 * Two workers; `holder` is not in the rotation any more, its jobs hold all workers but one, and the
 * job that release() ends frees that one: each call starts one job of whoever is next.
 */
static void set_up(lanex_executor_options options)
{
    struct rig_actor *holders[2];

    options.pool_size = 2;
    rig_init(&rig, &options);
    for (unsigned i = 0; i < 2; i++) {
        holders[i] = rig_register(&rig, 1);
        rig_submit_lane(&rig, holders[i], INTERACTIVE, READ);
    }
    rig_remove(&rig, holders[0]);
    rig_remove(&rig, holders[1]);
    cr_assert_eq(rig.adm.idle_workers, 0);
}

static struct rig_job *running;

static struct rig_job *release(void)
{
    if (running == NULL)
        running = rig_job_of(rig.running_jobs[0]);
    rig_end(&rig, running);
    running = rig_dispatched_one(&rig);
    return running;
}

struct rotation {
    struct rig_actor *actors[8192];
    unsigned count, cursor;
};

static unsigned place_of(const struct rotation *rotation, const struct rig_actor *actor)
{
    unsigned at = 0;

    while (rotation->actors[at] != actor)
        at++;
    return at;
}

static void remove_at(struct rotation *rotation, unsigned at)
{
    rig_remove(&rig, rotation->actors[at]);
    memmove(&rotation->actors[at], &rotation->actors[at + 1],
            (rotation->count - at - 1) * sizeof rotation->actors[0]);
    rotation->count--;
    if (at < rotation->cursor)
        rotation->cursor--;
    if (rotation->cursor == rotation->count)
        rotation->cursor = 0;
}

/* Thousands come and go, so that slots are packed and the space grows; the order stays that of an
 * array. */
Test(admission_rotation, registering_and_removing_keeps_the_rotation, .fini = fini)
{
    static struct rotation rotation;
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    unsigned started = 0, packed = 0, capacity = 0, grown = 0;

    set_up((lanex_executor_options){0});
    for (unsigned i = 0; i < 60000; i++) {
        /* It swells to some hundreds, then a handful come and go, several times. */
        unsigned aim = rotation.count < ((i / 10000) % 2 == 0 ? 600 : 10) ? 70 : 30;
        unsigned before = rig.adm.next_slot;
        if (rotation.count == 0 || lx_rng_percent(&rng, aim)) {
            struct rig_actor *actor = rig_register(&rig, 1);
            rotation.actors[rotation.count++] = actor;
            rig_submit_lane(&rig, actor, INTERACTIVE, READ);
            rig_submit_lane(&rig, actor, INTERACTIVE, READ);
        } else {
            remove_at(&rotation, (unsigned)lx_rng_below(&rng, rotation.count));
        }
        packed += rig.adm.next_slot < before;
        grown += rig.adm.space.capacity != capacity;
        capacity = rig.adm.space.capacity;
        if (rotation.count > 0 && lx_rng_percent(&rng, 25)) {
            struct rig_job *job = release();
            unsigned expected = rotation.cursor;
            /* The next one that has something left. */
            for (unsigned n = 0; n < rotation.count; n++) {
                struct rig_actor *actor = rotation.actors[expected];
                if (actor->entry.queued[0] > 0 ||
                    (job != NULL && job->entry.actor == &actor->entry))
                    break;
                expected = (expected + 1) % rotation.count;
            }
            if (job == NULL) {
                /* Nobody had anything: keep a job on the worker. */
                rig_submit_lane(&rig, rotation.actors[0], INTERACTIVE, READ);
                running = rig_dispatched_one(&rig);
                rotation.cursor = 1 % rotation.count;
                continue;
            }
            cr_assert_eq(place_of(&rotation, (struct rig_actor *)job->entry.actor), expected,
                         "after %u operations", i);
            rotation.cursor = (expected + 1) % rotation.count;
            started++;
        }
    }
    cr_assert_gt(started, 1000);
    cr_assert_gt(packed, 1, "slots were packed");
    cr_assert_gt(grown, 3, "the space grew");
    cr_assert_eq(rig.adm.actors, rotation.count);
    cr_log_info("%u started, %u packings, %u sizes", started, packed, grown);
}

Test(admission_rotation, one_cursor_serves_both_classes, .fini = fini)
{
    struct rig_actor *actors[3];

    rig_init(&rig, &(lanex_executor_options){.pool_size = 4});
    for (unsigned i = 0; i < 3; i++)
        actors[i] = rig_register(&rig, 1);
    rig_begin(&rig);
    for (unsigned i = 0; i < 3; i++) {
        struct rig_spec spec = {.job_class = MAINTENANCE};
        lx_admission_submit(&rig.adm, &rig_new_job(&rig, actors[i], &spec)->entry);
    }
    rig_finish(&rig);
    /* Four idle, two in reserve: the round ends before the third, where the interactive one begins.
     */
    cr_assert_eq(rig.dispatched.count, 2);
    cr_assert_eq(rig.adm.cursor, actors[2]->entry.slot);
    rig_begin(&rig);
    for (unsigned i = 0; i < 3; i++) {
        struct rig_spec spec = {.job_class = INTERACTIVE};
        lx_admission_submit(&rig.adm, &rig_new_job(&rig, actors[i], &spec)->entry);
    }
    rig_finish(&rig);
    cr_assert_eq(rig.dispatched.count, 2);
    cr_assert_eq(rig.dispatched.head->actor, &actors[2]->entry);
    cr_assert_eq(rig.dispatched.tail->actor, &actors[0]->entry);
}

/* ---- deficits ---- */

Test(admission_rotation, weights_share_the_worker, .fini = fini)
{
    static const uint32_t weights[] = {1, 2, 4};
    struct rig_actor *actors[3];
    unsigned started[3] = {0};

    set_up((lanex_executor_options){.interactive_actor_queue_cap = 0});
    for (unsigned i = 0; i < 3; i++) {
        actors[i] = rig_register(&rig, weights[i]);
        for (unsigned j = 0; j < 700; j++)
            rig_submit_lane(&rig, actors[i], INTERACTIVE, READ);
    }
    /* With one worker a visit has room for one job only, so let several become free at once. */
    rig_fini(&rig);
    rig_init(&rig, &(lanex_executor_options){.pool_size = 64, .profile = LANEX_PROFILE_MANY_CORE});
    struct rig_actor *holder = rig_register(&rig, 1);
    for (unsigned i = 0; i < 63; i++)
        rig_submit_lane(&rig, holder, INTERACTIVE, READ);
    struct rig_actor *second = rig_register(&rig, 1);
    rig_submit_lane(&rig, second, INTERACTIVE, READ);
    cr_assert_eq(rig.adm.idle_workers, 0);
    for (unsigned i = 0; i < 3; i++) {
        actors[i] = rig_register(&rig, weights[i]);
        for (unsigned j = 0; j < 60; j++)
            rig_submit_lane(&rig, actors[i], INTERACTIVE, READ);
    }
    rig_begin(&rig);
    for (unsigned i = 0; i < 63; i++) {
        if (rig.running_jobs[i] != NULL)
            lx_admission_end(&rig.adm, rig.running_jobs[i], false);
    }
    rig_finish(&rig);
    for (struct lx_job_entry *job = rig.dispatched.head; job != NULL; job = job->next) {
        for (unsigned i = 0; i < 3; i++)
            started[i] += job->actor == &actors[i]->entry;
    }
    /* 63 starts are 9 passes of 1 + 2 + 4. */
    cr_assert_eq(started[0], 9);
    cr_assert_eq(started[1], 18);
    cr_assert_eq(started[2], 36);
}

Test(admission_rotation, a_costly_job_on_an_idle_executor_starts_at_once, .fini = fini)
{
    struct rig_actor *actor;
    struct rig_spec costly = {.job_class = INTERACTIVE, .cost = 1000};
    uint64_t visits;

    rig_init(&rig, &(lanex_executor_options){.pool_size = 4});
    actor = rig_register(&rig, 1);
    for (unsigned i = 0; i < 2; i++) {
        struct rig_job *job;
        visits = rig.adm.visits;
        job = rig_submit(&rig, actor, &costly);
        cr_assert_eq(rig_dispatched_one(&rig), job);
        cr_assert_leq(rig.adm.visits - visits, 4, "passes are computed, not walked");
        cr_assert_eq(actor->entry.deficit, 0, "reset when the last queued job leaves");
        costly.cost = LANEX_COST_MAX;
        costly.job_class = MAINTENANCE;
    }
}

/* The deficit stops at deficit_cap x weight, or at the largest cost where that is more. */
Test(admission_rotation, credit_has_a_limit, .fini = fini)
{
    struct rig_actor *actor;
    struct rig_spec cheap = {.job_class = INTERACTIVE, .cost = 1};

    set_up((lanex_executor_options){.drr_quantum = 100});
    actor = rig_register(&rig, 3);
    for (unsigned i = 0; i < 50; i++)
        rig_submit(&rig, actor, &cheap);
    for (unsigned i = 0; i < 20; i++) {
        cr_assert_not_null(release());
        cr_assert_leq(actor->entry.deficit, rig.adm.config.deficit_cap * 3);
    }
    /* A visit of three jobs, seen after its second. */
    cr_assert_eq(actor->entry.deficit, rig.adm.config.deficit_cap * 3 - 2);
}

/* A costly actor and a cheap one: the cheap one gets as much cost through as the costly one. */
Test(admission_rotation, costs_are_shared_evenly, .fini = fini)
{
    struct rig_actor *cheap, *costly;
    struct rig_spec spec = {.job_class = INTERACTIVE};
    unsigned cost[2] = {0};

    set_up((lanex_executor_options){0});
    cheap = rig_register(&rig, 1);
    costly = rig_register(&rig, 1);
    for (unsigned i = 0; i < 400; i++) {
        spec.cost = 1;
        rig_submit(&rig, cheap, &spec);
        spec.cost = 10;
        rig_submit(&rig, costly, &spec);
    }
    for (unsigned i = 0; i < 220; i++) {
        struct rig_job *job = release();
        if (job->entry.actor == &cheap->entry)
            cost[0] += 1;
        else
            cost[1] += 10;
    }
    cr_assert_eq(cost[0] + cost[1], 400);
    cr_assert(cost[0] >= 190 && cost[0] <= 210, "%u and %u", cost[0], cost[1]);
}

/* ---- what a turn costs, in visits ---- */

static uint64_t visits_of_reads(unsigned idle, unsigned waiting)
{
    struct rig_actor *busy, *holder;
    uint64_t before;

    rig_init(&rig, &(lanex_executor_options){.pool_size = 4, .heavy_permits = 1});
    holder = rig_register(&rig, 1);
    rig_submit_lane(&rig, holder, INTERACTIVE, HEAVY);
    for (unsigned i = 0; i < idle; i++)
        rig_register(&rig, 1);
    for (unsigned i = 0; i < waiting; i++) {
        struct rig_actor *actor = rig_register(&rig, 1);
        rig_submit_lane(&rig, actor, INTERACTIVE, HEAVY);
        rig_submit_lane(&rig, actor, MAINTENANCE, HEAVY);
    }
    busy = rig_register(&rig, 1);
    before = rig.adm.visits;
    for (unsigned i = 0; i < 1000; i++) {
        struct rig_job *job = rig_submit_lane(&rig, busy, INTERACTIVE, READ);
        cr_assert(rig_runs(job));
        rig_end(&rig, job);
    }
    before = rig.adm.visits - before;
    rig_fini(&rig);
    return before;
}

Test(admission_rotation, a_turn_costs_the_same_however_many_actors_wait)
{
    uint64_t alone = visits_of_reads(0, 0);

    cr_assert_leq(alone, 2000);
    cr_assert_eq(visits_of_reads(10000, 0), alone, "idle actors are not visited");
    cr_assert_eq(visits_of_reads(0, 10000), alone, "actors without a permit are not visited");
    cr_assert_eq(visits_of_reads(3000, 3000), alone);
}

/* A freed permit goes to one of those that wait, at the cost of one visit or so. */
Test(admission_rotation, a_freed_permit_does_not_visit_all_that_wait, .fini = fini)
{
    struct rig_job *job;
    uint64_t before;

    rig_init(&rig, &(lanex_executor_options){.pool_size = 4, .heavy_permits = 1});
    for (unsigned i = 0; i < 2000; i++)
        rig_submit_lane(&rig, rig_register(&rig, 1), INTERACTIVE, HEAVY);
    before = rig.adm.visits;
    for (unsigned i = 0; i < 1000; i++) {
        job = NULL;
        for (unsigned place = 0; place < 4 && job == NULL; place++)
            job = rig.running_jobs[place] != NULL ? rig_job_of(rig.running_jobs[place]) : NULL;
        rig_end(&rig, job);
        cr_assert_eq(rig.dispatched.count, 1);
    }
    cr_assert_leq(rig.adm.visits - before, 3000);
}

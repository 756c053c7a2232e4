/* What a job costs in a long queue, in visits of actors: the same at any depth. */
#include "tests/support/lx_test.h"

#include "admission_rig.h"

TestSuite(admission_depth, .timeout = 60);

#define DEEP 20000u

static struct rig rig;
static struct rig_job *jobs[DEEP];

static void fini(void)
{
    rig_fini(&rig);
}

/* Jobs of mixed lanes behind a writer that runs. */
static struct rig_job *fill(struct rig_actor *actor, unsigned depth)
{
    struct rig_job *writer =
        rig_submit_lane(&rig, actor, LANEX_CLASS_INTERACTIVE, LANEX_LANE_MUTATING);

    cr_assert(rig_runs(writer));
    for (unsigned i = 0; i < depth; i++)
        jobs[i] = rig_submit_lane(&rig, actor, LANEX_CLASS_INTERACTIVE, i % LX_LANES);
    cr_assert_eq(actor->entry.queued[LANEX_CLASS_INTERACTIVE], depth);
    return writer;
}

static uint64_t visits_of_queue(unsigned depth)
{
    struct rig_actor *actor;
    struct rig_job *writer;
    unsigned ended = 0;
    uint64_t visits;

    memset(&rig, 0, sizeof rig);
    rig_init(&rig, &(lanex_executor_options){.pool_size = 4});
    actor = rig_register(&rig, 1);
    writer = fill(actor, depth);
    rig_end(&rig, writer);
    while (rig.adm.idle_workers < 4) {
        for (unsigned place = 0; place < 4; place++) {
            if (rig.running_jobs[place] != NULL) {
                rig_end(&rig, rig_job_of(rig.running_jobs[place]));
                ended++;
                break;
            }
        }
    }
    cr_assert_eq(ended, depth, "each ran");
    visits = rig.adm.visits;
    rig_fini(&rig);
    return visits;
}

Test(admission_depth, submitting_and_draining_cost_the_same_per_job)
{
    uint64_t shallow = visits_of_queue(100), deep = visits_of_queue(DEEP);

    cr_assert_leq(deep * 100, shallow * DEEP * 11 / 10, "%lu visits for 100, %lu for %u",
                  (unsigned long)shallow, (unsigned long)deep, DEEP);
}

Test(admission_depth, cancelling_in_random_order_leaves_an_exact_queue, .fini = fini)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    struct rig_actor *actor;
    uint64_t visits;

    rig_init(&rig, &(lanex_executor_options){.pool_size = 4});
    actor = rig_register(&rig, 1);
    fill(actor, DEEP);
    visits = rig.adm.visits;
    for (unsigned i = 0; i < DEEP; i++) {
        unsigned other = i + (unsigned)lx_rng_below(&rng, DEEP - i);
        struct rig_job *job = jobs[other];
        jobs[other] = jobs[i];
        rig_cancel(&rig, job);
        cr_assert_eq(rig_settled_one(&rig), job);
        cr_assert_eq(actor->entry.queued[LANEX_CLASS_INTERACTIVE], DEEP - 1 - i);
    }
    cr_assert_leq(rig.adm.visits - visits, 2 * DEEP);
    cr_assert_eq(rig.adm.queued[LANEX_CLASS_INTERACTIVE], 0);
}

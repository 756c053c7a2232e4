/*
 * Why does this job wait: the chain, step by step, for each thing that can stand in the way.
 */
#include "tests/support/lx_test.h"

#include "admission/views.h"
#include "admission_rig.h"

#define READ   LANEX_LANE_PURE_READ
#define SERIAL LANEX_LANE_SERIAL_STATUS
#define HEAVY  LANEX_LANE_HEAVY_INIT
#define WRITE  LANEX_LANE_MUTATING
#define COMMIT LANEX_LANE_MAINTENANCE_COMMIT

static struct rig *make(const lanex_executor_options *options)
{
    static struct rig rig;

    rig_init(&rig, options);
    return &rig;
}

static struct rig_job *submit(struct rig *rig, struct rig_actor *actor, unsigned lane)
{
    return rig_submit_lane(rig, actor, LANEX_CLASS_INTERACTIVE, lane);
}

static struct rig_job *background(struct rig *rig, struct rig_actor *actor, unsigned lane)
{
    return rig_submit_lane(rig, actor, LANEX_CLASS_MAINTENANCE, lane);
}

/* It runs, as far as the views are concerned. */
static struct rig_job *begun(struct rig_job *job)
{
    cr_assert(rig_runs(job));
    lx_job_begin(&job->entry);
    return job;
}

#define expect(rig, job, why, who)                                                                 \
    do {                                                                                           \
        struct lx_wait wait_ = lx_view_wait(&(rig)->adm, &(job)->entry);                           \
        const struct rig_job *who_ = (who);                                                        \
        cr_assert_eq(wait_.reason, (why), "waits for \"%s\", not \"%s\"",                          \
                     lanex_wait_reason_text((int)wait_.reason), lanex_wait_reason_text(why));      \
        cr_assert_eq((const void *)wait_.holder, (const void *)who_);                              \
    } while (0)

Test(explain, a_running_job_waits_for_nothing_and_one_in_the_gate_says_so)
{
    struct rig *rig = make(&(lanex_executor_options){.pool_size = 4});
    struct rig_job *job = submit(rig, rig_register(rig, 1), READ);

    expect(rig, job, LANEX_WAIT_GATE, NULL);
    begun(job);
    expect(rig, job, LANEX_WAIT_NONE, NULL);
    rig_fini(rig);
}

Test(explain, lanes_of_an_actor_hold_each_other_up)
{
    struct rig *rig =
        make(&(lanex_executor_options){.pool_size = 8, .actor_cap = 4, .read_cap = 1});
    struct rig_actor *a = rig_register(rig, 1), *b = rig_register(rig, 1);
    struct rig_job *read = begun(submit(rig, a, READ)), *second, *third, *writer, *writing;

    rig_advance(rig, RIG_MS);
    begun(submit(rig, a, SERIAL));
    second = submit(rig, a, READ);
    expect(rig, second, LANEX_WAIT_LANE, read);
    writer = submit(rig, a, WRITE);
    expect(rig, writer, LANEX_WAIT_OLDER, second);
    third = submit(rig, a, READ);
    expect(rig, third, LANEX_WAIT_OLDER, second);
    rig_cancel(rig, second);
    expect(rig, writer, LANEX_WAIT_READS, third);
    rig_cancel(rig, third);
    expect(rig, writer, LANEX_WAIT_READERS, read);
    writing = begun(submit(rig, b, WRITE));
    expect(rig, submit(rig, b, READ), LANEX_WAIT_WRITER, writing);
    rig_fini(rig);
}

Test(explain, a_promoted_writer_holds_reads_and_a_queued_one_holds_maintenance)
{
    struct rig *rig = make(&(lanex_executor_options){.pool_size = 8});
    struct rig_actor *a = rig_register(rig, 1);
    struct rig_job *reader = begun(submit(rig, a, READ)), *writer = submit(rig, a, WRITE), *read;

    expect(rig, background(rig, a, READ), LANEX_WAIT_QUEUED_WRITER, writer);
    rig_advance(rig, 6000 * RIG_MS);
    read = submit(rig, a, READ);
    expect(rig, read, LANEX_WAIT_PROMOTED_WRITER, writer);
    expect(rig, writer, LANEX_WAIT_READERS, reader);
    rig_fini(rig);
}

Test(explain, a_heavy_permit_is_held_by_a_job_of_another_actor)
{
    struct rig *rig = make(&(lanex_executor_options){.pool_size = 4, .heavy_permits = 1});
    struct rig_actor *a = rig_register(rig, 1), *b = rig_register(rig, 1);
    struct rig_spec build = {.lane = HEAVY, .has_install = true};
    struct rig_job *reader = begun(submit(rig, a, READ)), *heavy = rig_submit(rig, a, &build);
    struct rig_job *waits = submit(rig, b, HEAVY), *late;

    begun(heavy);
    expect(rig, waits, LANEX_WAIT_PERMIT, heavy);
    /* Younger jobs step over it; it still waits for the permit, not for them. */
    begun(submit(rig, b, SERIAL));
    submit(rig, b, SERIAL);
    expect(rig, waits, LANEX_WAIT_PERMIT, heavy);
    /* The build is over, its install step waits, with the permit and without a worker. */
    cr_assert(rig_built(rig, heavy));
    expect(rig, waits, LANEX_WAIT_PERMIT, heavy);
    expect(rig, heavy, LANEX_WAIT_READERS, reader);
    late = submit(rig, a, READ);
    expect(rig, late, LANEX_WAIT_INSTALL, heavy);
    rig_end(rig, reader);
    expect(rig, heavy, LANEX_WAIT_GATE, NULL);
    rig_fini(rig);
}

Test(explain, workers_slots_and_classes_run_out)
{
    struct rig *rig = make(&(lanex_executor_options){.pool_size = 3, .actor_cap = 2});
    struct rig_actor *a = rig_register(rig, 1), *b = rig_register(rig, 1);
    struct rig_job *first = begun(background(rig, a, READ)), *second, *read;

    rig_advance(rig, RIG_MS);
    second = begun(background(rig, b, READ));
    /* maintenance_cap 2, and one worker of the reserve. */
    expect(rig, background(rig, b, READ), LANEX_WAIT_CLASS, first);
    read = begun(submit(rig, a, READ));
    expect(rig, submit(rig, a, SERIAL), LANEX_WAIT_SLOT, first);
    expect(rig, submit(rig, b, READ), LANEX_WAIT_WORKERS, first);
    rig_end(rig, first);
    cr_assert(rig_runs(second) && rig_runs(read));
    rig_fini(rig);
}

Test(explain, what_is_about_to_be_answered_waits_for_no_job)
{
    struct rig *rig = make(&(lanex_executor_options){.pool_size = 4});
    struct rig_actor *a = rig_register(rig, 1);
    struct rig_job *queued;

    begun(submit(rig, a, WRITE));
    queued = submit(rig, a, WRITE);
    rig_begin(rig);
    lx_admission_remove(&rig->adm, &a->entry);
    expect(rig, queued, LANEX_WAIT_ANSWER, NULL);
    rig_finish(rig);
    rig_fini(rig);
}

Test(explain, an_actor_is_explained_by_its_oldest_queued_job_or_its_longest_running)
{
    struct rig *rig = make(&(lanex_executor_options){.pool_size = 4});
    struct rig_actor *a = rig_register(rig, 1);
    struct rig_job *running, *old, *read;

    cr_assert_null(lx_view_actor_front(&rig->adm, &a->entry));
    running = begun(submit(rig, a, WRITE));
    cr_assert_eq(lx_view_actor_front(&rig->adm, &a->entry), &running->entry);
    old = background(rig, a, COMMIT);
    cr_assert_eq(lx_view_actor_front(&rig->adm, &a->entry), &old->entry);
    read = submit(rig, a, READ);
    cr_assert_eq(lx_view_actor_front(&rig->adm, &a->entry), &read->entry);
    rig_fini(rig);
}

/* Whatever happens, a chain ends, and a job that nothing holds is none that stays queued. */
Test(explain, every_chain_ends_in_random_states)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    struct rig *rig = make(&(lanex_executor_options){.pool_size = 4, .heavy_permits = 1});
    struct rig_actor *actors[4];
    unsigned queued = 0, steps = (unsigned)lx_test_scaled(3000);

    for (unsigned i = 0; i < 4; i++)
        actors[i] = rig_register(rig, 1);
    for (unsigned step = 0; step < steps; step++) {
        struct rig_spec spec = {
            .job_class = (uint8_t)lx_rng_below(&rng, 2),
            .lane = (uint8_t)lx_rng_below(&rng, 5),
        };
        struct rig_job *job;

        spec.has_install = spec.lane == HEAVY && lx_rng_percent(&rng, 50);
        job = rig_submit(rig, actors[lx_rng_below(&rng, 4)], &spec);
        rig_advance(rig, lx_rng_below(&rng, 2000) * RIG_MS);
        for (struct rig_job *other = rig->jobs; other != NULL; other = other->older) {
            struct lx_job_entry *at = &other->entry;
            unsigned links = 0;

            if (rig_runs(other))
                lx_job_begin(at);
            if (rig_state(other) != LX_JOB_QUEUED)
                continue;
            queued++;
            while (at != NULL) {
                struct lx_wait wait = lx_view_wait(&rig->adm, at);
                cr_assert_neq(wait.reason, LANEX_WAIT_TURN, "nothing holds job %u at step %u",
                              other->id, step);
                cr_assert_lt(++links, 12, "the chain of job %u does not end", other->id);
                at = wait.holder;
            }
        }
        /* Ends as often as submissions, and more when much is queued. */
        for (job = rig->jobs; job != NULL; job = job->older) {
            if (!rig_runs(job) || !lx_rng_percent(&rng, 30))
                continue;
            if (rig_state(job) == LX_JOB_ADMITTED &&
                (job->entry.flags & LX_JOB_FLAG_HAS_INSTALL) != 0)
                rig_built(rig, job);
            else
                rig_end(rig, job);
        }
        if (step % 200 == 199) { /* the rig never frees: begin anew */
            rig_fini(rig);
            rig = make(&(lanex_executor_options){.pool_size = 4, .heavy_permits = 1});
            for (unsigned i = 0; i < 4; i++)
                actors[i] = rig_register(rig, 1);
        }
    }
    cr_assert_gt(queued, 100);
    rig_fini(rig);
}

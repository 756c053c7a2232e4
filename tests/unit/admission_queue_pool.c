/* The pool of queues: lent with an actor's first queued job, given back with its last, and enough
 * of them for actors that are removed with jobs still to be answered. */
#include "tests/support/lx_test.h"

#include "admission_rig.h"

TestSuite(admission_queue_pool, .timeout = 60);

#define ACTORS      64u
#define JOBS_OF_ONE 3u
#define POOL        2u

static struct rig rig;

static void init(void)
{
    rig_init(&rig,
             &(lanex_executor_options){.size = sizeof(lanex_executor_options), .pool_size = POOL});
}

static void fini(void)
{
    rig_fini(&rig);
}

static struct rig_job *queue_one(struct rig_actor *actor)
{
    struct rig_spec spec = {.lane = LANEX_LANE_MUTATING};

    return rig_submit(&rig, actor, &spec);
}

static unsigned removed_with_queue(void)
{
    unsigned count = 0;

    for (const struct rig_actor *actor = rig.actors; actor != NULL; actor = actor->older)
        count += (actor->entry.flags & LX_ACTOR_REGISTERED) == 0 &&
                 actor->entry.queue != lx_queue_none();
    return count;
}

static void check_room(void)
{
    const struct lx_queue_pool *pool = &rig.adm.space.queues;

    cr_assert_leq(pool->users, pool->room);
    cr_assert_eq(pool->users, rig.adm.actors + removed_with_queue());
}

Test(admission_queue_pool, lends_for_as_long_as_jobs_are_queued, .init = init, .fini = fini)
{
    struct rig_actor *first = rig_register(&rig, 1), *second = rig_register(&rig, 1);
    struct rig_job *running = queue_one(first), *waiting;
    const struct lx_actor_queue *lent;

    cr_assert(rig_runs(running));
    cr_assert_eq(first->entry.queue, lx_queue_none(), "a running job needs none");
    waiting = queue_one(first);
    lent = first->entry.queue;
    cr_assert_neq(lent, lx_queue_none());
    cr_assert_eq(lent->lists[LANEX_CLASS_INTERACTIVE][LANEX_LANE_MUTATING], &waiting->entry);
    rig_end(&rig, running);
    cr_assert_eq(first->entry.queue, lx_queue_none());
    running = queue_one(second);
    waiting = queue_one(second);
    cr_assert(!rig_runs(waiting));
    cr_assert_eq(second->entry.queue, lent, "what was given back last is lent first");
    cr_assert_eq(lent->largest_cost, 1);
    rig_cancel(&rig, waiting);
    cr_assert_eq(second->entry.queue, lx_queue_none());
    check_room();
}

static void submit_all(struct rig_actor *const actors[], unsigned jobs)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        for (unsigned j = 0; j < jobs; j++)
            queue_one(actors[i]);
    }
}

/* More actors have jobs queued than are registered: half of them are removed, and not answered yet.
 */
Test(admission_queue_pool, has_room_beside_actors_that_were_removed, .init = init, .fini = fini)
{
    struct rig_actor *old[ACTORS], *new[ACTORS];
    uint32_t room;

    for (unsigned i = 0; i < ACTORS; i++)
        old[i] = rig_register(&rig, 1);
    submit_all(old, JOBS_OF_ONE);
    room = rig.adm.space.queues.room;
    rig_begin(&rig);
    for (unsigned i = 0; i < ACTORS; i++)
        lx_admission_remove(&rig.adm, &old[i]->entry);
    cr_assert_eq(rig.adm.actors, 0);
    cr_assert_geq(removed_with_queue(), ACTORS - POOL);
    check_room();
    for (unsigned i = 0; i < ACTORS; i++) {
        struct rig_spec spec = {.lane = LANEX_LANE_PURE_READ};
        struct rig_job *job;
        new[i] = rig_register(&rig, 1);
        job = rig_new_job(&rig, new[i], &spec);
        lx_admission_submit(&rig.adm, &job->entry);
        cr_assert_neq(new[i]->entry.queue, lx_queue_none());
        check_room();
        for (unsigned j = 0; j < i; j++)
            cr_assert(new[j]->entry.queue != new[i]->entry.queue);
        for (unsigned j = 0; j < ACTORS; j++)
            cr_assert(old[j]->entry.queue != new[i]->entry.queue);
    }
    cr_assert_gt(rig.adm.space.queues.room, room);
    rig_finish(&rig);
    cr_assert_eq(removed_with_queue(), 0);
    check_room();
    cr_assert_eq(rig.settled.count, ACTORS * JOBS_OF_ONE - POOL);
}

/* Queues of the admission rules: coalescing, caps, the order of checks, deadlines, answering in
 * slices. */
#include "tests/support/lx_test.h"

#include "admission_rig.h"

TestSuite(admission_queue, .timeout = 60);

#define INTERACTIVE LANEX_CLASS_INTERACTIVE
#define MAINTENANCE LANEX_CLASS_MAINTENANCE

static struct rig rig;

/* A rig whose workers are all taken by reads of another actor, so that what is submitted stays
 * queued. */
static struct rig_actor *full_rig(lanex_executor_options options)
{
    struct rig_actor *holder;

    options.pool_size = 2;
    rig_init(&rig, &options);
    for (unsigned i = 0; i < 2; i++) {
        holder = rig_register(&rig, 1);
        rig_submit_lane(&rig, holder, INTERACTIVE, LANEX_LANE_PURE_READ);
    }
    cr_assert_eq(rig.adm.idle_workers, 0);
    return rig_register(&rig, 1);
}

static struct rig_job *submit_keyed(struct rig_actor *actor, unsigned job_class, unsigned key)
{
    struct rig_spec spec = {.job_class = (uint8_t)job_class, .coalesce_key = (uint8_t)key};

    return rig_submit(&rig, actor, &spec);
}

static void fini(void)
{
    rig_fini(&rig);
}

static void assert_settled(const struct rig_job *job, int status)
{
    cr_assert_eq(rig_settled_one(&rig), job);
    cr_assert_eq(job->entry.status, status, "status %d, not %d", job->entry.status, status);
    cr_assert_eq(rig_state(job), LX_JOB_OVER);
}

Test(admission_queue, a_key_that_is_queued_takes_no_second_job, .fini = fini)
{
    struct rig_actor *actor = full_rig((lanex_executor_options){0});
    struct rig_actor *other = rig_register(&rig, 1);
    struct rig_job *first = submit_keyed(actor, MAINTENANCE, 63);

    cr_assert_null(rig_settled_one(&rig));
    assert_settled(submit_keyed(actor, MAINTENANCE, 63), LANEX_STATUS_MAINTENANCE_CANCELLED);
    submit_keyed(actor, MAINTENANCE, 1);
    cr_assert_null(rig_settled_one(&rig), "another key");
    submit_keyed(other, MAINTENANCE, 63);
    cr_assert_null(rig_settled_one(&rig), "keys of different actors never meet");
    submit_keyed(actor, INTERACTIVE, 63);
    submit_keyed(actor, INTERACTIVE, 63);
    cr_assert_null(rig_settled_one(&rig), "interactive keys are ignored");
    rig_cancel(&rig, first);
    submit_keyed(actor, MAINTENANCE, 63);
    cr_assert_null(rig_settled_one(&rig), "the key is free again");
}

Test(admission_queue, planted_duplicates_leave_at_the_cap, .fini = fini)
{
    struct rig_actor *actor = full_rig((lanex_executor_options){.maintenance_queue_cap = 6});
    static const unsigned keys[] = {1, 0, 2, 0, 3, 1};
    struct rig_job *jobs[6], *newcomer, *next;

    for (unsigned i = 0; i < 6; i++)
        jobs[i] = submit_keyed(actor, MAINTENANCE, i == 5 ? 4 : keys[i]);
    /* What coalescing at submission never lets happen: 1 0 2 0 3 1, in different lists. */
    jobs[5]->entry.coalesce_key = 1;
    actor->entry.queue->coalesced &= ~(UINT64_C(1) << 4);
    newcomer = submit_keyed(actor, MAINTENANCE, 0);
    assert_settled(jobs[5], LANEX_STATUS_MAINTENANCE_CANCELLED);
    cr_assert_eq(jobs[5]->entry.coalesce_key, LX_CANCELLED_DUPLICATE,
                 "what its message comes from");
    cr_assert_eq(rig_state(newcomer), LX_JOB_QUEUED, "the victim's place is the newcomer's");
    cr_assert_eq(actor->entry.queued[MAINTENANCE], 6);
    cr_assert_eq(rig.adm.queued[MAINTENANCE], 6);

    /* Full again, and nothing to drop. */
    next = submit_keyed(actor, MAINTENANCE, 0);
    assert_settled(next, LANEX_STATUS_MAINTENANCE_BACKPRESSURE);
    cr_assert_eq(next->entry.response[0], 6);
    cr_assert_eq(next->entry.response[1], 6);
    cr_assert_eq(next->entry.coalesce_key, LANEX_SCOPE_ACTOR);

    /* The order of the rest is kept. */
    rig_remove(&rig, actor);
    next = rig_job_of(rig.settled.head);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert_eq(next, jobs[i], "place %u", i);
        next = rig_job_of(next->entry.next);
    }
    cr_assert_eq(next, newcomer);
}

Test(admission_queue, each_cap_says_which_and_how_deep, .fini = fini)
{
    struct rig_actor *actor = full_rig((lanex_executor_options){.interactive_actor_queue_cap = 2,
                                                                .interactive_queue_cap = 3,
                                                                .maintenance_total_queue_cap = 1});
    struct rig_actor *other = rig_register(&rig, 1);
    struct rig_job *job, *first;

    first = rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_MUTATING);
    rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_PURE_READ);
    job = rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_PURE_READ);
    assert_settled(job, LANEX_STATUS_EXECUTOR_BACKPRESSURE);
    cr_assert(job->entry.coalesce_key == LANEX_SCOPE_ACTOR && job->entry.response[0] == 2 &&
              job->entry.response[1] == 2);

    rig_submit_lane(&rig, other, INTERACTIVE, LANEX_LANE_PURE_READ);
    job = rig_submit_lane(&rig, other, INTERACTIVE, LANEX_LANE_PURE_READ);
    assert_settled(job, LANEX_STATUS_EXECUTOR_BACKPRESSURE);
    cr_assert(job->entry.coalesce_key == LANEX_SCOPE_GLOBAL && job->entry.response[0] == 3 &&
              job->entry.response[1] == 3);

    rig_submit_lane(&rig, other, MAINTENANCE, LANEX_LANE_PURE_READ);
    job = rig_submit_lane(&rig, actor, MAINTENANCE, LANEX_LANE_PURE_READ);
    assert_settled(job, LANEX_STATUS_MAINTENANCE_BACKPRESSURE);
    cr_assert(job->entry.coalesce_key == LANEX_SCOPE_GLOBAL && job->entry.response[0] == 1 &&
              job->entry.response[1] == 1);

    /* A cancelled job frees exactly one place, at once. */
    rig_cancel(&rig, first);
    rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_PURE_READ);
    cr_assert_null(rig_settled_one(&rig));
    job = rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_PURE_READ);
    assert_settled(job, LANEX_STATUS_EXECUTOR_BACKPRESSURE);
}

/* Everything is wrong with the job; the reasons are taken away one by one, in the order of the
 * checks. */
Test(admission_queue, checks_come_in_their_order, .fini = fini)
{
    struct rig_actor *actor = full_rig(
        (lanex_executor_options){.maintenance_queue_cap = 1, .maintenance_total_queue_cap = 1});
    struct rig_actor *fresh = rig_register(&rig, 1);
    struct rig_spec bad = {
        .job_class = MAINTENANCE, .coalesce_key = 5, .deadline_ns = 1, .cancelled = true};

    submit_keyed(actor, MAINTENANCE, 5);
    cr_assert_null(rig_settled_one(&rig));
    actor->entry.flags |= LX_ACTOR_FATAL;
    lx_admission_drain(&rig.adm);
    assert_settled(rig_submit(&rig, NULL, &bad), LANEX_STATUS_ACTOR_NOT_REGISTERED);
    assert_settled(rig_submit(&rig, actor, &bad), LANEX_STATUS_ACTOR_FATAL);
    actor->entry.flags &= (uint8_t)~LX_ACTOR_FATAL;
    assert_settled(rig_submit(&rig, actor, &bad), LANEX_STATUS_EXECUTOR_SHUTDOWN);
    rig.adm.draining = false;
    assert_settled(rig_submit(&rig, actor, &bad), LANEX_STATUS_REQUEST_CANCELLED);
    bad.cancelled = false;
    assert_settled(rig_submit(&rig, actor, &bad), LANEX_STATUS_MAINTENANCE_CANCELLED);
    bad.coalesce_key = 0;
    assert_settled(rig_submit(&rig, actor, &bad), LANEX_STATUS_MAINTENANCE_BACKPRESSURE);
    assert_settled(rig_submit(&rig, fresh, &bad), LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
    bad.deadline_ns = 0;
    assert_settled(rig_submit(&rig, fresh, &bad), LANEX_STATUS_MAINTENANCE_BACKPRESSURE);
}

Test(admission_queue, deadlines_are_answered_in_their_order_and_survivors_keep_theirs, .fini = fini)
{
    struct rig_actor *actor = full_rig((lanex_executor_options){0});
    static const uint64_t deadlines_ms[] = {30, 0, 10, 20, 0, 10};
    static const unsigned expired_in_order[] = {2, 5, 3, 0};
    struct rig_job *jobs[6], *job;

    for (unsigned i = 0; i < 6; i++) {
        struct rig_spec spec = {.job_class = i % 2, .deadline_ns = deadlines_ms[i] * RIG_MS};
        jobs[i] = rig_submit(&rig, actor, &spec);
        cr_assert_null(rig_settled_one(&rig));
    }
    cr_assert_eq(lx_admission_next_timer(&rig.adm), 10 * RIG_MS);
    rig_advance(&rig, 10 * RIG_MS - rig.now_ns - 1);
    cr_assert_eq(rig.settled.count, 0, "not a nanosecond early");
    rig_advance(&rig, 20 * RIG_MS + 1);
    cr_assert_eq(rig.settled.count, 4);
    job = rig_job_of(rig.settled.head);
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(job, jobs[expired_in_order[i]], "place %u", i);
        cr_assert_eq(job->entry.status, LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
        job = rig_job_of(job->entry.next);
    }
    cr_assert_eq(rig.adm.queued[0] + rig.adm.queued[1], 2);
    rig_remove(&rig, actor);
    cr_assert_eq(rig.settled.head, &jobs[1]->entry);
    cr_assert_eq(rig.settled.tail, &jobs[4]->entry);
}

Test(admission_queue, an_expired_job_never_starts_however_many_timers_are_due, .fini = fini)
{
    struct rig_actor *actor = full_rig((lanex_executor_options){0});
    struct rig_spec spec = {.job_class = INTERACTIVE, .deadline_ns = 5 * RIG_MS};
    unsigned answered = 0, slices = 0;
    bool more;

    for (unsigned i = 0; i < 3 * LX_TIMER_SLICE; i++)
        rig_submit(&rig, actor, &spec);
    rig.now_ns = 6 * RIG_MS;
    rig_begin(&rig);
    more = lx_admission_expire(&rig.adm);
    cr_assert(more, "one slice does not do");
    /* A worker becomes free before the rest is answered. */
    lx_admission_end(&rig.adm, rig.running_jobs[0], false);
    rig_finish(&rig);
    cr_assert_eq(rig.dispatched.count, 0);
    answered += rig.settled.count;
    cr_assert_geq(answered, LX_TIMER_SLICE);
    do {
        rig_begin(&rig);
        more = lx_admission_expire(&rig.adm);
        rig_finish(&rig);
        answered += rig.settled.count;
        cr_assert_leq(rig.settled.count, LX_TIMER_SLICE);
        cr_assert_lt(slices++, 4);
    } while (more);
    cr_assert_eq(answered, 3 * LX_TIMER_SLICE);
    cr_assert_eq(lx_admission_next_timer(&rig.adm), LANEX_TIME_NEVER);
}

Test(admission_queue, a_removed_queue_is_answered_in_slices_in_arrival_order, .fini = fini)
{
    enum { JOBS = 1000 };
    struct rig_actor *actor = full_rig((lanex_executor_options){.maintenance_queue_cap = JOBS});
    struct rig_job *jobs[JOBS];
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    unsigned next = 0;
    bool more = true;

    for (unsigned i = 0; i < JOBS; i++)
        jobs[i] = rig_submit_lane(&rig, actor, (unsigned)lx_rng_below(&rng, 2),
                                  (unsigned)lx_rng_below(&rng, LX_LANES));
    rig_begin(&rig);
    lx_admission_remove(&rig.adm, &actor->entry);
    cr_assert_eq(rig.adm.queued[0] + rig.adm.queued[1], 0, "the depths fall at once");
    cr_assert(!lx_admission_is_queued(&jobs[0]->entry), "no longer to be cancelled");
    while (more) {
        struct lx_job_list slice;
        more = lx_admission_answer_detached(&rig.adm);
        slice = rig.adm.settled;
        memset(&rig.adm.settled, 0, sizeof rig.adm.settled);
        cr_assert_leq(slice.count, LX_DETACHED_SLICE);
        for (struct lx_job_entry *job = slice.head; job != NULL; job = job->next, next++) {
            cr_assert_eq(job, &jobs[next]->entry, "place %u", next);
            cr_assert_eq(job->status, LANEX_STATUS_ACTOR_FATAL);
        }
    }
    cr_assert_eq(next, JOBS);
    cr_assert(lx_actor_entry_idle(&actor->entry));
}

Test(admission_queue, a_writers_panic_answers_all_and_refuses_what_comes, .fini = fini)
{
    struct rig_actor *actor, *again;
    struct rig_job *writer, *read, *drain;

    rig_init(&rig, &(lanex_executor_options){.pool_size = 4});
    actor = rig_register(&rig, 1);
    writer = rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_MUTATING);
    read = rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_PURE_READ);
    drain = submit_keyed(actor, MAINTENANCE, 7);
    rig_panic(&rig, writer);
    cr_assert_eq(rig.settled.count, 2);
    cr_assert_eq(rig.settled.head, &read->entry);
    cr_assert_eq(rig.settled.tail, &drain->entry);
    cr_assert_eq(actor->entry.queue->coalesced, 0);
    assert_settled(submit_keyed(actor, MAINTENANCE, 7), LANEX_STATUS_ACTOR_FATAL);
    rig_remove(&rig, actor);
    again = rig_register(&rig, 1);
    rig_submit_lane(&rig, again, INTERACTIVE, LANEX_LANE_MUTATING);
    cr_assert_eq(rig.dispatched.count, 1);
}

/* The slot of a removed actor may be another's when its last writer panics. */
Test(admission_queue, a_panic_of_a_removed_actor_touches_no_other, .fini = fini)
{
    struct rig_actor *old, *other = NULL;
    struct rig_job *writer, *read;

    rig_init(&rig, &(lanex_executor_options){.pool_size = 2});
    old = rig_register(&rig, 1);
    writer = rig_submit_lane(&rig, old, INTERACTIVE, LANEX_LANE_MUTATING);
    rig_remove(&rig, old);
    /* Used-up slots are packed, so that somebody stands in the old one's. */
    for (unsigned i = 0; other == NULL && i < 1000; i++) {
        struct rig_actor *actor = rig_register(&rig, 1);
        if (actor->entry.slot == old->entry.slot)
            other = actor;
        else
            rig_remove(&rig, actor);
    }
    cr_assert_not_null(other);
    rig_submit_lane(&rig, rig_register(&rig, 1), INTERACTIVE, LANEX_LANE_PURE_READ);
    read = rig_submit_lane(&rig, other, INTERACTIVE, LANEX_LANE_PURE_READ);
    cr_assert_eq(rig_state(read), LX_JOB_QUEUED);
    rig_panic(&rig, writer);
    cr_assert_eq(rig_dispatched_one(&rig), read);
}

Test(admission_queue, close_answers_what_is_queued_and_lets_running_jobs_end, .fini = fini)
{
    struct rig_actor *actor = full_rig((lanex_executor_options){0});
    struct rig_job *jobs[100], *late;

    for (unsigned i = 0; i < 100; i++)
        jobs[i] = rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_PURE_READ);
    rig_begin(&rig);
    lx_admission_close(&rig.adm);
    rig_finish(&rig);
    cr_assert_eq(rig.settled.count, 100);
    cr_assert_eq(jobs[99]->entry.status, LANEX_STATUS_EXECUTOR_SHUTDOWN);
    late = rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_PURE_READ);
    assert_settled(late, LANEX_STATUS_EXECUTOR_SHUTDOWN);
    rig_end(&rig, rig_job_of(rig.running_jobs[0]));
    cr_assert_eq(rig.dispatched.count, 0);
    cr_assert_eq(rig.adm.running[0], 1);
}

Test(admission_queue, drain_refuses_and_goes_on_with_what_is_queued, .fini = fini)
{
    struct rig_actor *actor = full_rig((lanex_executor_options){0});
    struct rig_job *queued = rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_PURE_READ);

    lx_admission_drain(&rig.adm);
    assert_settled(rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_PURE_READ),
                   LANEX_STATUS_EXECUTOR_SHUTDOWN);
    rig_end(&rig, rig_job_of(rig.running_jobs[0]));
    cr_assert_eq(rig_dispatched_one(&rig), queued);
}

/* After close an install step still runs; its actor may be removed while it waits. */
Test(admission_queue, an_actor_removed_after_close_leaves_nothing_behind, .fini = fini)
{
    struct rig_actor *actor;
    struct rig_job *heavy, *read;
    struct rig_spec spec = {
        .job_class = INTERACTIVE, .lane = LANEX_LANE_HEAVY_INIT, .has_install = true};

    rig_init(&rig, &(lanex_executor_options){.pool_size = 4});
    actor = rig_register(&rig, 1);
    heavy = rig_submit(&rig, actor, &spec);
    read = rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_PURE_READ);
    rig_submit_lane(&rig, actor, INTERACTIVE, LANEX_LANE_MUTATING);
    cr_assert(rig_built(&rig, heavy));
    rig_begin(&rig);
    lx_admission_close(&rig.adm);
    lx_admission_answer_detached(&rig.adm);
    lx_admission_schedule(&rig.adm);
    lx_admission_remove(&rig.adm, &actor->entry);
    rig_finish(&rig);
    cr_assert_eq(rig_state(heavy), LX_JOB_OVER);
    cr_assert_eq(lx_order_set_next(&rig.adm.space.ready[INTERACTIVE], 0), LX_ORDER_NONE);
    cr_assert(!actor->entry.timer.armed);
    cr_assert_eq(rig.adm.free_permits, rig.adm.config.heavy_permits);
    rig_end(&rig, read);
    cr_assert_eq(rig.adm.idle_workers, 4);
    cr_assert(lx_actor_entry_idle(&actor->entry));
}

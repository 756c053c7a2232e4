/*
 * The wake hammer: a new submission a few microseconds after each completion, when the pool is just
 * about to sleep. A wake that gets lost leaves a job waiting for ever.
 */
#include "tests/support/lx_executor.h"

#include <pthread.h>
#include <sched.h>

TestSuite(wake); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define SPIN_MOST_NS   4000u
#define SLOW_NS        UINT64_C(1000000000) /* nothing may be outstanding for longer */
#define SUBMITTERS_MAX 5u
#define JOBS           100000u /* of the short form, in each of four tests a part */

struct submitter {
    lanex_actor *actor;
    struct lx_rng rng;
    uint64_t jobs;
    uint64_t end_ns; /* soak: goes on until then */
    uint64_t done;
    uint64_t slowest_ns;
    _Atomic uint64_t completed;
};

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void note_end(lanex_completion *completion, void *arg)
{
    struct submitter *submitter = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    atomic_fetch_add_explicit(&submitter->completed, 1, memory_order_release);
}

static void spin(struct lx_rng *rng)
{
    uint64_t until = lx_test_now_ns() + lx_rng_below(rng, SPIN_MOST_NS + 1);

    while (lx_test_now_ns() < until)
        ;
}

/* Waits for the completion; how long it took. A job that never ends is a hang. */
static uint64_t await(struct submitter *submitter, uint64_t wanted)
{
    uint64_t start = lx_test_now_ns(), waited = 0;

    while (atomic_load_explicit(&submitter->completed, memory_order_acquire) < wanted) {
        waited = lx_test_now_ns() - start;
        /* The other side may need this CPU. */
        if (waited > 20000)
            sched_yield();
        if (waited > lx_test_liveness_s() * UINT64_C(1000000000))
            lx_test_die(__FILE__, __LINE__, "job %lu was not run", (unsigned long)wanted);
    }
    return waited;
}

static void *hammer(void *arg)
{
    struct submitter *submitter = arg;

    while (submitter->done < submitter->jobs || lx_test_now_ns() < submitter->end_ns) {
        lanex_job_options options = lx_test_callback_job(
            submitter->done % 2 == 0 ? LANEX_LANE_PURE_READ : LANEX_LANE_MUTATING, nothing, NULL,
            note_end, submitter);
        uint64_t waited;

        LX_REQUIRE(lanex_submit(submitter->actor, &options, NULL) == 0);
        submitter->done++;
        waited = await(submitter, submitter->done);
        if (waited > submitter->slowest_ns)
            submitter->slowest_ns = waited;
        spin(&submitter->rng);
    }
    return NULL;
}

static void run(unsigned count)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed() + count);
    lanex_executor *executor = lx_test_executor(2);
    static struct submitter submitters[SUBMITTERS_MAX];
    pthread_t threads[SUBMITTERS_MAX];
    /* Four forms share the time of a soak. */
    uint64_t end = lx_test_now_ns() + lx_test_soak_seconds() * UINT64_C(250000000);
    lanex_counters counters = {.size = sizeof counters};

    for (unsigned i = 0; i < count; i++) {
        submitters[i] = (struct submitter){
            .actor = lx_test_actor(executor, i % 2 == 0 ? i : i + 100),
            .rng = lx_rng_seeded(lx_rng_next(&rng)),
            .jobs = lx_test_scaled(JOBS) / (count == 1 ? 2 : 4 * count),
            .end_ns = end,
        };
        cr_assert_eq(pthread_create(&threads[i], NULL, hammer, &submitters[i]), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(submitters[i].completed, submitters[i].done);
        cr_assert_lt(submitters[i].slowest_ns, SLOW_NS, "a job waited %lu ms",
                     (unsigned long)(submitters[i].slowest_ns / 1000000));
        fprintf(stderr, "[----] %u submitters: %lu jobs, slowest %lu us\n", count,
                (unsigned long)submitters[i].done,
                (unsigned long)(submitters[i].slowest_ns / 1000));
        lanex_actor_unref(submitters[i].actor);
    }
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
    cr_assert_eq(lanex_executor_counters(executor, &counters), 0);
    fprintf(stderr, "[----] %lu wakes, %lu in vain\n", (unsigned long)counters.wakes,
            (unsigned long)counters.wakes_without_work);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

Test(wake, one_submitter)
{
    run(1);
}

Test(wake, two_submitters)
{
    run(2);
}

Test(wake, three_submitters)
{
    run(3);
}

Test(wake, five_submitters)
{
    run(5);
}

/* ---- two events at the same moment ---- */

#define MEETINGS  2000u /* of one executor */
#define EXECUTORS 10u   /* of the short form */

/* Two threads submit to actors that are blocked, at the same moment as nearly as can be: nothing
 * starts and nobody is woken, so that between leaving the seat and looking at the inbox there is
 * nothing but the fence. An event that is missed there stays unseen. */
struct meeting {
    lanex_executor *executor;
    lanex_actor *actors[2];
    struct latch begun;
    struct latch may_end;
    _Atomic uint64_t here[2];
    _Atomic uint64_t checked;
};

static void hold_actor(lanex_job *job, void *context, void *arg)
{
    struct meeting *meeting = arg;

    (void)job;
    (void)context;
    latch_arrive(&meeting->begun);
    latch_wait(&meeting->may_end, 1);
}

/* Spins, since a sleep would take away the same moment; gives the CPU away when it takes long. */
static void spin_until(const _Atomic uint64_t *word, uint64_t value)
{
    for (unsigned spins = 0; atomic_load(word) < value; spins++) {
        if (spins > 1000)
            sched_yield();
    }
}

static void meet(struct meeting *meeting, unsigned side, uint64_t round)
{
    lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);

    atomic_store(&meeting->here[side], round);
    spin_until(&meeting->here[1 - side], round);
    LX_REQUIRE(lanex_submit(meeting->actors[side], &options, NULL) == 0);
}

static void *meet_always(void *arg)
{
    struct meeting *meeting = arg;

    for (uint64_t round = 1; round <= MEETINGS; round++) {
        meet(meeting, 1, round);
        spin_until(&meeting->checked, round);
    }
    return NULL;
}

static uint64_t queued(const lanex_executor *executor)
{
    lanex_liveness liveness = {.size = sizeof liveness};

    cr_assert_eq(lanex_executor_liveness(executor, &liveness), 0);
    return liveness.queued[0];
}

static void one_executor(void)
{
    struct meeting meeting = {.executor = lx_test_executor(2)};
    lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, hold_actor, &meeting);
    pthread_t other;

    for (unsigned i = 0; i < 2; i++) {
        meeting.actors[i] = lx_test_actor(meeting.executor, i);
        cr_assert_eq(lanex_submit(meeting.actors[i], &options, NULL), 0);
    }
    latch_wait(&meeting.begun, 2);
    cr_assert_eq(pthread_create(&other, NULL, meet_always, &meeting), 0);
    for (uint64_t round = 1; round <= MEETINGS; round++) {
        meet(&meeting, 0, round);
        LX_EVENTUALLY(queued(meeting.executor) == 2 * round);
        atomic_store(&meeting.checked, round);
    }
    pthread_join(other, NULL);
    latch_arrive(&meeting.may_end);
    lanex_actor_unref(meeting.actors[0]);
    lanex_actor_unref(meeting.actors[1]);
    cr_assert_eq(lanex_executor_destroy(meeting.executor), 0);
}

Test(wake, no_event_stays_unseen_when_two_meet)
{
    uint64_t end = lx_test_now_ns() + lx_test_soak_seconds() * UINT64_C(250000000);

    for (uint64_t i = 0; i < lx_test_scaled(EXECUTORS) || lx_test_now_ns() < end; i++)
        one_executor();
}

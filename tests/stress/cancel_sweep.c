/*
 * A cancel fired at swept moments around a job's start, its seal and its end: one completion, and
 * either the job never ran, or it ran without effect, or it sealed and had its effect.
 */
#include "lx_executor.h"

#include <sched.h>

#define SEAL_AFTER_NS   10000 /* from when both sides are there */
#define FINISH_AFTER_NS 20000
#define SWEEP_FROM_NS   (-5000) /* around each of these moments */
#define SWEEP_TO_NS     20000
#define ROUNDS          20000u /* of the short form */

struct swept {
    atomic_bool started;
    _Atomic uint64_t base_ns; /* the moments count from here; 0: the body waits for it */
    atomic_uint effects, completions;
    bool seals;
    int status;
    struct latch done;
};

static void spin_until(uint64_t when_ns, bool yields)
{
    while (lx_test_now_ns() < when_ns) {
        if (yields)
            sched_yield();
    }
}

static void body(lanex_job *job, void *context, void *arg)
{
    struct swept *swept = arg;
    uint64_t base_ns, begun = lx_test_now_ns();

    (void)context;
    LX_REQUIRE(!atomic_exchange(&swept->started, true));
    while ((base_ns = atomic_load(&swept->base_ns)) == 0)
        lx_test_pause_or_die(begun, __FILE__, __LINE__, "the canceller is there");
    spin_until(base_ns + SEAL_AFTER_NS, false);
    if (lanex_seal()) {
        LX_REQUIRE(!lanex_cancelled());
        atomic_fetch_add(&swept->effects, 1);
    } else {
        LX_REQUIRE(lanex_job_respond_error(job, "stopped", NULL, false) == 0);
    }
    spin_until(base_ns + FINISH_AFTER_NS, false);
}

static void completed(lanex_completion *completion, void *arg)
{
    struct swept *swept = arg;

    LX_REQUIRE(atomic_fetch_add(&swept->completions, 1) == 0);
    swept->status = lanex_completion_status(completion);
    latch_arrive(&swept->done);
}

/*
 * Waits for the moment to fire: `offset_ns` after the submission, the seal or the end. For the
 * later two it meets the body first, so that they are aimed at also where both share one CPU.
 */
static void wait_for_moment(struct swept *swept, unsigned around, int64_t offset_ns, bool yields)
{
    static const uint64_t after_ns[] = {0, SEAL_AFTER_NS, FINISH_AFTER_NS};
    uint64_t base_ns, begun = lx_test_now_ns();

    while (around != 0 && !atomic_load(&swept->started))
        lx_test_pause_or_die(begun, __FILE__, __LINE__, "the job starts");
    base_ns = lx_test_now_ns();
    atomic_store(&swept->base_ns, base_ns);
    spin_until((uint64_t)((int64_t)(base_ns + after_ns[around]) + offset_ns), yields);
}

struct tally {
    unsigned never_ran, without_effect, with_effect;
};

static bool met_all(const struct tally *tally)
{
    return tally->never_ran > 0 && tally->without_effect > 0 && tally->with_effect > 0;
}

static void check(struct swept *swept, bool may_be_done, struct tally *tally)
{
    bool ran = atomic_load(&swept->started);
    unsigned effects = atomic_load(&swept->effects);

    LX_REQUIRE(atomic_load(&swept->completions) == 1);
    switch (swept->status) {
    case LANEX_STATUS_OK:
        LX_REQUIRE(ran && effects == 1 && may_be_done);
        tally->with_effect++;
        break;
    case LANEX_STATUS_JOB_FAILED:
        LX_REQUIRE(ran && effects == 0 && !may_be_done);
        tally->without_effect++;
        break;
    default:
        LX_REQUIRE(swept->status == LANEX_STATUS_REQUEST_CANCELLED);
        LX_REQUIRE(!ran && effects == 0 && !may_be_done);
        tally->never_ran++;
        break;
    }
}

/* True if what the cancel met lets the job have its effect. */
static bool fire(lanex_executor *executor, uint64_t number, lanex_cancellation *token)
{
    int met;

    if (token != NULL) {
        met = lanex_cancellation_cancel(token);
        LX_REQUIRE(met >= LANEX_CANCELLATION_PENDING && met <= LANEX_CANCELLATION_COMMITTED);
        return met == LANEX_CANCELLATION_COMMITTED;
    }
    met = lanex_cancel(executor, number);
    LX_REQUIRE(met >= LANEX_CANCEL_QUEUED_REMOVED && met <= LANEX_CANCEL_NOT_FOUND);
    return met == LANEX_CANCEL_RUNNING_COMMITTED || met == LANEX_CANCEL_NOT_FOUND;
}

static void one_round(lanex_executor *executor, lanex_actor *actor, struct lx_rng *rng,
                      struct tally *tally)
{
    struct swept swept = {.status = -1};
    unsigned around = (unsigned)lx_rng_below(rng, 3);
    int64_t offset = SWEEP_FROM_NS + (int64_t)lx_rng_below(rng, SWEEP_TO_NS - SWEEP_FROM_NS + 1);
    lanex_job_options job = lx_test_callback_job((enum lanex_lane)lx_rng_below(rng, 5), body,
                                                 &swept, completed, &swept);
    lanex_cancellation *token = NULL;
    uint64_t number = 0;

    if (lx_rng_percent(rng, 50)) {
        LX_REQUIRE(lanex_cancellation_create(&token) == 0);
        job.cancellation = token;
    } else {
        job.flags = LANEX_JOB_CANCELLABLE;
    }
    LX_REQUIRE(lanex_submit(actor, &job, &number) == 0);
    wait_for_moment(&swept, around, offset, lx_rng_percent(rng, 25));
    bool may_be_done = fire(executor, number, token);
    latch_wait(&swept.done, 1);
    check(&swept, may_be_done, tally);
    LX_REQUIRE(lanex_cancel(executor, number) == LANEX_CANCEL_NOT_FOUND);
    lanex_cancellation_unref(token);
}

Test(cancel_sweep, leaves_one_completion_and_the_effect_that_it_tells)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t until = lx_test_now_ns() + lx_test_soak_seconds() * UINT64_C(1000000000);
    uint64_t rounds = lx_test_scaled(ROUNDS);
    struct tally tally = {0};

    for (uint64_t round = 0; round < rounds || lx_test_now_ns() < until; round++)
        one_round(executor, actor, &rng, &tally);
    LX_EVENTUALLY((one_round(executor, actor, &rng, &tally), met_all(&tally)));
    fprintf(stderr, "never ran: %u, ran without effect: %u, with effect: %u\n", tally.never_ran,
            tally.without_effect, tally.with_effect);
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

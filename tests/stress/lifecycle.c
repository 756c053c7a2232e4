/*
 * Executors come and go while threads with references of their own go on submitting: each
 * submission is settled or refused, and nothing is left behind.
 */
#include "tests/support/lx_executor.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>

TestSuite(lifecycle); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define SUBMITTERS 2u
#define ROUNDS     600u /* of the short form */

static unsigned entries(const char *path)
{
    unsigned count = 0;
    DIR *folder = opendir(path);

    LX_REQUIRE(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

struct round {
    lanex_executor *executor;
    lanex_actor *actor;
    struct latch ready;
    /* Jobs that submit took on, and their completions. */
    atomic_uint accepted;
    atomic_uint settled;
};

static void note_end(lanex_completion *completion, void *arg)
{
    struct round *round = arg;
    int status = lanex_completion_status(completion);

    LX_REQUIRE(status == LANEX_STATUS_OK || status == LANEX_STATUS_EXECUTOR_SHUTDOWN ||
               status == LANEX_STATUS_ACTOR_FATAL || status == LANEX_STATUS_ACTOR_NOT_REGISTERED);
    atomic_fetch_add(&round->settled, 1);
}

/* One submission in one of the ways there are; false once it was refused. */
static bool submit_somehow(struct round *round, struct lx_rng *rng)
{
    const char key = 'a';
    lanex_job_options options =
        lx_test_callback_job(lx_rng_percent(rng, 50) ? LANEX_LANE_PURE_READ : LANEX_LANE_MUTATING,
                             nothing, NULL, note_end, round);
    lanex_submission batch[2] = {{round->actor, &options}, {round->actor, &options}};
    lanex_ticket *ticket;
    unsigned jobs = 1;
    int rc;

    switch (lx_rng_below(rng, 4)) {
    case 0:
        rc = lanex_submit_by_key(round->executor, &key, 1, &options, NULL);
        break;
    case 1:
        rc = lanex_submit_batch(batch, 2, NULL);
        jobs = 2;
        break;
    case 2:
        options.sink = (lanex_sink){.kind = LANEX_SINK_TICKET};
        rc = lanex_submit_ticket(round->actor, &options, &ticket);
        if (rc == 0) {
            if (lx_rng_percent(rng, 50))
                LX_REQUIRE(lanex_ticket_wait(ticket, LANEX_TIME_NEVER) == 0);
            lanex_ticket_drop(ticket);
        }
        jobs = 0;
        break;
    default:
        rc = lanex_submit(round->actor, &options, NULL);
        break;
    }
    LX_REQUIRE(rc == 0 || rc == -ESHUTDOWN);
    if (rc == 0)
        atomic_fetch_add(&round->accepted, jobs);
    return rc == 0;
}

struct submitter {
    struct round *round;
    struct lx_rng rng;
};

static void *submit_until_refused(void *arg)
{
    struct submitter *submitter = arg;
    struct round *round = submitter->round;
    struct lx_rng *rng = &submitter->rng;

    latch_arrive(&round->ready);
    while (submit_somehow(round, rng)) {
        if (lx_rng_percent(rng, 10))
            (void)lanex_cancel(round->executor, lx_rng_below(rng, UINT64_C(1) << 30));
        if (lx_rng_percent(rng, 5)) {
            lanex_actor *actor = NULL;
            int rc = lanex_actor_register(round->executor, "b", 1, NULL, &actor);
            LX_REQUIRE(rc >= 0 || rc == -ESHUTDOWN);
            rc = lanex_actor_remove(round->executor, "b", 1);
            LX_REQUIRE(rc == 0 || rc == -ENOENT || rc == -ESHUTDOWN);
            lanex_actor_unref(actor);
        }
        if (lx_rng_percent(rng, 2))
            (void)lanex_executor_drain(round->executor, lx_rng_below(rng, 100000), NULL);
    }
    lanex_executor_unref(round->executor);
    return NULL;
}

static void one_round(struct lx_rng *rng, unsigned submitters)
{
    struct round round = {.executor = lx_test_executor(2)};
    struct submitter at[SUBMITTERS];
    pthread_t threads[SUBMITTERS];
    lanex_executor *executor = round.executor;

    LX_REQUIRE(lanex_actor_register(executor, "a", 1, NULL, &round.actor) == 1);
    for (unsigned i = 0; i < submitters; i++) {
        lanex_executor_ref(executor);
        at[i] = (struct submitter){&round, lx_rng_seeded(lx_rng_next(rng))};
        cr_assert_eq(pthread_create(&threads[i], NULL, submit_until_refused, &at[i]), 0);
    }
    if (lx_rng_percent(rng, 50))
        latch_wait(&round.ready, submitters);
    for (uint64_t k = lx_rng_below(rng, 4); k > 0; k--)
        (void)submit_somehow(&round, rng);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    for (unsigned i = 0; i < submitters; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(atomic_load(&round.settled), atomic_load(&round.accepted));
    lanex_actor_unref(round.actor);
}

Test(lifecycle, create_submit_destroy_beside_other_holders)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t end = lx_test_now_ns() + lx_test_soak_seconds() * UINT64_C(1000000000);
    uint64_t rounds = 0;
    unsigned threads, descriptors;

    one_round(&rng, SUBMITTERS); /* what the C library makes once */
    threads = entries("/proc/self/task");
    descriptors = entries("/proc/self/fd");
    while (rounds < lx_test_scaled(ROUNDS) || lx_test_now_ns() < end) {
        one_round(&rng, (unsigned)(rounds % (SUBMITTERS + 1)));
        rounds++;
    }
    /* A joined thread leaves /proc a moment later. */
    LX_EVENTUALLY(entries("/proc/self/task") == threads);
    cr_assert_eq(entries("/proc/self/fd"), descriptors);
    fprintf(stderr, "[----] %lu rounds\n", (unsigned long)rounds);
}

/*
 * Shares under saturation: SPEC 5. Three actors of weights 1, 2 and 4, queues that are never empty,
 * and jobs of mixed costs, while one, several or many workers become free at a time.
 */
#include "tests/support/lx_test.h"

#include "admission_rig.h"

TestSuite(admission_shares, .timeout = 60);

#define ACTORS  3u
#define WEIGHTS (1u + 2u + 4u)
#define QUEUE   128u  /* jobs that each actor has waiting at all times */
#define ROUNDS  1000u /* times the largest cost */

static const uint32_t weights[ACTORS] = {1, 2, 4};

struct shares {
    struct rig rig;
    struct lx_rng rng;
    struct rig_actor *actors[ACTORS];
    uint32_t largest; /* cost of a job */
    uint64_t served[ACTORS];
    uint64_t rounds, last_rounds;
    unsigned ends_seen; /* turns that stopped between two rounds */
    uint8_t job_class;
};

static struct shares shares;

static void fini(void)
{
    rig_fini(&shares.rig);
}

static void refill(struct shares *s, unsigned actor)
{
    struct rig_spec spec = {.job_class = s->job_class};

    while (s->actors[actor]->entry.queued[s->job_class] < QUEUE) {
        spec.cost = (uint32_t)lx_rng_between(&s->rng, 1, s->largest);
        lx_admission_submit(&s->rig.adm, &rig_new_job(&s->rig, s->actors[actor], &spec)->entry);
    }
}

static void count_dispatched(struct shares *s)
{
    for (struct lx_job_entry *job = s->rig.dispatched.head; job != NULL; job = job->next) {
        unsigned actor = 0;
        while (job->actor != &s->actors[actor]->entry)
            actor++;
        s->served[actor] += rig_job_of(job)->cost;
    }
}

/* What an actor was given, in rounds: what it has used of it, and what it keeps for a costly job.
 */
static uint64_t given(const struct shares *s, unsigned actor)
{
    return (s->served[actor] + s->actors[actor]->entry.deficit) / weights[actor];
}

static void check(struct shares *s)
{
    const struct lx_admission *adm = &s->rig.adm;
    uint64_t total = 0;

    for (unsigned i = 0; i < ACTORS; i++) {
        total += s->served[i];
        cr_assert(given(s, i) <= given(s, 0) && given(s, i) + 1 >= given(s, 0),
                  "actor %u had %lu rounds, the first one %lu", i, (unsigned long)given(s, i),
                  (unsigned long)given(s, 0));
    }
    s->rounds = given(s, ACTORS - 1);
    for (unsigned i = 0; i < ACTORS; i++) {
        if (given(s, i) != s->rounds)
            return;
    }
    if (adm->open_visit.actor != NULL && adm->open_visit.actor->deficit >= s->largest)
        return; /* the last visit of the round has not used what it has */
    /* Between two rounds: all had the same, so each share is ideal but for less than one job. */
    s->ends_seen++;
    for (unsigned i = 0; i < ACTORS; i++) {
        uint64_t ideal = s->rounds * weights[i];
        cr_assert_leq(s->actors[i]->entry.deficit, s->largest,
                      "actor %u keeps no more than the largest job needs", i);
        cr_assert(s->served[i] <= ideal && s->served[i] + s->largest >= ideal,
                  "actor %u: %lu of %lu after %lu rounds, jobs of at most %u", i,
                  (unsigned long)s->served[i], (unsigned long)ideal, (unsigned long)s->rounds,
                  s->largest);
        /* The same by what was served in all, without looking at deficits. */
        uint64_t a = s->served[i] * WEIGHTS, b = total * weights[i];
        cr_assert_leq(a > b ? a - b : b - a, (uint64_t)s->largest * (WEIGHTS + 1));
    }
}

/* One turn: up to `ends` random running jobs end. */
static void turn(struct shares *s, unsigned ends)
{
    rig_begin(&s->rig);
    for (unsigned i = 0; i < ends; i++) {
        uint32_t place = (uint32_t)lx_rng_below(&s->rng, s->rig.adm.config.pool_size);
        if (s->rig.running_jobs[place] != NULL)
            lx_admission_end(&s->rig.adm, s->rig.running_jobs[place], false);
    }
    for (unsigned i = 0; i < ACTORS; i++)
        refill(s, i);
    rig_finish(&s->rig);
    count_dispatched(s);
    check(s);
}

static void saturate(unsigned workers, uint32_t largest, unsigned ends, uint8_t job_class)
{
    struct shares *s = &shares;

    memset(s, 0, sizeof *s);
    /* A pool in which no actor's share comes near its cap: that would be another limit. */
    rig_init(&s->rig, &(lanex_executor_options){.pool_size = workers,
                                                .maintenance_queue_cap = 2 * QUEUE,
                                                .profile = LANEX_PROFILE_MANY_CORE});
    s->rng = lx_rng_seeded(lx_test_seed() + workers + largest + ends);
    s->largest = largest;
    s->job_class = job_class;
    for (unsigned i = 0; i < ACTORS; i++)
        s->actors[i] = rig_register(&s->rig, weights[i]);
    while (s->rounds < ROUNDS * largest)
        turn(s, (unsigned)lx_rng_between(&s->rng, 1, ends));
    cr_assert_gt(s->ends_seen, 5, "the ends of rounds were looked at");
    rig_fini(&s->rig);
    memset(&s->rig, 0, sizeof s->rig);
}

Test(admission_shares, one_worker_at_a_time, .fini = fini)
{
    static const uint32_t largest[] = {1, 2, 4, 10, 50, 300};

    for (unsigned i = 0; i < sizeof largest / sizeof largest[0]; i++)
        saturate(64, largest[i], 1, LANEX_CLASS_INTERACTIVE);
}

Test(admission_shares, many_workers_at_a_time, .fini = fini)
{
    static const uint32_t largest[] = {1, 3, 10, 100};

    for (unsigned i = 0; i < sizeof largest / sizeof largest[0]; i++) {
        saturate(64, largest[i], 4, LANEX_CLASS_INTERACTIVE);
        saturate(64, largest[i], 40, LANEX_CLASS_INTERACTIVE);
    }
}

Test(admission_shares, maintenance_too, .fini = fini)
{
    saturate(64, 1, 1, LANEX_CLASS_MAINTENANCE);
    saturate(64, 10, 1, LANEX_CLASS_MAINTENANCE);
    saturate(64, 10, 8, LANEX_CLASS_MAINTENANCE);
}

/* A visit that waits for a worker does not outlive its actor, nor the moment it has nothing left.
 */
Test(admission_shares, an_open_visit_ends_with_its_actor, .fini = fini)
{
    struct rig *rig = &shares.rig;
    struct rig_actor *heavy, *light;
    struct rig_job *running;

    rig_init(rig, &(lanex_executor_options){.pool_size = 2});
    light = rig_register(rig, 1);
    rig_submit_lane(rig, light, LANEX_CLASS_INTERACTIVE, LANEX_LANE_SERIAL_STATUS);
    heavy = rig_register(rig, 8);
    running = rig_submit_lane(rig, heavy, LANEX_CLASS_INTERACTIVE, LANEX_LANE_SERIAL_STATUS);
    cr_assert(rig_runs(running));
    for (unsigned i = 0; i < 3; i++)
        rig_submit_lane(rig, heavy, LANEX_CLASS_INTERACTIVE, LANEX_LANE_SERIAL_STATUS);
    rig_end(rig, running);
    cr_assert_eq(rig->adm.open_visit.actor, &heavy->entry, "one of eight was started");
    rig_remove(rig, heavy);
    cr_assert_null(rig->adm.open_visit.actor);
}

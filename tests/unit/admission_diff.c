/*
 * The admission state machine against the naive reference: random operations, each turn compared,
 * each counter recounted. LANEX_TEST_SEED repeats a run.
 */
#include "tests/support/lx_test.h"

#include "admission/views.h"
#include "admission_naive.h"
#include "admission_rig.h"

#define ACTORS_MAX 40u
#define JOBS_MAX   4000u

struct duel {
    struct rig rig;
    struct naive naive;
    struct lx_rng rng;
    bool costs;                           /* random costs and weights */
    struct rig_actor *actors[ACTORS_MAX]; /* registered */
    unsigned actor_count, actors_aim;
    struct rig_job *jobs[JOBS_MAX]; /* perhaps not over */
    unsigned job_count;
    unsigned long turns, dispatched, settled, timed_starts, removed;
    unsigned mood;
    unsigned long seed;
    size_t deepest; /* queue */
};

static void random_config(struct duel *duel, lanex_config *ret_config)
{
    struct lx_rng *rng = &duel->rng;
    lanex_executor_options options = {
        .size = sizeof options,
        .policy = lx_rng_percent(rng, 30) ? LANEX_POLICY_ARRIVAL : LANEX_POLICY_READS_FIRST,
        .profile = lx_rng_percent(rng, 20) ? LANEX_PROFILE_MANY_CORE : LANEX_PROFILE_STANDARD,
        .flags = (uint32_t)lx_rng_below(rng, 32),
        .pool_size = (uint32_t)lx_rng_between(rng, 2, lx_rng_percent(rng, 50) ? 4 : 12),
        .actor_cap = (uint32_t)lx_rng_below(rng, 8),
        .read_cap = (uint32_t)lx_rng_below(rng, 5),
        .heavy_permits = (uint32_t)lx_rng_below(rng, 4),
        .drr_quantum = (uint32_t)lx_rng_between(rng, 1, 4),
        .maintenance_queue_cap =
            (uint32_t)lx_rng_between(rng, 3, lx_rng_percent(rng, 50) ? 12 : 80),
        .promotion_age_ms = lx_rng_percent(rng, 50) ? 0 : 700,
        .maintenance_max_wait_ms = lx_rng_percent(rng, 50) ? 0 : 5000,
    };

    if (lx_rng_percent(rng, 30)) {
        options.interactive_actor_queue_cap = (uint32_t)lx_rng_between(rng, 2, 8);
        options.interactive_queue_cap = (uint32_t)lx_rng_between(rng, 5, 30);
        options.maintenance_total_queue_cap = (uint32_t)lx_rng_between(rng, 5, 30);
    }
    LX_REQUIRE(lx_config_resolve(&options, 4, ret_config) == 0);
}

static void begin(struct duel *duel)
{
    rig_begin(&duel->rig);
    naive_begin(&duel->naive, duel->rig.now_ns);
}

static void compare_lists(struct duel *duel)
{
    size_t i = 0;

    for (struct lx_job_entry *job = duel->rig.dispatched.head; job != NULL; job = job->next, i++) {
        cr_assert(i < duel->naive.dispatched_count &&
                      duel->naive.dispatched[i] == rig_job_of(job)->id,
                  "seed %lu, turn %lu starts job %u, the reference does not", duel->seed,
                  duel->turns, rig_job_of(job)->id);
    }
    cr_assert_eq(i, duel->naive.dispatched_count, "seed %lu, turn %lu does not start job %u",
                 duel->seed, duel->turns,
                 i < duel->naive.dispatched_count ? duel->naive.dispatched[i] : 0);
    i = 0;
    for (struct lx_job_entry *job = duel->rig.settled.head; job != NULL; job = job->next, i++) {
        cr_assert(i < duel->naive.settled_count &&
                      duel->naive.settled[i].id == rig_job_of(job)->id &&
                      duel->naive.settled[i].status == job->status,
                  "seed %lu, turn %lu answers job %u with %u, the reference does not", duel->seed,
                  duel->turns, rig_job_of(job)->id, job->status);
    }
    cr_assert_eq(i, duel->naive.settled_count, "seed %lu, turn %lu does not answer job %u",
                 duel->seed, duel->turns,
                 i < duel->naive.settled_count ? duel->naive.settled[i].id : 0);
}

/* Not in every turn, so that bounds grow stale and actors pile up in the heaps. */
static void recount_oldest(struct duel *duel, const struct naive_counts *all)
{
    if (lx_rng_percent(&duel->rng, 60))
        return;
    for (unsigned job_class = 0; job_class < LX_CLASSES; job_class++) {
        uint64_t since_ns;
        while (!lx_oldest_since(&duel->rig.adm, job_class, &since_ns))
            cr_assert_leq(since_ns, all->oldest_ns[job_class]);
        cr_assert_eq(since_ns, all->oldest_ns[job_class],
                     "seed %lu, turn %lu, class %u: oldest at %lu, by the reference %lu",
                     duel->seed, duel->turns, job_class, (unsigned long)since_ns,
                     (unsigned long)all->oldest_ns[job_class]);
    }
}

static void recount(struct duel *duel)
{
    const struct lx_admission *adm = &duel->rig.adm;
    struct lx_phantoms phantoms;
    struct naive_counts all = naive_count_all(&duel->naive);

    cr_assert_eq(adm->idle_workers + all.running[0] + all.running[1], adm->config.pool_size);
    cr_assert_eq(adm->free_permits + all.heavies, adm->config.heavy_permits);
    cr_assert_eq(adm->non_runnable_dispatches, 0);
    cr_assert_eq(adm->built_jobs, all.built);
    lx_view_phantoms(adm, &phantoms);
    cr_assert_eq(phantoms.workers, 0);
    cr_assert_eq(phantoms.slots[0], 0);
    cr_assert_eq(phantoms.slots[1], 0);
    cr_assert_eq(phantoms.permits, 0);
    recount_oldest(duel, &all);
    for (unsigned job_class = 0; job_class < LX_CLASSES; job_class++) {
        cr_assert_eq(adm->running[job_class], all.running[job_class]);
        cr_assert_eq(adm->queued[job_class], all.queued[job_class]);
    }
    for (unsigned i = 0; i < duel->actor_count; i++) {
        const struct lx_actor_entry *actor = &duel->actors[i]->entry;
        struct naive_counts counts = naive_count_actor(&duel->naive, duel->actors[i]->id);
        cr_assert_eq(actor->queued[0], counts.queued[0]);
        cr_assert_eq(actor->queued[1], counts.queued[1]);
        cr_assert_eq(actor->in_flight, counts.in_flight);
        cr_assert_eq(actor->reads, counts.reads);
        cr_assert_eq(actor->serials, counts.serials);
        cr_assert_eq(actor->commits, counts.commits);
        cr_assert_eq(actor->writers, counts.writers);
        cr_assert_eq(actor->heavies, counts.heavies);
        cr_assert_eq(actor->coalesced, counts.keys);
        cr_assert_eq(actor->coalesced_jobs, (unsigned)__builtin_popcountll(counts.keys));
        cr_assert_eq(actor->deficit, duel->naive.actors[duel->actors[i]->id].deficit,
                     "seed %lu, turn %lu, actor %u: deficit %lu, by the reference %lu", duel->seed,
                     duel->turns, duel->actors[i]->id, (unsigned long)actor->deficit,
                     (unsigned long)duel->naive.actors[duel->actors[i]->id].deficit);
    }
}

static void finish(struct duel *duel)
{
    rig_finish(&duel->rig);
    naive_schedule(&duel->naive);
    compare_lists(duel);
    recount(duel);
    duel->turns++;
    duel->dispatched += duel->naive.dispatched_count;
    duel->settled += duel->naive.settled_count;
    if (duel->naive.job_count > duel->deepest)
        duel->deepest = duel->naive.job_count;
}

static void forget_over(struct duel *duel)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < duel->job_count; i++) {
        if (rig_state(duel->jobs[i]) != LX_JOB_OVER)
            duel->jobs[kept++] = duel->jobs[i];
    }
    duel->job_count = kept;
}

/* A random job in one of the states (bit per state); NULL if there is none. */
static struct rig_job *some_job(struct duel *duel, unsigned states)
{
    unsigned from = duel->job_count > 0 ? (unsigned)lx_rng_below(&duel->rng, duel->job_count) : 0;

    for (unsigned i = 0; i < duel->job_count; i++) {
        struct rig_job *job = duel->jobs[(from + i) % duel->job_count];
        if ((states >> rig_state(job)) & 1)
            return job;
    }
    return NULL;
}

static void do_register(struct duel *duel)
{
    uint32_t weight = duel->costs ? (uint32_t)lx_rng_between(&duel->rng, 1, 4) : 1;

    begin(duel);
    duel->actors[duel->actor_count] = rig_register(&duel->rig, weight);
    naive_register(&duel->naive, duel->actors[duel->actor_count]->id, weight);
    duel->actor_count++;
    finish(duel);
}

static void do_remove(struct duel *duel)
{
    unsigned at = (unsigned)lx_rng_below(&duel->rng, duel->actor_count);
    struct rig_actor *actor = duel->actors[at];

    duel->actors[at] = duel->actors[--duel->actor_count];
    begin(duel);
    lx_admission_remove(&duel->rig.adm, &actor->entry);
    naive_remove(&duel->naive, actor->id);
    finish(duel);
    duel->removed++;
}

static void do_submit(struct duel *duel)
{
    struct lx_rng *rng = &duel->rng;
    /* Crowds at few actors, so that caps are met. */
    unsigned crowd = lx_rng_percent(rng, 50) && duel->actor_count > 3 ? 3 : duel->actor_count;
    struct rig_actor *actor = duel->actors[lx_rng_below(rng, crowd)];
    bool known = !lx_rng_percent(rng, 1);
    struct rig_spec spec = {
        .job_class = lx_rng_percent(rng, 40) ? LANEX_CLASS_MAINTENANCE : LANEX_CLASS_INTERACTIVE,
        .lane = (uint8_t)lx_rng_below(rng, LX_LANES),
        .coalesce_key = (uint8_t)(lx_rng_percent(rng, 30) ? lx_rng_between(rng, 1, 4) : 0),
        .cost =
            duel->costs ? (uint32_t)lx_rng_between(rng, 1, lx_rng_percent(rng, 10) ? 60 : 4) : 1,
        .cancelled = lx_rng_percent(rng, 1),
    };
    struct rig_job *job;

    if (lx_rng_percent(rng, 40))
        spec.lane = LANEX_LANE_PURE_READ;
    spec.has_install = spec.lane == LANEX_LANE_HEAVY_INIT && lx_rng_percent(rng, 50);
    if (lx_rng_percent(rng, 25)) {
        uint64_t span = lx_rng_percent(rng, 50) ? 2000 * RIG_MS : 90000 * RIG_MS;
        uint64_t past = duel->rig.now_ns < 1000 ? duel->rig.now_ns : 1000;
        spec.deadline_ns = duel->rig.now_ns - past + 1 + lx_rng_below(rng, span);
    }
    job = rig_new_job(&duel->rig, known ? actor : NULL, &spec);
    struct naive_job twin = {
        .id = job->id,
        .actor = actor->id,
        .job_class = spec.job_class,
        .lane = spec.lane,
        .coalesce_key = spec.coalesce_key,
        .cost = spec.cost,
        .deadline_ns = spec.deadline_ns != 0 ? spec.deadline_ns : UINT64_MAX,
    };
    begin(duel);
    lx_admission_submit(&duel->rig.adm, &job->entry);
    naive_submit(&duel->naive, &twin, known, spec.cancelled);
    finish(duel);
    LX_REQUIRE(duel->job_count < JOBS_MAX);
    duel->jobs[duel->job_count++] = job;
}

static void do_end(struct duel *duel)
{
    struct rig_job *job = some_job(duel, (1u << LX_JOB_ADMITTED) | (1u << LX_JOB_INSTALLING));
    bool panicked = lx_rng_percent(&duel->rng, 1);

    if (job == NULL)
        return;
    begin(duel);
    if (rig_state(job) == LX_JOB_ADMITTED && (job->entry.flags & LX_JOB_FLAG_HAS_INSTALL) != 0 &&
        !panicked) {
        bool waits = lx_admission_built(&duel->rig.adm, &job->entry);
        cr_assert_eq(waits, naive_build_done(&duel->naive, job->id));
    } else {
        lx_admission_end(&duel->rig.adm, &job->entry, panicked);
        naive_end(&duel->naive, job->id, panicked);
    }
    finish(duel);
}

static void do_cancel(struct duel *duel)
{
    struct rig_job *job = some_job(duel, 1u << LX_JOB_QUEUED);

    if (job == NULL)
        return;
    begin(duel);
    cr_assert(lx_admission_is_queued(&job->entry));
    lx_admission_cancel(&duel->rig.adm, &job->entry);
    cr_assert(naive_cancel(&duel->naive, job->id));
    finish(duel);
}

static void do_cancel_maintenance(struct duel *duel)
{
    struct rig_actor *actor = duel->actors[lx_rng_below(&duel->rng, duel->actor_count)];

    begin(duel);
    cr_assert_eq(lx_admission_cancel_maintenance(&duel->rig.adm, &actor->entry),
                 naive_cancel_maintenance(&duel->naive, actor->id));
    finish(duel);
}

/*
 * Time passes. The state machine is called only when its own timer says so; at the end the
 * reference must find that there was nothing left to do.
 */
static void do_advance(struct duel *duel)
{
    static const uint64_t spans[] = {1, 40, 900, 3000, 6000, 20000, 61000};
    uint64_t span = spans[lx_rng_below(&duel->rng, sizeof spans / sizeof spans[0])] * RIG_MS;
    uint64_t until = duel->rig.now_ns + 1 + lx_rng_below(&duel->rng, span);
    uint64_t next;

    while ((next = lx_admission_next_timer(&duel->rig.adm)) <= until) {
        cr_assert_geq(next, duel->rig.now_ns);
        duel->rig.now_ns = next;
        begin(duel);
        while (lx_admission_expire(&duel->rig.adm))
            ;
        naive_expire(&duel->naive);
        finish(duel);
        duel->timed_starts += duel->naive.dispatched_count;
    }
    duel->rig.now_ns = until;
    naive_begin(&duel->naive, until);
    naive_expire(&duel->naive);
    naive_schedule(&duel->naive);
    cr_assert_eq(duel->naive.settled_count, 0, "seed %lu, turn %lu: a deadline without a timer",
                 duel->seed, duel->turns);
    cr_assert_eq(duel->naive.dispatched_count, 0,
                 "seed %lu, turn %lu: time starts job %u, and no timer was set", duel->seed,
                 duel->turns, duel->naive.dispatched_count > 0 ? duel->naive.dispatched[0] : 0);
}

/* What the operations are like for a while, in percent; the rest are ends. */
struct mood {
    unsigned registers, removes, cancels, clears, advances, submits;
};
static const struct mood moods[] = {
    {6, 0, 1, 0, 1, 80},  /* it piles up */
    {4, 0, 2, 0, 3, 48},  /* about even */
    {2, 1, 5, 1, 1, 25},  /* it drains */
    {4, 0, 1, 0, 15, 45}, /* time passes */
    {30, 25, 2, 1, 2, 25} /* actors come and go */
};
#define MOODS      (sizeof moods / sizeof moods[0])
#define MOOD_TURNS 150

static void operate(struct duel *duel)
{
    struct mood mood = moods[duel->mood];
    unsigned dice = (unsigned)lx_rng_below(&duel->rng, 100);

    mood.removes += mood.registers;
    mood.cancels += mood.removes;
    mood.clears += mood.cancels;
    mood.advances += mood.clears;
    mood.submits += mood.advances;
    if (duel->actor_count == 0 || (dice < mood.registers && duel->actor_count < duel->actors_aim))
        do_register(duel);
    else if (dice < mood.removes)
        do_remove(duel);
    else if (dice < mood.cancels)
        do_cancel(duel);
    else if (dice < mood.clears)
        do_cancel_maintenance(duel);
    else if (dice < mood.advances)
        do_advance(duel);
    else if (dice < mood.submits)
        do_submit(duel);
    else
        do_end(duel);
    if (duel->job_count > JOBS_MAX / 2)
        forget_over(duel);
    if (lx_rng_below(&duel->rng, MOOD_TURNS) == 0)
        duel->mood = (unsigned)lx_rng_below(&duel->rng, MOODS);
}

/* Everything ends; then every counter is zero. */
static void end_all(struct duel *duel)
{
    for (;;) {
        struct rig_job *job = some_job(duel, (1u << LX_JOB_ADMITTED) | (1u << LX_JOB_INSTALLING));
        if (job == NULL)
            break;
        begin(duel);
        lx_admission_end(&duel->rig.adm, &job->entry, false);
        naive_end(&duel->naive, job->id, false);
        finish(duel);
    }
    cr_assert_eq(duel->rig.adm.queued[0] + duel->rig.adm.queued[1], 0, "a job is stuck");
    cr_assert_eq(duel->rig.adm.idle_workers, duel->rig.adm.config.pool_size);
    cr_assert_eq(duel->rig.adm.overdue_running, 0);
}

static void run_duel(uint64_t seed, bool costs, unsigned long turns)
{
    static struct duel duel;
    lanex_config config;

    memset(&duel, 0, sizeof duel);
    duel.seed = (unsigned long)seed;
    duel.rng = lx_rng_seeded(seed);
    duel.costs = costs;
    duel.actors_aim = (unsigned)lx_rng_between(&duel.rng, 1, ACTORS_MAX);
    random_config(&duel, &config);
    rig_init_config(&duel.rig, &config);
    naive_init(&duel.naive, &config);
    while (duel.turns < turns)
        operate(&duel);
    end_all(&duel);
    cr_assert_gt(duel.dispatched, 0);
    cr_log_info("seed %lu: %lu turns, %lu started (%lu by time alone), %lu answered, %lu removed, "
                "%zu jobs at most",
                duel.seed, duel.turns, duel.dispatched, duel.timed_starts, duel.settled,
                duel.removed, duel.deepest);
    naive_fini(&duel.naive);
    rig_fini(&duel.rig);
}

static void run_duels(bool costs)
{
    uint64_t first = lx_test_seed();
    uint64_t count = lx_test_scaled(80);

    for (uint64_t i = 0; i < count; i++)
        run_duel(first + i, costs, 2500);
}

Test(admission_diff, agrees_with_the_reference_at_cost_one, .timeout = 120)
{
    run_duels(false);
}

Test(admission_diff, agrees_with_the_reference_with_costs_and_weights, .timeout = 120)
{
    run_duels(true);
}

#include "admission_duel.h"

#include <string.h>

#include "admission/views.h"
#include "tests/support/lx_require.h"

/* As LX_REQUIRE, and says what the two make of it. */
#define MUST(condition, ...)                                                                       \
    ((condition) ? (void)0 : lx_test_die(__FILE__, __LINE__, #condition ": " __VA_ARGS__))

/* ---- choices ---- */

static uint64_t next_byte(struct duel_choice *choice)
{
    if (choice->left == 0) {
        choice->ended = true;
        return 0;
    }
    choice->left--;
    return *choice->bytes++;
}

static uint64_t choose_below(struct duel_choice *choice, uint64_t bound)
{
    uint64_t value;

    if (!choice->from_bytes)
        return lx_rng_below(&choice->rng, bound);
    /* As few bytes as will do: what a byte means then depends on little else. */
    value = next_byte(choice);
    for (uint64_t reach = 256; reach < bound; reach *= 256) {
        value = value * 256 + next_byte(choice);
        if (reach > UINT64_MAX / 256)
            break;
    }
    return value % bound;
}

static uint64_t choose_between(struct duel_choice *choice, uint64_t low, uint64_t high)
{
    return low + choose_below(choice, high - low + 1);
}

static bool choose_percent(struct duel_choice *choice, unsigned percent)
{
    return choose_below(choice, 100) < percent;
}

/* ---- turns ---- */

static void random_config(struct duel *duel, lanex_config *ret_config)
{
    struct duel_choice *choice = &duel->choice;
    lanex_executor_options options = {
        .size = sizeof options,
        .policy = choose_percent(choice, 30) ? LANEX_POLICY_ARRIVAL : LANEX_POLICY_READS_FIRST,
        .profile = choose_percent(choice, 20) ? LANEX_PROFILE_MANY_CORE : LANEX_PROFILE_STANDARD,
        .flags = (uint32_t)choose_below(choice, 32),
        .pool_size = (uint32_t)choose_between(choice, 2, choose_percent(choice, 50) ? 4 : 12),
        .actor_cap = (uint32_t)choose_below(choice, 8),
        .read_cap = (uint32_t)choose_below(choice, 5),
        .heavy_permits = (uint32_t)choose_below(choice, 4),
        .drr_quantum = (uint32_t)choose_between(choice, 1, 4),
        .maintenance_queue_cap =
            (uint32_t)choose_between(choice, 3, choose_percent(choice, 50) ? 12 : 80),
        .promotion_age_ms = choose_percent(choice, 50) ? 0 : 700,
        .maintenance_max_wait_ms = choose_percent(choice, 50) ? 0 : 5000,
    };

    if (choose_percent(choice, 30)) {
        options.interactive_actor_queue_cap = (uint32_t)choose_between(choice, 2, 8);
        options.interactive_queue_cap = (uint32_t)choose_between(choice, 5, 30);
        options.maintenance_total_queue_cap = (uint32_t)choose_between(choice, 5, 30);
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
        MUST(i < duel->naive.dispatched_count && duel->naive.dispatched[i] == rig_job_of(job)->id,
             "turn %lu starts job %u, the reference does not", duel->turns, rig_job_of(job)->id);
    }
    MUST(i == duel->naive.dispatched_count, "turn %lu does not start job %u", duel->turns,
         i < duel->naive.dispatched_count ? duel->naive.dispatched[i] : 0);
    i = 0;
    for (struct lx_job_entry *job = duel->rig.settled.head; job != NULL; job = job->next, i++) {
        MUST(i < duel->naive.settled_count && duel->naive.settled[i].id == rig_job_of(job)->id &&
                 duel->naive.settled[i].status == job->status,
             "turn %lu answers job %u with %u, the reference does not", duel->turns,
             rig_job_of(job)->id, job->status);
    }
    MUST(i == duel->naive.settled_count, "turn %lu does not answer job %u", duel->turns,
         i < duel->naive.settled_count ? duel->naive.settled[i].id : 0);
}

/* Not in every turn, so that bounds grow stale and actors pile up in the heaps. */
static void recount_oldest(struct duel *duel, const struct naive_counts *all)
{
    if (choose_percent(&duel->choice, 60))
        return;
    for (unsigned job_class = 0; job_class < LX_CLASSES; job_class++) {
        uint64_t since_ns;
        while (!lx_oldest_since(&duel->rig.adm, job_class, &since_ns))
            LX_REQUIRE(since_ns <= all->oldest_ns[job_class]);
        MUST(since_ns == all->oldest_ns[job_class],
             "turn %lu, class %u: oldest at %lu, by the reference %lu", duel->turns, job_class,
             (unsigned long)since_ns, (unsigned long)all->oldest_ns[job_class]);
    }
}

static void recount(struct duel *duel)
{
    const struct lx_admission *adm = &duel->rig.adm;
    struct lx_phantoms phantoms;
    struct naive_counts all = naive_count_all(&duel->naive);

    LX_REQUIRE(adm->idle_workers + all.running[0] + all.running[1] == adm->config.pool_size);
    LX_REQUIRE(adm->free_permits + all.heavies == adm->config.heavy_permits);
    LX_REQUIRE(adm->non_runnable_dispatches == 0);
    LX_REQUIRE(adm->built_jobs == all.built);
    lx_view_phantoms(adm, &phantoms);
    LX_REQUIRE(phantoms.workers == 0);
    LX_REQUIRE(phantoms.slots[0] == 0);
    LX_REQUIRE(phantoms.slots[1] == 0);
    LX_REQUIRE(phantoms.permits == 0);
    recount_oldest(duel, &all);
    for (unsigned job_class = 0; job_class < LX_CLASSES; job_class++) {
        LX_REQUIRE(adm->running[job_class] == all.running[job_class]);
        LX_REQUIRE(adm->queued[job_class] == all.queued[job_class]);
    }
    for (unsigned i = 0; i < duel->actor_count; i++) {
        const struct lx_actor_entry *actor = &duel->actors[i]->entry;
        struct naive_counts counts = naive_count_actor(&duel->naive, duel->actors[i]->id);
        LX_REQUIRE(actor->queued[0] == counts.queued[0]);
        LX_REQUIRE(actor->queued[1] == counts.queued[1]);
        LX_REQUIRE(actor->in_flight == counts.in_flight);
        LX_REQUIRE(actor->reads == counts.reads);
        LX_REQUIRE(actor->serials == counts.serials);
        LX_REQUIRE(actor->commits == counts.commits);
        LX_REQUIRE(actor->writers == counts.writers);
        LX_REQUIRE(actor->heavies == counts.heavies);
        LX_REQUIRE(actor->queue->coalesced == counts.keys);
        LX_REQUIRE(actor->queue->coalesced_jobs == (unsigned)__builtin_popcountll(counts.keys));
        MUST(actor->deficit == duel->naive.actors[duel->actors[i]->id].deficit,
             "turn %lu, actor %u: deficit %lu, by the reference %lu", duel->turns,
             duel->actors[i]->id, (unsigned long)actor->deficit,
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
    unsigned from =
        duel->job_count > 0 ? (unsigned)choose_below(&duel->choice, duel->job_count) : 0;

    for (unsigned i = 0; i < duel->job_count; i++) {
        struct rig_job *job = duel->jobs[(from + i) % duel->job_count];
        if ((states >> rig_state(job)) & 1)
            return job;
    }
    return NULL;
}

static void do_register(struct duel *duel)
{
    uint32_t weight = duel->costs ? (uint32_t)choose_between(&duel->choice, 1, 4) : 1;

    begin(duel);
    duel->actors[duel->actor_count] = rig_register(&duel->rig, weight);
    naive_register(&duel->naive, duel->actors[duel->actor_count]->id, weight);
    duel->actor_count++;
    finish(duel);
}

static void do_remove(struct duel *duel)
{
    unsigned at = (unsigned)choose_below(&duel->choice, duel->actor_count);
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
    struct duel_choice *choice = &duel->choice;
    /* Crowds at few actors, so that caps are met. */
    unsigned crowd = choose_percent(choice, 50) && duel->actor_count > 3 ? 3 : duel->actor_count;
    struct rig_actor *actor = duel->actors[choose_below(choice, crowd)];
    bool known = !choose_percent(choice, 1);
    struct rig_spec spec = {
        .job_class = choose_percent(choice, 40) ? LANEX_CLASS_MAINTENANCE : LANEX_CLASS_INTERACTIVE,
        .lane = (uint8_t)choose_below(choice, LX_LANES),
        .coalesce_key = (uint8_t)(choose_percent(choice, 30) ? choose_between(choice, 1, 4) : 0),
        .cost = duel->costs
                    ? (uint32_t)choose_between(choice, 1, choose_percent(choice, 10) ? 60 : 4)
                    : 1,
        .cancelled = choose_percent(choice, 1),
    };
    struct rig_job *job;

    if (choose_percent(choice, 40))
        spec.lane = LANEX_LANE_PURE_READ;
    spec.has_install = spec.lane == LANEX_LANE_HEAVY_INIT && choose_percent(choice, 50);
    if (choose_percent(choice, 25)) {
        uint64_t span = choose_percent(choice, 50) ? 2000 * RIG_MS : 90000 * RIG_MS;
        uint64_t past = duel->rig.now_ns < 1000 ? duel->rig.now_ns : 1000;
        spec.deadline_ns = duel->rig.now_ns - past + 1 + choose_below(choice, span);
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
    LX_REQUIRE(duel->job_count < DUEL_JOBS_MAX);
    duel->jobs[duel->job_count++] = job;
}

static void do_end(struct duel *duel)
{
    struct rig_job *job = some_job(duel, (1u << LX_JOB_ADMITTED) | (1u << LX_JOB_INSTALLING));
    bool panicked = choose_percent(&duel->choice, 1);

    if (job == NULL)
        return;
    begin(duel);
    if (rig_state(job) == LX_JOB_ADMITTED && (job->entry.flags & LX_JOB_FLAG_HAS_INSTALL) != 0 &&
        !panicked) {
        bool waits = lx_admission_built(&duel->rig.adm, &job->entry);
        LX_REQUIRE(waits == naive_build_done(&duel->naive, job->id));
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
    LX_REQUIRE(lx_admission_is_queued(&job->entry));
    lx_admission_cancel(&duel->rig.adm, &job->entry);
    LX_REQUIRE(naive_cancel(&duel->naive, job->id));
    finish(duel);
}

static void do_cancel_maintenance(struct duel *duel)
{
    struct rig_actor *actor = duel->actors[choose_below(&duel->choice, duel->actor_count)];

    begin(duel);
    LX_REQUIRE(lx_admission_cancel_maintenance(&duel->rig.adm, &actor->entry) ==
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
    uint64_t span = spans[choose_below(&duel->choice, sizeof spans / sizeof spans[0])] * RIG_MS;
    uint64_t until = duel->rig.now_ns + 1 + choose_below(&duel->choice, span);
    uint64_t next;

    while ((next = lx_admission_next_timer(&duel->rig.adm)) <= until) {
        LX_REQUIRE(next >= duel->rig.now_ns);
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
    MUST(duel->naive.settled_count == 0, "turn %lu: a deadline without a timer", duel->turns);
    MUST(duel->naive.dispatched_count == 0, "turn %lu: time starts job %u, and no timer was set",
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
#define MOODS (sizeof moods / sizeof moods[0])
/* Bytes choose each operation themselves. */
static const struct mood mood_of_bytes = {10, 3, 6, 2, 14, 35};
#define MOOD_TURNS 150

bool duel_step(struct duel *duel)
{
    struct mood mood = duel->choice.from_bytes ? mood_of_bytes : moods[duel->mood];
    unsigned dice = (unsigned)choose_below(&duel->choice, 100);

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
    if (duel->job_count > DUEL_JOBS_MAX / 2)
        forget_over(duel);
    if (!duel->choice.from_bytes && choose_below(&duel->choice, MOOD_TURNS) == 0)
        duel->mood = (unsigned)choose_below(&duel->choice, MOODS);
    return !duel->choice.ended && duel->job_count < DUEL_JOBS_MAX;
}

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
    MUST(duel->rig.adm.queued[0] + duel->rig.adm.queued[1] == 0, "a job is stuck");
    LX_REQUIRE(duel->rig.adm.idle_workers == duel->rig.adm.config.pool_size);
    LX_REQUIRE(duel->rig.adm.overdue_running == 0);
}

void duel_begin(struct duel *duel, const struct duel_choice *choice, bool costs)
{
    lanex_config config;

    memset(duel, 0, sizeof *duel);
    duel->choice = *choice;
    duel->costs = costs;
    duel->actors_aim = (unsigned)choose_between(&duel->choice, 1, DUEL_ACTORS_MAX);
    random_config(duel, &config);
    rig_init_config(&duel->rig, &config);
    naive_init(&duel->naive, &config);
}

void duel_end(struct duel *duel)
{
    end_all(duel);
    naive_fini(&duel->naive);
    rig_fini(&duel->rig);
}

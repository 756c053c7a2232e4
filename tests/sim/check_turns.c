/*
 * The order of the seat: every event that the admission state is given in the simulated world is
 * given to the naive reference too (tests/unit/admission_naive.c, SPEC 3 to 10 by looking at all
 * jobs), and each turn must start the same jobs in the same order, and answer the same ones alike.
 *
 * This is also the fairness bound: the deficit of each actor in each round is that of SPEC 5, so a
 * job that can start is passed by at most what the rounds allow, whatever the threads do.
 *
 * Unlike the rest of the checker it looks into src/: at the entries that the events are about.
 */
#include "admission/admission.h"

#include "sim.h"
#include "tests/support/lx_test.h"
#include "tests/unit/admission_naive.h"

#define TABLE    16384u /* a power of two, more than there are jobs and actors in a run */
#define IDS      8192u
#define UNKNOWN  UINT32_MAX
#define NOT_OVER 0 /* else 1 + enum lanex_status */

/* From where an entry lies to the number that the reference knows it by. */
struct table {
    const void *key[TABLE];
    uint32_t id[TABLE];
};

static struct {
    struct lx_admission *adm; /* NULL: nothing is compared */
    struct naive naive;
    struct table jobs, actors;
    uint32_t job_count, actor_count;
    bool submitting; /* a turn within a submission: compared with the turn that it is part of */
    int answered[IDS], expected[IDS]; /* statuses of jobs that were answered without running */
} turns;

/* For what the reference requires of its own. */
void lx_test_die(const char *file, int line, const char *format, ...)
{
    (void)format;
    sim_fail("%s:%d: the reference has lost its way", file, line);
}

static uint32_t place_of(const struct table *table, const void *key)
{
    uint32_t at = (uint32_t)(((uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 40) % TABLE;

    while (table->key[at] != NULL && table->key[at] != key)
        at = (at + 1) % TABLE;
    return at;
}

static uint32_t id_of(const struct table *table, const void *key)
{
    uint32_t at = place_of(table, key);

    return table->key[at] == key ? table->id[at] : UNKNOWN;
}

static void name(struct table *table, const void *key, uint32_t id)
{
    uint32_t at = place_of(table, key);

    table->key[at] = key;
    table->id[at] = id;
}

static bool follows(const struct lx_admission *adm)
{
    if (turns.adm != adm || adm == NULL)
        return false;
    turns.naive.now_ns = adm->now_ns;
    return true;
}

static void stop(void)
{
    turns.adm = NULL;
    naive_fini(&turns.naive);
}

/* ---- comparing ---- */

static void compare_status(uint32_t id)
{
    if (turns.answered[id] != NOT_OVER && turns.expected[id] != NOT_OVER &&
        turns.answered[id] != turns.expected[id])
        sim_fail("a turn answers job %u with status %d, the reference with %d", id,
                 turns.answered[id] - 1, turns.expected[id] - 1);
}

/* Those of a removed or fatal actor are answered slice by slice: later than the reference does. */
static void compare_settled(void)
{
    for (size_t i = 0; i < turns.naive.settled_count; i++) {
        uint32_t id = turns.naive.settled[i].id;
        turns.expected[id] = 1 + turns.naive.settled[i].status;
        compare_status(id);
    }
    for (const struct lx_job_entry *job = turns.adm->settled.head; job != NULL; job = job->next) {
        uint32_t id = id_of(&turns.jobs, job);
        turns.answered[id] = 1 + job->status;
        compare_status(id);
        if (turns.expected[id] == NOT_OVER)
            sim_fail("a turn answers job %u with status %u, the reference does not", id,
                     job->status);
    }
}

/* For the trace of a failure: what the reference knows. */
static void note_reference(void)
{
    sim_note("reference: now %llu", (unsigned long long)turns.adm->now_ns);
    for (size_t i = 0; i < turns.naive.job_count; i++) {
        const struct naive_job *job = &turns.naive.jobs[i];
        sim_note("reference: job %u actor %u class %u lane %u cost %llu state %d deadline %llu "
                 "since %llu started %llu",
                 job->id, job->actor, job->job_class, job->lane, (unsigned long long)job->cost,
                 (int)job->state, (unsigned long long)job->deadline_ns,
                 (unsigned long long)job->submitted_ns, (unsigned long long)job->started_ns);
    }
}

static void compare_dispatched(const struct lx_job_entry *job)
{
    size_t i = 0;

    for (; job != NULL; job = job->next, i++) {
        uint32_t id = id_of(&turns.jobs, job);
        if (i >= turns.naive.dispatched_count || turns.naive.dispatched[i] != id)
            note_reference();
        if (i >= turns.naive.dispatched_count)
            sim_fail("a turn starts job %u, the reference no further one", id);
        if (turns.naive.dispatched[i] != id)
            sim_fail("a turn starts job %u, the reference job %u", id, turns.naive.dispatched[i]);
    }
    if (i < turns.naive.dispatched_count)
        sim_fail("a turn does not start job %u, the reference does", turns.naive.dispatched[i]);
}

static void compare_counts(void)
{
    const struct lx_admission *adm = turns.adm;
    struct naive_counts all = naive_count_all(&turns.naive);

    for (unsigned kind = 0; kind < LX_CLASSES; kind++) {
        SIM_CHECK(adm->running[kind] == all.running[kind]);
        SIM_CHECK(adm->queued[kind] == all.queued[kind]);
    }
    SIM_CHECK(adm->idle_workers + all.running[0] + all.running[1] == adm->config.pool_size);
    SIM_CHECK(adm->free_permits + all.heavies == adm->config.heavy_permits);
    SIM_CHECK(adm->built_jobs == all.built);
    SIM_CHECK(adm->non_runnable_dispatches == 0);
}

/* ---- the events ---- */

void __real_lx_admission_init(struct lx_admission *adm, const lanex_config *config,
                              struct lx_job_entry **running_jobs);
void __wrap_lx_admission_init(struct lx_admission *adm, const lanex_config *config,
                              struct lx_job_entry **running_jobs);
int __real_lx_admission_register(struct lx_admission *adm, struct lx_actor_entry *actor);
int __wrap_lx_admission_register(struct lx_admission *adm, struct lx_actor_entry *actor);
void __real_lx_admission_remove(struct lx_admission *adm, struct lx_actor_entry *actor);
void __wrap_lx_admission_remove(struct lx_admission *adm, struct lx_actor_entry *actor);
uint32_t __real_lx_admission_cancel_maintenance(struct lx_admission *adm,
                                                struct lx_actor_entry *actor);
uint32_t __wrap_lx_admission_cancel_maintenance(struct lx_admission *adm,
                                                struct lx_actor_entry *actor);
void __real_lx_admission_submit(struct lx_admission *adm, struct lx_job_entry *job);
/*
 * A job that lay in the inbox is as old as its submitter's clock said, but not older than those in
 * front of it: by that the reference goes on.
 */
static void follow_since(const struct lx_job_entry *job)
{
    uint32_t id = id_of(&turns.jobs, job);
    struct naive_job *twin = NULL;
    uint64_t newest_ns = 0;

    for (size_t i = 0; i < turns.naive.job_count; i++) {
        if (turns.naive.jobs[i].id == id)
            twin = &turns.naive.jobs[i];
        else if (turns.naive.jobs[i].submitted_ns > newest_ns)
            newest_ns = turns.naive.jobs[i].submitted_ns;
    }
    if (twin == NULL)
        return; /* it was answered at once */
    if (job->since_ns < newest_ns || job->since_ns > turns.naive.now_ns)
        sim_fail("job %u is older than those before it, or of the future", id);
    twin->submitted_ns = job->since_ns;
}

void __wrap_lx_admission_submit(struct lx_admission *adm, struct lx_job_entry *job);
void __real_lx_admission_end(struct lx_admission *adm, struct lx_job_entry *job, bool panicked);
void __wrap_lx_admission_end(struct lx_admission *adm, struct lx_job_entry *job, bool panicked);
bool __real_lx_admission_built(struct lx_admission *adm, struct lx_job_entry *job);
bool __wrap_lx_admission_built(struct lx_admission *adm, struct lx_job_entry *job);
void __real_lx_admission_cancel(struct lx_admission *adm, struct lx_job_entry *job);
void __wrap_lx_admission_cancel(struct lx_admission *adm, struct lx_job_entry *job);
bool __real_lx_admission_expire(struct lx_admission *adm);
bool __wrap_lx_admission_expire(struct lx_admission *adm);
void __real_lx_admission_drain(struct lx_admission *adm);
void __wrap_lx_admission_drain(struct lx_admission *adm);
void __real_lx_admission_close(struct lx_admission *adm);
void __wrap_lx_admission_close(struct lx_admission *adm);
/* Called by calls.c around the rest of a turn. */
void check_turn_after(struct lx_admission *adm);

void __wrap_lx_admission_init(struct lx_admission *adm, const lanex_config *config,
                              struct lx_job_entry **running_jobs)
{
    __real_lx_admission_init(adm, config, running_jobs);
    if (turns.job_count + turns.actor_count > 0)
        return; /* a second executor in one run is not followed */
    naive_init(&turns.naive, config);
    turns.adm = adm;
}

int __wrap_lx_admission_register(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    int rc = __real_lx_admission_register(adm, actor);

    if (rc == 0 && follows(adm)) {
        name(&turns.actors, actor, turns.actor_count);
        naive_register(&turns.naive, turns.actor_count++, actor->weight);
    }
    return rc;
}

void __wrap_lx_admission_remove(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    if (follows(adm))
        naive_remove(&turns.naive, id_of(&turns.actors, actor));
    __real_lx_admission_remove(adm, actor);
}

uint32_t __wrap_lx_admission_cancel_maintenance(struct lx_admission *adm,
                                                struct lx_actor_entry *actor)
{
    bool followed = follows(adm);
    uint32_t expected = 0, count;

    if (followed)
        expected = naive_cancel_maintenance(&turns.naive, id_of(&turns.actors, actor));
    count = __real_lx_admission_cancel_maintenance(adm, actor);
    SIM_CHECK(!followed || count == expected);
    return count;
}

static void start_waiting(unsigned running)
{
    if (running >= turns.naive.config.pool_size)
        return;
    naive_expire(&turns.naive);
    naive_schedule(&turns.naive);
}

/*
 * SPEC 8 lets a dispatch free its place at once, and SPEC 6 lets whoever has a completion submit
 * again: so where a queue looks full, what can start does so before the newcomer is judged.
 */
static void make_room(const struct naive_job *job)
{
    const lanex_config *config = &turns.naive.config;
    const struct naive_actor *actor = &turns.naive.actors[job->actor];
    struct naive_counts own = naive_count_actor(&turns.naive, job->actor);
    struct naive_counts all = naive_count_all(&turns.naive);
    bool background = job->job_class == LANEX_CLASS_MAINTENANCE;
    uint32_t cap = background ? config->maintenance_queue_cap : config->interactive_actor_queue_cap;
    uint32_t total =
        background ? config->maintenance_total_queue_cap : config->interactive_queue_cap;

    if (!actor->registered || actor->fatal || turns.naive.draining ||
        (background && job->coalesce_key != 0 && ((own.keys >> job->coalesce_key) & 1) != 0))
        return;
    if (cap != 0 && own.queued[job->job_class] >= cap) {
        start_waiting(all.running[0] + all.running[1]);
        own = naive_count_actor(&turns.naive, job->actor);
        if (own.queued[job->job_class] >= cap)
            return;
    }
    all = naive_count_all(&turns.naive);
    if (job->deadline_ns > turns.naive.now_ns && total != 0 && all.queued[job->job_class] >= total)
        start_waiting(all.running[0] + all.running[1]);
}

void __wrap_lx_admission_submit(struct lx_admission *adm, struct lx_job_entry *job)
{
    bool followed = follows(adm);

    if (followed) {
        uint32_t actor = job->actor != NULL ? id_of(&turns.actors, job->actor) : UNKNOWN;
        struct naive_job twin = {
            .id = turns.job_count,
            .actor = actor != UNKNOWN ? actor : 0,
            .job_class = job->job_class,
            .lane = job->lane,
            .coalesce_key = job->coalesce_key,
            .cost = job->cost,
            .deadline_ns = job->extra != NULL ? job->extra->deadline_ns : LANEX_TIME_NEVER,
        };
        SIM_CHECK(turns.job_count < IDS);
        name(&turns.jobs, job, turns.job_count++);
        if (actor != UNKNOWN && (job->flags & LX_JOB_FLAG_CANCELLED) == 0)
            make_room(&twin);
        naive_submit(&turns.naive, &twin, actor != UNKNOWN,
                     (job->flags & LX_JOB_FLAG_CANCELLED) != 0);
    }
    turns.submitting = true;
    __real_lx_admission_submit(adm, job);
    turns.submitting = false;
    if (followed && (job->flags & LX_JOB_FLAG_SINCE) != 0)
        follow_since(job);
}

void __wrap_lx_admission_end(struct lx_admission *adm, struct lx_job_entry *job, bool panicked)
{
    if (follows(adm))
        naive_end(&turns.naive, id_of(&turns.jobs, job), panicked);
    __real_lx_admission_end(adm, job, panicked);
}

bool __wrap_lx_admission_built(struct lx_admission *adm, struct lx_job_entry *job)
{
    bool followed = follows(adm);
    bool expected = followed && naive_build_done(&turns.naive, id_of(&turns.jobs, job));
    bool waits = __real_lx_admission_built(adm, job);

    SIM_CHECK(!followed || waits == expected);
    return waits;
}

void __wrap_lx_admission_cancel(struct lx_admission *adm, struct lx_job_entry *job)
{
    if (follows(adm))
        SIM_CHECK(naive_cancel(&turns.naive, id_of(&turns.jobs, job)));
    __real_lx_admission_cancel(adm, job);
}

bool __wrap_lx_admission_expire(struct lx_admission *adm)
{
    if (follows(adm))
        naive_expire(&turns.naive);
    return __real_lx_admission_expire(adm);
}

void __wrap_lx_admission_drain(struct lx_admission *adm)
{
    if (follows(adm))
        turns.naive.draining = true;
    __real_lx_admission_drain(adm);
}

/* What closing does is destroy's business, and check.c's. */
void __wrap_lx_admission_close(struct lx_admission *adm)
{
    if (follows(adm))
        stop();
    __real_lx_admission_close(adm);
}

/* ---- a turn ---- */

void check_turn_after(struct lx_admission *adm)
{
    if (turns.submitting || !follows(adm))
        return;
    naive_schedule(&turns.naive);
    compare_dispatched(adm->dispatched.head);
    compare_settled();
    if (adm->detached == NULL)
        compare_counts();
    naive_begin(&turns.naive, adm->now_ns);
}

#include "admission/views.h"

/* Calls for each taken place of running_jobs. */
#define FOR_EACH_PLACE(adm, place)                                                                 \
    for (uint32_t place = next_place((adm), 0); (place) < (adm)->config.pool_size;                 \
         (place) = next_place((adm), (place) + 1))

static uint32_t next_place(const struct lx_admission *adm, uint32_t from)
{
    uint64_t mask = ~UINT64_C(0) << (from & 63);

    for (uint32_t word = from >> 6; word < LX_PLACE_WORDS; word++, mask = ~UINT64_C(0)) {
        uint64_t taken = (adm->occupied[0].words[word] | adm->occupied[1].words[word]) & mask;
        if (taken != 0)
            return (word << 6) + (uint32_t)__builtin_ctzll(taken);
    }
    return LANEX_POOL_MAX_MANY_CORE;
}

static struct lx_seen_job see(struct lx_job_entry *job)
{
    return (struct lx_seen_job){
        .job = job,
        .since_ns = job->since_ns,
        .begun = lx_job_has_mark(job, LX_JOB_MARK_BEGUN),
        .registered = (job->actor->flags & LX_ACTOR_REGISTERED) != 0,
    };
}

uint32_t lx_view_on_workers(const struct lx_admission *adm, struct lx_seen_job *seen)
{
    uint32_t count = 0;

    FOR_EACH_PLACE(adm, place)
    seen[count++] = see(adm->running_jobs[place]);
    return count;
}

uint32_t lx_view_census(struct lx_admission *adm, uint64_t min_age_ns, struct lx_seen_job *seen)
{
    uint32_t count = 0;

    FOR_EACH_PLACE(adm, place)
    {
        struct lx_job_entry *job = adm->running_jobs[place];

        if (job->job_class != LANEX_CLASS_INTERACTIVE || !lx_job_has_mark(job, LX_JOB_MARK_BEGUN) ||
            lx_job_has_mark(job, LX_JOB_MARK_REPORTED) || adm->now_ns - job->since_ns < min_age_ns)
            continue;
        lx_job_add_mark(job, LX_JOB_MARK_REPORTED);
        seen[count++] = see(job);
    }
    return count;
}

/* ---- state label ---- */

#define NO_STATE 0

/* What the jobs on workers say: RUNNING or QUEUED for the job itself, BLOCKED for another one. */
static int state_on_workers(const struct lx_admission *adm, const struct lx_state_search *search)
{
    int state = NO_STATE;

    FOR_EACH_PLACE(adm, place)
    {
        const struct lx_job_entry *job = adm->running_jobs[place];

        if (job->actor != search->actor || job->lane != LANEX_LANE_MUTATING)
            continue;
        /* At most one: a writer is alone with its actor. */
        if (!search->wanted.is(job, search->wanted.id))
            state = lx_job_has_mark(job, LX_JOB_MARK_BEGUN) ? LANEX_STATE_BLOCKED_BY_OTHER_MUTATING
                                                            : NO_STATE;
        else
            state =
                lx_job_has_mark(job, LX_JOB_MARK_BEGUN) ? LANEX_STATE_RUNNING : LANEX_STATE_QUEUED;
    }
    return state;
}

static const struct {
    uint8_t job_class, list;
} writer_lists[] = {
    {LANEX_CLASS_INTERACTIVE, LANEX_LANE_MUTATING},
    {LANEX_CLASS_INTERACTIVE, LX_LIST_MUTATING_TIMED},
    {LANEX_CLASS_MAINTENANCE, LANEX_LANE_MUTATING},
};
#define WRITER_LISTS (sizeof writer_lists / sizeof writer_lists[0])

/* The job to go on with; one that has left its list meanwhile makes the search begin that list
 * again: with the head, before which nothing is left when it was dispatched. */
static struct lx_job_entry *resume(const struct lx_state_search *search)
{
    struct lx_job_entry *at = search->at;
    unsigned job_class = writer_lists[search->list].job_class;
    unsigned list = writer_lists[search->list].list;

    if (at != NULL && at->actor == search->actor && lx_admission_is_queued(at) &&
        at->job_class == job_class && lx_list_of(at) == list)
        return at;
    return search->actor->queue->lists[job_class][list];
}

/* True when it was found, or all was looked at; *ret_found says which. */
static bool search_queued(struct lx_state_search *search, bool *ret_found)
{
    unsigned left = LX_VIEW_SLICE;

    *ret_found = false;
    for (; search->list < WRITER_LISTS; search->list++, search->at = NULL) {
        struct lx_job_entry *head =
            search->actor->queue
                ->lists[writer_lists[search->list].job_class][writer_lists[search->list].list];
        struct lx_job_entry *job = resume(search);

        if (job == NULL)
            continue;
        do {
            if (left-- == 0) {
                search->at = job;
                return false;
            }
            if (search->wanted.is(job, search->wanted.id)) {
                *ret_found = true;
                return true;
            }
            job = job->next;
        } while (job != head);
    }
    return true;
}

bool lx_view_job_state(const struct lx_admission *adm, struct lx_state_search *search)
{
    const struct lx_actor_entry *actor = search->actor;
    bool found = false;
    int state;

    if (actor == NULL || (actor->flags & LX_ACTOR_REGISTERED) == 0) {
        search->state = LANEX_STATE_ACTOR_MISSING;
        return true;
    }
    state = state_on_workers(adm, search);
    if (state != LANEX_STATE_RUNNING && state != LANEX_STATE_QUEUED) {
        /* A detached queue is on its way to be answered: its jobs are over. */
        if ((actor->flags & LX_ACTOR_DETACHED) == 0 && !search_queued(search, &found))
            return false;
        if (found)
            state = LANEX_STATE_QUEUED;
    }
    search->state = state != NO_STATE ? state : LANEX_STATE_NOT_FOUND;
    return true;
}

/* ---- an actor ---- */

void lx_view_actor(const struct lx_admission *adm, const struct lx_actor_entry *actor,
                   struct lx_seen_actor *ret_seen)
{
    *ret_seen = (struct lx_seen_actor){
        .oldest_writer_ns = LANEX_TIME_NEVER,
        .idle_workers = adm->idle_workers,
    };
    if (actor == NULL || (actor->flags & LX_ACTOR_REGISTERED) == 0)
        return;
    ret_seen->registered = true;
    ret_seen->reads_past_promoted = actor->reads_past_promoted;
    if ((actor->flags & LX_ACTOR_DETACHED) == 0) {
        ret_seen->oldest_writer_ns = lx_oldest_writer_ns(actor);
        ret_seen->configures = actor->queue->configures;
    }
    FOR_EACH_PLACE(adm, place)
    {
        const struct lx_job_entry *job = adm->running_jobs[place];
        if (job->actor == actor && (job->flags & LX_JOB_FLAG_CONFIGURE) != 0)
            ret_seen->configures++;
    }
}

/* ---- phantoms ---- */

static uint32_t count_places(const struct lx_admission *adm, const struct lx_place_set *set)
{
    uint32_t count = 0;

    for (uint32_t word = 0; word <= (adm->config.pool_size - 1) >> 6; word++) {
        if (set->words[word] != 0)
            count += (uint32_t)__builtin_popcountll(set->words[word]);
    }
    return count;
}

void lx_view_phantoms(const struct lx_admission *adm, struct lx_phantoms *ret_phantoms)
{
    int64_t owned = 0;

    for (unsigned c = 0; c < LX_CLASSES; c++) {
        uint32_t places = count_places(adm, &adm->occupied[c]);
        ret_phantoms->slots[c] = (int64_t)adm->running[c] - places;
        owned += places;
    }
    ret_phantoms->workers = (int64_t)adm->config.pool_size - adm->idle_workers - owned;
    ret_phantoms->permits = (int64_t)adm->config.heavy_permits - adm->free_permits -
                            count_places(adm, &adm->heavy_places) - adm->built_jobs;
}

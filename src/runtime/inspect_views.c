/*
 * Views that look at the scheduler's own state: capture in the seat, words outside.
 *
 * A job that a view has seen is kept from being freed by a hold of its own until its names have
 * been read, and its actor by a reference; both are taken in the seat, while the turn's own keep
 * them alive.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "runtime/actor.h"
#include "runtime/executor.h"
#include "runtime/view_text.h"
#include "sync/assert.h"
#include "sync/seams.h"

#define NS_PER_MS UINT64_C(1000000)
/* Holds on one job that views leave room for: the count has 8 bits. */
#define LX_VIEW_HOLDS 128u

/* One call, from its arguments to what it has seen. */
struct look {
    struct lx_request request; /* first */
    struct lanex_executor *ex;
    bool may_wait;

    struct lanex_actor *actor; /* referenced; NULL: none has the key */
    uint64_t number;
    uint64_t min_age_ns;
    const char *request_id;
    size_t request_id_length;

    struct lx_state_search search;
    struct lx_seen_actor about;
    struct lx_seen_job *jobs; /* room for pool_size */
    uint32_t count;
    struct lx_seen_chain chain;
    uint64_t now_ns;
};

static struct look *look_of(struct lx_request *request)
{
    return (struct look *)(void *)request;
}

/* ---- names ---- */

static const struct lanex_job *job_of(const struct lx_job_entry *entry)
{
    return (const struct lanex_job *)(const void *)entry;
}

static uint64_t number_of(const struct lx_job_entry *entry)
{
    return atomic_load_explicit(&job_of(entry)->number, memory_order_relaxed);
}

static const char *request_id_of(const struct lx_job_entry *entry)
{
    return lx_job_request_id(job_of(entry));
}

static const char *label_of(const struct lx_job_entry *entry)
{
    return lx_job_label(job_of(entry));
}

static const struct lx_view_names names = {
    .number = number_of,
    .request_id = request_id_of,
    .label = label_of,
};

static bool has_request_id(const struct lx_job_entry *entry, const void *id)
{
    const struct look *look = id;
    const char *text = lx_job_request_id(job_of(entry));

    return strncmp(text, look->request_id, look->request_id_length) == 0 &&
           text[look->request_id_length] == '\0';
}

/* ---- holding what was seen ---- */

/* In the seat: the turn holds the job too. False if too many views hold it. */
static bool hold_job(struct lx_job_entry *entry)
{
    if ((atomic_load_explicit(&entry->word, memory_order_relaxed) & LX_WORD_HOLDS) >= LX_VIEW_HOLDS)
        return false;
    atomic_fetch_add_explicit(&entry->word, LX_WORD_HOLD, memory_order_relaxed);
    return true;
}

/* In the seat: keeps what the job's names need. False if too many views hold the job. */
static bool hold(struct lx_seen_job *seen)
{
    struct lanex_actor *actor = lx_actor_of(seen->job->actor);

    if (!hold_job(seen->job))
        return false;
    /* The registry's reference is there until the last job of the actor has ended. */
    lanex_actor_ref(actor);
    seen->key = actor->key;
    seen->key_length = actor->key_length;
    return true;
}

static void let_go(struct lx_seen_job *seen)
{
    struct lanex_actor *actor = lx_actor_of(seen->job->actor);

    lx_job_release(lx_job_of(seen->job), LX_WORD_HOLD);
    lanex_actor_unref(actor);
}

static void let_go_all(struct look *look)
{
    for (; look->count > 0; look->count--)
        let_go(&look->jobs[look->count - 1]);
    for (; look->chain.count > 0; look->chain.count--)
        let_go(&look->chain.waits[look->chain.count - 1].seen);
    look->chain.circle = false;
}

/* What is not held is no longer counted. */
static int hold_all(struct look *look)
{
    for (uint32_t i = 0; i < look->count; i++) {
        if (!hold(&look->jobs[i])) {
            look->count = i;
            return -EBUSY;
        }
    }
    return 0;
}

/* ---- one look ---- */

static int begin_look(struct look *look, lanex_executor *executor, bool may_wait)
{
    int rc = lx_executor_check(executor);

    *look = (struct look){.ex = executor, .may_wait = may_wait};
    if (rc < 0)
        return rc;
    look->jobs = lx_allocate(executor->config.pool_size * sizeof look->jobs[0]);
    return look->jobs != NULL ? 0 : -ENOMEM;
}

/* The actor with the key, or none, with a use of its context as long as the look lasts. */
static int find_actor(struct look *look, const void *key, size_t key_length)
{
    enum lx_registry_access access = look->may_wait ? LX_REGISTRY_READ : LX_REGISTRY_TRY_READ;
    int rc = lx_check_key(key, key_length);

    if (rc == 0)
        rc = lx_registry_lock(look->ex, access);
    if (rc < 0)
        return rc;
    look->actor = lx_registry_find(look->ex, key, key_length);
    if (look->actor != NULL) {
        lanex_actor_ref(look->actor);
        lx_actor_context_hold(look->actor);
    }
    lx_registry_unlock(look->ex, access);
    return 0;
}

static int set_request_id(struct look *look, const char *request_id, size_t length)
{
    if (request_id == NULL)
        return -EINVAL;
    if (length == 0)
        length = strnlen(request_id, LANEX_REQUEST_ID_MAX + 1);
    if (length > LANEX_REQUEST_ID_MAX)
        return -EINVAL;
    look->request_id = request_id;
    look->request_id_length = length;
    look->search.wanted = (struct lx_wanted_id){.is = has_request_id, .id = look};
    return 0;
}

/* Runs `apply` in the seat; its -errno or what it returned. After an error nothing is held. */
static int enter(struct look *look, void (*apply)(struct lanex_executor *, struct lx_request *))
{
    int rc;

    look->request.apply = apply;
    look->request.at_end = true;
    for (;;) {
        rc = look->may_wait ? lx_seat_request(look->ex, &look->request)
                            : lx_seat_try_request(look->ex, &look->request);
        if (rc >= 0)
            return rc;
        let_go_all(look);
        if (rc != -EBUSY || !look->may_wait)
            return rc;
        sched_yield(); /* LX_VIEW_HOLDS others are looking: they are soon done */
    }
}

static void end_look(struct look *look)
{
    let_go_all(look);
    if (look->actor != NULL)
        lx_actor_context_drop(look->actor);
    lanex_actor_unref(look->actor);
    lx_release(look->jobs);
}

static struct lx_view view_of(struct look *look)
{
    return (struct lx_view){
        .names = &names,
        .now_ns = look->now_ns,
        .jobs = look->jobs,
        .count = look->count,
    };
}

/* ---- running jobs, census ---- */

static void apply_on_workers(struct lanex_executor *ex, struct lx_request *request)
{
    struct look *look = look_of(request);

    look->now_ns = ex->admission.now_ns;
    look->count = lx_view_on_workers(&ex->admission, look->jobs);
    request->result = hold_all(look);
}

/* It will be asked again, or was not to be had: nothing was reported. The jobs are held, or this is
 * the seat. */
static void unreport(struct look *look, uint32_t seen)
{
    for (uint32_t i = 0; i < seen; i++)
        lx_job_drop_mark(look->jobs[i].job, LX_JOB_MARK_REPORTED);
}

static void apply_census(struct lanex_executor *ex, struct lx_request *request)
{
    struct look *look = look_of(request);
    uint32_t seen;

    look->now_ns = ex->admission.now_ns;
    look->count = seen = lx_view_census(&ex->admission, look->min_age_ns, look->jobs);
    request->result = hold_all(look);
    if (request->result < 0)
        unreport(look, seen);
}

static int jobs_view(lanex_executor *executor, bool may_wait, uint64_t min_age_ns, bool census,
                     lanex_running_jobs **ret_jobs)
{
    struct look look;
    int rc = ret_jobs == NULL ? -EINVAL : begin_look(&look, executor, may_wait);

    if (rc < 0)
        return rc;
    look.min_age_ns = min_age_ns;
    rc = enter(&look, census ? apply_census : apply_on_workers);
    if (rc == 0) {
        struct lx_view view = view_of(&look);
        rc = census ? lx_view_jobs(&view, ret_jobs) : lx_view_mutating(&view, ret_jobs);
        if (rc < 0 && census)
            unreport(&look, look.count);
    }
    end_look(&look);
    return rc;
}

int lanex_executor_running_mutating_try(lanex_executor *executor, lanex_running_jobs **ret_jobs)
{
    return jobs_view(executor, false, 0, false, ret_jobs);
}

int lanex_executor_running_mutating(lanex_executor *executor, lanex_running_jobs **ret_jobs)
{
    return jobs_view(executor, true, 0, false, ret_jobs);
}

static int census(lanex_executor *executor, bool may_wait, uint64_t min_age_ms,
                  lanex_running_jobs **ret_jobs)
{
    uint64_t most = LANEX_TIME_NEVER / NS_PER_MS;

    return jobs_view(executor, may_wait, (min_age_ms < most ? min_age_ms : most) * NS_PER_MS, true,
                     ret_jobs);
}

int lanex_executor_census_try(lanex_executor *executor, uint64_t min_age_ms,
                              lanex_running_jobs **ret_jobs)
{
    return census(executor, false, min_age_ms, ret_jobs);
}

int lanex_executor_census(lanex_executor *executor, uint64_t min_age_ms,
                          lanex_running_jobs **ret_jobs)
{
    return census(executor, true, min_age_ms, ret_jobs);
}

/* ---- state label, blockers ---- */

/* -EAGAIN: there is more to search, from search.at on, which is held. */
static void apply_search(struct lanex_executor *ex, struct lx_request *request)
{
    struct look *look = look_of(request);
    struct lx_state_search before = look->search;

    request->result = 0;
    if (lx_view_job_state(&ex->admission, &look->search))
        return;
    request->result = -EAGAIN;
    if (!hold_job(look->search.at)) {
        /* By the next try its object may be another job, behind some that were not looked at. */
        look->search = before;
        request->result = -EBUSY;
    }
}

static void apply_blockers(struct lanex_executor *ex, struct lx_request *request)
{
    struct look *look = look_of(request);

    apply_search(ex, request);
    if (request->result < 0)
        return;
    lx_view_actor(&ex->admission, look->actor != NULL ? &look->actor->entry : NULL, &look->about);
    apply_on_workers(ex, request);
}

/* Searches slice by slice; others get the seat in between. */
static int search(struct look *look, void (*apply)(struct lanex_executor *, struct lx_request *))
{
    int rc;

    look->search.actor = look->actor != NULL ? &look->actor->entry : NULL;
    do {
        struct lx_job_entry *held = look->search.at;
        rc = enter(look, apply);
        if (held != NULL)
            lx_job_release(lx_job_of(held), LX_WORD_HOLD);
    } while (rc == -EAGAIN);
    return rc;
}

static int state_view(lanex_executor *executor, bool may_wait, const void *key, size_t key_length,
                      const char *request_id, size_t request_id_length)
{
    struct look look;
    int rc = begin_look(&look, executor, may_wait);

    if (rc < 0)
        return rc;
    rc = set_request_id(&look, request_id, request_id_length);
    if (rc == 0)
        rc = find_actor(&look, key, key_length);
    if (rc == 0)
        rc = search(&look, apply_search);
    end_look(&look);
    return rc == 0 ? look.search.state : rc;
}

int lanex_job_state_try(lanex_executor *executor, const void *key, size_t key_length,
                        const char *request_id, size_t request_id_length)
{
    return state_view(executor, false, key, key_length, request_id, request_id_length);
}

int lanex_job_state(lanex_executor *executor, const void *key, size_t key_length,
                    const char *request_id, size_t request_id_length)
{
    return state_view(executor, true, key, key_length, request_id, request_id_length);
}

static int blockers_view(lanex_executor *executor, bool may_wait, const void *key,
                         size_t key_length, const char *request_id, size_t request_id_length,
                         lanex_blockers **ret_blockers)
{
    lanex_blockers *blockers;
    struct look look;
    int rc = ret_blockers == NULL ? -EINVAL : begin_look(&look, executor, may_wait);

    if (rc < 0)
        return rc;
    rc = set_request_id(&look, request_id, request_id_length);
    if (rc == 0)
        rc = find_actor(&look, key, key_length);
    if (rc == 0)
        rc = search(&look, apply_blockers);
    if (rc == 0) {
        struct lx_view view = view_of(&look);
        rc = lx_view_blockers(&view, look.actor != NULL ? &look.actor->entry : NULL, &look.about,
                              look.search.state, &blockers);
    }
    if (rc == 0 && look.about.registered && executor->context_phase != NULL) {
        LX_ASSERT(look.actor != NULL); /* what is registered was found by its key */
        rc = lx_view_add_phase(executor->context_phase, look.actor->context, blockers);
        if (rc < 0)
            lanex_blockers_free(blockers);
    }
    end_look(&look);
    if (rc == 0)
        *ret_blockers = blockers;
    return rc;
}

int lanex_job_blockers_try(lanex_executor *executor, const void *key, size_t key_length,
                           const char *request_id, size_t request_id_length,
                           lanex_blockers **ret_blockers)
{
    return blockers_view(executor, false, key, key_length, request_id, request_id_length,
                         ret_blockers);
}

int lanex_job_blockers(lanex_executor *executor, const void *key, size_t key_length,
                       const char *request_id, size_t request_id_length,
                       lanex_blockers **ret_blockers)
{
    return blockers_view(executor, true, key, key_length, request_id, request_id_length,
                         ret_blockers);
}

/* ---- explain ---- */

static bool is_in(const struct lx_seen_chain *chain, const struct lx_job_entry *job)
{
    for (uint32_t i = 0; i < chain->count; i++) {
        if (chain->waits[i].seen.job == job)
            return true;
    }
    return false;
}

static int follow(struct lanex_executor *ex, struct look *look, struct lx_job_entry *job)
{
    struct lx_seen_chain *chain = &look->chain;

    while (job != NULL && chain->count < LX_EXPLAIN_MAX) {
        struct lx_seen_wait *link = &chain->waits[chain->count];
        unsigned state = atomic_load_explicit(&job->state, memory_order_relaxed);
        struct lx_wait wait = lx_view_wait(&ex->admission, job);

        if (is_in(chain, job)) {
            chain->circle = true;
            return 0;
        }
        *link = (struct lx_seen_wait){
            .seen = {.job = job, .since_ns = job->since_ns},
            .on_worker = state == LX_JOB_ADMITTED || state == LX_JOB_INSTALLING,
            .reason = wait.reason,
        };
        if (!hold(&link->seen))
            return -EBUSY;
        chain->count++;
        job = wait.holder;
    }
    return 0;
}

static void apply_explain(struct lanex_executor *ex, struct lx_request *request)
{
    struct look *look = look_of(request);
    struct lx_job_entry *first = NULL;

    look->now_ns = ex->admission.now_ns;
    request->result = -ENOENT;
    if (look->actor != NULL) {
        if ((look->actor->entry.flags & LX_ACTOR_REGISTERED) == 0)
            return;
        first = lx_view_actor_front(&ex->admission, &look->actor->entry);
    } else {
        enum lx_job_state state;
        struct lanex_job *job = lx_job_find(ex, look->number, &state);
        if (job == NULL)
            return;
        first = &job->entry;
    }
    request->result = follow(ex, look, first);
}

/* By key, or by number if key is NULL. */
static int explain(lanex_executor *executor, bool may_wait, const void *key, size_t key_length,
                   uint64_t number, lanex_explanation **ret_explanation)
{
    struct look look;
    int rc = ret_explanation == NULL ? -EINVAL : begin_look(&look, executor, may_wait);

    if (rc < 0)
        return rc;
    look.number = number;
    if (key != NULL) {
        rc = find_actor(&look, key, key_length);
        if (rc == 0 && look.actor == NULL)
            rc = -ENOENT;
    }
    if (rc == 0)
        rc = enter(&look, apply_explain);
    if (rc == 0) {
        struct lx_view view = view_of(&look);
        rc = lx_view_explanation(&view, &look.chain, ret_explanation);
    }
    end_look(&look);
    return rc;
}

int lanex_explain_job_try(lanex_executor *executor, uint64_t job,
                          lanex_explanation **ret_explanation)
{
    return explain(executor, false, NULL, 0, job, ret_explanation);
}

int lanex_explain_job(lanex_executor *executor, uint64_t job, lanex_explanation **ret_explanation)
{
    return explain(executor, true, NULL, 0, job, ret_explanation);
}

int lanex_explain_actor_try(lanex_executor *executor, const void *key, size_t key_length,
                            lanex_explanation **ret_explanation)
{
    return key == NULL ? -EINVAL : explain(executor, false, key, key_length, 0, ret_explanation);
}

int lanex_explain_actor(lanex_executor *executor, const void *key, size_t key_length,
                        lanex_explanation **ret_explanation)
{
    return key == NULL ? -EINVAL : explain(executor, true, key, key_length, 0, ret_explanation);
}

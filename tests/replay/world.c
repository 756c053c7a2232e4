#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/names.h"
#include "sync/assert.h"

#define NS_PER_MS UINT64_C(1000000)

/* A test program has no use for going on without memory. */
static void *must(void *memory)
{
    if (memory == NULL) {
        fputs("lanex-replay: out of memory\n", stderr);
        exit(2);
    }
    return memory;
}

void world_init(struct world *world, const lanex_config *config)
{
    memset(world, 0, sizeof *world);
    lx_admission_init(&world->adm, config, world->running_jobs);
}

void world_fini(struct world *world)
{
    struct world_job *job, *next_job;

    HASH_CLEAR(hh, world->actors);
    while (world->all_actors != NULL) {
        struct world_actor *actor = world->all_actors;
        world->all_actors = actor->older;
        free(actor);
    }
    job = world->jobs;
    HASH_CLEAR(hh, world->jobs); /* leaves the jobs linked */
    for (; job != NULL; job = next_job) {
        next_job = job->hh.next;
        lanex_cancellation_unref(job->token);
        free(job);
    }
    lx_actor_space_destroy(&world->adm.space);
}

struct world_actor *world_actor(struct world *world, const char *key)
{
    struct world_actor *actor;

    HASH_FIND_STR(world->actors, key, actor);
    return actor;
}

struct world_job *world_job(struct world *world, const char *id)
{
    struct world_job *job;

    HASH_FIND_STR(world->jobs, id, job);
    return job;
}

bool world_job_runs(const struct world_job *job)
{
    return atomic_load(&job->entry.state) == LX_JOB_ADMITTED;
}

static void begin(struct world *world)
{
    lx_admission_begin(&world->adm, world->now_ms * NS_PER_MS);
}

/* The rest of a turn. With virtual time all that is due is handled in one: slices are for latency.
 */
static void finish(struct world *world)
{
    struct lx_job_entry *job;

    while (lx_admission_answer_detached(&world->adm))
        ;
    lx_admission_schedule(&world->adm);
    world->dispatched = world->adm.dispatched;
    world->settled = world->adm.settled;
    memset(&world->adm.dispatched, 0, sizeof world->adm.dispatched);
    memset(&world->adm.settled, 0, sizeof world->adm.settled);
    /* The bodies begin in the step that dispatched them. */
    for (job = world->dispatched.head; job != NULL; job = job->next) {
        lx_job_add_mark(job, LX_JOB_MARK_BEGUN);
        if (world_job_of(job)->token != NULL)
            lx_cancellation_start(world_job_of(job)->token);
    }
}

bool world_register(struct world *world, const char *key)
{
    struct world_actor *actor = world_actor(world, key);
    struct lx_actor_space space;
    uint32_t capacity;

    begin(world);
    if (actor != NULL) {
        finish(world);
        return false;
    }
    actor = must(calloc(1, sizeof *actor + strlen(key) + 1));
    strcpy(actor->key, key);
    lx_actor_entry_init(&actor->entry, 1);
    actor->older = world->all_actors;
    world->all_actors = actor;
    HASH_ADD_STR(world->actors, key, actor);
    if (lx_admission_wants_space(&world->adm, &capacity)) {
        must(lx_actor_space_create(&space, capacity) == 0 ? world : NULL);
        lx_admission_adopt_space(&world->adm, &space);
        lx_actor_space_destroy(&space);
    }
    LX_ASSERT(lx_admission_register(&world->adm, &actor->entry) == 0);
    finish(world);
    return true;
}

void world_submit(struct world *world, const struct world_submission *submission)
{
    struct world_actor *actor = world_actor(world, submission->actor);
    struct world_job *job = must(calloc(1, sizeof *job + strlen(submission->id) + 1));

    strcpy(job->id, submission->id);
    HASH_ADD_STR(world->jobs, id, job);
    if (submission->cancellable)
        LX_ASSERT(lanex_cancellation_create(&job->token) == 0);
    snprintf(job->label, sizeof job->label, "executor::%s::%s",
             submission->job_class == LANEX_CLASS_INTERACTIVE ? "Interactive" : "Maintenance",
             lx_lane_word(submission->lane));
    job->entry.actor = actor != NULL ? &actor->entry : NULL;
    job->entry.cost = 1;
    job->entry.job_class = submission->job_class;
    job->entry.lane = submission->lane;
    job->entry.coalesce_key = submission->coalesce_key;
    if (submission->configure)
        job->entry.flags = LX_JOB_FLAG_CONFIGURE;
    begin(world);
    lx_admission_submit(&world->adm, &job->entry);
    finish(world);
}

void world_complete(struct world *world, struct world_job *job, bool panicked)
{
    begin(world);
    lx_admission_end(&world->adm, &job->entry, panicked);
    finish(world);
}

void world_advance(struct world *world, uint64_t ms)
{
    world->now_ms += ms;
    begin(world);
    while (lx_admission_expire(&world->adm))
        ;
    finish(world);
}

/* SPEC 7; what the runtime does around lx_admission_cancel. */
static int cancel(struct world *world, const char *id)
{
    struct world_job *job = world_job(world, id);

    if (job == NULL)
        return LANEX_CANCEL_NOT_FOUND;
    if (lx_admission_is_queued(&job->entry)) {
        if (job->token != NULL)
            lanex_cancellation_cancel(job->token);
        lx_admission_cancel(&world->adm, &job->entry);
        return LANEX_CANCEL_QUEUED_REMOVED;
    }
    if (!world_job_runs(job) || job->token == NULL)
        return LANEX_CANCEL_NOT_FOUND;
    return lanex_cancellation_cancel(job->token) == LANEX_CANCELLATION_COMMITTED
               ? LANEX_CANCEL_RUNNING_COMMITTED
               : LANEX_CANCEL_RUNNING_SIGNALLED;
}

int world_cancel(struct world *world, const char *id)
{
    int outcome;

    begin(world);
    outcome = cancel(world, id);
    finish(world);
    return outcome;
}

bool world_seal(struct world *world, const char *id)
{
    struct world_job *job = world_job(world, id);

    world_pass(world);
    return job != NULL && lanex_cancellation_seal(job->token);
}

uint32_t world_cancel_maintenance(struct world *world, const char *key)
{
    struct world_actor *actor = world_actor(world, key);
    uint32_t count;

    begin(world);
    count = actor != NULL ? lx_admission_cancel_maintenance(&world->adm, &actor->entry) : 0;
    finish(world);
    return count;
}

void world_remove(struct world *world, const char *key)
{
    struct world_actor *actor = world_actor(world, key);

    begin(world);
    if (actor != NULL) {
        HASH_DEL(world->actors, actor);
        lx_admission_remove(&world->adm, &actor->entry);
    }
    finish(world);
}

void world_pass(struct world *world)
{
    begin(world);
    finish(world);
}

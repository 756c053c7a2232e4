#include "admission_rig.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/lx_require.h"

void rig_init_config(struct rig *rig, const lanex_config *config)
{
    memset(rig, 0, sizeof *rig);
    rig->now_ns = 1;
    lx_admission_init(&rig->adm, config, rig->running_jobs);
}

void rig_init(struct rig *rig, const lanex_executor_options *options)
{
    lanex_executor_options asked = *options;
    lanex_config config;

    asked.size = sizeof asked;
    LX_REQUIRE(lx_config_resolve(&asked, 4, &config) == 0);
    rig_init_config(rig, &config);
}

void rig_fini(struct rig *rig)
{
    while (rig->actors != NULL) {
        struct rig_actor *actor = rig->actors;
        rig->actors = actor->older;
        free(actor);
    }
    while (rig->jobs != NULL) {
        struct rig_job *job = rig->jobs;
        rig->jobs = job->older;
        free(job);
    }
    lx_actor_space_destroy(&rig->adm.space);
}

struct rig_actor *rig_register(struct rig *rig, uint32_t weight)
{
    struct rig_actor *actor = calloc(1, sizeof *actor);
    struct lx_actor_space space;
    uint32_t capacity;

    LX_REQUIRE(actor != NULL);
    lx_actor_entry_init(&actor->entry, weight);
    actor->id = rig->actors_made++;
    actor->older = rig->actors;
    rig->actors = actor;
    if (lx_admission_wants_space(&rig->adm, &capacity)) {
        LX_REQUIRE(lx_actor_space_create(&space, capacity) == 0);
        lx_admission_adopt_space(&rig->adm, &space);
        lx_actor_space_destroy(&space);
    }
    LX_REQUIRE(lx_admission_register(&rig->adm, &actor->entry) == 0);
    return actor;
}

struct rig_job *rig_new_job(struct rig *rig, struct rig_actor *actor, const struct rig_spec *spec)
{
    struct rig_job *job = calloc(1, sizeof *job);

    LX_REQUIRE(job != NULL);
    job->id = rig->jobs_made++;
    job->older = rig->jobs;
    rig->jobs = job;
    job->entry.actor = actor != NULL ? &actor->entry : NULL;
    job->cost = spec->cost != 0 ? spec->cost : 1;
    job->entry.cost = job->cost;
    job->entry.job_class = spec->job_class;
    job->entry.lane = spec->lane;
    job->entry.coalesce_key = spec->coalesce_key;
    if (spec->has_install)
        job->entry.flags |= LX_JOB_FLAG_HAS_INSTALL;
    if (spec->cancelled)
        job->entry.flags |= LX_JOB_FLAG_CANCELLED;
    if (spec->deadline_ns != 0 || spec->has_install) {
        job->extra.deadline_ns = spec->deadline_ns != 0 ? spec->deadline_ns : LANEX_TIME_NEVER;
        job->extra.job = &job->entry;
        job->entry.extra = &job->extra;
    }
    return job;
}

void rig_begin(struct rig *rig)
{
    lx_admission_begin(&rig->adm, rig->now_ns);
}

void rig_finish(struct rig *rig)
{
    while (lx_admission_answer_detached(&rig->adm))
        ;
    lx_admission_schedule(&rig->adm);
    rig->dispatched = rig->adm.dispatched;
    rig->settled = rig->adm.settled;
    memset(&rig->adm.dispatched, 0, sizeof rig->adm.dispatched);
    memset(&rig->adm.settled, 0, sizeof rig->adm.settled);
}

struct rig_job *rig_submit(struct rig *rig, struct rig_actor *actor, const struct rig_spec *spec)
{
    struct rig_job *job = rig_new_job(rig, actor, spec);

    rig_begin(rig);
    lx_admission_submit(&rig->adm, &job->entry);
    rig_finish(rig);
    return job;
}

struct rig_job *rig_submit_lane(struct rig *rig, struct rig_actor *actor, unsigned job_class,
                                unsigned lane)
{
    struct rig_spec spec = {.job_class = (uint8_t)job_class, .lane = (uint8_t)lane};

    return rig_submit(rig, actor, &spec);
}

void rig_end(struct rig *rig, struct rig_job *job)
{
    rig_begin(rig);
    lx_admission_end(&rig->adm, &job->entry, false);
    rig_finish(rig);
}

void rig_panic(struct rig *rig, struct rig_job *job)
{
    rig_begin(rig);
    lx_admission_end(&rig->adm, &job->entry, true);
    rig_finish(rig);
}

bool rig_built(struct rig *rig, struct rig_job *job)
{
    bool waits;

    rig_begin(rig);
    waits = lx_admission_built(&rig->adm, &job->entry);
    rig_finish(rig);
    return waits;
}

void rig_cancel(struct rig *rig, struct rig_job *job)
{
    rig_begin(rig);
    lx_admission_cancel(&rig->adm, &job->entry);
    rig_finish(rig);
}

void rig_remove(struct rig *rig, struct rig_actor *actor)
{
    rig_begin(rig);
    lx_admission_remove(&rig->adm, &actor->entry);
    rig_finish(rig);
}

void rig_advance(struct rig *rig, uint64_t ns)
{
    rig->now_ns += ns;
    rig_begin(rig);
    while (lx_admission_expire(&rig->adm))
        ;
    rig_finish(rig);
}

static struct rig_job *only_one(const struct lx_job_list *list)
{
    LX_REQUIRE(list->count <= 1);
    return list->head != NULL ? rig_job_of(list->head) : NULL;
}

struct rig_job *rig_dispatched_one(const struct rig *rig)
{
    return only_one(&rig->dispatched);
}

struct rig_job *rig_settled_one(const struct rig *rig)
{
    return only_one(&rig->settled);
}

/*
 * The admission state machine with jobs and actors of its own and a clock that the test sets: a
 * turn is rig_begin, events, rig_finish.
 */
#ifndef LX_TEST_ADMISSION_RIG_H
#define LX_TEST_ADMISSION_RIG_H

#include "admission/admission.h"
#include "admission/config.h"

#define RIG_MS UINT64_C(1000000)

struct rig_actor {
    struct lx_actor_entry entry; /* first */
    unsigned id;
    struct rig_actor *older;
};

struct rig_job {
    struct lx_job_entry entry; /* first */
    struct lx_job_extra extra;
    unsigned id;
    uint32_t cost; /* the entry's own place is used anew once it runs */
    struct rig_job *older;
};

struct rig_spec {
    uint8_t job_class, lane, coalesce_key;
    bool has_install;
    bool cancelled;       /* its token, before it is submitted */
    uint32_t cost;        /* 0: 1 */
    uint64_t deadline_ns; /* 0: none */
};

struct rig {
    struct lx_admission adm;
    struct lx_job_entry *running_jobs[LANEX_POOL_MAX_MANY_CORE];
    uint64_t now_ns;
    unsigned actors_made, jobs_made;
    struct rig_actor *actors; /* all that were made, newest first */
    struct rig_job *jobs;
    /* Of the last turn. */
    struct lx_job_list dispatched, settled;
};

/* `options` with size 0 is all defaults on 4 CPUs. */
void rig_init(struct rig *rig, const lanex_executor_options *options);
/* With these very values. */
void rig_init_config(struct rig *rig, const lanex_config *config);
void rig_fini(struct rig *rig);

struct rig_actor *rig_register(struct rig *rig, uint32_t weight);
struct rig_job *rig_new_job(struct rig *rig, struct rig_actor *actor, const struct rig_spec *spec);

/* Turns. */
void rig_begin(struct rig *rig);
void rig_finish(struct rig *rig);
/* Each is one turn. */
struct rig_job *rig_submit(struct rig *rig, struct rig_actor *actor, const struct rig_spec *spec);
struct rig_job *rig_submit_lane(struct rig *rig, struct rig_actor *actor, unsigned job_class,
                                unsigned lane);
void rig_end(struct rig *rig, struct rig_job *job);
void rig_panic(struct rig *rig, struct rig_job *job);
/* True if it waits for its install step. */
bool rig_built(struct rig *rig, struct rig_job *job);
void rig_cancel(struct rig *rig, struct rig_job *job);
void rig_remove(struct rig *rig, struct rig_actor *actor);
/* Time passes; everything due is handled in one turn. */
void rig_advance(struct rig *rig, uint64_t ns);

static inline struct rig_job *rig_job_of(struct lx_job_entry *entry)
{
    return (struct rig_job *)entry;
}
static inline unsigned rig_state(const struct rig_job *job)
{
    return atomic_load(&job->entry.state);
}
static inline bool rig_runs(const struct rig_job *job)
{
    return rig_state(job) == LX_JOB_ADMITTED || rig_state(job) == LX_JOB_INSTALLING;
}
/* The only one that the last turn dispatched or settled; NULL if it was none, fails if more. */
struct rig_job *rig_dispatched_one(const struct rig *rig);
struct rig_job *rig_settled_one(const struct rig *rig);

#endif

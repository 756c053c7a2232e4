/*
 * The admission state machine with virtual time and made-up jobs: what the runtime does around it,
 * and no more. One world_ call that is an event is one scheduler turn; what came of it stands in
 * `dispatched` and `settled` until the next one.
 */
#ifndef LX_REPLAY_WORLD_H
#define LX_REPLAY_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "admission/admission.h"
#include "sync/cancel.h"

struct world_actor {
    struct lx_actor_entry entry; /* first */
    struct world_actor *older;   /* all that were made, for the end */
    UT_hash_handle hh;           /* by key, while registered */
    char key[];
};

struct world_job {
    struct lx_job_entry entry; /* first */
    lanex_cancellation *token; /* NULL: submitted without one */
    char label[64];
    UT_hash_handle hh; /* by id, always */
    char id[];
};

struct world {
    struct lx_admission adm;
    struct lx_job_entry *running_jobs[LANEX_POOL_MAX_MANY_CORE];
    uint64_t now_ms;
    struct world_actor *actors; /* by key */
    struct world_actor *all_actors;
    struct world_job *jobs; /* by id */
    /* Of the last turn, in order, linked by entry.next. */
    struct lx_job_list dispatched, settled;
};

struct world_submission {
    const char *actor;
    const char *id;
    uint8_t job_class, lane, coalesce_key;
    bool cancellable;
    bool configure;
};

void world_init(struct world *world, const lanex_config *config);
void world_fini(struct world *world);

struct world_actor *world_actor(struct world *world, const char *key);
struct world_job *world_job(struct world *world, const char *id);
static inline struct world_job *world_job_of(struct lx_job_entry *entry)
{
    return (struct world_job *)entry;
}
/* Dispatched, and its end has not been told. */
bool world_job_runs(const struct world_job *job);

/* True if new. */
bool world_register(struct world *world, const char *key);
void world_submit(struct world *world, const struct world_submission *submission);
/* The job runs. */
void world_complete(struct world *world, struct world_job *job, bool panicked);
void world_advance(struct world *world, uint64_t ms);
/* enum lanex_cancel_outcome */
int world_cancel(struct world *world, const char *id);
bool world_seal(struct world *world, const char *id);
uint32_t world_cancel_maintenance(struct world *world, const char *key);
void world_remove(struct world *world, const char *key);
/* A turn without an event. */
void world_pass(struct world *world);

#endif

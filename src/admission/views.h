/*
 * Looking inside: SPEC 11 and 15 as functions of the admission state. They change nothing (but that
 * the census remembers whom it has named), know no strings, and take time bounded by the pool size;
 * what has to walk a queue goes in slices. Names, sorting and sentences are made of this outside
 * the seat, by runtime/view_text.c.
 *
 * A job runs, in the views, once its body has begun: one that was handed to a worker and waits in
 * the gate is still `queued` to whoever asks, and explain says what it waits for.
 */
#ifndef LX_ADMISSION_VIEWS_H
#define LX_ADMISSION_VIEWS_H

#include <lanex/inspect.h>

#include "admission/admission.h"

/* A job on a worker, as a view has seen it. */
struct lx_seen_job {
    struct lx_job_entry *job;
    uint64_t since_ns; /* dispatched */
    bool begun;        /* its body runs */
    bool registered;   /* its actor still is */
    /* For whoever looks; admission leaves them empty. */
    const void *key; /* of its actor */
    size_t key_length;
};

/* All jobs on workers, in no order. `seen` has room for pool_size. Returns how many. */
uint32_t lx_view_on_workers(const struct lx_admission *adm, struct lx_seen_job *seen);

/*
 * Running interactive jobs that were dispatched at least min_age_ns ago, each the first time only.
 * `seen` has room for pool_size. Returns how many.
 */
uint32_t lx_view_census(struct lx_admission *adm, uint64_t min_age_ns, struct lx_seen_job *seen);

/* How a view recognises a request id; admission knows no strings. */
struct lx_wanted_id {
    bool (*is)(const struct lx_job_entry *job, const void *id);
    const void *id;
};

/* Queued jobs that one step of a search looks at. */
#define LX_VIEW_SLICE 512u

/* The state label of a request id at an actor, searched in slices. */
struct lx_state_search {
    struct lx_actor_entry *actor; /* NULL: no such actor */
    struct lx_wanted_id wanted;
    /* Where to go on: a list, and a job in it (NULL: its head) that the caller keeps from being
     * freed until the next step. All zero at first. */
    unsigned list;
    struct lx_job_entry *at;
    int state; /* enum lanex_state_label, once the step has returned true */
};
/* True when `state` is known. */
bool lx_view_job_state(const struct lx_admission *adm, struct lx_state_search *search);

/* What holds the writers of an actor up. */
struct lx_seen_actor {
    bool registered;
    uint64_t oldest_writer_ns; /* LANEX_TIME_NEVER: none is queued */
    uint32_t configures;       /* running and queued */
    uint64_t reads_past_promoted;
    uint32_t idle_workers;
};
void lx_view_actor(const struct lx_admission *adm, const struct lx_actor_entry *actor,
                   struct lx_seen_actor *ret_seen);

/* In flight minus owned; all 0 unless there is a bug. */
struct lx_phantoms {
    int64_t workers, slots[LX_CLASSES], permits;
};
/* No job is on a worker, or one of the counts says so. */
static inline bool lx_view_at_rest(const struct lx_admission *adm)
{
    return adm->idle_workers == adm->config.pool_size || adm->running[0] + adm->running[1] == 0 ||
           (adm->occupied[0].words[0] | adm->occupied[1].words[0]) == 0;
}
void lx_view_phantoms(const struct lx_admission *adm, struct lx_phantoms *ret_phantoms);

/* ---- explain ---- */

/* What one job waits for. */
struct lx_wait {
    enum lanex_wait_reason reason;
    struct lx_job_entry
        *holder; /* the job that holds it up, or that comes first; NULL: none does */
};
/* Why that lane of the actor cannot start now; LANEX_WAIT_NONE: it could. lane_rules.c. */
enum lanex_wait_reason lx_lane_wait(const struct lx_admission *adm,
                                    const struct lx_actor_entry *actor, unsigned lane);
struct lx_wait lx_view_wait(struct lx_admission *adm, const struct lx_job_entry *job);
/* The job of an actor to begin an explanation with: the next to be queued, else the longest on a
 * worker; NULL: it is idle. */
struct lx_job_entry *lx_view_actor_front(const struct lx_admission *adm,
                                         const struct lx_actor_entry *actor);

#endif

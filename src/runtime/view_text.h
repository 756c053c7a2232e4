/*
 * From what a view has seen in the seat to what its caller gets: names, order, ages, sentences.
 * Knows jobs and actors only through `names`, so that whoever drives the admission rules without a
 * runtime gets the same words.
 */
#ifndef LX_RUNTIME_VIEW_TEXT_H
#define LX_RUNTIME_VIEW_TEXT_H

#include <lanex/inspect.h>

#include "admission/views.h"

struct lx_view_names {
    uint64_t (*number)(const struct lx_job_entry *job);
    const char *(*request_id)(const struct lx_job_entry *job);
    const char *(*label)(const struct lx_job_entry *job);
};

/* What one look in the seat has seen. */
struct lx_view {
    const struct lx_view_names *names;
    uint64_t now_ns;
    struct lx_seen_job *jobs; /* on workers, with keys; the calls below change their order */
    uint32_t count;
};

/* Each: 0 or -ENOMEM. */
int lx_view_mutating(struct lx_view *view, lanex_running_jobs **ret_jobs);
/* All of the view's jobs, oldest first. */
int lx_view_jobs(struct lx_view *view, lanex_running_jobs **ret_jobs);
/* `actor` as it was asked for; `phase` is left to the caller. */
int lx_view_blockers(struct lx_view *view, const struct lx_actor_entry *actor,
                     const struct lx_seen_actor *about, int state, lanex_blockers **ret_blockers);

/* Asks for the actor's phase text. 0 or -ENOMEM. */
int lx_view_add_phase(void (*phase)(void *context, char *text, size_t size), void *context,
                      lanex_blockers *blockers);

#define LX_EXPLAIN_MAX 16u /* jobs in a chain */

struct lx_seen_wait {
    struct lx_seen_job seen; /* since_ns: as lanex_wait.job.age_ms */
    bool on_worker;
    enum lanex_wait_reason reason;
};
struct lx_seen_chain {
    struct lx_seen_wait waits[LX_EXPLAIN_MAX];
    uint32_t count;
    bool circle;
};
/* Only names and now_ns of the view. */
int lx_view_explanation(const struct lx_view *view, const struct lx_seen_chain *chain,
                        lanex_explanation **ret_explanation);

#endif

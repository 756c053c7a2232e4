#ifndef LX_RUNTIME_ACTOR_H
#define LX_RUNTIME_ACTOR_H

#include <lanex/actor.h>

#include "admission/entry.h"
#include "sync/inbox.h"

/*
 * An actor. Its memory is freed by lanex-reap, after the turn has seen LX_EVENT_ACTOR_UNUSED (so
 * that no submission through a handle can still be in the inbox) and the last of its jobs has
 * ended.
 */
struct lanex_actor {
    struct lx_actor_entry entry; /* first: jobs point to it; owned by the turn */

    struct lx_inbox_node unused;   /* for LX_EVENT_ACTOR_UNUSED, and then for the reaper */
    struct lanex_actor *gone_next; /* in lanex_executor.gone */
    struct lanex_executor *executor;
    lanex_epoch epoch;
    void *context;
    void (*context_retain)(void *context);
    void (*context_release)(void *context);
    /* Handles, plus one for the registry while it is registered. At 0 it is pushed as unused. */
    _Atomic uint32_t refs;
    uint32_t key_length;
    bool is_unused; /* the turn has seen it unused; freed when its last job ends. Owned by the turn
                     */
    unsigned char key[];
};

struct lx_registry;
int lx_registry_create(struct lx_registry **ret_registry);
/* All actors still registered lose the registry's reference; calls give -ESHUTDOWN from then on. */
void lx_registry_close(struct lx_registry *registry);
/* Closed, or never used. NULL is fine. */
void lx_registry_destroy(struct lx_registry *registry);

/* The turn has seen that the actor is unused, or that a job of an unused one has ended. */
void lx_actor_maybe_gone(struct lanex_executor *ex, struct lanex_actor *actor);
/* Releases the context and frees the memory: the reaper's part, or destroy's. */
void lx_actor_free(struct lanex_actor *actor);

static inline struct lanex_actor *lx_actor_of(struct lx_actor_entry *entry)
{
    return (struct lanex_actor *)entry;
}

#endif

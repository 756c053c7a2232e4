#ifndef LX_RUNTIME_ACTOR_H
#define LX_RUNTIME_ACTOR_H

#include <lanex/actor.h>

#include <stddef.h>

#include "admission/entry.h"
#include "sync/inbox.h"

/*
 * How an actor ends: it is removed; the last of its jobs ends, and lanex-reap releases its context
 * and the registry's reference; the last handle goes, and the turn sees LX_EVENT_ACTOR_UNUSED,
 * behind every submission that was made through a handle; lanex-reap frees the memory. Owned by the
 * turn.
 */
enum lx_actor_stage {
    LX_ACTOR_LIVES,
    LX_ACTOR_REMOVED,
    LX_ACTOR_RELEASED, /* lanex-reap has it, for its context */
    LX_ACTOR_UNUSED,   /* lanex-reap has it, for its memory */
};

/* What actors of one kind share: so that an idle actor stays small. Constant; owned by the
 * executor.
 */
struct lx_context_calls {
    struct lx_context_calls *next;
    void (*retain)(void *context);
    void (*teardown)(void *context);
    void (*release)(void *context);
};

struct lanex_actor {
    struct lx_actor_entry entry; /* first: jobs point to it; owned by the turn */

    struct lanex_executor *executor;
    struct lanex_actor *table_next; /* in actor_table.c */
    lanex_epoch epoch;
    void *context;
    const struct lx_context_calls *context_calls;
    _Atomic uint32_t context_uses; /* see actor_context.c; at 0 the context is given back */
    /* Handles, plus one of the registry until the context is released. At 0 it is pushed as unused.
     */
    _Atomic uint32_t refs;
    uint16_t key_length;
    uint8_t stage;  /* enum lx_actor_stage */
    bool retired;   /* owned by the turn until the context's end, which includes teardown */
    bool announced; /* constant: its notices lie behind its key */
    /* Fatal or removed: jobs are answered at once. Written by the turn, read by submitters. */
    _Atomic bool refuses;
    unsigned char key[];
};
/* With a key of 16 bytes, malloc's own word, and its shares of the table's buckets and of the
 * rotation's slots an idle actor stays below 224 bytes beside the key. */
_Static_assert(offsetof(struct lanex_actor, key) <= 176, "an idle actor is small");

/* ---- actor.c ---- */

struct lx_registry;
int lx_registry_create(struct lx_registry **ret_registry);
/* Releases all actors that are still registered; calls give -ESHUTDOWN from now on. At the end of
 * the executor, when its threads have ended and the inbox is closed. */
void lx_registry_close(struct lx_registry *registry);
/* Frees the memory; NULL is fine. */
void lx_registry_destroy(struct lx_registry *registry);

static inline void lx_actor_refuses(struct lanex_actor *actor)
{
    /* relaxed: whoever acts on having been told was told after this store, by what orders the two.
     * Partner: the load in may_lie (submit.c); one that comes too early only leaves the job to the
     * turn that comes anyway. */
    atomic_store_explicit(&actor->refuses, true, memory_order_relaxed);
}
/* In a turn: the actor is removed, and something of it has ended. */
void lx_actor_maybe_gone(struct lanex_executor *ex, struct lanex_actor *actor);
/* In a turn: its last reference is gone. */
void lx_actor_unused(struct lanex_executor *ex, struct lanex_actor *actor);
/* The reaper's part: frees the memory. */
void lx_actor_free(struct lanex_actor *actor);
/* In a turn: nothing of it is queued, in flight, or to be answered. */
bool lx_actor_is_idle(const struct lx_actor_entry *entry);
/* -EINVAL if it cannot be a key. */
int lx_check_key(const void *key, size_t key_length);

enum lx_registry_access {
    LX_REGISTRY_READ,     /* which actors there are, and their order, stays */
    LX_REGISTRY_TRY_READ, /* the same, or -EBUSY instead of a wait */
    LX_REGISTRY_CHANGE,
};
/* 0, -EBUSY, or -ESHUTDOWN once the registry is closed. No user code may run until the unlock. */
int lx_registry_lock(struct lanex_executor *ex, enum lx_registry_access access);
void lx_registry_unlock(struct lanex_executor *ex, enum lx_registry_access access);
/* Under the lock: the actor, not held, or NULL. */
struct lanex_actor *lx_registry_find(struct lanex_executor *ex, const void *key, size_t key_length);

/* ---- actor_context.c ---- */

/* Under the registry's write lock. NULL: no memory. */
const struct lx_context_calls *lx_context_calls_of(struct lanex_executor *ex,
                                                   const lanex_actor_options *options);
void lx_context_calls_free(struct lanex_executor *ex);
/* One more use of the context of an actor that is registered. */
void lx_actor_context_hold(struct lanex_actor *actor);
/* Gives a use back; the last one has the context given back by lanex-reap. */
void lx_actor_context_drop(struct lanex_actor *actor);
/* The registry's and the jobs' use is over. On lanex-reap, or when it has ended. */
void lx_actor_context_done(struct lanex_actor *actor);
/* Teardown, release, the registry's reference. On lanex-reap, or when it has ended. */
void lx_actor_context_end(struct lanex_actor *actor);

/* ---- actor_hooks.c ---- */

enum lx_notice { LX_NOTICE_REGISTERED, LX_NOTICE_REMOVED, LX_NOTICES };

/* What an actor's notices add to its memory: 0 without hooks. Under the registry's write lock, as
 * init. */
size_t lx_actor_notices_size(const struct lanex_executor *ex);
void lx_actor_notices_init(struct lanex_actor *actor);
/* In a turn, as the first that follows from the event. Whoever asked the turn then tells the
 * reaper. */
void lx_actor_announce(struct lanex_executor *ex, struct lanex_actor *actor, enum lx_notice which);
/* The reaper's part. */
void lx_actor_run_notice(struct lx_inbox_node *node);
/* At the end of the executor: for all actors that are still registered. */
void lx_actor_announce_end(struct lanex_executor *ex);

/* The actor's one link, as a node of an inbox: for the reaper, for LX_EVENT_ACTOR_UNUSED, and for
 * the reaper again. */
static inline struct lx_inbox_node *lx_actor_node(struct lanex_actor *actor)
{
    return (struct lx_inbox_node *)&actor->entry.link;
}

static inline struct lanex_actor *lx_actor_of_node(struct lx_inbox_node *node)
{
    return (struct lanex_actor *)(void *)((char *)node - offsetof(struct lanex_actor, entry.link));
}

static inline struct lanex_actor *lx_actor_of(struct lx_actor_entry *entry)
{
    return (struct lanex_actor *)entry;
}

#endif

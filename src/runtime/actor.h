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

struct lanex_actor {
    struct lx_actor_entry entry; /* first: jobs point to it; owned by the turn */

    struct lanex_executor *executor;
    struct lanex_actor *table_next; /* in actor_table.c */
    lanex_epoch epoch;
    void *context;
    void (*context_retain)(void *context);
    void (*context_release)(void *context);
    /* Handles, plus one of the registry until the context is released. At 0 it is pushed as unused.
     */
    _Atomic uint32_t refs;
    uint16_t key_length;
    uint8_t stage; /* enum lx_actor_stage */
    unsigned char key[];
};
/* With a key of 16 bytes, malloc's own word, and its shares of the table's buckets and of the
 * rotation's slots an idle actor stays below 320 bytes beside the key. */
_Static_assert(offsetof(struct lanex_actor, key) <= 280, "an idle actor is small");

struct lx_registry;
int lx_registry_create(struct lx_registry **ret_registry);
/* Releases all actors that are still registered; calls give -ESHUTDOWN from now on. At the end of
 * the executor, when its threads have ended and the inbox is closed. */
void lx_registry_close(struct lx_registry *registry);
/* Frees the memory; NULL is fine. */
void lx_registry_destroy(struct lx_registry *registry);

/* In a turn: the actor is removed, and something of it has ended. */
void lx_actor_maybe_gone(struct lanex_executor *ex, struct lanex_actor *actor);
/* In a turn: its last reference is gone. */
void lx_actor_unused(struct lanex_executor *ex, struct lanex_actor *actor);
/* The reaper's parts. */
void lx_actor_release_context(struct lanex_actor *actor);
void lx_actor_free(struct lanex_actor *actor);

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

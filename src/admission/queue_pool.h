/*
 * The pool that lends a lx_actor_queue to each actor that has queued jobs.
 *
 * It never fails: whoever makes room for an actor in the rotation (lx_actor_space_create) makes
 * room for one more queue, and the room is the actor's until it has left the rotation and its last
 * queued job is answered. What was given back last is lent first; memory that was never lent is
 * never touched, so that 100,000 idle actors do not pay for their queues.
 *
 * Owned by the turn, but for create and destroy, which are called outside of it.
 */
#ifndef LX_QUEUE_POOL_H
#define LX_QUEUE_POOL_H

#include <stdint.h>

#include "admission/entry.h"

struct lx_queue_chunk {
    struct lx_queue_chunk *next; /* in order of age */
    uint32_t count, lent;        /* queues; how many of them were ever lent */
    struct lx_actor_queue queues[];
};

struct lx_queue_pool {
    struct lx_queue_chunk *chunks, *last;
    struct lx_queue_chunk *filling; /* the first that has queues which were never lent, or the last
                                     */
    struct lx_actor_queue *free;
    uint32_t room;  /* queues in all chunks */
    uint32_t users; /* actors that may need one: never more than room */
};

/* What an actor without queued jobs points to: all empty, and in memory that cannot be written. */
extern const struct lx_actor_queue lx_no_queue;

static inline struct lx_actor_queue *lx_queue_none(void)
{
    return (struct lx_actor_queue *)(uintptr_t)&lx_no_queue;
}

/* Room for `count` more. 0 or -ENOMEM, pool as it was. */
int lx_queue_pool_grow(struct lx_queue_pool *pool, uint32_t count);
/* All of `from`, which is left empty, goes to the end of the pool. */
void lx_queue_pool_join(struct lx_queue_pool *pool, struct lx_queue_pool *from);
void lx_queue_pool_destroy(struct lx_queue_pool *pool);

/* The actor gets a queue, which is empty. It must have none. */
void lx_queue_lend(struct lx_queue_pool *pool, struct lx_actor_entry *actor);
/* The actor's last queued job has left. */
void lx_queue_give_back(struct lx_queue_pool *pool, struct lx_actor_entry *actor);

#endif

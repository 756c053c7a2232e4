#include "admission/queue_pool.h"

#include <errno.h>
#include <string.h>

#include "sync/assert.h"
#include "sync/seams.h"

const struct lx_actor_queue lx_no_queue;

int lx_queue_pool_grow(struct lx_queue_pool *pool, uint32_t count)
{
    /* Not zeroed: that would make all of it resident. */
    struct lx_queue_chunk *chunk =
        lx_allocate(sizeof *chunk + (size_t)count * sizeof chunk->queues[0]);

    if (chunk == NULL)
        return -ENOMEM;
    *chunk = (struct lx_queue_chunk){.count = count};
    lx_queue_pool_join(pool,
                       &(struct lx_queue_pool){.chunks = chunk, .last = chunk, .room = count});
    return 0;
}

void lx_queue_pool_join(struct lx_queue_pool *pool, struct lx_queue_pool *from)
{
    LX_ASSERT(from->users == 0 && from->free == NULL);
    if (from->chunks == NULL)
        return;
    if (pool->chunks == NULL)
        pool->chunks = pool->filling = from->chunks;
    else
        pool->last->next = from->chunks;
    pool->last = from->last;
    pool->room += from->room;
    memset(from, 0, sizeof *from);
}

void lx_queue_pool_destroy(struct lx_queue_pool *pool)
{
    struct lx_queue_chunk *chunk = pool->chunks;

    while (chunk != NULL) {
        struct lx_queue_chunk *next = chunk->next;
        lx_release(chunk);
        chunk = next;
    }
    memset(pool, 0, sizeof *pool);
}

static struct lx_actor_queue *take_new(struct lx_queue_pool *pool)
{
    struct lx_queue_chunk *chunk = pool->filling;

    while (chunk->lent == chunk->count) {
        LX_ASSERT(chunk->next != NULL); /* users <= room */
        chunk = chunk->next;
    }
    pool->filling = chunk;
    return memset(&chunk->queues[chunk->lent++], 0, sizeof chunk->queues[0]);
}

void lx_queue_lend(struct lx_queue_pool *pool, struct lx_actor_entry *actor)
{
    struct lx_actor_queue *queue = pool->free;

    if (queue != NULL) {
        pool->free = queue->next_free;
        queue->next_free = NULL;
    } else {
        queue = take_new(pool);
    }
    actor->queue = queue;
}

void lx_queue_give_back(struct lx_queue_pool *pool, struct lx_actor_entry *actor)
{
    struct lx_actor_queue *queue = actor->queue;

    LX_ASSERT(queue->coalesced_jobs == 0 && queue->urgent_timed == 0 && queue->configures == 0);
    queue->largest_cost = 0;
    queue->next_free = pool->free;
    pool->free = queue;
    actor->queue = lx_queue_none();
}

/*
 * Slots: where an actor stands in the rotation. Slots only grow, so that a new actor is last; when
 * they are used up the living ones are packed together, or the space is enlarged first if it is
 * well filled. Memory is made outside the turn and only exchanged in it.
 */
#include <errno.h>
#include <string.h>

#include "admission/admission.h"
#include "sync/assert.h"
#include "sync/seams.h"

#define SPACE_FIRST  64u /* slots of a new executor */
#define SPACE_FACTOR 8u  /* slots per living actor before packing is worth more than growing */
#define PICK_SETS    (2 * LX_CLASSES + 2) /* that say what an actor may start */
#define SETS         (PICK_SETS + 1)

static struct lx_order_set *set_of(struct lx_actor_space *space, unsigned index)
{
    if (index < LX_CLASSES)
        return &space->ready[index];
    if (index < 2 * LX_CLASSES)
        return &space->permit[index - LX_CLASSES];
    if (index == 2 * LX_CLASSES)
        return &space->overdue;
    return index < PICK_SETS ? &space->overdue_permit : &space->registered;
}

void lx_actor_leave_sets(struct lx_admission *adm, const struct lx_actor_entry *actor)
{
    for (unsigned i = 0; i < PICK_SETS; i++)
        lx_order_set_remove(set_of(&adm->space, i), actor->slot);
}

int lx_actor_space_create(struct lx_actor_space *space, uint32_t capacity)
{
    size_t words = lx_order_set_words(capacity);
    size_t heap_words = capacity * (sizeof(struct lx_oldest_item) / sizeof(uint64_t));
    /* The heaps last: their pages are touched only by as many actors as ever had queued jobs. */
    size_t at_words = (capacity + 1) / 2;
    size_t all = capacity + SETS * words + LX_CLASSES * (at_words + heap_words);
    struct lx_queue_pool queues = {.room = 0};
    uint32_t more = capacity / 2 > SPACE_FIRST ? capacity / 2 : SPACE_FIRST; /* it doubles */
    uint64_t *memory = lx_allocate_zeroed(all * sizeof *memory);

    if (memory == NULL)
        return -ENOMEM;
    if (lx_queue_pool_grow(&queues, more) < 0) {
        lx_release(memory);
        return -ENOMEM;
    }
    space->queues = queues;
    space->memory = memory;
    space->capacity = capacity;
    space->by_slot = (struct lx_actor_entry **)memory;
    memory += capacity;
    for (unsigned i = 0; i < SETS; i++, memory += words)
        lx_order_set_init(set_of(space, i), memory, capacity);
    for (unsigned i = 0; i < LX_CLASSES; i++, memory += at_words)
        space->oldest_at[i] = (uint32_t *)(void *)memory;
    for (unsigned i = 0; i < LX_CLASSES; i++, memory += heap_words)
        space->oldest[i] = (struct lx_oldest_item *)(void *)memory;
    return 0;
}

void lx_actor_space_destroy(struct lx_actor_space *space)
{
    lx_release(space->memory);
    lx_queue_pool_destroy(&space->queues);
    memset(space, 0, sizeof *space);
}

void lx_admission_init(struct lx_admission *adm, const lanex_config *config,
                       struct lx_job_entry **running_jobs)
{
    memset(adm, 0, sizeof *adm);
    adm->config = *config;
    adm->idle_workers = config->pool_size;
    adm->free_permits = config->heavy_permits;
    adm->running_jobs = running_jobs;
    for (uint32_t i = 0; i < config->pool_size; i++)
        adm->free_places[i] = (uint16_t)(config->pool_size - 1 - i);
    lx_timers_init(&adm->timers);
}

bool lx_admission_wants_space(const struct lx_admission *adm, uint32_t *ret_capacity)
{
    uint32_t capacity = adm->space.capacity;

    bool full = adm->next_slot >= capacity && capacity < LX_ORDER_SLOT_MAX &&
                (capacity <= SPACE_FIRST || adm->actors >= capacity / SPACE_FACTOR);

    /* If it is not, but the slots are used up, packing will do. */
    if (full) {
        *ret_capacity = capacity == 0 ? SPACE_FIRST : capacity * 2;
        return true;
    }
    /* Actors that were removed keep their queues until these are answered. */
    if (adm->space.queues.users >= adm->space.queues.room) {
        *ret_capacity = capacity;
        return true;
    }
    return false;
}

void lx_admission_adopt_space(struct lx_admission *adm, struct lx_actor_space *space)
{
    struct lx_actor_space old = adm->space;

    LX_ASSERT(space->capacity >= old.capacity);
    if (old.capacity > 0) {
        memcpy(space->by_slot, old.by_slot, old.capacity * sizeof old.by_slot[0]);
        for (unsigned i = 0; i < SETS; i++)
            lx_order_set_copy(set_of(space, i), set_of(&old, i));
        for (unsigned i = 0; i < LX_CLASSES; i++) {
            memcpy(space->oldest[i], old.oldest[i], adm->oldest_count[i] * sizeof old.oldest[i][0]);
            memcpy(space->oldest_at[i], old.oldest_at[i],
                   old.capacity * sizeof old.oldest_at[i][0]);
        }
    }
    lx_queue_pool_join(&old.queues, &space->queues);
    space->queues = old.queues;
    memset(&old.queues, 0, sizeof old.queues);
    adm->space = *space;
    *space = old;
}

/* Gives the living actors the slots 0 to n-1, in order. */
static void pack_slots(struct lx_admission *adm)
{
    uint32_t slot = 0, cursor = 0, overdue_cursor = 0;

    for (struct lx_actor_entry *actor = lx_actor_after(adm, NULL); actor != NULL;
         actor = lx_actor_after(adm, actor), slot++) {
        uint32_t from = actor->slot;
        LX_ASSERT(slot <= from);
        if (from < adm->cursor)
            cursor = slot + 1;
        if (from < adm->overdue_cursor)
            overdue_cursor = slot + 1;
        if (from == slot)
            continue;
        for (unsigned i = 0; i < SETS; i++) {
            struct lx_order_set *set = set_of(&adm->space, i);
            if (lx_order_set_has(set, from)) {
                lx_order_set_remove(set, from);
                lx_order_set_add(set, slot);
            }
        }
        for (unsigned i = 0; i < LX_CLASSES; i++) {
            adm->space.oldest_at[i][slot] = adm->space.oldest_at[i][from];
            adm->space.oldest_at[i][from] = 0;
        }
        adm->space.by_slot[from] = NULL;
        adm->space.by_slot[slot] = actor;
        actor->slot = slot;
    }
    adm->next_slot = slot;
    adm->cursor = cursor;
    adm->overdue_cursor = overdue_cursor;
}

void lx_actor_entry_init(struct lx_actor_entry *actor, uint32_t weight)
{
    memset(actor, 0, sizeof *actor);
    actor->weight = (uint16_t)weight;
    actor->queue = lx_queue_none();
}

int lx_admission_register(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    uint32_t wanted;

    if (lx_admission_wants_space(adm, &wanted))
        return -ENOSPC;
    if (adm->next_slot >= adm->space.capacity)
        pack_slots(adm);
    if (adm->next_slot >= adm->space.capacity)
        return -ENOSPC;
    actor->slot = adm->next_slot++;
    adm->space.by_slot[actor->slot] = actor;
    lx_order_set_add(&adm->space.registered, actor->slot);
    actor->flags |= LX_ACTOR_REGISTERED;
    adm->actors++;
    adm->space.queues.users++;
    return 0;
}

struct lx_actor_entry *lx_actor_after(const struct lx_admission *adm,
                                      const struct lx_actor_entry *actor)
{
    uint32_t slot;

    if (adm->space.capacity == 0)
        return NULL;
    slot = lx_order_set_next(&adm->space.registered, actor != NULL ? actor->slot + 1 : 0);
    return slot != LX_ORDER_NONE ? adm->space.by_slot[slot] : NULL;
}

void lx_actor_leave_rotation(struct lx_admission *adm, const struct lx_actor_entry *actor)
{
    adm->space.by_slot[actor->slot] = NULL;
    lx_order_set_remove(&adm->space.registered, actor->slot);
    adm->actors--;
    if ((actor->flags & LX_ACTOR_DETACHED) == 0)
        adm->space.queues.users--;
    if (adm->open_visit.actor == actor)
        adm->open_visit.actor = NULL;
    if (actor->slot + 1 == adm->next_slot) {
        uint32_t last = lx_order_set_last(&adm->space.registered);
        adm->next_slot = last != LX_ORDER_NONE ? last + 1 : 0;
    }
    /* The cursors' slots now name the next actor; past the last one that is the first. A new actor
     * is behind the overdue cursor's. */
    if (adm->cursor >= adm->next_slot)
        adm->cursor = 0;
    if (adm->overdue_cursor > adm->next_slot)
        adm->overdue_cursor = adm->next_slot;
}

bool lx_actor_entry_idle(const struct lx_actor_entry *actor)
{
    return actor->queued[0] == 0 && actor->queued[1] == 0 && actor->in_flight == 0 &&
           actor->commits == 0;
}

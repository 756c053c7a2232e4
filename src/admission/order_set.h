/*
 * Sets of actors that keep the order of the rotation: a bitmap over slots with summaries above it,
 * each bit of a level saying that the 64 bits below it are not all zero. Adding, removing and
 * finding the next member from a slot on touch at most one word a level, however many actors are
 * registered.
 */
#ifndef LX_ADMISSION_ORDER_SET_H
#define LX_ADMISSION_ORDER_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LX_ORDER_LEVELS   4u
#define LX_ORDER_SLOT_MAX (UINT32_C(1) << 24) /* slots that four levels of 64 can name */
#define LX_ORDER_NONE     UINT32_MAX

struct lx_order_set {
    uint64_t *levels[LX_ORDER_LEVELS];
    uint32_t words[LX_ORDER_LEVELS];
};

/* Words of memory for a set over `capacity` slots. */
size_t lx_order_set_words(uint32_t capacity);
/* Lays an empty set out in zeroed memory of lx_order_set_words(capacity) words. */
void lx_order_set_init(struct lx_order_set *set, uint64_t *memory, uint32_t capacity);
/* Copies the members of a set into a larger or equal empty one. */
void lx_order_set_copy(struct lx_order_set *to, const struct lx_order_set *from);

static inline bool lx_order_set_has(const struct lx_order_set *set, uint32_t slot)
{
    return (set->levels[0][slot >> 6] >> (slot & 63)) & 1;
}

static inline bool lx_order_set_empty(const struct lx_order_set *set)
{
    /* No words: no actor was ever registered. */
    return set->words[LX_ORDER_LEVELS - 1] == 0 || set->levels[LX_ORDER_LEVELS - 1][0] == 0;
}

void lx_order_set_add(struct lx_order_set *set, uint32_t slot);
void lx_order_set_remove(struct lx_order_set *set, uint32_t slot);
/* The largest member, or LX_ORDER_NONE. */
uint32_t lx_order_set_last(const struct lx_order_set *set);
/* The smallest member >= from, or LX_ORDER_NONE. */
uint32_t lx_order_set_next(const struct lx_order_set *set, uint32_t from);

#endif

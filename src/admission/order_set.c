#include "admission/order_set.h"

#include <string.h>

static uint32_t level_words(uint32_t capacity, unsigned level)
{
    uint64_t per_word = UINT64_C(1) << (6 * (level + 1));
    uint64_t words = (capacity + per_word - 1) / per_word;
    return words == 0 ? 1 : (uint32_t)words;
}

size_t lx_order_set_words(uint32_t capacity)
{
    size_t words = 0;

    for (unsigned level = 0; level < LX_ORDER_LEVELS; level++)
        words += level_words(capacity, level);
    return words;
}

void lx_order_set_init(struct lx_order_set *set, uint64_t *memory, uint32_t capacity)
{
    for (unsigned level = 0; level < LX_ORDER_LEVELS; level++) {
        set->levels[level] = memory;
        set->words[level] = level_words(capacity, level);
        memory += set->words[level];
    }
}

void lx_order_set_copy(struct lx_order_set *to, const struct lx_order_set *from)
{
    for (unsigned level = 0; level < LX_ORDER_LEVELS; level++)
        memcpy(to->levels[level], from->levels[level], from->words[level] * sizeof(uint64_t));
}

void lx_order_set_add(struct lx_order_set *set, uint32_t slot)
{
    for (unsigned level = 0; level < LX_ORDER_LEVELS; level++) {
        uint64_t *word = &set->levels[level][slot >> 6];
        uint64_t old = *word;

        *word = old | (UINT64_C(1) << (slot & 63));
        if (old != 0)
            return; /* the levels above know already */
        slot >>= 6;
    }
}

void lx_order_set_remove(struct lx_order_set *set, uint32_t slot)
{
    for (unsigned level = 0; level < LX_ORDER_LEVELS; level++) {
        uint64_t *word = &set->levels[level][slot >> 6];
        uint64_t bit = UINT64_C(1) << (slot & 63);

        if ((*word & bit) == 0)
            return;
        *word &= ~bit;
        if (*word != 0)
            return;
        slot >>= 6;
    }
}

uint32_t lx_order_set_next(const struct lx_order_set *set, uint32_t from)
{
    uint32_t at = from;

    for (unsigned level = 0; level < LX_ORDER_LEVELS; level++) {
        if ((at >> 6) >= set->words[level])
            return LX_ORDER_NONE;
        uint64_t rest = set->levels[level][at >> 6] & (~UINT64_C(0) << (at & 63));
        if (rest != 0) {
            at = (at & ~UINT32_C(63)) | (uint32_t)__builtin_ctzll(rest);
            while (level-- > 0)
                at = (at << 6) | (uint32_t)__builtin_ctzll(set->levels[level][at]);
            return at;
        }
        at = (at >> 6) + 1;
    }
    return LX_ORDER_NONE;
}

uint32_t lx_order_set_last(const struct lx_order_set *set)
{
    uint32_t at = 0;

    for (unsigned level = LX_ORDER_LEVELS; level-- > 0;) {
        uint64_t word = set->levels[level][at];
        if (word == 0)
            return LX_ORDER_NONE; /* the highest level: a set bit always has one below it */
        at = at << 6 | (63u - (uint32_t)__builtin_clzll(word));
    }
    return at;
}

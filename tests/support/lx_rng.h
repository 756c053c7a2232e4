/* splitmix64: one word of state, good enough for choosing what a test does next. */
#ifndef LX_RNG_H
#define LX_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct lx_rng {
    uint64_t state;
};

static inline struct lx_rng lx_rng_seeded(uint64_t seed)
{
    return (struct lx_rng){.state = seed};
}

static inline uint64_t lx_rng_next(struct lx_rng *rng)
{
    rng->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = rng->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Uniform in [0, bound); bound is at least 1. */
static inline uint64_t lx_rng_below(struct lx_rng *rng, uint64_t bound)
{
    /* Values past the last whole multiple of bound would make the low results likelier. */
    const uint64_t excess = (UINT64_MAX % bound + 1) % bound;
    uint64_t value = lx_rng_next(rng);

    while (value > UINT64_MAX - excess) {
        value = lx_rng_next(rng);
    }
    return value % bound;
}

/* Uniform in [low, high]. */
static inline uint64_t lx_rng_between(struct lx_rng *rng, uint64_t low, uint64_t high)
{
    return high - low == UINT64_MAX ? lx_rng_next(rng) : low + lx_rng_below(rng, high - low + 1);
}

/* True in percent of 100 calls. */
static inline bool lx_rng_percent(struct lx_rng *rng, unsigned percent)
{
    return lx_rng_below(rng, 100) < percent;
}

#endif

/*
 * A keyed hash of byte strings: SipHash with one round a word and three at the end. Keys of actors
 * come from whoever talks to the server; without a seed that they cannot know they could be chosen
 * to fall into one bucket.
 */
#ifndef LX_HASH_H
#define LX_HASH_H

#include <stddef.h>
#include <stdint.h>

struct lx_hash_seed {
    uint64_t words[2];
};

/* A seed that nobody can guess: one system call. */
void lx_hash_seed_draw(struct lx_hash_seed *ret_seed);
uint64_t lx_hash(const struct lx_hash_seed *seed, const void *data, size_t length);

#endif

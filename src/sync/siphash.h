/*
 * SipHash-2-4: a keyed hash for tables whose keys strangers choose. Without the key nobody can make
 * up names that all fall into one bucket.
 */
#ifndef LX_SIPHASH_H
#define LX_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct lx_siphash_key {
    uint64_t k0, k1;
};

/* From the kernel; from addresses and the clock where the kernel refuses. Errno is untouched. */
void lx_siphash_key_random(struct lx_siphash_key *ret_key);

uint64_t lx_siphash(const struct lx_siphash_key *key, const void *data, size_t length);

#endif

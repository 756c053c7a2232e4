/*
 * Hashing of keys: SipHash-2-4 (libsodium's) under a random key of this process, so that a client
 * cannot choose keys that meet in one bucket.
 */
#ifndef KV_HASH_H
#define KV_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Draws the key. Once, before the first kv_hash and before other threads. -EIO without sodium. */
int kv_hash_init(void);

uint64_t kv_hash(const void *bytes, size_t length);

#endif

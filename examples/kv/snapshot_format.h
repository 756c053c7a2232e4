/* The layout that snapshot.h describes, for its writer and reader. */
#ifndef KV_SNAPSHOT_FORMAT_H
#define KV_SNAPSHOT_FORMAT_H

#include <sodium.h>
#include <stdint.h>

#include "snapshot.h"

#define SNAPSHOT_MAGIC        "LXKVSNAP"
#define SNAPSHOT_MAGIC_BYTES  8u
#define SNAPSHOT_VERSION      1u
#define SNAPSHOT_HASH_BYTES   32u
#define SNAPSHOT_FIXED_BYTES  24u
#define SNAPSHOT_ROW_BYTES    32u
#define SNAPSHOT_RECORD_BYTES 16u
#define SNAPSHOT_HEADER_BYTES                                                                      \
    (SNAPSHOT_FIXED_BYTES + KV_SNAPSHOT_SECTIONS_MAX * SNAPSHOT_ROW_BYTES + SNAPSHOT_HASH_BYTES)
/* Expiry of a key that has none. */
#define SNAPSHOT_NO_EXPIRY INT64_C(-1)

typedef crypto_generichash_state snapshot_hash;

static inline void snapshot_hash_begin(snapshot_hash *hash)
{
    (void)crypto_generichash_init(hash, NULL, 0, SNAPSHOT_HASH_BYTES); /* fails on bad sizes only */
}

static inline void snapshot_hash_add(snapshot_hash *hash, const void *bytes, size_t length)
{
    (void)crypto_generichash_update(hash, bytes, length);
}

static inline void snapshot_hash_end(snapshot_hash *hash, unsigned char out[SNAPSHOT_HASH_BYTES])
{
    (void)crypto_generichash_final(hash, out, SNAPSHOT_HASH_BYTES);
}

static inline void put_u32(unsigned char *to, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

static inline void put_u64(unsigned char *to, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

static inline uint32_t get_u32(const unsigned char *from)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; i++)
        value |= (uint32_t)from[i] << (8 * i);
    return value;
}

static inline uint64_t get_u64(const unsigned char *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

#endif

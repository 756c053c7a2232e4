#include "hash.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

static unsigned char hash_key[crypto_shorthash_KEYBYTES];

int kv_hash_init(void)
{
    if (sodium_init() < 0)
        return -EIO;
    crypto_shorthash_keygen(hash_key);
    return 0;
}

uint64_t kv_hash(const void *bytes, size_t length)
{
    unsigned char out[crypto_shorthash_BYTES];
    uint64_t hash;
    _Static_assert(sizeof out == sizeof hash, "a hash is 64 bits");
    crypto_shorthash(out, bytes, length, hash_key);
    memcpy(&hash, out, sizeof hash);
    return hash;
}

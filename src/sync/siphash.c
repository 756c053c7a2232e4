#include "sync/siphash.h"

#include "sync/seams.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LX_GRND_NONBLOCK 1u /* linux/random.h; early boot must not hold up a create */

struct state {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void mix(struct state *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 = rotate(s->v0, 32) + s->v3;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 = rotate(s->v2, 32);
}

/* Two rounds for each word, four at the end: the numbers in the name. */
static inline void take_word(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    mix(s);
    mix(s);
    s->v0 ^= word;
}

/* Fewer than eight bytes, the first one lowest. */
static inline uint64_t tail(const unsigned char *bytes, size_t count)
{
    uint64_t word = 0;

    for (size_t i = 0; i < count; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

/* Eight bytes, the first one lowest, on machines of either byte order. */
static inline uint64_t whole(const unsigned char *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

uint64_t lx_siphash(const struct lx_siphash_key *key, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    size_t left = length;
    struct state s = {
        .v0 = key->k0 ^ UINT64_C(0x736f6d6570736575),
        .v1 = key->k1 ^ UINT64_C(0x646f72616e646f6d),
        .v2 = key->k0 ^ UINT64_C(0x6c7967656e657261),
        .v3 = key->k1 ^ UINT64_C(0x7465646279746573),
    };

    for (; left >= 8; left -= 8, bytes += 8)
        take_word(&s, whole(bytes));
    take_word(&s, tail(bytes, left) | (uint64_t)length << 56);
    s.v2 ^= 0xff;
    mix(&s);
    mix(&s);
    mix(&s);
    mix(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

void lx_siphash_key_random(struct lx_siphash_key *ret_key)
{
    int saved = errno;

    /* Raw: glibc's is a pthread cancellation point. */
    if (syscall(SYS_getrandom, ret_key, sizeof *ret_key, LX_GRND_NONBLOCK) !=
        (long)sizeof *ret_key) {
        ret_key->k0 = lx_now_ns() * UINT64_C(0x9e3779b97f4a7c15);
        ret_key->k1 = (uint64_t)(uintptr_t)ret_key ^ rotate((uint64_t)(uintptr_t)&lx_seams, 32);
    }
    errno = saved;
}

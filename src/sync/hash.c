#include "sync/hash.h"

#include <errno.h>
#include <linux/random.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sync/seams.h"

#define FINAL_ROUNDS 3
#define WORD         8u /* bytes that a round takes in */

struct sip {
    uint64_t a, b, c, d;
};

static uint64_t rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static void mix(struct sip *s)
{
    s->a += s->b;
    s->c += s->d;
    s->b = rotate(s->b, 13) ^ s->a;
    s->d = rotate(s->d, 16) ^ s->c;
    s->a = rotate(s->a, 32);
    s->c += s->b;
    s->a += s->d;
    s->b = rotate(s->b, 17) ^ s->c;
    s->d = rotate(s->d, 21) ^ s->a;
    s->c = rotate(s->c, 32);
}

static void take_in(struct sip *s, uint64_t word)
{
    s->d ^= word;
    mix(s);
    s->a ^= word;
}

/* Up to WORD bytes as a little-endian number, whatever the machine. */
static uint64_t load(const unsigned char *bytes, size_t count)
{
    uint64_t word = 0;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&word, bytes, count);
#else
    for (size_t i = 0; i < count; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
#endif
    return word;
}

uint64_t lx_hash(const struct lx_hash_seed *seed, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    struct sip s = {
        /* "somepseudorandomlygeneratedbytes" */
        .a = seed->words[0] ^ UINT64_C(0x736f6d6570736575),
        .b = seed->words[1] ^ UINT64_C(0x646f72616e646f6d),
        .c = seed->words[0] ^ UINT64_C(0x6c7967656e657261),
        .d = seed->words[1] ^ UINT64_C(0x7465646279746573),
    };
    size_t left;

    for (left = length; left >= WORD; left -= WORD, bytes += WORD)
        take_in(&s, load(bytes, WORD));
    take_in(&s, (uint64_t)length << 56 | load(bytes, left));
    s.c ^= 0xff;
    for (int round = 0; round < FINAL_ROUNDS; round++)
        mix(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}

void lx_hash_seed_draw(struct lx_hash_seed *ret_seed)
{
    int saved = errno;

    /* Refused (an old kernel, a filter, no entropy yet): better something than nothing. */
    if (syscall(SYS_getrandom, ret_seed, sizeof *ret_seed, GRND_NONBLOCK) != sizeof *ret_seed) {
        ret_seed->words[0] = lx_now_ns();
        ret_seed->words[1] = (uint64_t)(uintptr_t)ret_seed;
    }
    errno = saved;
}

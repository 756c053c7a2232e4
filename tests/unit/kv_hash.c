/*
 * The example server against keys that were chosen to meet in one bucket, by whoever knows the hash
 * function and the keys that it might have.
 */
#include "tests/support/lx_test.h"

#include <sodium.h>

#include "hash.h"
#include "store.h"

/* Keys, and the low bits of the hash in which they agree: as many buckets as a table of them has.
 */
#define KEYS      2048u
#define SAME_BITS 11u
#define TEXT_MAX  24u
/* The longest bucket of 2048 random keys in 2048 buckets has about 7; one of 24 comes once in
 * 10^20. */
#define CHAIN_MAX 24u

TestSuite(kv_hash, .timeout = 120);

typedef uint64_t hash_function(const void *bytes, size_t length);

static uint64_t sip_without_key(const void *bytes, size_t length)
{
    static const unsigned char key[crypto_shorthash_KEYBYTES];
    uint64_t hash;
    crypto_shorthash((unsigned char *)&hash, bytes, length, key);
    return hash;
}

static uint64_t fnv_1a(const void *bytes, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t times_33(const void *bytes, size_t length)
{
    uint64_t hash = 5381;
    for (size_t i = 0; i < length; i++)
        hash = hash * 33 + ((const unsigned char *)bytes)[i];
    return hash;
}

/* Fills a table with keys that `known`, were it the table's hash, would put into one bucket. */
static void fill(struct kv_table *table, hash_function *known)
{
    uint64_t same = UINT64_MAX;
    unsigned found = 0;
    for (unsigned number = 0; found < KEYS; number++) {
        char key[TEXT_MAX];
        size_t length = (size_t)snprintf(key, sizeof key, "key:%u", number);
        uint64_t low = known(key, length) & ((UINT64_C(1) << SAME_BITS) - 1);
        if (same == UINT64_MAX)
            same = low;
        if (low != same)
            continue;
        struct kv_entry *entry = calloc(1, sizeof *entry + length);
        cr_assert_not_null(entry);
        entry->hash = kv_hash(key, length);
        entry->key_length = (uint32_t)length;
        memcpy(entry->data, key, length);
        kv_table_insert(table, entry);
        found++;
    }
}

static void count_one(struct kv_entry *entry, void *count)
{
    (void)entry;
    ++*(unsigned *)count;
}

static unsigned longest_bucket(const struct kv_table *table)
{
    uint64_t position = 0;
    unsigned longest = 0, sum = 0;
    bool more = true;
    while (more) {
        unsigned count = 0;
        more = kv_table_walk(table, &position, count_one, &count);
        sum += count;
        longest = count > longest ? count : longest;
    }
    cr_assert_eq(sum, KEYS);
    return longest;
}

Test(kv_hash, keys_that_were_chosen_to_collide_do_not)
{
    hash_function *const known[] = {sip_without_key, fnv_1a, times_33};
    cr_assert_eq(kv_hash_init(), 0);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct kv_table table;
        cr_assert_eq(kv_table_init(&table), 0);
        fill(&table, known[i]);
        cr_assert_geq(table.buckets, KEYS, "the table has a bucket for each");
        unsigned longest = longest_bucket(&table);
        cr_assert_lt(longest, CHAIN_MAX, "%u of %u keys share a bucket", longest, KEYS);
        cr_assert_gt(longest, 1u); /* the walk did count */
        kv_table_fini(&table);
    }
}

Test(kv_hash, what_collides_under_one_key_does_not_under_the_next)
{
    static uint64_t before[KEYS];
    unsigned same = 0;
    cr_assert_eq(kv_hash_init(), 0);
    for (unsigned i = 0; i < KEYS; i++)
        before[i] = kv_hash(&i, sizeof i);
    for (unsigned i = 0; i < KEYS; i++)
        cr_assert_eq(kv_hash(&i, sizeof i), before[i]);
    cr_assert_eq(kv_hash_init(), 0); /* as another process would */
    for (unsigned i = 0; i < KEYS; i++)
        same += kv_hash(&i, sizeof i) == before[i];
    cr_assert_eq(same, 0);
}

/* The example server's store: against a model under random operations, walks and images across
   growth and shrinkage, expiry, flushing. */
#include "tests/support/lx_test.h"

#include <errno.h>

#include "hash.h"
#include "store.h"

#define KEYS_MAX 5000u
#define TEXT_MAX 32u

TestSuite(kv_store, .timeout = 120);

static struct kv_store *new_store(void)
{
    struct kv_store *store = NULL;
    cr_assert_eq(kv_hash_init(), 0);
    cr_assert_eq(kv_store_create(&store), 0);
    return store;
}

static struct kv_str key_of(unsigned number, char text[TEXT_MAX])
{
    int length = snprintf(text, TEXT_MAX, "key:%u", number);
    return (struct kv_str){text, (size_t)length};
}

static unsigned number_of(const struct kv_entry *entry)
{
    char text[TEXT_MAX] = {0};
    cr_assert_lt(entry->key_length, TEXT_MAX);
    memcpy(text, kv_entry_key(entry), entry->key_length);
    return (unsigned)strtoul(text + 4, NULL, 10);
}

static void put(struct kv_store *store, unsigned number, unsigned value, int64_t expire_at_ms)
{
    char key[TEXT_MAX], text[TEXT_MAX * 2];
    /* Lengths differ, so that values are set both in place and anew. */
    int length = snprintf(text, sizeof text, "%0*u", (int)(1 + value % 40), value);
    struct kv_str digits = {text, (size_t)length};
    cr_assert_eq(kv_store_set(store, key_of(number, key), digits, expire_at_ms), 0);
}

static unsigned value_of(const struct kv_entry *entry)
{
    char text[TEXT_MAX * 2] = {0};
    cr_assert_lt(entry->value_length, sizeof text);
    memcpy(text, kv_entry_value(entry), entry->value_length);
    return (unsigned)strtoul(text, NULL, 10);
}

struct model {
    bool there[KEYS_MAX];
    unsigned value[KEYS_MAX];
    int64_t expire_at_ms[KEYS_MAX];
};

static void check_key(const struct kv_store *store, const struct model *model, unsigned number,
                      int64_t now)
{
    char key[TEXT_MAX];
    const struct kv_entry *entry = kv_store_get(store, key_of(number, key), now);
    bool want = model->there[number] && model->expire_at_ms[number] > now;
    cr_assert_eq(entry != NULL, want, "key %u", number);
    if (entry)
        cr_assert_eq(value_of(entry), model->value[number], "key %u", number);
}

Test(kv_store, random_operations_agree_with_a_model)
{
    struct kv_store *store = new_store();
    static struct model model;
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t rounds = lx_test_scaled(400000);
    int64_t now = 1000;
    for (uint64_t i = 0; i < rounds; i++) {
        char key[TEXT_MAX];
        /* The range of keys swells and shrinks, and the table with it. */
        unsigned range = i / 40000 % 2 ? 50 : KEYS_MAX;
        unsigned number = (unsigned)lx_rng_below(&rng, range);
        unsigned what = (unsigned)lx_rng_below(&rng, 100);
        now += (int64_t)lx_rng_below(&rng, 2);
        bool alive = model.there[number] && model.expire_at_ms[number] > now;
        if (what < 50) {
            model.there[number] = true;
            model.value[number] = (unsigned)lx_rng_below(&rng, 1000000);
            model.expire_at_ms[number] =
                what < 25 ? KV_TIME_NEVER : now + 1 + (int64_t)lx_rng_below(&rng, 2000);
            put(store, number, model.value[number], model.expire_at_ms[number]);
        } else if (what < 75) {
            cr_assert_eq(kv_store_delete(store, key_of(number, key), now), alive);
            model.there[number] = false;
        } else if (what < 80) {
            int64_t at = now + 1 + (int64_t)lx_rng_below(&rng, 5000);
            int rc = kv_store_set_expiry(store, key_of(number, key), at, now);
            cr_assert_eq(rc, alive ? 0 : -ENOENT);
            if (alive)
                model.expire_at_ms[number] = at;
        } else if (what < 82) {
            kv_store_expire_due(store, now, (uint32_t)lx_rng_below(&rng, 100));
        }
        check_key(store, &model, number, now);
    }
    kv_store_expire_due(store, now, UINT32_MAX);
    uint64_t count = 0;
    for (unsigned number = 0; number < KEYS_MAX; number++) {
        check_key(store, &model, number, now);
        count += model.there[number] && model.expire_at_ms[number] > now;
    }
    cr_assert_eq(kv_store_count(store), count);
    cr_assert_eq(kv_store_next_expiry(store) > now, true);
    kv_store_destroy(store);
}

struct seen {
    unsigned times[KEYS_MAX * 4];
    unsigned values[KEYS_MAX * 4];
};

static void see(const struct kv_entry *entry, void *arg)
{
    struct seen *seen = arg;
    unsigned number = number_of(entry);
    cr_assert_lt(number, KEYS_MAX * 4);
    seen->times[number]++;
    seen->values[number] = value_of(entry);
}

/* Keys below KEYS_MAX / 2 stay for the whole walk; others come and go by thousands meanwhile. */
Test(kv_store, a_walk_meets_what_stays_exactly_once)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    for (unsigned round = 0; round < 8; round++) {
        struct kv_store *store = new_store();
        static struct seen seen;
        memset(&seen, 0, sizeof seen);
        for (unsigned number = 0; number < KEYS_MAX / 2; number++)
            put(store, number, number, KV_TIME_NEVER);
        uint64_t cursor = 0;
        bool grow = round % 2;
        while (kv_store_walk(store, &cursor, 1 + (uint32_t)lx_rng_below(&rng, 20), 0, see, &seen)) {
            cr_assert_eq(cursor & 0xffff, 0, "the cursor does not fit in 48 bits");
            if (lx_rng_percent(&rng, 5))
                grow = !grow;
            for (unsigned i = 0; i < 200; i++) {
                char key[TEXT_MAX];
                unsigned number =
                    KEYS_MAX / 2 + (unsigned)lx_rng_below(&rng, KEYS_MAX * 4 - KEYS_MAX / 2);
                if (grow)
                    put(store, number, number, KV_TIME_NEVER);
                else
                    kv_store_delete(store, key_of(number, key), 0);
            }
        }
        for (unsigned number = 0; number < KEYS_MAX / 2; number++)
            cr_assert_eq(seen.times[number], 1, "key %u: %u times", number, seen.times[number]);
        for (unsigned number = KEYS_MAX / 2; number < KEYS_MAX * 4; number++)
            cr_assert(seen.times[number] <= 2, "key %u: %u times", number, seen.times[number]);
        kv_store_destroy(store);
    }
}

Test(kv_store, a_walk_takes_any_cursor)
{
    struct kv_store *store = new_store();
    static struct seen seen;
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    for (unsigned number = 0; number < 1000; number++)
        put(store, number, number, KV_TIME_NEVER);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t cursor = lx_rng_next(&rng);
        uint64_t before = cursor;
        if (kv_store_walk(store, &cursor, 1, 0, see, &seen))
            cr_assert_gt(cursor, before);
        else
            cr_assert_eq(cursor, 0);
    }
    kv_store_destroy(store);
}

/* Writes of every kind, between slices of an image. */
static void disturb(struct kv_store *store, struct lx_rng *rng)
{
    for (unsigned i = 0; i < 50; i++) {
        char key[TEXT_MAX];
        unsigned number = (unsigned)lx_rng_below(rng, KEYS_MAX * 2);
        switch (lx_rng_below(rng, 4)) {
        case 0:
            kv_store_delete(store, key_of(number, key), 0);
            break;
        case 1:
            kv_store_set_expiry(store, key_of(number, key), 100, 0);
            break;
        case 2:
            kv_store_expire_due(store, 100, 5);
            break;
        default:
            put(store, number, 7000000u + number, KV_TIME_NEVER);
        }
    }
}

Test(kv_store, an_image_is_the_store_as_of_its_beginning)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    for (unsigned round = 0; round < 30; round++) {
        struct kv_store *store = new_store();
        static struct seen seen;
        memset(&seen, 0, sizeof seen);
        for (unsigned number = 0; number < KEYS_MAX; number++)
            put(store, number, number, KV_TIME_NEVER);
        struct kv_image *image = NULL, *second = NULL;
        cr_assert_eq(kv_image_begin(store, &image), 0);
        cr_assert_eq(kv_image_begin(store, &second), -EBUSY);
        unsigned slices = 0, flush_at = round % 3 == 0 ? 1 + round : UINT32_MAX;
        do {
            disturb(store, &rng);
            if (slices++ == flush_at)
                cr_assert_eq(kv_store_flush(store), 0);
        } while (kv_image_slice(image, 1 + (uint32_t)lx_rng_below(&rng, 100), see, &seen));
        kv_image_detach(store, image);
        kv_image_free(image);
        for (unsigned number = 0; number < KEYS_MAX; number++) {
            cr_assert_eq(seen.times[number], 1, "key %u: %u times", number, seen.times[number]);
            cr_assert_eq(seen.values[number], number, "key %u is %u", number, seen.values[number]);
        }
        for (unsigned number = KEYS_MAX; number < KEYS_MAX * 2; number++)
            cr_assert_eq(seen.times[number], 0, "key %u came later", number);
        cr_assert_eq(kv_image_begin(store, &image), 0, "one image ended, the next may begin");
        kv_image_detach(store, image);
        kv_image_free(image);
        kv_store_destroy(store);
    }
}

Test(kv_store, an_image_cut_short_frees_what_it_kept)
{
    struct kv_store *store = new_store();
    struct kv_image *image = NULL;
    for (unsigned number = 0; number < 100; number++)
        put(store, number, number, KV_TIME_NEVER);
    cr_assert_eq(kv_image_begin(store, &image), 0);
    for (unsigned number = 0; number < 50; number++)
        put(store, number, 1, KV_TIME_NEVER);
    cr_assert_eq(kv_store_flush(store), 0);
    kv_image_detach(store, image);
    kv_image_free(image); /* leaks are the address sanitizer's to find */
    cr_assert_eq(kv_store_count(store), 0);
    kv_store_destroy(store);
}

Test(kv_store, flushed_memory_goes_in_slices)
{
    struct kv_store *store = new_store();
    for (unsigned number = 0; number < KEYS_MAX; number++)
        put(store, number, number, 10);
    cr_assert_eq(kv_store_flush(store), 0);
    cr_assert_eq(kv_store_count(store), 0);
    cr_assert_eq(kv_store_next_expiry(store), KV_TIME_NEVER);
    put(store, 1, 1, KV_TIME_NEVER);
    unsigned slices = 0;
    while (kv_store_free_trash(store, 100))
        slices++;
    cr_assert_gt(slices, 10);
    cr_assert_not(kv_store_has_trash(store));
    cr_assert_eq(kv_store_count(store), 1);
    kv_store_destroy(store);
}

Test(kv_store, expiry_goes_in_order_and_in_slices)
{
    struct kv_store *store = new_store();
    for (unsigned number = 0; number < 1000; number++)
        put(store, number, number, 1 + (int64_t)(number * 7919u % 1000u));
    cr_assert_eq(kv_store_next_expiry(store), 1);
    cr_assert_eq(kv_store_expire_due(store, 500, 300), 300);
    cr_assert_eq(kv_store_next_expiry(store), 301);
    cr_assert_eq(kv_store_expire_due(store, 500, UINT32_MAX), 200);
    cr_assert_eq(kv_store_count(store), 500);
    kv_store_destroy(store);
}

Test(kv_store, memory_is_counted)
{
    struct kv_store *store = new_store();
    char key[TEXT_MAX];
    for (unsigned number = 0; number < 1000; number++)
        put(store, number % 100, number, KV_TIME_NEVER);
    cr_assert_gt(store->bytes, 100 * sizeof(struct kv_entry));
    for (unsigned number = 0; number < 100; number++)
        kv_store_delete(store, key_of(number, key), 0);
    cr_assert_eq(store->bytes, 0);
    kv_store_destroy(store);
}

/* The parts below the admission rules: ordered sets, timers, effective sizes. */
#include "tests/support/lx_test.h"

#include "admission/config.h"
#include "admission/order_set.h"
#include "admission/timer.h"

#include <errno.h>
#include <lanex/completion.h>

TestSuite(admission_sets, .timeout = 60);

static uint32_t naive_next(const bool *members, uint32_t capacity, uint32_t from)
{
    for (uint32_t slot = from; slot < capacity; slot++) {
        if (members[slot])
            return slot;
    }
    return LX_ORDER_NONE;
}

static uint32_t naive_last(const bool *members, uint32_t capacity)
{
    while (capacity > 0 && !members[capacity - 1])
        capacity--;
    return capacity > 0 ? capacity - 1 : LX_ORDER_NONE;
}

static void try_set(struct lx_rng *rng, uint32_t capacity, unsigned operations)
{
    uint64_t *memory = calloc(lx_order_set_words(capacity), sizeof *memory);
    bool *members = calloc(capacity, sizeof *members);
    struct lx_order_set set;

    LX_REQUIRE(memory != NULL && members != NULL);
    lx_order_set_init(&set, memory, capacity);
    for (unsigned i = 0; i < operations; i++) {
        uint32_t slot = (uint32_t)lx_rng_below(rng, capacity);
        if (lx_rng_percent(rng, 45)) {
            lx_order_set_add(&set, slot);
            members[slot] = true;
        } else {
            lx_order_set_remove(&set, slot);
            members[slot] = false;
        }
        cr_assert_eq(lx_order_set_has(&set, slot), members[slot]);
        slot = (uint32_t)lx_rng_below(rng, capacity + 2);
        cr_assert_eq(lx_order_set_last(&set), naive_last(members, capacity), "capacity %u",
                     capacity);
        cr_assert_eq(lx_order_set_next(&set, slot), naive_next(members, capacity, slot),
                     "capacity %u, from %u", capacity, slot);
    }
    free(memory);
    free(members);
}

Test(admission_sets, ordered_sets_agree_with_an_array)
{
    static const uint32_t capacities[] = {1, 63, 64, 65, 128, 4095, 4096, 4097, 300000};
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());

    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++)
        try_set(&rng, capacities[i], capacities[i] > 5000 ? 300 : 3000);
}

Test(admission_sets, an_ordered_set_spans_all_its_levels)
{
    uint64_t *memory = calloc(lx_order_set_words(LX_ORDER_SLOT_MAX), sizeof *memory);
    struct lx_order_set set;

    LX_REQUIRE(memory != NULL);
    lx_order_set_init(&set, memory, LX_ORDER_SLOT_MAX);
    cr_assert_eq(lx_order_set_next(&set, 0), LX_ORDER_NONE);
    lx_order_set_add(&set, LX_ORDER_SLOT_MAX - 1);
    cr_assert_eq(lx_order_set_next(&set, 0), LX_ORDER_SLOT_MAX - 1);
    lx_order_set_add(&set, 5);
    cr_assert_eq(lx_order_set_next(&set, 0), 5);
    cr_assert_eq(lx_order_set_next(&set, 6), LX_ORDER_SLOT_MAX - 1);
    cr_assert_eq(lx_order_set_next(&set, LX_ORDER_SLOT_MAX), LX_ORDER_NONE);
    lx_order_set_remove(&set, LX_ORDER_SLOT_MAX - 1);
    cr_assert_eq(lx_order_set_next(&set, 6), LX_ORDER_NONE);
    free(memory);
}

Test(admission_sets, a_copy_into_a_larger_set_has_the_same_members)
{
    uint64_t small_memory[80] = {0}, large_memory[300] = {0};
    struct lx_order_set small, large;
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint32_t slot = 0;

    LX_REQUIRE(lx_order_set_words(4096) <= 80 && lx_order_set_words(16384) <= 300);
    lx_order_set_init(&small, small_memory, 4096);
    lx_order_set_init(&large, large_memory, 16384);
    for (unsigned i = 0; i < 200; i++)
        lx_order_set_add(&small, (uint32_t)lx_rng_below(&rng, 4096));
    lx_order_set_copy(&large, &small);
    do {
        uint32_t next = lx_order_set_next(&small, slot);
        cr_assert_eq(lx_order_set_next(&large, slot), next);
        slot = next + 1;
    } while (slot != 0);
    lx_order_set_add(&large, 16383);
    cr_assert_eq(lx_order_set_next(&large, 4096), 16383);
}

Test(admission_sets, timers_come_in_the_order_of_time_then_number)
{
    enum { COUNT = 500 };
    static struct lx_timer timers[COUNT];
    struct lx_timers heap;
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t last_when = 0, last_order = 0;
    unsigned armed = 0, taken = 0;

    lx_timers_init(&heap);
    cr_assert_eq(lx_timers_next(&heap), LANEX_TIME_NEVER);
    cr_assert_null(lx_timers_take_due(&heap, UINT64_MAX));
    for (unsigned i = 0; i < COUNT; i++)
        lx_timer_arm(&heap, &timers[i], LX_TIMER_DEADLINE, lx_rng_below(&rng, 50), i);
    for (unsigned i = 0; i < COUNT; i++) {
        if (lx_rng_percent(&rng, 30)) {
            lx_timer_disarm(&heap, &timers[i]);
            lx_timer_disarm(&heap, &timers[i]); /* twice is fine */
        }
        armed += timers[i].armed;
    }
    for (uint64_t now = 0; now < 50; now++) {
        struct lx_timer *timer;
        while ((timer = lx_timers_take_due(&heap, now)) != NULL) {
            cr_assert_eq(timer->when_ns, now, "neither early nor late");
            cr_assert(!timer->armed);
            if (timer->when_ns == last_when && taken > 0)
                cr_assert_gt(timer->order, last_order);
            last_when = timer->when_ns;
            last_order = timer->order;
            taken++;
        }
        cr_assert_gt(lx_timers_next(&heap), now);
    }
    cr_assert_eq(taken, armed);
}

/* ---- sizes ---- */

static lanex_config resolved(lanex_executor_options options, uint32_t cpus)
{
    lanex_config config;

    options.size = sizeof options;
    LX_REQUIRE(lx_config_resolve(&options, cpus, &config) == 0);
    return config;
}

Test(admission_sets, default_sizes_follow_the_cpus)
{
    static const struct {
        uint32_t cpus, pool, actor, read, heavy, reserve, maintenance;
    } rows[] = {
        {1, 2, 1, 1, 1, 1, 1}, {2, 2, 1, 1, 1, 1, 1}, {3, 2, 1, 1, 1, 1, 1}, {4, 3, 2, 2, 2, 1, 2},
        {5, 4, 3, 3, 3, 2, 2}, {6, 5, 4, 4, 3, 2, 3}, {9, 8, 4, 4, 3, 2, 6}, {64, 8, 4, 4, 3, 2, 6},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lanex_config config = resolved((lanex_executor_options){0}, rows[i].cpus);
        cr_assert_eq(config.pool_size, rows[i].pool, "%u CPUs", rows[i].cpus);
        cr_assert_eq(config.actor_cap, rows[i].actor, "%u CPUs", rows[i].cpus);
        cr_assert_eq(config.read_cap, rows[i].read, "%u CPUs", rows[i].cpus);
        cr_assert_eq(config.heavy_permits, rows[i].heavy, "%u CPUs", rows[i].cpus);
        cr_assert_eq(config.interactive_reserve, rows[i].reserve, "%u CPUs", rows[i].cpus);
        cr_assert_eq(config.maintenance_cap, rows[i].maintenance, "%u CPUs", rows[i].cpus);
        cr_assert_eq(config.drr_quantum, 1);
        cr_assert_eq(config.deficit_cap, 4 * config.actor_cap);
        cr_assert_eq(config.promotion_age_ms, 6000);
        cr_assert_eq(config.maintenance_max_wait_ms, 60000);
        cr_assert_eq(config.maintenance_queue_cap, 512);
        cr_assert_eq(config.usable_cpus, rows[i].cpus);
    }
}

Test(admission_sets, what_is_asked_is_brought_into_range)
{
    for (uint32_t pool = 1; pool <= 10; pool++) {
        for (uint32_t asked = 1; asked <= 10; asked++) {
            lanex_config config = resolved((lanex_executor_options){.pool_size = pool,
                                                                    .actor_cap = asked,
                                                                    .read_cap = asked + 1,
                                                                    .heavy_permits = asked},
                                           4);
            uint32_t size = pool < 2 ? 2 : pool > 8 ? 8 : pool;
            uint32_t actor = asked < size - 1 ? asked : size - 1;
            uint32_t read = asked + 1 < actor ? asked + 1 : actor;
            uint32_t heavy = asked < size - 1 ? asked : size - 1;
            cr_assert_eq(config.pool_size, size);
            cr_assert_eq(config.actor_cap, actor);
            cr_assert_eq(config.read_cap, read > 4 ? 4 : read);
            cr_assert_eq(config.heavy_permits, heavy > 3 ? 3 : heavy);
        }
    }
}

Test(admission_sets, the_many_core_profile_lifts_the_ceilings)
{
    lanex_executor_options options = {.profile = LANEX_PROFILE_MANY_CORE};
    lanex_config config = resolved(options, 64);

    cr_assert_eq(config.pool_size, 64);
    cr_assert_eq(config.actor_cap, 63);
    cr_assert_eq(config.read_cap, 63);
    cr_assert_eq(config.heavy_permits, 16);
    cr_assert_eq(config.interactive_reserve, 2);
    cr_assert_eq(config.maintenance_cap, 62);
    options.pool_size = 5000;
    options.heavy_permits = 5000;
    config = resolved(options, 64);
    cr_assert_eq(config.pool_size, LANEX_POOL_MAX_MANY_CORE);
    cr_assert_eq(config.heavy_permits, LANEX_POOL_MAX_MANY_CORE - 1);
}

Test(admission_sets, who_spins_needs_two_cpus)
{
    lanex_executor_options options = {.spin_us = LANEX_SPIN_MAX_US};

    cr_assert_eq(resolved(options, 1).spin_us, 0);
    cr_assert_eq(resolved(options, 2).spin_us, LANEX_SPIN_MAX_US);
    cr_assert_eq(resolved(options, 64).spin_us, LANEX_SPIN_MAX_US);
    cr_assert_eq(resolved((lanex_executor_options){.spin_us = 1}, 2).spin_us, 1);
    cr_assert_eq(resolved((lanex_executor_options){0}, 64).spin_us, 0);
}

Test(admission_sets, unknown_words_are_refused)
{
    const lanex_executor_options good = {.size = sizeof good};
    lanex_executor_options options;
    lanex_config config = {.pool_size = 77};

    options = good;
    options.size--;
    cr_assert_eq(lx_config_resolve(&options, 4, &config), -EINVAL);
    options = good;
    options.spin_us = LANEX_SPIN_MAX_US + 1;
    cr_assert_eq(lx_config_resolve(&options, 4, &config), -EINVAL);
    cr_assert_eq(lx_config_resolve(&options, 1, &config), -EINVAL);
    options = good;
    options.policy = 2;
    cr_assert_eq(lx_config_resolve(&options, 4, &config), -EINVAL);
    options = good;
    options.profile = 2;
    cr_assert_eq(lx_config_resolve(&options, 4, &config), -EINVAL);
    options = good;
    options.flags = 1u << 31;
    cr_assert_eq(lx_config_resolve(&options, 4, &config), -EINVAL);
    options = good;
    options.dispatch = 3;
    cr_assert_eq(lx_config_resolve(&options, 4, &config), -EINVAL);
    options = good;
    options.backend = 3;
    cr_assert_eq(lx_config_resolve(&options, 4, &config), -EINVAL);
    cr_assert_eq(config.pool_size, 77, "outputs stay unset on failure");
}

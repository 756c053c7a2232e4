/* Random duels (admission_duel.h). LANEX_TEST_SEED repeats a run. */
#include "tests/support/lx_test.h"

#include "admission_duel.h"

#define TURNS 2500u

static void run_duel(uint64_t seed, bool costs)
{
    static struct duel duel;
    const struct duel_choice choice = {.rng = lx_rng_seeded(seed)};

    duel_begin(&duel, &choice, costs);
    while (duel.turns < TURNS)
        duel_step(&duel);
    duel_end(&duel);
    cr_assert_gt(duel.dispatched, 0);
    cr_log_info("seed %lu: %lu turns, %lu started (%lu by time alone), %lu answered, %lu removed, "
                "%zu jobs at most",
                (unsigned long)seed, duel.turns, duel.dispatched, duel.timed_starts, duel.settled,
                duel.removed, duel.deepest);
}

/* A duel that is lost aborts: the seed is said before each. */
static void run_duels(bool costs)
{
    uint64_t first = lx_test_seed();
    uint64_t count = lx_test_scaled(80);

    for (uint64_t i = 0; i < count; i++) {
        cr_log_info("seed %lu", (unsigned long)(first + i));
        run_duel(first + i, costs);
    }
}

Test(admission_diff, agrees_with_the_reference_at_cost_one, .timeout = 120)
{
    run_duels(false);
}

Test(admission_diff, agrees_with_the_reference_with_costs_and_weights, .timeout = 120)
{
    run_duels(true);
}

/*
 * More threads than CPUs, by far: 64 submitters, 64 workers, and both, under the mixed load.
 * Whoever holds something may lose its CPU for long; nothing is lost, and nobody waits for ever.
 */
#include "mixed.h"
#include "tests/support/lx_left.h"

TestSuite(crowds); /* share LANEX_SOAK_SECONDS: no timeout of their own */

#define TESTS 3u     /* that share the time of a soak */
#define JOBS  40000u /* of a round */
#define CROWD 64u
#define FEW   3u

static struct mixed mixed;

static void one_round(struct lx_rng *rng, unsigned submitters, unsigned workers)
{
    struct mixed_options options = {
        .jobs = lx_test_scaled(JOBS),
        .seed = lx_rng_next(rng),
        .submitters = submitters,
        .executor = lx_test_executor_options(workers),
    };
    lanex_config config = {.size = sizeof config};

    options.executor.profile = workers > FEW ? LANEX_PROFILE_MANY_CORE : LANEX_PROFILE_STANDARD;
    mixed_begin(&mixed, &options);
    LX_REQUIRE(lanex_executor_config(mixed.executor, &config) == 0);
    LX_REQUIRE(config.pool_size == workers);
    mixed_end(&mixed);
}

static void rounds(unsigned submitters, unsigned workers)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t end = lx_test_soak_end_ns(TESTS);
    struct lx_test_left before;

    one_round(&rng, FEW, FEW); /* with what the C library makes once */
    before = lx_test_left();
    do
        one_round(&rng, submitters, workers);
    while (lx_test_now_ns() < end);
    lx_test_nothing_left(before);
}

Test(crowds, of_submitters_lose_nothing)
{
    rounds(CROWD, FEW);
}

Test(crowds, of_workers_lose_nothing)
{
    rounds(FEW, CROWD);
}

Test(crowds, of_both_lose_nothing)
{
    rounds(CROWD, CROWD);
}

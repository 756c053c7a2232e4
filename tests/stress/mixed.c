/*
 * Everything at once: jobs of all lanes, classes and sinks on 64 actors, with cancels, seals,
 * deadlines, panics, fatal actors that are registered anew, deferred answers and install steps.
 * Each job gets exactly one completion, and at the end every counter is back where it began.
 *
 * LANEX_STRESS_JOBS sets how many; a soak goes on in rounds.
 */
#include "mixed.h"

TestSuite(mixed); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define JOBS       200000u /* of the short form */
#define SUBMITTERS 2u

static uint64_t jobs_wanted(void)
{
    const char *text = getenv("LANEX_STRESS_JOBS");

    return text != NULL ? strtoull(text, NULL, 10) : lx_test_scaled(JOBS);
}

static struct mixed mixed;

static void one_round(uint64_t seed, unsigned pool)
{
    struct mixed_options options = {.jobs = jobs_wanted(),
                                    .seed = seed,
                                    .submitters = SUBMITTERS,
                                    .executor = lx_test_executor_options(pool)};
    uint64_t start = lx_test_now_ns();

    mixed_begin(&mixed, &options);
    mixed_end(&mixed);
    fprintf(stderr, "[----] %.2f s\n", (double)(lx_test_now_ns() - start) / 1e9);
}

Test(mixed, each_job_gets_one_completion)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t end = lx_test_soak_end_ns(1);

    do
        one_round(lx_rng_next(&rng), (unsigned)lx_rng_between(&rng, 2, 8));
    while (lx_test_now_ns() < end);
}

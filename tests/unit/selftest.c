/* The tests' own tools: the latch, the generator, the macros. What must fail is in tests/support.
 */
#include "tests/support/lx_test.h"

#include <pthread.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS  1000

static int init_calls;

static void count_init(void)
{
    init_calls++;
}

TestSuite(selftest, .timeout = 60);

struct shared {
    struct latch ready;
    struct latch go;
    struct latch done;
    unsigned plain[THREADS]; /* not atomic: the latch has to order it */
};

struct worker {
    struct shared *shared;
    unsigned index;
};

static void *arrive_and_write(void *argument)
{
    const struct worker *worker = argument;
    struct shared *shared = worker->shared;

    latch_arrive(&shared->ready);
    latch_wait(&shared->go, 1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        shared->plain[worker->index]++;
    }
    latch_arrive(&shared->done);
    return NULL;
}

Test(selftest, latch_orders_what_was_done_before_it)
{
    static struct shared shared;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.shared = &shared, .index = i};
        cr_assert_eq(pthread_create(&threads[i], NULL, arrive_and_write, &workers[i]), 0);
    }
    latch_wait(&shared.ready, THREADS);
    cr_assert_eq(latch_count(&shared.done), 0, "nobody passes a closed latch");
    latch_arrive(&shared.go);
    latch_wait(&shared.done, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        cr_assert_eq(shared.plain[i], ROUNDS, "thread %u", i);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
}

Test(selftest, rng_gives_the_published_sequence)
{
    struct lx_rng rng = lx_rng_seeded(1234567);

    /* The first values that splitmix64's authors give for this seed. */
    cr_assert_eq(lx_rng_next(&rng), UINT64_C(6457827717110365317));
    cr_assert_eq(lx_rng_next(&rng), UINT64_C(3203168211198807973));
    cr_assert_eq(lx_rng_next(&rng), UINT64_C(9817491932198370423));
}

Test(selftest, rng_keeps_its_bounds_and_reaches_them)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    unsigned seen[7] = {0};
    unsigned low_or_high = 0;

    for (unsigned i = 0; i < 10000; i++) {
        const uint64_t value = lx_rng_below(&rng, 7);
        cr_assert_lt(value, 7);
        seen[value]++;
        const uint64_t between = lx_rng_between(&rng, 10, 12);
        cr_assert(between >= 10 && between <= 12);
        low_or_high |= between == 10 ? 1U : between == 12 ? 2U : 0U;
    }
    for (unsigned i = 0; i < 7; i++) {
        cr_assert_gt(seen[i], 1000, "value %u came %u times", i, seen[i]);
    }
    cr_assert_eq(low_or_high, 3);
    cr_assert_not(lx_rng_percent(&rng, 0));
    cr_assert(lx_rng_percent(&rng, 100));
}

Test(selftest, the_seed_can_be_given)
{
    cr_assert_eq(setenv("LANEX_TEST_SEED", "42", 1), 0);
    cr_assert_eq(lx_test_seed(), 42);
    cr_assert_eq(setenv("LANEX_TEST_SEED", "43", 1), 0);
    cr_assert_eq(lx_test_seed(), 42, "a process keeps its seed");
}

Test(selftest, the_matrix_cell_is_read)
{
    cr_assert_eq(setenv("LANEX_TEST_BACKEND", "poll", 1), 0);
    cr_assert_eq(setenv("LANEX_TEST_DISPATCH", "scheduler", 1), 0);
    cr_assert_eq(lx_test_env_backend(), LX_TEST_BACKEND_POLL);
    cr_assert_eq(lx_test_env_dispatch(), LX_TEST_DISPATCH_SCHEDULER);
    cr_assert_eq(unsetenv("LANEX_TEST_BACKEND"), 0);
    cr_assert_eq(unsetenv("LANEX_TEST_DISPATCH"), 0);
    cr_assert_eq(lx_test_env_backend(), LX_TEST_BACKEND_AUTO);
    cr_assert_eq(lx_test_env_dispatch(), LX_TEST_DISPATCH_SEAT);
}

Test(selftest, an_unknown_cell_is_refused, .signal = SIGABRT)
{
    cr_assert_eq(setenv("LANEX_TEST_BACKEND", "magic", 1), 0);
    (void)lx_test_env_backend();
}

Test(selftest, init_runs_before_the_body, .init = count_init)
{
    cr_assert_eq(init_calls, 1);
}

Test(selftest, an_exit_code_can_be_expected, .exit_code = 3)
{
    exit(3);
}

Test(selftest, every_macro_accepts_what_is_true)
{
    int here = 1;
    const char *text = "lane";

    cr_assert(here);
    cr_assert(here == 1, "with %s", "a text");
    cr_assert_not(here == 2);
    cr_assert_null(NULL);
    cr_assert_not_null(&here, "with a text");
    cr_assert_eq(here, 1);
    cr_assert_ne(here, 2);
    cr_assert_lt(here, 2);
    cr_assert_le(here, 1);
    cr_assert_gt(here, 0);
    cr_assert_ge(here, 1);
    cr_assert_neq(here, 2, "%d", here);
    cr_assert_leq(here, 1);
    cr_assert_geq(here, 1);
    cr_assert_str_eq(text, "lane", "%s", text);
    cr_assert_str_neq(text, "line");
    cr_assert_str_empty("");
    cr_assert_str_not_empty(text);
    cr_assert_arr_eq(text, "lane", 4);
    cr_assert_float_eq(1.0, 1.05, 0.1);
    cr_expect(here);
    cr_expect_eq(here, 1, "%d", here);
    cr_expect_not_null(&here);
    cr_log_info("logged %d", here);
    LX_REQUIRE(here == 1);
    LX_EVENTUALLY(here == 1);
}

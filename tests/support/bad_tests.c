/* Tests that must be found wanting; check_verdicts.py runs them one by one and demands a failure.
 */
#include "lx_test.h"

#include <pthread.h>
#include <unistd.h>

static void *volatile lost;
static int raced;
static volatile int zero;

Test(bad, assertion)
{
    cr_assert_eq(1, 2);
}

Test(bad, assertion_with_text)
{
    cr_assert(zero == 1, "the text is %s", "shown");
}

Test(bad, expectation)
{
    cr_expect_eq(1, 2);
}

Test(bad, crash)
{
    abort();
}

Test(bad, no_signal, .signal = SIGABRT)
{
    cr_assert(true);
}

Test(bad, hang, .timeout = 0.2)
{
    for (;;) {
        (void)pause();
    }
}

Test(bad, required)
{
    LX_REQUIRE(zero == 1);
}

Test(bad, latch)
{
    struct latch latch = LATCH_INIT;

    cr_assert_eq(setenv("LANEX_TEST_LIVENESS_S", "1", 1), 0);
    latch_arrive(&latch);
    latch_wait(&latch, 2);
}

Test(bad, eventually)
{
    cr_assert_eq(setenv("LANEX_TEST_LIVENESS_S", "1", 1), 0);
    LX_EVENTUALLY(zero == 1);
}

/* Passes, but loses memory: AddressSanitizer's to report. */
Test(bad, leak)
{
    lost = malloc(100);
    cr_assert_not_null(lost);
    lost = NULL;
}

/* Passes, but looks at memory that was given back: valgrind's to report. */
Test(bad, stale)
{
    lost = malloc(100);
    cr_assert_not_null(lost);
    free(lost);
    if (*(volatile char *)lost == 7) /* NOLINT(clang-analyzer-unix.Malloc): on purpose */
        zero = 0;
    lost = NULL;
}

/* Passes, but overflows: UndefinedBehaviorSanitizer's to report. */
Test(bad, overflow)
{
    volatile int high = INT32_MAX;
    high = high + 1;
    cr_assert(true);
}

static void *race(void *argument)
{
    raced++;
    return argument;
}

/* Passes, but races: ThreadSanitizer's to report. */
Test(bad, race)
{
    pthread_t threads[2];

    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, race, NULL), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
}

Test(good, passes)
{
    cr_assert(true);
}

Test(good, skips)
{
    cr_skip_test("no %s here", "reason");
}

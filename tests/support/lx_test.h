/*
 * What every test includes: the test macros and a few helpers.
 *
 * The macros are Criterion's: Test(suite, name, .timeout = s, .init = f, .fini = f, .signal = n,
 * .exit_code = n) and cr_assert*, cr_expect*. Criterion does not start under ThreadSanitizer, so
 * there LX_TEST_SHIM is set and lx_shim.h maps the same macros to a small runner. Use only what
 * lx_shim.h has, or the thread sanitizer build breaks.
 *
 * Rules that hold in both:
 * - every test is a process of its own;
 * - a cr_ macro belongs to the thread that runs the test; other threads use LX_REQUIRE;
 * - nothing waits by sleeping: use a latch, or LX_EVENTUALLY for what can only be looked at;
 * - a test that honours lx_test_soak_seconds() sets no .timeout.
 *
 * Environment:
 *   LANEX_TEST_SEED=N                   the seed of the randomised tests
 *   LANEX_TEST_BACKEND=auto|ring|poll   how threads sleep (auto)
 *   LANEX_TEST_DISPATCH=seat|scheduler  who runs a scheduler turn (seat)
 *   LANEX_TEST_LIVENESS_S=N             how long a wait may last before it counts as a hang (30)
 *   LANEX_TEST_VALGRIND=1               run_test.py runs the test under valgrind
 *   LANEX_SOAK_SECONDS=N                how long a stress test goes on (0: its short form)
 */
#ifndef LX_TEST_H
#define LX_TEST_H

#include "lx_require.h"
#include <signal.h>
#include <stdatomic.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lx_rng.h"

#ifdef LX_TEST_SHIM
#include "lx_shim.h"
#else
#include <criterion/criterion.h>
#endif

/* Criterion says neq, leq and geq; the shorter names are here for those who expect them. */
#define cr_assert_ne cr_assert_neq
#define cr_assert_le cr_assert_leq
#define cr_assert_ge cr_assert_geq
#define cr_expect_ne cr_expect_neq
#define cr_expect_le cr_expect_leq
#define cr_expect_ge cr_expect_geq

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LX_TEST_SANITIZED 1
#endif
#endif
/* The shim without a sanitizer is for valgrind. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(LX_TEST_SHIM)
#undef LX_TEST_SANITIZED
#define LX_TEST_SANITIZED 1
#endif
#ifndef LX_TEST_SANITIZED
#define LX_TEST_SANITIZED 0
#endif

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define LX_TEST_THREAD_SANITIZER 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define LX_TEST_THREAD_SANITIZER 1
#endif
#ifndef LX_TEST_THREAD_SANITIZER
#define LX_TEST_THREAD_SANITIZER 0
#endif

/*
 * How long a wait may last before it counts as a hang, in seconds: LANEX_TEST_LIVENESS_S, or this.
 * It is no measure of speed.
 */
#define LX_TEST_LIVENESS_S 30
unsigned lx_test_liveness_s(void);

/* Looks at condition again and again until it holds; a hang fails the test. */
#define LX_EVENTUALLY(condition)                                                                   \
    do {                                                                                           \
        uint64_t lx_eventually_start_ = lx_test_now_ns();                                          \
        while (!(condition)) {                                                                     \
            lx_test_pause_or_die(lx_eventually_start_, __FILE__, __LINE__, #condition);            \
        }                                                                                          \
    } while (0)

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t lx_test_now_ns(void);
void lx_test_pause_or_die(uint64_t start_ns, const char *file, int line, const char *what);

/* In a child that will be ended by SIGABRT: what it ran still counts for ./dev coverage. */
void lx_test_keep_counts(void);

/* The seed of this process: LANEX_TEST_SEED, or a random one. Printed at the first call. */
uint64_t lx_test_seed(void);

/* Seconds that a stress test is asked to go on; 0 asks for its short form. */
unsigned lx_test_soak_seconds(void);
/* When such a test ends, of `sharing` that go on for that time together; about now in short form.
 */
uint64_t lx_test_soak_end_ns(unsigned sharing);

/* n, or a tenth of it (but at least 1) where a sanitizer slows everything. */
uint64_t lx_test_scaled(uint64_t n);

enum lx_test_backend { LX_TEST_BACKEND_AUTO, LX_TEST_BACKEND_RING, LX_TEST_BACKEND_POLL };
enum lx_test_dispatch { LX_TEST_DISPATCH_SEAT, LX_TEST_DISPATCH_SCHEDULER };

/* What the matrix cell asks for. An unknown word ends the test. */
enum lx_test_backend lx_test_env_backend(void);
enum lx_test_dispatch lx_test_env_dispatch(void);

/*
 * A latch counts arrivals; waiters sleep until the count reaches their target. All zero is a ready
 * latch: `struct latch l = LATCH_INIT;`. What a thread did before it arrived is seen by whoever
 * waited for it. It may be reused for rising targets.
 */
struct latch {
    atomic_uint arrived;
};
#define LATCH_INIT                                                                                 \
    {                                                                                              \
        0                                                                                          \
    }

void latch_init(struct latch *latch);
void latch_arrive(struct latch *latch);
unsigned latch_count(const struct latch *latch);
/* Returns once at least target arrivals were counted; lx_test_liveness_s() without that is fatal.
 */
#define latch_wait(latch, target) latch_wait_at((latch), (target), __FILE__, __LINE__)
void latch_wait_at(struct latch *latch, unsigned target, const char *file, int line);

#endif

/* An assertion without a test framework: for helpers that fuzz targets use too. */
#ifndef LX_REQUIRE_H
#define LX_REQUIRE_H

/* Prints where and why, then aborts: fails the test from any thread. */
_Noreturn void lx_test_die(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* An assertion for threads other than the test's own, and for callbacks. */
#define LX_REQUIRE(condition)                                                                      \
    ((condition) ? (void)0 : lx_test_die(__FILE__, __LINE__, "required: %s", #condition))

#endif

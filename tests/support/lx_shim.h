/*
 * Criterion's macros for builds in which Criterion does not start (ThreadSanitizer). lx_shim.c has
 * main and runs each test in a child process of its own. Options: --list, --filter PATTERN, -j N;
 * --verbose, -q and the like are taken and ignored. The closing line has Criterion's form.
 */
#ifndef LX_SHIM_H
#define LX_SHIM_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct lx_shim_test {
    const char *suite_;
    const char *name_;
    const char *file_;
    int line_;
    void (*body_)(void);
    struct lx_shim_test *next_;
    void (*init)(void);
    void (*fini)(void);
    double timeout; /* seconds; 0 is none */
    int signal;
    int exit_code;
    bool disabled;
    const char *description;
    int sentinel_;
};

void lx_shim_register(struct lx_shim_test *test);
void lx_shim_register_suite(struct lx_shim_test *suite);
/* format may be NULL; a superfluous NULL ends the arguments, so the compiler cannot check them
   here: the builds with Criterion do. */
void lx_shim_failed(bool fatal, const char *file, int line, const char *condition,
                    const char *format, ...);
int lx_shim_strcmp(const char *a, const char *b);
_Noreturn void lx_shim_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lx_shim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A sentinel keeps the variable part non-empty, which ISO C11 asks for. */
#define Test(...) LX_SHIM_TEST_(__VA_ARGS__, .sentinel_ = 0)
#define LX_SHIM_TEST_(Suite, Name, ...)                                                            \
    static void lx_shim_body_##Suite##_##Name(void);                                               \
    __attribute__((constructor)) static void lx_shim_enter_##Suite##_##Name(void)                  \
    {                                                                                              \
        static struct lx_shim_test test = {.suite_ = #Suite,                                       \
                                           .name_ = #Name,                                         \
                                           .file_ = __FILE__,                                      \
                                           .line_ = __LINE__,                                      \
                                           .body_ = lx_shim_body_##Suite##_##Name,                 \
                                           __VA_ARGS__};                                           \
        lx_shim_register(&test);                                                                   \
    }                                                                                              \
    static void lx_shim_body_##Suite##_##Name(void)

/* What a suite says holds for its tests that do not say otherwise. */
#define TestSuite(...) LX_SHIM_SUITE_(__VA_ARGS__, .sentinel_ = 0)
#define LX_SHIM_SUITE_(Suite, ...)                                                                 \
    __attribute__((constructor)) static void lx_shim_enter_suite_##Suite(void)                     \
    {                                                                                              \
        static struct lx_shim_test suite = {.suite_ = #Suite, __VA_ARGS__};                        \
        lx_shim_register_suite(&suite);                                                            \
    }                                                                                              \
    struct lx_shim_test

/* Each check takes its operands, then, if wanted, a format and its arguments. */
#define LX_SHIM_NO_FORMAT_ (const char *)NULL

#define LX_SHIM_CHECK_(Fatal, Truth, Text, ...)                                                    \
    ((Truth) ? (void)0 : lx_shim_failed(Fatal, __FILE__, __LINE__, Text, __VA_ARGS__))
#define LX_SHIM_TRUE_(Fatal, Value, ...) LX_SHIM_CHECK_(Fatal, Value, #Value, __VA_ARGS__)
#define LX_SHIM_FALSE_(Fatal, Value, ...)                                                          \
    LX_SHIM_CHECK_(Fatal, !(Value), "!(" #Value ")", __VA_ARGS__)
#define LX_SHIM_NULL_(Fatal, Op, Value, ...)                                                       \
    LX_SHIM_CHECK_(Fatal, (Value)Op NULL, #Value " " #Op " NULL", __VA_ARGS__)
#define LX_SHIM_OP_(Fatal, Op, A, B, ...)                                                          \
    LX_SHIM_CHECK_(Fatal, (A)Op(B), #A " " #Op " " #B, __VA_ARGS__)
#define LX_SHIM_STR_(Fatal, Op, A, B, ...)                                                         \
    LX_SHIM_CHECK_(Fatal, lx_shim_strcmp((A), (B)) Op 0, #A " " #Op " " #B, __VA_ARGS__)
#define LX_SHIM_EMPTY_(Fatal, Op, A, ...)                                                          \
    LX_SHIM_CHECK_(Fatal, (A)[0] Op '\0', #A " " #Op " \"\"", __VA_ARGS__)
#define LX_SHIM_ARR_(Fatal, Op, A, B, Size, ...)                                                   \
    LX_SHIM_CHECK_(Fatal, memcmp((A), (B), (Size)) Op 0, #A " " #Op " " #B, __VA_ARGS__)
#define LX_SHIM_NEAR_(Fatal, A, B, Epsilon, ...)                                                   \
    LX_SHIM_CHECK_(Fatal, ((A) - (B) <= (Epsilon)) && ((B) - (A) <= (Epsilon)), #A " near " #B,    \
                   __VA_ARGS__)

#define cr_assert(...)               LX_SHIM_TRUE_(true, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_not(...)           LX_SHIM_FALSE_(true, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_null(...)          LX_SHIM_NULL_(true, ==, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_not_null(...)      LX_SHIM_NULL_(true, !=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_eq(...)            LX_SHIM_OP_(true, ==, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_neq(...)           LX_SHIM_OP_(true, !=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_lt(...)            LX_SHIM_OP_(true, <, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_leq(...)           LX_SHIM_OP_(true, <=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_gt(...)            LX_SHIM_OP_(true, >, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_geq(...)           LX_SHIM_OP_(true, >=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_str_empty(...)     LX_SHIM_EMPTY_(true, ==, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_str_not_empty(...) LX_SHIM_EMPTY_(true, !=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_str_eq(...)        LX_SHIM_STR_(true, ==, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_str_neq(...)       LX_SHIM_STR_(true, !=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_arr_eq(...)        LX_SHIM_ARR_(true, ==, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_arr_neq(...)       LX_SHIM_ARR_(true, !=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_float_eq(...)      LX_SHIM_NEAR_(true, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_assert_fail(...)          LX_SHIM_FAIL_(true, __VA_ARGS__)

#define cr_expect(...)               LX_SHIM_TRUE_(false, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_not(...)           LX_SHIM_FALSE_(false, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_null(...)          LX_SHIM_NULL_(false, ==, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_not_null(...)      LX_SHIM_NULL_(false, !=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_eq(...)            LX_SHIM_OP_(false, ==, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_neq(...)           LX_SHIM_OP_(false, !=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_lt(...)            LX_SHIM_OP_(false, <, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_leq(...)           LX_SHIM_OP_(false, <=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_gt(...)            LX_SHIM_OP_(false, >, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_geq(...)           LX_SHIM_OP_(false, >=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_str_empty(...)     LX_SHIM_EMPTY_(false, ==, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_str_not_empty(...) LX_SHIM_EMPTY_(false, !=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_str_eq(...)        LX_SHIM_STR_(false, ==, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_str_neq(...)       LX_SHIM_STR_(false, !=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_arr_eq(...)        LX_SHIM_ARR_(false, ==, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_arr_neq(...)       LX_SHIM_ARR_(false, !=, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_float_eq(...)      LX_SHIM_NEAR_(false, __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_expect_fail(...)          LX_SHIM_FAIL_(false, __VA_ARGS__)

#define LX_SHIM_FAIL_(Fatal, ...)                                                                  \
    lx_shim_failed(Fatal, __FILE__, __LINE__, "fail", __VA_ARGS__, LX_SHIM_NO_FORMAT_)
#define cr_fatal(...) cr_assert_fail(__VA_ARGS__)

#define cr_skip_test(...) lx_shim_skip(__VA_ARGS__)
#define cr_skip(...)      lx_shim_skip(__VA_ARGS__)
#define cr_log_info(...)  lx_shim_log(__VA_ARGS__)
#define cr_log_warn(...)  lx_shim_log(__VA_ARGS__)
#define cr_log_error(...) lx_shim_log(__VA_ARGS__)

#endif

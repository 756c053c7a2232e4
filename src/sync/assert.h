/*
 * Assertions of internal invariants. They stay on in release builds: a broken invariant of the
 * scheduler is a data race in the user's context a moment later, so the process stops where the
 * cause can still be seen.
 */
#ifndef LX_ASSERT_H
#define LX_ASSERT_H

#define LX_LIKELY(x)   __builtin_expect(!!(x), 1)
#define LX_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Prints "lanex: FILE:LINE: assertion failed: TEXT" with raw write(2) and aborts. */
void lx_assert_failed(const char *file, int line, const char *text) __attribute__((noreturn, cold));

#define LX_ASSERT(cond)                                                                            \
    do {                                                                                           \
        if (LX_UNLIKELY(!(cond)))                                                                  \
            lx_assert_failed(__FILE__, __LINE__, #cond);                                           \
    } while (0)

#endif

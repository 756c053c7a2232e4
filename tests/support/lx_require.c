#include "lx_require.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void lx_test_die(const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): clang 14 forgets the line above */
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)fprintf(stderr, "[----] %s:%d: %s\n", file, line, text);
    (void)fflush(stderr);
    abort();
}

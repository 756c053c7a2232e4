#include "sync/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void lx_assert_failed(const char *file, int line, const char *text)
{
    char buf[512];
    int n = snprintf(buf, sizeof buf, "lanex: %s:%d: assertion failed: %s\n", file, line, text);
    if (n > 0) {
        size_t len = (size_t)n < sizeof buf ? (size_t)n : sizeof buf - 1;
        ssize_t ignored = write(STDERR_FILENO, buf, len);
        (void)ignored;
    }
    abort();
}

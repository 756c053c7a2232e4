/*
 * What a caller hands over by pointer is read before anything is held or allocated for it: in a job
 * whose faults are contained (LANEX_EXECUTOR_CONTAIN_SIGNALS) a wild pointer ends the call in the
 * middle, and must not leave a lock behind, or a job that destroy would wait for.
 */
#ifndef LX_RUNTIME_PROBE_H
#define LX_RUNTIME_PROBE_H

#include <stddef.h>

/* No page is smaller. */
#define LX_PROBE_MAX 4096u

/* Up to LX_PROBE_MAX bytes lie on two pages at most, so that their ends tell for all. */
static inline void lx_probe(const void *memory, size_t length)
{
    const volatile char *bytes = memory;

    if (memory == NULL || length == 0)
        return;
    (void)bytes[0];
    (void)bytes[length - 1];
}

/* All of a string, however long. */
static inline void lx_probe_text(const char *text)
{
    const volatile char *at = text;

    while (at != NULL && *at != '\0')
        at++;
}

#endif

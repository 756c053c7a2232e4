/*
 * How many CPUs the process may use: the affinity mask, and the CPU quota of its control groups
 * (v1, v2, and both side by side). What the default sizes come from (SPEC 2).
 *
 * A quota counts at every level from the process's own group up to the root of what is mounted; the
 * smallest wins. Levels above a container's view cannot be seen. What is absent, refused or
 * malformed is "no quota": a wrong guess upward costs some throttling, a wrong guess downward would
 * leave CPUs idle for the life of the process.
 *
 * Cost: two files of /proc and one or two small files a level, so once per executor. No heap, no
 * cancellation point, errno untouched; about 24 KiB of stack.
 */
#ifndef LX_RUNTIME_CPUS_H
#define LX_RUNTIME_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where to look. All zero: the system. Tests make up the rest. */
struct lx_cpu_sources {
    /* Put before every absolute path ("/proc/self/cgroup", mount points); NULL = nothing. */
    const char *root;
    /* An affinity mask, a bit per CPU, of mask_size bytes; NULL = the calling thread's. */
    const void *mask;
    size_t mask_size;
};

struct lx_cpus {
    uint32_t usable;   /* min(affinity, quota rounded up), at least 1 */
    uint32_t affinity; /* CPUs in the mask, at least 1 */
    /* The smallest quota: quota_us of CPU time per period_us; both 0 without one. */
    uint64_t quota_us;
    uint64_t period_us;
    /* Less than one CPU: whoever spins then spends the time that others need to make progress. */
    bool quota_tight;
};

/* sources NULL = the system. */
void lx_cpus_read(const struct lx_cpu_sources *sources, struct lx_cpus *ret_cpus);

/* Whether threads may spin: two CPUs, whole ones, also by the quota. */
bool lx_cpus_may_spin(const struct lx_cpus *cpus);

/* The `usable` of lx_cpus_read. */
uint32_t lx_cpus_usable(const struct lx_cpu_sources *sources);

#endif

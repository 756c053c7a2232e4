#include "runtime/affinity.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sync/assert.h"

/* CPUs that a mask may have: eight times what any kernel can be built for (8192). */
#define CPUS_MAX  65536u
#define WORD_BITS ((uint32_t)(CHAR_BIT * sizeof(unsigned long)))

struct cpu_mask {
    unsigned long words[CPUS_MAX / WORD_BITS];
};

static bool mask_has(const struct cpu_mask *mask, uint32_t cpu)
{
    return cpu < CPUS_MAX && (mask->words[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1) != 0;
}

/* The next CPU of the mask from `cpu` on, and from the last to the first. The mask is not empty. */
static uint32_t next_allowed(const struct cpu_mask *mask, uint32_t cpu)
{
    for (uint32_t i = 0; i < CPUS_MAX; i++) {
        uint32_t at = (cpu + i) % CPUS_MAX;
        if (mask_has(mask, at))
            return at;
    }
    LX_ASSERT(false);
}

/* The calling thread's mask. The raw call tells how much of it the kernel wrote; the rest is 0. */
static int read_mask(struct cpu_mask *ret_mask)
{
    int saved = errno, rc = 0;

    memset(ret_mask, 0, sizeof *ret_mask);
    if (syscall(SYS_sched_getaffinity, 0, sizeof *ret_mask, ret_mask) < 0)
        rc = -errno;
    errno = saved;
    return rc;
}

int lx_affinity_assign(const lanex_executor_options *options, uint32_t workers, uint32_t *ret_cpus)
{
    struct cpu_mask mask;
    uint32_t next = 0;
    int rc;

    if (options->affinity == LANEX_AFFINITY_NONE) {
        for (uint32_t i = 0; i < workers; i++)
            ret_cpus[i] = LX_CPU_ANY;
        return 0;
    }
    rc = read_mask(&mask);
    if (rc < 0)
        return rc;
    /* Also those that no worker of this pool gets: a list is right or wrong by itself. */
    for (uint32_t i = 0; i < options->affinity_count; i++) {
        if (!mask_has(&mask, options->affinity_cpus[i]))
            return -EINVAL;
    }
    for (uint32_t i = 0; i < workers; i++) {
        if (options->affinity == LANEX_AFFINITY_LIST) {
            LX_ASSERT(options->affinity_count > 0); /* lx_config_resolve refuses an empty one */
            ret_cpus[i] = options->affinity_cpus[i % options->affinity_count];
        } else {
            ret_cpus[i] = next_allowed(&mask, next);
            next = ret_cpus[i] + 1;
        }
    }
    return 0;
}

int lx_affinity_enter(uint32_t cpu)
{
    struct cpu_mask mask;
    int saved = errno, rc = 0;

    if (cpu == LX_CPU_ANY)
        return 0;
    memset(&mask, 0, sizeof mask);
    mask.words[cpu / WORD_BITS] |= 1ul << (cpu % WORD_BITS);
    if (syscall(SYS_sched_setaffinity, 0, sizeof mask, &mask) < 0)
        rc = -errno;
    errno = saved;
    return rc;
}

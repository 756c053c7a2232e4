/*
 * Effective sizes: SPEC 2. Pure arithmetic; the number of usable CPUs comes from the caller.
 */
#include "admission/config.h"

#include <errno.h>

#include <lanex/completion.h>

#define READ_CAP_STANDARD 4u
#define PERMITS_STANDARD  3u
#define POOL_MIN          2u
#define RESERVE_POOL      4u /* workers from which two are kept for interactive jobs */
#define DEFICIT_VISITS    4u /* deficit_cap in units of actor_cap */
#define SPIN_CPUS_MIN     2u /* with fewer, whoever spins keeps the others from working */
#define KNOWN_FLAGS                                                                                \
    (LANEX_EXECUTOR_COMMIT_COUNTS_TOWARD_CAP | LANEX_EXECUTOR_NO_PROMOTION_SUSPENSION |            \
     LANEX_EXECUTOR_NO_AGED_LANES | LANEX_EXECUTOR_NO_PERMIT_STEP_OVER |                           \
     LANEX_EXECUTOR_NO_MAINTENANCE_MAX_WAIT | LANEX_EXECUTOR_CONTAIN_SIGNALS |                     \
     LANEX_EXECUTOR_ALLOW_SIGPROF)

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t clamp_u32(uint32_t value, uint32_t low, uint32_t high)
{
    return min_u32(max_u32(value, low), high);
}

static uint32_t or_default(uint32_t asked, uint32_t otherwise)
{
    return asked != 0 ? asked : otherwise;
}

static void resolve_standard(const lanex_executor_options *asked, uint32_t cpus, lanex_config *out)
{
    uint32_t others;

    out->pool_size = clamp_u32(or_default(asked->pool_size, cpus > 1 ? cpus - 1 : 1), POOL_MIN,
                               LANEX_POOL_MAX_STANDARD);
    others = max_u32(out->pool_size - 1, 1);
    out->actor_cap =
        min_u32(or_default(asked->actor_cap, clamp_u32(others, 1, READ_CAP_STANDARD)), others);
    out->read_cap = min_u32(or_default(asked->read_cap, out->actor_cap),
                            min_u32(out->actor_cap, READ_CAP_STANDARD));
    out->heavy_permits =
        min_u32(or_default(asked->heavy_permits, clamp_u32(others, 2, PERMITS_STANDARD)),
                min_u32(others, PERMITS_STANDARD));
}

/*
 * An actor may use the whole pool here if that is asked for, and two workers even of a pool of two:
 * with one worker always kept from an actor, reads could never overlap on the smallest pool.
 */
static void resolve_many_core(const lanex_executor_options *asked, uint32_t cpus, lanex_config *out)
{
    uint32_t others;

    out->pool_size =
        clamp_u32(or_default(asked->pool_size, cpus), POOL_MIN, LANEX_POOL_MAX_MANY_CORE);
    others = max_u32(out->pool_size - 1, 1);
    out->actor_cap =
        min_u32(or_default(asked->actor_cap, max_u32(others, POOL_MIN)), out->pool_size);
    out->read_cap = min_u32(or_default(asked->read_cap, out->actor_cap), out->actor_cap);
    out->heavy_permits =
        min_u32(or_default(asked->heavy_permits, max_u32(1, out->pool_size / 4)), others);
}

/* Which CPUs there are is asked later, by who makes the threads. */
static bool affinity_ok(const lanex_executor_options *asked)
{
    if (asked->affinity == LANEX_AFFINITY_LIST)
        return asked->affinity_cpus != NULL && asked->affinity_count > 0 &&
               asked->affinity_count <= LANEX_AFFINITY_LIST_MAX;
    return asked->affinity <= LANEX_AFFINITY_PER_CPU && asked->affinity_cpus == NULL &&
           asked->affinity_count == 0;
}

int lx_config_resolve(const lanex_executor_options *asked, uint32_t usable_cpus, lanex_config *out)
{
    if (asked->size != sizeof *asked || asked->profile > LANEX_PROFILE_MANY_CORE ||
        asked->policy > LANEX_POLICY_ARRIVAL || asked->dispatch > LANEX_DISPATCH_SCHEDULER ||
        asked->backend > LANEX_BACKEND_POLL || !affinity_ok(asked) ||
        asked->spin_us > LANEX_SPIN_MAX_US || (asked->flags & ~(uint32_t)KNOWN_FLAGS) != 0)
        return -EINVAL;

    out->size = sizeof *out;
    out->profile = asked->profile;
    out->policy = asked->policy;
    out->dispatch = or_default(asked->dispatch, LANEX_DISPATCH_SEAT);
    out->backend = asked->backend;
    out->flags = asked->flags;
    out->affinity = asked->affinity;
    out->usable_cpus = usable_cpus;
    out->spin_us = usable_cpus >= SPIN_CPUS_MIN ? asked->spin_us : 0;
    if (asked->profile == LANEX_PROFILE_STANDARD)
        resolve_standard(asked, usable_cpus, out);
    else
        resolve_many_core(asked, usable_cpus, out);

    out->drr_quantum = max_u32(asked->drr_quantum, 1);
    out->deficit_cap = DEFICIT_VISITS * out->actor_cap;
    out->interactive_reserve = out->pool_size >= RESERVE_POOL ? 2 : 1;
    out->maintenance_cap = max_u32(out->pool_size - out->interactive_reserve, 1);
    out->promotion_age_ms = or_default(asked->promotion_age_ms, LANEX_PROMOTION_AGE_MS_DEFAULT);
    out->maintenance_max_wait_ms =
        or_default(asked->maintenance_max_wait_ms, LANEX_MAINTENANCE_WAIT_MS_DEFAULT);
    out->maintenance_queue_cap =
        or_default(asked->maintenance_queue_cap, LANEX_MAINTENANCE_QUEUE_DEFAULT);
    out->interactive_actor_queue_cap = asked->interactive_actor_queue_cap;
    out->interactive_queue_cap = asked->interactive_queue_cap;
    out->maintenance_total_queue_cap = asked->maintenance_total_queue_cap;
    return 0;
}

/*
 * Views that read what turns have published. No lock, no wait.
 */
#include <errno.h>

#include "runtime/executor.h"

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

int lanex_executor_liveness(const lanex_executor *executor, lanex_liveness *ret_liveness)
{
    const struct lx_published *in;

    if (executor == NULL || ret_liveness == NULL || ret_liveness->size != sizeof *ret_liveness)
        return -EINVAL;
    in = &executor->published;
    for (unsigned c = 0; c < LX_CLASSES; c++) {
        ret_liveness->queued[c] = load(&in->queued[c]);
        ret_liveness->running[c] = load(&in->running[c]);
    }
    ret_liveness->idle_workers = load(&in->idle_workers);
    ret_liveness->interactive_reserve = executor->config.interactive_reserve;
    ret_liveness->maintenance_cap = executor->config.maintenance_cap;
    return 0;
}

static void add_door(const struct lx_door *door, lanex_counters *counters)
{
    counters->wakes += load(&door->counts.wakes);
    counters->wakes_without_work += load(&door->counts.noop_wakes);
    counters->ring_messages += load(&door->counts.messages_sent);
}

int lanex_executor_counters(const lanex_executor *executor, lanex_counters *ret_counters)
{
    const struct lx_published *in;
    lanex_counters *out = ret_counters;

    if (executor == NULL || out == NULL || out->size != sizeof *out)
        return -EINVAL;
    in = &executor->published;
    *out = (lanex_counters){.size = sizeof *out};
    for (unsigned c = 0; c < LX_CLASSES; c++) {
        out->completed[c] = load(&in->completed[c]);
        out->refused[c] = load(&in->refused[c]);
    }
    out->panicked = load(&in->panicked);
    out->non_runnable_dispatches = load(&in->non_runnable);
    out->actors = load(&in->actors);
    out->turns = load(&in->turns);
    out->turns_by_scheduler = load(&in->turns_by_scheduler);
    out->phantom_workers = (int64_t)executor->config.pool_size - (int64_t)load(&in->idle_workers) -
                           (int64_t)(load(&in->running[0]) + load(&in->running[1]));
    out->jobs_allocated = lx_slab_objects(&executor->jobs);
    for (uint32_t i = 0; i < executor->config.pool_size; i++)
        add_door(&executor->workers[i].door, out);
    add_door(&executor->scheduler_door, out);
    add_door(&executor->reaper_door, out);
    out->ring_messages += load(&executor->foreign_messages);
    return 0;
}

/*
 * Views that read what turns have published. No lock, no wait.
 */
#include <errno.h>

#include "runtime/executor.h"
#include "sync/seams.h"

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/*
 * What is published is at times older than what the workers have done since, and at times than what
 * was begun: both sides only grow, so that the difference is right once both are seen.
 */
static uint64_t less(uint64_t grown, uint64_t off)
{
    return grown > off ? grown - off : 0;
}

uint64_t lx_executor_running(const struct lanex_executor *ex, unsigned job_class)
{
    uint64_t begun = load(&ex->published.of[job_class].begun), ended = 0;

    for (uint32_t i = 0; i < ex->config.pool_size; i++)
        ended += load(&ex->workers[i].ended[job_class]);
    return less(begun, ended);
}

static uint64_t idle_workers(const struct lanex_executor *ex)
{
    uint64_t taken = load(&ex->published.taken), freed = 0;

    for (uint32_t i = 0; i < ex->config.pool_size; i++)
        freed += load(&ex->workers[i].freed);
    return less(ex->config.pool_size, less(taken, freed));
}

/* The reader's clock, so that the age grows while no turn is run. */
static uint64_t age_ms(uint64_t since_ns)
{
    uint64_t now_ns;

    if (since_ns == LANEX_TIME_NEVER)
        return LANEX_AGE_NONE;
    now_ns = lx_now_ns();
    return now_ns > since_ns ? (now_ns - since_ns) / UINT64_C(1000000) : 0;
}

/* Jobs that submitters left lying (see seat.c) count as queued. Only a turn changes the executor.
 */
static void have_inbox_handled(const struct lanex_executor *executor)
{
    struct lanex_executor *ex = (struct lanex_executor *)(uintptr_t)executor;

    if (atomic_load_explicit(&ex->lying, memory_order_relaxed) != LX_LYING_NONE &&
        lx_inbox_has(&ex->inbox) && !lx_executor_forked(ex))
        lx_seat_notify(ex);
}

int lanex_executor_liveness(const lanex_executor *executor, lanex_liveness *ret_liveness)
{
    const struct lx_published *in;

    if (executor == NULL || ret_liveness == NULL || ret_liveness->size != sizeof *ret_liveness)
        return -EINVAL;
    have_inbox_handled(executor);
    in = &executor->published;
    for (unsigned c = 0; c < LX_CLASSES; c++) {
        ret_liveness->queued[c] = load(&in->of[c].queued);
        ret_liveness->oldest_age_ms[c] = age_ms(load(&in->of[c].oldest_ns));
        ret_liveness->phantom_slots[c] = (int64_t)load(&in->phantom_slots[c]);
        ret_liveness->running[c] = lx_executor_running(executor, c);
    }
    ret_liveness->idle_workers = idle_workers(executor);
    ret_liveness->phantom_workers = (int64_t)load(&in->phantom_workers);
    ret_liveness->phantom_permits = (int64_t)load(&in->phantom_permits);
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
        out->completed[c] = load(&in->of[c].completed);
        out->refused[c] = load(&in->of[c].refused);
    }
    out->panicked = load(&in->panicked);
    out->non_runnable_dispatches = load(&in->non_runnable);
    out->actors = load(&in->actors);
    out->turns = load(&in->turns);
    out->turns_by_scheduler = load(&in->turns_by_scheduler);
    out->phantom_workers = (int64_t)load(&in->phantom_workers);
    out->jobs_allocated = lx_slab_objects(&executor->jobs);
    for (uint32_t i = 0; i < executor->config.pool_size; i++) {
        add_door(&executor->workers[i].door, out);
        out->busy_workers +=
            atomic_load_explicit(&executor->workers[i].busy, memory_order_relaxed) != 0;
    }
    add_door(&executor->scheduler_door, out);
    add_door(&executor->reaper_door, out);
    out->ring_messages += load(&executor->foreign_messages);
    return 0;
}

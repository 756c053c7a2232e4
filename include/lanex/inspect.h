/*
 * lanex/inspect.h - looking inside an executor.
 */
#ifndef LANEX_INSPECT_H
#define LANEX_INSPECT_H

#include <lanex/base.h>
#include <lanex/executor.h>

LANEX_BEGIN_DECLS

/* No job waits in this class. */
#define LANEX_AGE_NONE UINT64_MAX

typedef struct lanex_liveness {
    size_t size; /* sizeof(lanex_liveness), set by the caller */
    /* Indexed by enum lanex_class. */
    uint64_t queued[2];
    uint64_t
        oldest_age_ms[2]; /* since submission, of the oldest queued job; LANEX_AGE_NONE if none */
    uint64_t running[2];
    uint64_t idle_workers;
    uint32_t interactive_reserve;
    uint32_t maintenance_cap;
} lanex_liveness;

/*
 * The state as of the end of the last scheduler turn; a job that has a completion no longer counts,
 * whether a turn has seen its end or not. Takes no lock, waits for nobody and makes
 * nobody wait; the fields are each exact, not taken at one instant. Errors: -EINVAL.
 */
LANEX_API int lanex_executor_liveness(const lanex_executor *executor, lanex_liveness *ret_liveness);

typedef struct lanex_counters {
    size_t size;           /* sizeof(lanex_counters), set by the caller */
    uint64_t completed[2]; /* jobs that ran to their end, per class */
    uint64_t refused[2];   /* jobs answered without running, per class */
    uint64_t panicked;
    uint64_t non_runnable_dispatches; /* must stay 0 */
    int64_t phantom_workers;          /* in flight minus owned: must read 0 at rest */
    uint64_t actors;                  /* registered */
    uint64_t turns;                   /* scheduler turns run */
    uint64_t turns_by_scheduler;      /* of these, by lanex-sched */
    uint64_t wakes;                   /* times a sleeping lanex thread was woken */
    uint64_t wakes_without_work;      /* of these, in vain */
    uint64_t ring_messages;           /* sent to lanex's and to callers' rings */
    uint64_t jobs_allocated;          /* job slots that the slab holds, used and free */
} lanex_counters;

/* Exact when nothing runs; close to it otherwise. Errors: -EINVAL. */
LANEX_API int lanex_executor_counters(const lanex_executor *executor, lanex_counters *ret_counters);

LANEX_END_DECLS

#endif

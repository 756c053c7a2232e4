/* The books of the mixed test: what must hold of each job and each counter once all is over. */
#include "mixed.h"

/* ---- the books ---- */

/* An assertion about a job, which also holds in a child that has no test framework. */
#define JOB_REQUIRE(condition)                                                                     \
    ((condition) ? (void)0                                                                         \
                 : lx_test_die(__FILE__, __LINE__,                                                 \
                               "job %lu (flags %x, status %u, seen %u, ran %u): not %s",           \
                               (unsigned long)number, flags, status, seen, ran, #condition))

static void check_job(const struct mixed *mixed, uint64_t number)
{
    unsigned flags = mixed->flags[number], status = mixed->status[number];
    unsigned seen = mixed->seen[number], ran = mixed->ran[number];

    JOB_REQUIRE(ran <= 1);
    if ((flags & FLAG_COMMITTED) != 0)
        JOB_REQUIRE((flags & FLAG_EFFECT) != 0);
    if ((flags & FLAG_REMOVED) != 0)
        JOB_REQUIRE(ran == 0);
    if ((flags & FLAG_UNCOUNTED) != 0) {
        JOB_REQUIRE(seen == 0);
        return;
    }
    JOB_REQUIRE(seen == 1);
    if ((flags & FLAG_REMOVED) != 0)
        JOB_REQUIRE(status == LANEX_STATUS_REQUEST_CANCELLED);
    switch (status) {
    case LANEX_STATUS_OK:
    case LANEX_STATUS_JOB_FAILED:
    case LANEX_STATUS_JOB_PANICKED:
    case LANEX_STATUS_JOB_ABANDONED:
        JOB_REQUIRE(ran == 1);
        break;
    case LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED:
    case LANEX_STATUS_MAINTENANCE_CANCELLED:
    case LANEX_STATUS_MAINTENANCE_BACKPRESSURE:
    case LANEX_STATUS_ACTOR_NOT_REGISTERED:
        JOB_REQUIRE(ran == 0);
        break;
    default:
        JOB_REQUIRE(status == LANEX_STATUS_REQUEST_CANCELLED || status == LANEX_STATUS_ACTOR_FATAL);
        break;
    }
}

void mixed_check_books(const struct mixed *mixed)
{
    uint64_t by_status[LANEX_STATUS_EXECUTOR_SHUTDOWN + 1] = {0}, uncounted = 0;

    for (uint64_t i = 0; i < mixed->options.jobs; i++) {
        check_job(mixed, i);
        if ((mixed->flags[i] & FLAG_UNCOUNTED) != 0)
            uncounted++;
        else
            by_status[mixed->status[i]]++;
    }
    fprintf(stderr, "[----] %lu jobs:", (unsigned long)mixed->options.jobs);
    for (unsigned s = 0; s <= LANEX_STATUS_EXECUTOR_SHUTDOWN; s++)
        fprintf(stderr, " %lu", (unsigned long)by_status[s]);
    fprintf(stderr, ", untold %lu, refusals %lu; %lu panics\n", (unsigned long)uncounted,
            (unsigned long)mixed->refusals, (unsigned long)mixed->panics);
    LX_REQUIRE(atomic_load(&mixed->live_data) == 0);
    LX_REQUIRE(atomic_load(&mixed->live_contexts) == 0);
}

void mixed_check_counters(const struct mixed *mixed)
{
    lanex_counters counters = {.size = sizeof counters};

    lx_test_at_rest(mixed->executor);
    LX_REQUIRE(lanex_executor_counters(mixed->executor, &counters) == 0);
    LX_REQUIRE(counters.actors == ACTORS);
    LX_REQUIRE(counters.panicked == atomic_load(&mixed->panics));
    /* Each job ran to its end or was answered without. */
    LX_REQUIRE(counters.completed[0] + counters.completed[1] + counters.refused[0] +
                   counters.refused[1] ==
               mixed->options.jobs + mixed->own_jobs);
    fprintf(stderr,
            "[----] %lu turns, %lu by the scheduler; %lu wakes, %lu in vain; %lu ring messages; "
            "%lu job slots\n",
            (unsigned long)counters.turns, (unsigned long)counters.turns_by_scheduler,
            (unsigned long)counters.wakes, (unsigned long)counters.wakes_without_work,
            (unsigned long)counters.ring_messages, (unsigned long)counters.jobs_allocated);
}

void mixed_open_books(struct mixed *mixed)
{
    mixed->seen = calloc(mixed->options.jobs, 1);
    mixed->status = calloc(mixed->options.jobs, 1);
    mixed->ran = calloc(mixed->options.jobs, 1);
    mixed->flags = calloc(mixed->options.jobs, 1);
    LX_REQUIRE(mixed->seen && mixed->status && mixed->ran && mixed->flags);
}

void mixed_close_books(struct mixed *mixed)
{
    free((void *)mixed->seen);
    free((void *)mixed->status);
    free((void *)mixed->ran);
    free((void *)mixed->flags);
}

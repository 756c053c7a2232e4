/* What the files of the checker share. */
#ifndef LX_SIM_CHECK_INTERNAL_H
#define LX_SIM_CHECK_INTERNAL_H

#include "check.h"

#define CHECK_MS UINT64_C(1000000)

/* Begins and ends an event: the lock, the clock, the sequence. */
void check_enter(struct check *check);
void check_leave(struct check *check);
/* Says that a rule is broken; the first one stays. */
void check_broken(struct check *check, enum check_rule rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The condition must hold. */
#define CHECK_THAT(check, rule, condition, ...)                                                    \
    ((condition) ? (void)0 : check_broken((check), (rule), __VA_ARGS__))

struct check_job *check_job_at(struct check *check, uint32_t job);
struct check_actor *check_actor_at(struct check *check, uint32_t actor);

static inline bool check_switch(const struct check *check, uint32_t flag)
{
    return (check->config.flags & flag) != 0;
}

/* Waits for its turn, as far as can be seen from outside. */
static inline bool check_waits(const struct check_job *job)
{
    return job->accepted && job->returned && !job->begun && !job->completed;
}

/* check_looks.c: an event may have made work startable, or the other way round. */
void check_note_ready(struct check *check);

#endif

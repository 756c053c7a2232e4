/*
 * Timers of the admission state machine: one ordered tree for all, so that the earliest is at hand
 * and setting or clearing one costs O(log n). Actors have one timer each, jobs only if they have a
 * deadline.
 */
#ifndef LX_ADMISSION_TIMER_H
#define LX_ADMISSION_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bsd/sys/tree.h>

enum lx_timer_kind {
    LX_TIMER_ACTOR,    /* look at the actor again */
    LX_TIMER_URGENT,   /* a writer with a deadline becomes urgent; then becomes a DEADLINE timer */
    LX_TIMER_DEADLINE, /* a queued job's deadline passes */
};

struct lx_timer {
    RB_ENTRY(lx_timer) node;
    uint64_t when_ns;
    uint64_t order : 60; /* among timers of one moment: jobs in arrival order, actors after them */
    uint64_t kind : 3;   /* enum lx_timer_kind */
    uint64_t armed : 1;
};

RB_HEAD(lx_timer_tree, lx_timer);

struct lx_timers {
    struct lx_timer_tree tree;
    struct lx_timer *earliest; /* NULL when none is armed */
};

void lx_timers_init(struct lx_timers *timers);
/* Arms the timer, which must not be armed. */
void lx_timer_arm(struct lx_timers *timers, struct lx_timer *timer, enum lx_timer_kind kind,
                  uint64_t when_ns, uint64_t order);
/* Disarms the timer if it is armed. */
void lx_timer_disarm(struct lx_timers *timers, struct lx_timer *timer);
/* Takes out the earliest timer that is due at now_ns; NULL when there is none. */
struct lx_timer *lx_timers_take_due(struct lx_timers *timers, uint64_t now_ns);

static inline uint64_t lx_timers_next(const struct lx_timers *timers)
{
    return timers->earliest != NULL ? timers->earliest->when_ns : UINT64_MAX;
}

#endif

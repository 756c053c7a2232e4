#include "admission/timer.h"

#include "sync/assert.h"

static int timer_compare(const struct lx_timer *a, const struct lx_timer *b)
{
    if (a->when_ns != b->when_ns)
        return a->when_ns < b->when_ns ? -1 : 1;
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    /* Two actors may share an order number after renumbering; any fixed order will do. */
    return (uintptr_t)a < (uintptr_t)b ? -1 : (a != b);
}

RB_PROTOTYPE(lx_timer_tree, lx_timer, node, timer_compare)
RB_GENERATE(lx_timer_tree, lx_timer, node, timer_compare)

void lx_timers_init(struct lx_timers *timers)
{
    RB_INIT(&timers->tree);
    timers->earliest = NULL;
}

void lx_timer_arm(struct lx_timers *timers, struct lx_timer *timer, enum lx_timer_kind kind,
                  uint64_t when_ns, uint64_t order)
{
    LX_ASSERT(!timer->armed);
    timer->when_ns = when_ns;
    timer->order = order & ((UINT64_C(1) << 60) - 1);
    timer->kind = kind & 7u;
    timer->armed = 1;
    RB_INSERT(lx_timer_tree, &timers->tree, timer);
    if (timers->earliest == NULL || timer_compare(timer, timers->earliest) < 0)
        timers->earliest = timer;
}

void lx_timer_disarm(struct lx_timers *timers, struct lx_timer *timer)
{
    if (!timer->armed)
        return;
    if (timers->earliest == timer)
        timers->earliest = RB_NEXT(lx_timer_tree, &timers->tree, timer);
    RB_REMOVE(lx_timer_tree, &timers->tree, timer);
    timer->armed = 0;
}

struct lx_timer *lx_timers_take_due(struct lx_timers *timers, uint64_t now_ns)
{
    struct lx_timer *timer = timers->earliest;

    if (timer == NULL || timer->when_ns > now_ns)
        return NULL;
    lx_timer_disarm(timers, timer);
    return timer;
}

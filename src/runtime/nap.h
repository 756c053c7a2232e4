/*
 * Naps: where bodies are so short that the turns between them are most of the work, workers on
 * several CPUs mostly take the seat and the admission state's cache lines away from each other, and
 * one of them alone does more jobs. So a worker that finds the seat taken, and whose own jobs of
 * late were that short, sleeps for LX_NAP_NS, and again as long as others get on that fast.
 *
 * For turns a napper is a free worker: they put a job for it on the run queue, which whoever is
 * awake takes along, before any turn of its own. Meanwhile nobody is rung for jobs on that queue,
 * as long as somebody is awake besides the nappers. No wake is lost by either: a napper is counted
 * in `nappers` until it looks at inbox and queue again, as a watcher is in `watchers` (spin.h,
 * tests/model/watch.pml). Of {put on the queue; fence; look at nappers} and {count out; look at
 * queue} one sees the other, and of {push an end; look at nappers} and {count out; look at inbox}.
 * A napper that takes a job wakes the next worker if it leaves something there.
 *
 * What it costs: should all who are awake get into long bodies, a job waits for the end of the nap,
 * and of one more if they were fast until then, although a worker could have it: 2 * LX_NAP_NS and
 * what the kernel's timers add. Only where jobs took less than LX_BRISK_NS each just before.
 */
#ifndef LX_RUNTIME_NAP_H
#define LX_RUNTIME_NAP_H

#include <stdbool.h>
#include <stdint.h>

struct lanex_executor;
struct lanex_job;
struct lx_worker;

#define LX_NAP_NS  UINT64_C(100000)  /* one nap */
#define LX_PACE_NS UINT64_C(2000000) /* how long a worker's pace is measured for, at least */

/* In the seat, by a worker: now and then sees how fast it gets on. */
void lx_nap_note_pace(struct lx_worker *worker, uint64_t now_ns);
/* The seat is taken. True if the worker has slept, and must call lx_nap_end. */
bool lx_nap(struct lx_worker *worker);
/* Looks at what was left to the nappers: sees to it that a turn is run, and takes a job or NULL. */
struct lanex_job *lx_nap_end(struct lanex_executor *ex);
/* After a push to the run queue and a full fence: whether somebody comes for it without a wake. */
bool lx_nap_others_come(const struct lanex_executor *ex);

#endif

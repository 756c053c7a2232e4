/*
 * bench/harness/meter.h - counts completions, for submitters that wait for a number of them.
 *
 * Each thread that completes jobs has a counter of its own for each submitter; a submitter sums
 * them, and sleeps on a word of its own. A completion costs an addition to a line that no other
 * thread writes, and a look at that word.
 */
#ifndef BENCH_METER_H
#define BENCH_METER_H

#include <stdint.h>

#define BENCH_SUBMITTERS_MAX 64u

/* One more completion of a submitter's; on any thread. */
void bench_meter_add(unsigned submitter);

uint64_t bench_meter_sum(unsigned submitter);

/*
 * Sleeps until the sum is `target`, or up to `margin` completions later: a margin spares the
 * workers a look at each other's counters per job. So many more must be sure to follow.
 */
void bench_meter_wait(unsigned submitter, uint64_t target, uint64_t margin);

/* The exact wait, but for its last part with a margin. */
void bench_meter_wait_all(unsigned submitter, uint64_t target);

#endif

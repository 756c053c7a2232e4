/*
 * bench/workloads/blocked.h - an actor held by a writer that waits to be let go: W5 and W6.
 */
#ifndef BENCH_BLOCKED_H
#define BENCH_BLOCKED_H

#include "bench.h"

/* Submits the writer, and returns once it runs. */
void bench_block(struct bench_actor *actor, struct bench_job *job);
/* Lets it go. */
void bench_unblock(void);

#endif

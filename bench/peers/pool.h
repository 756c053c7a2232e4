/*
 * bench/peers/pool.h - the hand-written pools' queue of runnable jobs: a mutex, a condition
 * variable and three lists, the most urgent first.
 */
#ifndef BENCH_POOL_H
#define BENCH_POOL_H

#include "bench.h"

void pool_start(void (*run)(struct bench_job *job));
void pool_stop(void);
/* Puts `count` jobs, linked by next, at the end of their class. */
void pool_push(struct bench_job *first, struct bench_job *last, unsigned count,
               enum bench_class job_class);

#endif

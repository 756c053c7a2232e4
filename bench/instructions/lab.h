/*
 * bench/instructions/lab.h - an executor in which nothing happens but what is counted.
 *
 * bench-instructions runs under callgrind, which counts instructions between lab_begin and lab_end,
 * of all threads, and writes one file per case. To be repeatable to the instruction, a case lets
 * one thread work at a time: both workers are held in jobs that sleep; what is submitted queues,
 * on the submitter's thread alone; then one worker is let go and does everything alone while the
 * submitter sleeps. Backend poll: valgrind 3.19 does not know all of io_uring.
 */
#ifndef BENCH_LAB_H
#define BENCH_LAB_H

#include <lanex/lanex.h>
#include <stdatomic.h>

#define LAB_WORKERS 2u
#define LAB_ACTORS  64u
#define LAB_CALLS   1000u /* of each public call */

extern lanex_executor *lab_executor;
extern lanex_actor *lab_actors[LAB_ACTORS];

void lab_open(void);
void lab_close(void);

/* Ends the program with a message if rc is an error; else returns it. */
int lab_check(int rc, const char *what);

/* What is between these two is counted, for `count` jobs or calls. */
void lab_begin(void);
void lab_end(const char *name, unsigned count);

/* Both workers sleep in jobs: nothing else starts. */
void lab_hold(void);
/* One worker goes on. */
void lab_release_one(void);
/* Everything submitted meanwhile has been done, and both workers are free. */
void lab_release(void);

/* Jobs with an empty body. */
lanex_job_options lab_job(enum lanex_lane lane);
/* The same, counted by a callback; lab_wait sleeps till so many are done. */
lanex_job_options lab_counted_job(enum lanex_lane lane);
void lab_count_from(void);
void lab_wait(unsigned count);

void lab_jobs(void);
void lab_calls(void);
void lab_lookups(void);

#endif

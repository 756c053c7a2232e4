/*
 * bench/executor/executor.h - the executor that lanex-bench measures.
 */
#ifndef BENCH_EXECUTOR_H
#define BENCH_EXECUTOR_H

#include <lanex/lanex.h>

/* Made by bench_traits.start. */
extern lanex_executor *bench_executor;

/* Ends the program with a message if rc is an error; else returns it. */
int bench_check(int rc, const char *what);

/* What start asks for: many-core profile, so that the caps are not what is measured. */
lanex_executor_options bench_executor_options(void);

void bench_sinks(void);

#endif

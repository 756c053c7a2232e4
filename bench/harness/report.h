/*
 * bench/harness/report.h - results, as lines of JSON or of text, and what the kernel counts.
 *
 * A line: {"system", "workload", "params": {..}, "metric", "value", "unit"}. Parameters are set
 * before the figures that they belong to.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Begins the parameters of a run anew. */
void bench_report_begin(const char *workload);
void bench_param_int(const char *name, long long value);
void bench_param_real(const char *name, double value);
void bench_param_text(const char *name, const char *value);
void bench_param_bool(const char *name, bool value);
void bench_report(const char *metric, double value, const char *unit);

/* Sorts ticks, and gives the one at a rank from 0 to 1 in ns. */
void bench_sort_ticks(uint32_t *ticks, long count);
double bench_rank_ns(const uint32_t *sorted, long count, double rank);

/* What this process used, and what all others did meanwhile, since begin. */
struct bench_usage {
    uint64_t wall_ns;
    double cpu_s, busy_s;
};
struct bench_usage bench_usage_begin(void);
/* Makes of a beginning the differences; busy_s becomes CPUs that others kept busy. */
void bench_usage_end(struct bench_usage *usage);

long bench_resident(void); /* bytes */
int bench_threads(void);   /* of this process */
/* Binds the calling thread: to one CPU of those that the process may use (by rank), or to all. */
void bench_pin(unsigned rank);
void bench_unpin(void);
unsigned bench_cpus(void);         /* that the process may use */
unsigned bench_cpu(unsigned rank); /* the number of one of them */

#ifdef __cplusplus
}
#endif

#endif

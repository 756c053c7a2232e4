/* The workloads of lanex-bench: those that every system has, and lanex's own. */
#include "executor.h"
#include "loops.h"
#include "workloads.h"

const struct bench_workload bench_workloads[] = {
    BENCH_WORKLOADS_COMMON,
    {"W8", "rwlock", "the epoch lock alone", bench_rwlock, true},
    {"W10", "sinks", "W1 and W3 for each sink", bench_sinks, false},
    {0},
};

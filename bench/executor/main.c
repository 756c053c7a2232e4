/* The workloads of lanex-bench: those that every system has, and lanex's own. */
#include "executor.h"
#include "workloads.h"

const struct bench_workload bench_workloads[] = {
    BENCH_WORKLOADS_COMMON,
    {0},
};

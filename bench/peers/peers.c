/* The workloads of a peer: those that every system has. */
#include "workloads.h"

const struct bench_workload bench_workloads[] = {
    BENCH_WORKLOADS_COMMON,
    {0},
};

/* bench-floor: the kernel's and the CPU's part alone. */
#include "bench.h"
#include "floor.h"
#include "workloads.h"

const struct bench_workload bench_workloads[] = {
    {"-", "pingpong", "round trips of two threads; --variant names a method", floor_pingpong, true},
    {"-", "oneway", "what single calls cost", floor_oneway, true},
    {"-", "atomics", "what single operations cost", floor_atomics, true},
    {0},
};

const struct bench_traits bench_traits = {.name = "floor"};

const char *floor_ring_text(unsigned flags)
{
    return flags == FLOOR_PLAIN ? "plain" : flags == FLOOR_COOP ? "coop" : "defer";
}

int floor_check(int rc, const char *what)
{
    if (rc < 0)
        bench_die(what, rc);
    return rc;
}

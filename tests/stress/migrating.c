/*
 * Every thread of the process is moved between CPUs again and again, as by a cpuset or taskset,
 * while the load runs: one CPU, the other, both, each thread for itself or all together. Spinning
 * and waking must do without a second CPU that was there a moment ago.
 */
#include "mixed.h"
#include "tests/support/lx_left.h"

#include <errno.h>
#include <sched.h>

TestSuite(migrating); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define JOBS       40000u /* of a round */
#define SUBMITTERS 2u
#define MOVES      2000u /* of a thread each, at least */
#define SETS       3u

static struct mixed mixed;
static cpu_set_t sets[SETS]; /* one CPU, another, both */

/* Where the process has one CPU only, that is one, another and both. */
static void find_cpus(void)
{
    cpu_set_t allowed;
    unsigned found = 0;

    LX_REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    for (unsigned i = 0; i < SETS; i++)
        CPU_ZERO(&sets[i]);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        CPU_SET(cpu, &sets[found]);
        CPU_SET(cpu, &sets[2]);
        found++;
    }
    if (found < 2) {
        fprintf(stderr, "[----] one CPU only: there is nowhere to move to\n");
        sets[1] = sets[0];
    }
}

/* Each thread there is; how many were moved. */
static unsigned move_all(struct lx_rng *rng)
{
    DIR *folder = opendir("/proc/self/task");
    bool together = lx_rng_percent(rng, 30);
    uint64_t common = lx_rng_below(rng, SETS);
    struct dirent *entry;
    unsigned moved = 0;

    LX_REQUIRE(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        uint64_t chosen = together ? common : lx_rng_below(rng, SETS);
        if (tid == 0)
            continue;
        if (sched_setaffinity(tid, sizeof sets[chosen], &sets[chosen]) == 0)
            moved++;
        else
            LX_REQUIRE(errno == ESRCH); /* it has ended since */
    }
    closedir(folder);
    return moved;
}

/* Also create under one CPU alone, which decides once whether spinning is of use. */
static unsigned one_round(struct lx_rng *rng)
{
    struct mixed_options options = {
        .jobs = lx_test_scaled(JOBS),
        .seed = lx_rng_next(rng),
        .submitters = SUBMITTERS,
        .executor = lx_test_executor_options((unsigned)lx_rng_between(rng, 2, 8)),
    };
    unsigned moved = 0;

    options.executor.affinity =
        lx_rng_percent(rng, 30) ? LANEX_AFFINITY_PER_CPU : LANEX_AFFINITY_NONE;
    LX_REQUIRE(sched_setaffinity(0, sizeof *sets, &sets[lx_rng_below(rng, SETS)]) == 0);
    mixed_begin(&mixed, &options);
    while (mixed_goes_on(&mixed)) {
        moved += move_all(rng);
        sched_yield();
    }
    mixed_end(&mixed);
    return moved;
}

Test(migrating, between_cpus_loses_nothing)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t end = lx_test_soak_end_ns(1);
    uint64_t moved = 0, rounds = 0;
    struct lx_test_left before;

    find_cpus();
    one_round(&rng); /* with what the C library makes once */
    before = lx_test_left();
    for (; moved < MOVES || lx_test_now_ns() < end; rounds++)
        moved += one_round(&rng);
    lx_test_nothing_left(before);
    LX_REQUIRE(sched_setaffinity(0, sizeof *sets, &sets[2]) == 0);
    fprintf(stderr, "[----] %lu rounds, %lu moves\n", (unsigned long)rounds, (unsigned long)moved);
}

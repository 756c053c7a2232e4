/* driver.h - running seeds in child processes, and shrinking what fails. */
#ifndef LX_SIM_DRIVER_H
#define LX_SIM_DRIVER_H

#include "sim.h"

#define SIM_VERDICT_MAX 1000u

struct sim_settings {
    const struct sim_users *users;
    int policy; /* -1: the seed's choice */
    uint64_t limit;
    bool trace;
};

/* How a run ended; shared with the child that runs it. */
struct sim_outcome {
    bool failed;
    uint64_t steps, switches, hash, virtual_ns;
    char text[SIM_VERDICT_MAX];
};

/* The scenario of a seed. */
void sim_scenario_make(const struct sim_users *users, uint64_t seed, struct sim_scenario *ret);
/* Runs it in a child process. */
void sim_run_child(const struct sim_settings *settings, const struct sim_scenario *scenario,
                   struct sim_outcome *ret_outcome);
/* Leaves out what is not needed to fail. */
void sim_shrink(const struct sim_settings *settings, struct sim_scenario *scenario,
                struct sim_outcome *outcome);

#define SIM_OP_REMOVED UINT32_MAX /* the kind of an operation that was left out */

#endif

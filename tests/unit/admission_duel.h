/*
 * The admission state machine against the naive reference: the same operations for both, each turn
 * compared, each counter recounted; what differs aborts. The operations come from a generator of
 * random numbers, or from bytes (tests/fuzz), which choose all that would be random: first the
 * configuration, then an operation a step.
 */
#ifndef LX_TEST_ADMISSION_DUEL_H
#define LX_TEST_ADMISSION_DUEL_H

#include "admission_naive.h"
#include "admission_rig.h"
#include "tests/support/lx_rng.h"

#define DUEL_ACTORS_MAX 40u
#define DUEL_JOBS_MAX   4000u

struct duel_choice {
    struct lx_rng rng;
    bool from_bytes;
    const uint8_t *bytes;
    size_t left;
    bool ended; /* more bytes were asked for than there are; those were 0 */
};

struct duel {
    struct rig rig;
    struct naive naive;
    struct duel_choice choice;
    bool costs;                                /* costs and weights are not all 1 */
    struct rig_actor *actors[DUEL_ACTORS_MAX]; /* registered */
    unsigned actor_count, actors_aim;
    struct rig_job *jobs[DUEL_JOBS_MAX]; /* perhaps not over */
    unsigned job_count;
    unsigned long turns, dispatched, settled, timed_starts, removed;
    unsigned mood;
    size_t deepest; /* queue */
};

void duel_begin(struct duel *duel, const struct duel_choice *choice, bool costs);
/* One operation. False once there is nothing left to choose by. */
bool duel_step(struct duel *duel);
/* Everything ends; then every counter is zero. */
void duel_end(struct duel *duel);

#endif

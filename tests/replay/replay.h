/* One scenario of a golden trace, played and compared. */
#ifndef LX_REPLAY_REPLAY_H
#define LX_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "world.h"

struct replay_totals {
    unsigned long scenarios;
    unsigned long steps;          /* compared */
    unsigned long mismatches;     /* a scenario ends at its first one */
    unsigned long steps_left_out; /* after a quirk that the traces cannot speak about */
    unsigned long snapshots;      /* of these, compared views */
    bool quiet;                   /* the first mismatch has been printed */
};

void replay_scenario(const json_t *scenario, struct replay_totals *totals);

/*
 * The views of SPEC 11: true if lanex gives what the step has recorded. *ret_want and *ret_got, for
 * the report of a difference, are to be given back with json_decref; unset unless there is one.
 */
bool same_snapshot(struct world *world, const json_t *step, json_t **ret_want, json_t **ret_got);

#endif

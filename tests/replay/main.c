/*
 * lanex-replay FILE...: drives the admission state machine through golden traces, one step a
 * scheduler turn, and compares what each step starts and answers. Exit codes: 0 all agree, 1 a
 * mismatch, 2 nothing to compare or unreadable input.
 */
#include <stdio.h>

#include "replay.h"
#include "trace.h"

int main(int argc, char **argv)
{
    struct replay_totals totals = {0};

    if (argc < 2) {
        fputs("usage: lanex-replay FILE...\n", stderr);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        struct trace_file *file = trace_open(argv[i]);
        json_t *scenario;
        unsigned long before = totals.scenarios;

        while ((scenario = trace_next(file)) != NULL) {
            replay_scenario(scenario, &totals);
            json_decref(scenario);
        }
        trace_close(file);
        if (totals.scenarios == before) {
            fprintf(stderr, "lanex-replay: %s: no scenario in it\n", argv[i]);
            return 2;
        }
    }
    printf("%lu scenarios, %lu steps, %lu mismatches\n", totals.scenarios, totals.steps,
           totals.mismatches);
    printf("%lu snapshots compared\n", totals.snapshots);
    if (totals.steps_left_out > 0)
        printf("%lu steps left out after stale_completion or shifted_cursor\n",
               totals.steps_left_out);
    return totals.mismatches == 0 ? 0 : 1;
}

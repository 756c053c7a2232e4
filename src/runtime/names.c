#include "runtime/names.h"

#include <lanex/inspect.h>
#include <lanex/job.h>

const char *lx_lane_word(unsigned lane)
{
    static const char *const words[] = {
        [LANEX_LANE_PURE_READ] = "PureRead",
        [LANEX_LANE_SERIAL_STATUS] = "SerialStatus",
        [LANEX_LANE_HEAVY_INIT] = "HeavyInit",
        [LANEX_LANE_MUTATING] = "Mutating",
        [LANEX_LANE_MAINTENANCE_COMMIT] = "MaintenanceCommit",
    };

    return words[lane];
}

const char *lanex_job_state_text(int state)
{
    switch (state) {
    case LANEX_STATE_ACTOR_MISSING:
        return "actor_missing";
    case LANEX_STATE_RUNNING:
        return "running";
    case LANEX_STATE_QUEUED:
        return "queued";
    case LANEX_STATE_BLOCKED_BY_OTHER_MUTATING:
        return "blocked_by_other_mutating";
    case LANEX_STATE_NOT_FOUND:
        return "not_found";
    default:
        return NULL;
    }
}

const char *lanex_wait_reason_text(int reason)
{
    static const char *const words[] = {
        [LANEX_WAIT_NONE] = "nothing: it runs",
        [LANEX_WAIT_TURN] = "its actor's turn",
        [LANEX_WAIT_WRITER] = "a writer of its actor to end",
        [LANEX_WAIT_READERS] = "readers of its actor to end",
        [LANEX_WAIT_LANE] = "its lane, which is full",
        [LANEX_WAIT_SLOT] = "a free slot of its actor",
        [LANEX_WAIT_PERMIT] = "a heavy permit",
        [LANEX_WAIT_PROMOTED_WRITER] = "a promoted writer that goes first",
        [LANEX_WAIT_QUEUED_WRITER] = "a queued interactive writer that goes first",
        [LANEX_WAIT_INSTALL] = "an install step that goes first",
        [LANEX_WAIT_READS] = "queued reads that go first",
        [LANEX_WAIT_OLDER] = "an older job that goes first",
        [LANEX_WAIT_WORKERS] = "an idle worker",
        [LANEX_WAIT_CLASS] = "a worker that maintenance may use",
        [LANEX_WAIT_GATE] = "the gate: the epoch is held outside the executor",
        [LANEX_WAIT_TICKET] = "another job's ticket",
        [LANEX_WAIT_ANSWER] = "its answer: it does not run any more",
    };

    if (reason < 0 || reason >= (int)(sizeof words / sizeof words[0]))
        return NULL;
    return words[reason];
}

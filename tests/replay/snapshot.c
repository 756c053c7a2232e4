#include "replay.h"

/* The views that the snapshots record are not built yet: they are counted as not compared. */
enum snapshot_result compare_snapshot(struct world *world, const json_t *step, json_t **ret_got)
{
    (void)world;
    (void)step;
    (void)ret_got;
    return SNAPSHOT_NOT_COMPARED;
}

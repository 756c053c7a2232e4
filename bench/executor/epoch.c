/* lanex's own lock for W8. */
#include <lanex/epoch.h>

#include "loops.h"

/* Called as users call it: nothing of it is inlined. */
BENCH_LOCK(lanex_epoch, lanex_epoch, lanex_epoch_init(lock), lanex_epoch_read_acquire(lock),
           lanex_epoch_read_release(lock), lanex_epoch_write_acquire(lock),
           lanex_epoch_write_release(lock))

static const struct bench_lock epoch[] = {
    BENCH_LOCK_ENTRY(lanex_epoch, true),
    {0},
};

const struct bench_lock *const bench_lock_lists[] = {epoch, NULL};

/*
 * Instructions per job of W1, W2 and W5: a window of jobs is submitted while the workers are held,
 * then one worker runs it: `-submit` and `-run`. The spinning of W2's bodies is left out.
 */
#include <stdio.h>

#include "lab.h"

#define WINDOW     4096u
#define WINDOWS    3u
#define DEPTH      10000u
#define WRITE_EACH 10u

/* The last of three windows is what is counted, when slabs and caches are as they stay. */
static void window(const char *name, unsigned actors, unsigned count, bool mixed, bool report)
{
    lanex_job_options read = lab_counted_job(LANEX_LANE_PURE_READ);
    lanex_job_options write = lab_counted_job(LANEX_LANE_MUTATING);
    char part[64];

    lab_hold();
    lab_count_from();
    if (report)
        lab_begin();
    for (unsigned i = 0; i < count; i++) {
        bool writes = mixed && i / actors % WRITE_EACH == WRITE_EACH - 1;
        lab_check(lanex_submit(lab_actors[i % actors], writes ? &write : &read, NULL), "submit");
    }
    if (report) {
        snprintf(part, sizeof part, "%s-submit", name);
        lab_end(part, count);
        lab_begin();
    }
    lab_release_one();
    lab_wait(count);
    if (report) {
        snprintf(part, sizeof part, "%s-run", name);
        lab_end(part, count);
    }
    lab_release();
}

static void windows(const char *name, unsigned actors, unsigned count, bool mixed)
{
    for (unsigned i = 1; i <= WINDOWS; i++)
        window(name, actors, count, mixed, i == WINDOWS);
}

void lab_jobs(void)
{
    windows("W1", LAB_ACTORS, WINDOW, false);
    windows("W2", LAB_ACTORS, WINDOW, true);
    windows("W5", 1, DEPTH, true);
}

#ifndef LANEX_SCALE_H
#define LANEX_SCALE_H

#include <lanex/lanex.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SCALE_REPEAT_MAX 101u
#define SCALE_BUSY       64u /* actors that have jobs */

struct scale_options {
    unsigned repeat, jobs, actors, depth, workers;
    uint32_t dispatch, backend;
};

void scale_actors(const struct scale_options *options);
void scale_queue(const struct scale_options *options);
void scale_cancel(const struct scale_options *options);
void scale_memory(const struct scale_options *options);

/* ---- common.c ---- */

/* Ends the program with a message if rc is an error; else returns it. */
int scale_check(int rc, const char *what);
lanex_executor *scale_executor(const struct scale_options *options);
/* A new actor; the handle is the caller's. */
lanex_actor *scale_actor(lanex_executor *executor, const char *kind, unsigned number);
void scale_nothing(lanex_job *job, void *context, void *arg);

/* Keeps an actor (by a writer) or a permit (by a heavy_init) for as long as it is shut. */
struct scale_gate {
    atomic_uint begun, open;
    lanex_ticket *ticket;
};
void scale_gate_shut(struct scale_gate *gate, lanex_actor *actor, enum lanex_lane lane);
/* Returns when the job has ended: then the gate may go. */
void scale_gate_open(struct scale_gate *gate);

/* Counts completions; waits by sleeping, so that the waiter costs no CPU time. */
struct scale_count {
    atomic_uint done;
    unsigned wanted;
};
void scale_count_begin(struct scale_count *count, unsigned wanted);
void scale_count_one(lanex_completion *completion, void *count);
void scale_count_wait(struct scale_count *count);

struct scale_time {
    uint64_t wall_ns, cpu_ns;
};
struct scale_time scale_now(void);
/* Per-job times of the repetitions of one variant. */
struct scale_series {
    double wall[SCALE_REPEAT_MAX], cpu[SCALE_REPEAT_MAX];
    unsigned count;
};
void scale_series_add(struct scale_series *series, struct scale_time since, unsigned jobs);
double scale_median(double *values, unsigned count);
/* {"case":..,"variant":..,"wall_ns":..,"cpu_ns":..}; first: "wall_x" and "cpu_x" by that one. */
void scale_print(const char *name, const char *variant, unsigned size, struct scale_series *series,
                 struct scale_series *first);
/* Resident bytes of this process. */
uint64_t scale_resident(void);
/* xorshift. */
uint64_t scale_random(uint64_t *state);

#endif

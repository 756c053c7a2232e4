/*
 * A whole life of an executor in which one thing or another is refused: every kind of sink, lane
 * and call, and what may come of each. Whatever is refused, each call either works or gives the
 * errno of the refusal and leaves its output alone; none touches errno; and each job that was
 * accepted is answered once.
 */
#ifndef LX_FAULT_SCENARIO_H
#define LX_FAULT_SCENARIO_H

#include "tests/support/lx_executor.h"

#include <errno.h>
#include <liburing.h>

#define SCENARIO_ERRNO 4711 /* of the caller, untouched by all calls */

/* What came of it. */
struct scenario_outcome {
    bool created;
    bool rings;        /* the executor runs on rings */
    unsigned failed;   /* calls that gave the errno, create's not counted */
    unsigned answered; /* jobs */
};

/*
 * `error`: the errno that calls may give (0: none may). With `contain` the executor also contains
 * signals.
 */
struct scenario_outcome scenario_run(int error, bool contain);

/* ---- inside ---- */

#define SCENARIO_JOBS 96u

struct scenario_job {
    bool accepted, silent; /* silent: nobody is told of its end, so it must have run */
    bool may_not_run;
    atomic_uint ran, answers;
    struct scenario *scenario;
};

struct scenario {
    int error;
    atomic_uint failed;
    lanex_executor *executor;
    lanex_actor *actors[2];
    struct scenario_job jobs[SCENARIO_JOBS];
    unsigned used;
    lanex_deferred *deferred[4];
    atomic_uint deferred_count, registered, unregistered, torn_down, released;
    struct latch holding, go_on;
};

/* The result of a public call, which was made with SCENARIO_ERRNO in errno: true if it worked,
 * false if it gave the expected error. Dies otherwise. */
bool scenario_call(struct scenario *s, int result, const char *text);
#define SCENARIO_CALL(s, call) scenario_call((s), (errno = SCENARIO_ERRNO, (call)), #call)
/* Likewise, of one that never waits: 1, 0, or also 0 for -EBUSY. */
bool scenario_try(struct scenario *s, int result, const char *text);
#define SCENARIO_TRY(s, call) scenario_try((s), (errno = SCENARIO_ERRNO, (call)), #call)

/* The next job and, with a callback that counts its answer, its options. */
struct scenario_job *scenario_next(struct scenario *s, enum lanex_lane lane, lanex_job_fn run,
                                   lanex_job_options *ret_options);
/* Submits it to the actor. */
bool scenario_submit(struct scenario *s, lanex_actor *actor, struct scenario_job *job,
                     const lanex_job_options *options, uint64_t *ret_number);
void scenario_count_run(lanex_job *job, void *context, void *arg);
/* A mutating job that runs until scenario_let_go; false if it was refused. */
bool scenario_hold(struct scenario *s, lanex_actor *actor);
void scenario_let_go(struct scenario *s, bool held);
/* Waits until the job was answered, if it was accepted. */
void scenario_await(const struct scenario_job *job);

/* The parts: scenario_sinks.c, scenario_calls.c. */
void scenario_sinks(struct scenario *s);
void scenario_detach(struct scenario *s);
void scenario_defer(struct scenario *s);
void scenario_end_early(struct scenario *s);
void scenario_gate(struct scenario *s);
void scenario_look(struct scenario *s);
void scenario_flight(struct scenario *s);
void scenario_actors(struct scenario *s);

#endif

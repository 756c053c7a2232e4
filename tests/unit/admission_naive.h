/*
 * SPEC 3 to 10 written down a second time, as simply as can be: every question is answered by
 * looking at all jobs and all actors. Shares no code with src/admission. Jobs and actors are named
 * by the numbers that the test gives them.
 *
 * Where SPEC leaves a choice, or src/admission states a deviation, this does the same:
 * - a visit adds to the deficit only if a job of that class could start but for its cost;
 * - the deficit's limit knows the largest cost since the actor's queues were last both empty;
 * - an install step goes before everything else of its actor, in the interactive round;
 * - overdue maintenance has a rotation of its own and is not asked for its cost.
 */
#ifndef LX_TEST_ADMISSION_NAIVE_H
#define LX_TEST_ADMISSION_NAIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lanex/executor.h>

enum naive_state { NAIVE_QUEUED, NAIVE_RUNNING, NAIVE_BUILT, NAIVE_INSTALLING, NAIVE_OVER };

struct naive_job {
    unsigned id;
    unsigned actor;
    unsigned job_class, lane, coalesce_key;
    uint64_t cost, deadline_ns; /* UINT64_MAX: none */
    uint64_t submitted_ns, started_ns;
    uint64_t built_order;
    enum naive_state state;
    bool overdue;
};

struct naive_actor {
    unsigned id;
    uint64_t weight, deficit, largest_cost;
    bool registered, fatal;
};

struct naive_answer {
    unsigned id;
    int status;
};

struct naive {
    lanex_config config;
    uint64_t now_ns;
    struct naive_job *jobs; /* those that are not over, in arrival order */
    size_t job_count, job_room;
    struct naive_actor *actors; /* by id, all that ever were */
    size_t actor_count, actor_room;
    unsigned *rotation; /* ids of the registered, in order */
    size_t rotation_count, rotation_room;
    size_t cursor, overdue_cursor; /* into rotation */
    uint64_t built;
    /* A visit that stopped for want of a worker. */
    bool open, open_grown;
    unsigned open_actor, open_class;
    uint64_t open_starts;
    bool draining;
    /* Of the last turn. */
    unsigned *dispatched;
    size_t dispatched_count, dispatched_room;
    struct naive_answer *settled;
    size_t settled_count, settled_room;
};

void naive_init(struct naive *naive, const lanex_config *config);
void naive_fini(struct naive *naive);
void naive_begin(struct naive *naive, uint64_t now_ns);
void naive_register(struct naive *naive, unsigned id, uint32_t weight);
void naive_remove(struct naive *naive, unsigned actor);
/* `asked` with id, actor, class, lane, coalesce key, cost and deadline set. */
void naive_submit(struct naive *naive, const struct naive_job *asked, bool known_actor,
                  bool token_cancelled);
void naive_end(struct naive *naive, unsigned id, bool panicked);
bool naive_build_done(struct naive *naive, unsigned id);
bool naive_cancel(struct naive *naive, unsigned id);
uint32_t naive_cancel_maintenance(struct naive *naive, unsigned actor);
void naive_expire(struct naive *naive);
void naive_schedule(struct naive *naive);

/* Counts, by looking at all jobs. */
struct naive_counts {
    unsigned queued[2], running[2];
    unsigned in_flight, reads, serials, commits, writers, heavies, built;
    uint64_t keys;
    uint64_t oldest_ns[2]; /* when the oldest queued job was queued; UINT64_MAX: none is */
};
struct naive_counts naive_count_actor(const struct naive *naive, unsigned actor);
struct naive_counts naive_count_all(const struct naive *naive);

#endif

/*
 * The full set of users: what its files share. They do everything that the public API offers, by a
 * list of operations that the seed made, and tell the checker (check.h) of each event.
 */
#ifndef LX_SIM_USERS_H
#define LX_SIM_USERS_H

#include <lanex/lanex.h>

#include "check.h"
#include "sim.h"

#define USERS_KEYS     4u
#define USERS_JOBS     2048u
#define USERS_BATCH    4u
#define USERS_MS       UINT64_C(1000000)
#define USERS_CONTEXTS CHECK_ACTORS_MAX

enum users_kind {
    USERS_SUBMIT,
    USERS_BATCH_SUBMIT,
    USERS_CANCEL,
    USERS_TOKEN,
    USERS_REGISTER,
    USERS_REMOVE,
    USERS_RETIRE,
    USERS_CANCEL_MAINTENANCE,
    USERS_ANSWER,
    USERS_TAKE,
    USERS_DETACH,
    USERS_TICKET,
    USERS_QUERY,
    USERS_STILL,
    USERS_REST,
    USERS_DRAIN,
    USERS_KINDS
};

/* What a body does, beside taking its time. */
enum users_conduct {
    USERS_PLAIN,
    USERS_RESPONDS,
    USERS_RESPONDS_TWICE,
    USERS_FAILS,
    USERS_PANICS,
    USERS_PANICS_WITH_DATA,
    USERS_SEALS,
    USERS_DEFERS,
    USERS_DEFERS_AND_PANICS,
    USERS_CONDUCTS
};

enum users_sink {
    USERS_TO_CALLBACK,
    USERS_TO_TICKET,
    USERS_TO_PORT,
    USERS_TO_RING_PORT,
    USERS_TO_RING,
    USERS_TO_NONE,
    USERS_SINKS
};

/* Settings: indices of sim_scenario.set. */
enum users_setting {
    USERS_POOL,
    USERS_PROFILE,
    USERS_POLICY,
    USERS_DISPATCH,
    USERS_FLAGS,
    USERS_ACTOR_CAP,
    USERS_READ_CAP,
    USERS_PERMITS,
    USERS_QUANTUM,
    USERS_PROMOTION_MS,
    USERS_WAIT_MS,
    USERS_QUEUE_CAP,
    USERS_OTHER_CAPS,
    USERS_EARLY,     /* destroy after so many ns, with users still calling */
    USERS_HOOKS,     /* set hooks */
    USERS_LEAVE_OWED /* deferred answers are left to destroy */
};

struct users_job {
    uint32_t index, conduct, yields, owner, sink;
    uint64_t sleep_ns, number;
    struct check_facts facts;
    lanex_ticket *ticket;
    lanex_cancellation *token;
    lanex_deferred *handle;
    bool taken, told_by_ring;
    int32_t ring_result;
};

struct users_context {
    uint32_t actor;
};

struct user {
    const struct sim_scenario *scenario;
    unsigned index;
    lanex_actor *handle[USERS_KEYS];
    uint32_t actor[USERS_KEYS];
    lanex_port *port, *ring_port;
    lanex_ring *ring;
    int ring_fd;
    bool detached;
};

extern struct users_world {
    lanex_executor *executor;
    struct check check;
    struct users_job job[USERS_JOBS];
    uint32_t jobs, contexts;
    struct users_context context[USERS_CONTEXTS];
    bool key_taken[USERS_KEYS];
    uint32_t owed[USERS_JOBS]; /* deferred answers that nobody has taken up */
    uint32_t owed_first, owed_count;
    uint64_t turns, still_turns, still_events;
} users;

/* users_bodies.c */
void users_run(lanex_job *handle, void *context, void *arg);
void users_install(lanex_job *handle, void *context, void *arg);
void users_told(lanex_completion *completion, void *job);
/* Gives one of the owed answers; false if there is none. */
bool users_answer_one(uint64_t dice);

/* users_actors.c */
void users_register(struct user *user, uint32_t key, uint32_t weight);
void users_remove(uint32_t key, bool retire);
void users_cancel_maintenance(uint32_t key);
void users_take_handle(struct user *user, uint32_t key);
void users_query(uint32_t key, uint64_t dice);
void users_set_hooks(void);

/* users_ops.c */
void users_perform(struct user *user, const struct sim_op *op);
void users_take(struct user *user);
void users_untold_ports(const struct user *user);

#endif

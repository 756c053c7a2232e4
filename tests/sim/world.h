/* world.h - what the files of the simulated world share. sim.h says what it is. */
#ifndef LX_SIM_WORLD_H
#define LX_SIM_WORLD_H

#include "sim.h"

#include <poll.h>
#include <stdio.h>

#define SIM_FIBERS   64u  /* at once: one bit each in a word */
#define SIM_STORES   16u  /* places of a store buffer */
#define SIM_TLS_MAX  512u /* bytes of lanex's thread-locals */
#define SIM_NEVER    UINT64_MAX
#define SIM_NAME_MAX 24u

/* How the next fiber is chosen. */
enum sim_policy {
    SIM_POLICY_UNIFORM,    /* any that can run, often */
    SIM_POLICY_PRIORITIES, /* the highest; a few times in a run one falls to the bottom (PCT) */
    SIM_POLICY_STRETCHES,  /* any, rarely */
    SIM_POLICIES
};

struct sim_store {
    unsigned char *at;
    uint64_t value, step;
    uint32_t size;
};

enum sim_state { SIM_FREE, SIM_READY, SIM_ASLEEP, SIM_ENDED };

struct sim_fiber {
    void *stack_pointer;
    char *stack;
    enum sim_state state;
    uint32_t slot;
    uint32_t number; /* never used again, unlike the slot; what a pthread_t is */
    char name[SIM_NAME_MAX];
    void *(*run)(void *arg);
    void *arg;
    bool detached;

    /* Asleep: until `deadline`, or until somebody calls sim_wake. */
    const char *why;
    uint64_t deadline;
    int woken;         /* what sim_sleep returns */
    uint64_t sleep_no; /* order of falling asleep: futexes wake the longest asleep first */
    const void *word[2];
    const void *object; /* what else it waits for: a ring, a latch, a thread */
    struct pollfd *polled;
    unsigned polled_count;

    uint64_t priority;
    int no_memory_faults;
    int saved_errno;
    unsigned char tls[SIM_TLS_MAX];

    uint32_t stores; /* in use, oldest first */
    struct sim_store store[SIM_STORES];
};

struct sim_world {
    /* The run's choices, from the seed. */
    uint64_t seed, random;
    enum sim_policy policy;
    uint32_t faults;
    uint32_t stretch;        /* mean steps between looks of the scheduler */
    uint32_t drain_permille; /* that a look lets a buffer drain */
    uint32_t fault_permille;
    uint64_t ns_per_step;
    uint64_t limit; /* steps */
    uint32_t cpus;

    struct sim_fiber fiber[SIM_FIBERS];
    struct sim_fiber *self;
    uint64_t ready;    /* slots */
    uint64_t buffered; /* slots with stores that wait */
    uint32_t numbers;
    uint64_t sleeps;
    uint64_t low_priority; /* grows downwards: what a fiber that yields gets */

    uint64_t step, switches;
    int64_t countdown; /* steps to the next look */
    uint64_t now_ns, time_step;
    uint64_t next_deadline; /* no sleeper's is earlier */
    uint64_t last_progress_step;
    uint64_t alone; /* looks in a row that kept the same fiber */
    uint64_t hash;
    uint64_t next_change; /* step of the next change of priorities */
    bool over;            /* play has returned */
    FILE *trace;
};
extern struct sim_world sim;

/* ---- fiber.c ---- */
void sim_world_start(const struct sim_scenario *s, int policy, uint64_t limit);
/* Runs `play` as the first fiber, and all others to their end. */
void sim_world_run(const struct sim_users *users, const struct sim_scenario *s);
struct sim_fiber *sim_fiber_start(void *(*run)(void *), void *arg, const char *name);
/* The slow part of a step. */
void sim_look(void);
/* 0 or what sim_wake said; -ETIMEDOUT. `why` is for the list of sleepers of a lost wake. */
int sim_sleep(uint64_t deadline, const char *why);
void sim_wake(struct sim_fiber *fiber, int result);
/* Another fiber's turn, the caller last. */
void sim_give_way(void);
void sim_mix(uint64_t value); /* into the hash */
struct sim_fiber *sim_fiber_numbered(uint32_t number);
void sim_list_sleepers(void);

static inline void sim_one_step(void)
{
    sim.step++;
    if (__builtin_expect(--sim.countdown <= 0, 0))
        sim_look();
}

/* Where a system call begins: the store buffer drains, and others may run. */
void sim_enter_kernel(void);
bool sim_fault(uint32_t kind, unsigned weight); /* true: now a fault of this kind */

/* ---- atomics.c ---- */
void sim_drain(struct sim_fiber *fiber, uint32_t stores);
static inline void sim_drain_own(void)
{
    if (sim.self->stores > 0)
        sim_drain(sim.self, sim.self->stores);
}

/* ---- memory.c ---- */
void sim_memory_start(void);
void sim_memory_check_empty(void);
/* Fails the run if `at` lies in memory that was given back. */
void sim_memory_check(const volatile void *at);

/* ---- calls.c ---- */
const char *sim_last_words(void); /* what was last written to standard error */

/* ---- kernel_fd.c, kernel_ring.c ---- */
struct sim_file;
void sim_kernel_start(void);
/* Does what the kernel has put off until now; the time of the next such thing. */
uint64_t sim_kernel_tick(void);
void sim_kernel_check_empty(void);
void sim_kernel_fiber_ended(const struct sim_fiber *fiber);

#endif

/*
 * sim.h - the simulated world: lanex's own sources, run one thread at a time under a seed.
 *
 * What it is. All of src/ but ring/kernel.c is compiled a second time with shim/world.h in front.
 * There every atomic access, system call, allocation and thread call is a *step*: a point where the
 * seed may let another thread go on. Threads are fibers of one OS thread; the clock is virtual; the
 * kernel (kernel_*.c) is a model that delays, overflows, refuses and wakes for nothing, as a real
 * one may. Stores weaker than seq_cst wait in the thread's store buffer as on x86 (TSO), so that a
 * missing fence shows. The same seed gives the same steps, and the same trace hash.
 *
 * Pattern
 *   A scenario is data: sim_generate fills operations from the seed, sim_play runs them on user
 *   threads through lanex's public API alone. A failing seed is shrunk by leaving out operations,
 *   users and kinds of faults, each try in a child process.
 *   Code of tests/sim calls the functions below, never pthread, futexes, clocks or sleep.
 *
 * What a failure is: sim_fail, a failed assertion, a crash, a sleep of all threads with nothing to
 * wake them (a lost wake), memory, descriptors or threads left at the end, or no end at all.
 *
 * What it does not cover: machines weaker than x86 (the Spin models neither), plain data races
 * (ThreadSanitizer's), the kernel itself.
 */
#ifndef LX_SIM_H
#define LX_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the scenario, as data ---- */

#define SIM_USERS_MAX 6u
#define SIM_OPS_MAX   64u /* of one user */

/* What an operation means is users.c's business; the driver only leaves out some. */
struct sim_op {
    uint32_t kind;
    uint32_t arg[5];
    uint64_t wide;
};

/* Kinds of trouble, each of which shrinking tries to leave out. */
enum sim_fault {
    SIM_FAULT_BUFFERS = 1u << 0,  /* store buffers (off: sequentially consistent) */
    SIM_FAULT_DELAYS = 1u << 1,   /* the kernel posts late */
    SIM_FAULT_SPURIOUS = 1u << 2, /* wakes for nothing, EINTR */
    SIM_FAULT_ERRORS = 1u << 3,   /* EAGAIN, EBUSY, ENOMEM from the ring, ENOSYS from futex_waitv */
    SIM_FAULT_OVERFLOW = 1u << 4, /* tiny completion queues, polls that end */
    SIM_FAULT_NO_RINGS = 1u << 5, /* set-up refused: the poll backend */
    SIM_FAULT_MEMORY = 1u << 6,   /* allocations fail now and then */
    SIM_FAULT_OLD_KERNEL = 1u << 7 /* no DEFER_TASKRUN, no messages without a ring */
};
#define SIM_FAULTS_ALL 0xffu

struct sim_scenario {
    uint64_t seed;
    uint32_t faults; /* enum sim_fault, or-ed */
    uint32_t users;
    uint32_t count[SIM_USERS_MAX];
    struct sim_op op[SIM_USERS_MAX][SIM_OPS_MAX];
    uint32_t set[16]; /* settings of the scenario: sizes, policy, .. (users.c) */
};

/*
 * One set of users and its checker. `generate` fills users, count, op and set (seed and faults are
 * there); it draws from sim_draw(state) alone. `play` runs on the first user thread, spawns others
 * with sim_spawn, and returns when all is over and given back. `describe` writes one operation.
 */
struct sim_users {
    const char *name;
    void (*generate)(struct sim_scenario *s);
    void (*play)(const struct sim_scenario *s);
    void (*describe)(const struct sim_op *op, char *text, size_t size);
};
extern const struct sim_users sim_users_basic; /* users_basic.c: few operations, its own checks */
extern const struct sim_users sim_users_rings; /* users_rings.c: rings and ports that go */
extern const struct sim_users sim_users_edges; /* users_edges.c: the ends of everything */
extern const struct sim_users sim_users_sync;  /* users_sync.c: the locks alone */
extern const struct sim_users sim_users_full;  /* users.c with check.c */

/* The generator's random numbers: a state of the caller's, seeded with anything. */
uint64_t sim_draw(uint64_t *state);

/* ---- for user threads ---- */

/* Starts a user thread; joined with sim_join, once each. Never fails. */
unsigned sim_spawn(void (*fn)(void *arg), void *arg, const char *name);
void sim_join(unsigned thread);

/* A step by choice: others may run. Long loops of user code need it. */
void sim_yield(void);
/* Sleeps in virtual time. */
void sim_sleep_ns(uint64_t ns);

/* A counter to wait for. Zero it to make one; nothing to give back. */
struct sim_latch {
    uint64_t count;
};
void sim_latch_add(struct sim_latch *latch, uint64_t by);
/* Until count >= wanted; false if `timeout_ns` passed before (UINT64_MAX: for ever). */
bool sim_latch_wait(struct sim_latch *latch, uint64_t wanted, uint64_t timeout_ns);

uint64_t sim_now_ns(void);   /* the virtual CLOCK_MONOTONIC */
uint64_t sim_step_ns(void);  /* how much virtual time a step takes in this run */
uint64_t sim_brisk_ns(void); /* lx_seams.brisk_ns of the run: in one of three it is easily met */
uint32_t sim_spin_us(void);  /* the run's spin_us: 0 in two runs of three, else for some steps */
uint64_t sim_step(void);     /* the number of the current step */
uint64_t sim_random(void);   /* of the run's stream: for decisions while it runs */
bool sim_chance(unsigned permille);
unsigned sim_self(void); /* the calling thread's number */

/* Adds to the trace (printed with --trace) and to its hash; returns the step's number. */
uint64_t sim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the run as failed: prints seed, step and text. */
void sim_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* In user code: what must hold, with its line. */
#define SIM_CHECK(cond)                                                                            \
    ((cond) ? (void)0 : sim_fail("%s:%d: not so: %s", __FILE__, __LINE__, #cond))

/* While > 0, allocations of the calling thread do not fail (for calls that users cannot retry). */
void sim_no_memory_faults(int change);

/* ---- hooks: a checker's places. NULL: none. Called on whatever thread it happens, which is not
 * switched away meanwhile; they call nothing of lanex's. ---- */
struct sim_hooks {
    /* A scheduler turn has decided (in the seat). */
    void (*on_turn)(void);
    /* Every thread sleeps; the clock is about to jump to `next_ns`, UINT64_MAX: for ever, which is
     * a lost wake unless the run is over. */
    void (*on_quiet)(uint64_t next_ns);
};
extern struct sim_hooks sim_hooks;

/* Set by users who never hold an actor's epoch themselves: then a worker that would wait in a gate
 * fails the run. */
extern bool sim_gates_are_open;

/* ---- descriptors, for users ---- */

/* Waits until a descriptor (an eventfd: lanex_port_fd; a ring) is readable; false on timeout. */
bool sim_fd_wait(int fd, uint64_t timeout_ns);
bool sim_fd_readable(int fd);
void sim_fd_close(int fd);

/* A caller's own io_uring, of the calling thread. `defer`: SINGLE_ISSUER | DEFER_TASKRUN. When its
 * thread ends without closing it, such a ring's senders get -EOWNERDEAD. A descriptor, or -errno
 * where rings are refused. `entries`: of its completion queue, a power of two. */
int sim_ring_open(unsigned entries, bool defer);
struct sim_cqe {
    uint64_t user_data;
    int32_t res;
};
/* Takes up to `max` completions, waiting for the first if `timeout_ns` > 0. How many; 0 on timeout.
 * Its own thread only. */
unsigned sim_ring_reap(int fd, struct sim_cqe *ret_cqes, unsigned max, uint64_t timeout_ns);

#endif

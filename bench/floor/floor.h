/*
 * bench/floor/floor.h - what this kernel and CPU can do at best, with no executor between.
 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <liburing.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FLOOR_PLAIN 0u
#define FLOOR_COOP  IORING_SETUP_COOP_TASKRUN
#define FLOOR_DEFER (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)

const char *floor_ring_text(unsigned flags);
/* Ends the program with a message if rc is an error; else returns it. */
int floor_check(int rc, const char *what);
/* A message into another ring, without a completion in this one. */
void floor_prepare_message(struct io_uring *ring, int ring_fd);

/* ---- ping-pong: methods.c, pingpong.c ---- */

/* One of the two threads. What the other writes lies on lines of its own. */
struct floor_side {
    _Atomic uint32_t futex __attribute__((aligned(128)));
    _Atomic uint32_t line __attribute__((aligned(128)));
    _Atomic uint64_t mail __attribute__((aligned(128))); /* messages sent to this side */
    uint64_t taken __attribute__((aligned(128)));
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool flag;
    int event_fd, ring_fd;
    uint64_t buffer;
    struct io_uring ring;
};
extern struct floor_side floor_sides[2];

struct floor_method {
    const char *name;
    unsigned flags; /* of the ring */
    bool event, ring, spins;
    bool empties; /* reads the eventfd after each message */
    bool registers;
    void (*init)(unsigned me);
    void (*send)(unsigned me);
    void (*wait)(unsigned me);
    void (*send_wait)(unsigned me); /* NULL: send, then wait */
};
extern const struct floor_method floor_methods[];
extern const struct floor_method *floor_method; /* the one that is measured */

/* ---- workloads ---- */

void floor_pingpong(void); /* --variant names one method */
void floor_oneway(void);
void floor_atomics(void);

#endif

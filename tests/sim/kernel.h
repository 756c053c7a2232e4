/* kernel.h - what the files of the model kernel share. */
#ifndef LX_SIM_KERNEL_H
#define LX_SIM_KERNEL_H

#include "ring/kernel.h"
#include "world.h"

#define SIM_FILES 256u

enum sim_file_kind { SIM_EVENTFD = 1, SIM_RING };

struct sim_file {
    enum sim_file_kind kind;
    unsigned refs;         /* descriptors */
    uint64_t count;        /* of an eventfd */
    struct sim_ring *ring; /* of a ring */
};

/* NULL if the descriptor is not open. */
struct sim_file *sim_file_of(int fd);
/* -EMFILE, or by a fault. */
int sim_file_open(enum sim_file_kind kind);
bool sim_file_readable(const struct sim_file *file);
/* What became readable wakes those who poll it. */
void sim_file_notify(struct sim_file *file);
/* ppoll(2). */
int sim_poll(struct pollfd *fds, unsigned count, uint64_t timeout_ns);

/* kernel_ring.c */
bool sim_ring_readable(const struct sim_ring *ring);
void sim_ring_destroy(struct sim_ring *ring);
/* An eventfd was written: its polls fire. */
void sim_ring_polls_fire(struct sim_file *file);
/* An eventfd goes: its polls too. */
void sim_ring_polls_drop(struct sim_file *file);

#endif

#ifndef LX_RUNTIME_RING_SINK_H
#define LX_RUNTIME_RING_SINK_H

#include "ring/door.h"
#include "runtime/job.h"

/* A caller's io_uring as a target of completions. */
struct lanex_ring {
    struct lx_foreign_ring foreign;
    struct lanex_executor *executor;
    _Atomic uint64_t
        refs; /* the user's, one a job that has it as its sink, one a port that rings it */
};

/*
 * A ring message that could not be sent from where it arose: the sending thread has no ring of its
 * own, or the kernel had no memory. lanex-reap tries again until it is sent or the ring's owner is
 * gone.
 */
struct lx_post_retry {
    struct lx_inbox_node node; /* first: LX_REAP_POST */
    struct lx_post_retry *next;
    struct lanex_ring *ring;
    uint64_t user_data;
    int32_t res;
    /* NULL, or a word that is cleared before each try, so that what is told of meanwhile asks anew.
     */
    _Atomic uint32_t *flag;
    /* Called on lanex-reap when it is sent or given up. */
    void (*done)(struct lx_post_retry *retry);
};

/* Sends now if it can be. 0, or -errno for which lx_ring_can_retry tells what to do. */
int lx_ring_post(struct lanex_ring *ring, uint64_t user_data, int32_t res);
bool lx_ring_can_retry(int error);

void lx_ring_deliver(struct lanex_job *job);

/* One try. False if it must be tried again: then the retry is still the caller's. */
bool lx_ring_retry(struct lx_post_retry *retry);

#endif

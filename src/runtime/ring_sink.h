#ifndef LX_RUNTIME_RING_SINK_H
#define LX_RUNTIME_RING_SINK_H

#include "ring/door.h"
#include "runtime/job.h"

/*
 * Ring messages that could not be sent from where they arose: the sending thread has no ring of its
 * own, or the kernel had no memory. lanex-reap tries again until they are sent or the ring's owner
 * is gone. Part of what it rings for, so that asking needs no memory. `flag` is 1 while the request
 * is on its way to lanex-reap and was not tried yet: who finds it so need not ask again. It is
 * cleared before each try, so that what comes meanwhile asks anew, with the same node.
 */
struct lx_post_retry {
    struct lx_inbox_node node; /* first: LX_REAP_POST */
    struct lx_post_retry *next;
    _Atomic uint32_t flag;
    /* On lanex-reap: 0, or what kept a message back (lx_ring_post). */
    int (*post)(struct lx_post_retry *retry);
    /* Once for each time that the flag was set: all is sent, or another request of the same kind is
     * on its way; or all is given up, as the executor has ended. */
    void (*done)(struct lx_post_retry *retry, bool given_up);
};

/* A caller's io_uring as a target of completions. */
struct lanex_ring {
    struct lx_foreign_ring foreign;
    struct lanex_executor *executor;
    /* The user's, one a job that has it as its sink, one a port that rings it, and one a time that
     * retry.flag was set. */
    _Atomic uint64_t refs;
    /*
     * Jobs whose messages could not be sent, the last one first, linked by delivery_next. They keep
     * the delivery's hold and their reference to the ring.
     */
    _Atomic uintptr_t waiting;
    struct lanex_job *unposted; /* taken from there, in order; lanex-reap's own */
    struct lx_post_retry retry;
};

/* Sends now if it can be. 0, or -errno for which lx_ring_can_retry tells what to do. */
int lx_ring_post(struct lanex_ring *ring, uint64_t user_data, int32_t res);
bool lx_ring_can_retry(int error);

void lx_ring_deliver(struct lanex_job *job);

/* Asks lanex-reap to try. True if `done` will be called for it; false if it was asked already, or
 * has ended (then *ret_ended). */
bool lx_ring_ask_retry(struct lanex_executor *ex, struct lx_post_retry *retry, bool *ret_ended);
/* One try, on lanex-reap. False if it must be tried again: then the retry is still the caller's. */
bool lx_ring_retry(struct lx_post_retry *retry);

#endif

/*
 * A port: a list of finished jobs with one doorbell.
 *
 * The list is a stack that deliveries push to and the consumer takes whole. A delivery that finds
 * it empty rings; so the bell rings once per "not yet told". The consumer silences the bell, then
 * takes the list: what is pushed after that finds an empty list and rings again.
 *
 * Life. A job that has the port as its sink needs it until it is delivered, and no longer: a count
 * per job on the delivery's side would be one contended line more. Instead submissions count up
 * `expected` (a line that submitters write), the consumer counts what it took, and the two are
 * compared once, when the last reference goes. Two kinds of deliveries need the port after their
 * job left their hands, so that the consumer must not count those: one that found the port
 * detached, and one that has to ring. The latter marks its link with LX_PORT_RINGER. Both count
 * down `balance` when they are through. `balance` starts at LX_PORT_OPEN; the last reference takes
 * that off and adds expected minus taken; whoever then brings it to 0 frees.
 */
#ifndef LX_RUNTIME_PORT_H
#define LX_RUNTIME_PORT_H

#include "runtime/ring_sink.h"

#define LX_PORT_EMPTY    ((uintptr_t)0)
#define LX_PORT_DETACHED ((uintptr_t)2) /* head: nothing is delivered any more */
#define LX_PORT_RINGER   ((uintptr_t)1) /* bit of a link: its delivery rings, and counts itself */

/* More than deliveries can ever be under way, so that an open port's balance does not reach 0. */
#define LX_PORT_OPEN (INT64_C(1) << 40)

struct lanex_port {
    /* Written by deliveries. */
    _Atomic uintptr_t head;
    char pad_submitters[56];
    /* Written by submitters. */
    _Atomic uint64_t expected;
    char pad_consumer[56];
    /* Written by the consumer. */
    uintptr_t ready; /* taken from the list, oldest first, not drained yet */
    size_t ready_count;
    uint64_t taken; /* of those that the consumer counts */
    _Atomic int64_t balance;
    _Atomic uint64_t refs;
    /* Constant. */
    struct lanex_executor *executor;
    struct lanex_ring *ring; /* NULL: eventfd */
    uint64_t ring_user_data;
    int event_fd; /* -1 with a ring */
    /* A ring message that lanex-reap sends for the port; one at a time. */
    struct lx_post_retry retry;
};

/* A submission will be delivered here; or will not after all. */
void lx_port_expect(struct lanex_port *port);
void lx_port_unexpect(struct lanex_port *port);
void lx_port_deliver(struct lanex_port *port, struct lanex_job *job);

#endif

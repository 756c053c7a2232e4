/*
 * Whether a client that leaves answers unfetched still fetches fast enough.
 *
 * More than `soft` bytes may wait for it only while it fetches at least as much in each
 * `within_ns`. So a long answer over a slow line arrives, and a client that takes a byte now and
 * then does not hold memory for ever. Times are arguments, of one clock that never shows 0.
 */
#ifndef KV_PACE_H
#define KV_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_pace {
    uint64_t since_ns; /* 0: no more than the soft limit waits */
    size_t fetched;    /* bytes, since then */
};

/* After answers were added: `waiting` bytes wait now. True if a time has begun to run. */
bool kv_pace_queued(struct kv_pace *pace, size_t waiting, size_t soft, uint64_t now_ns);
/* After `length` bytes were fetched: `waiting` are left. */
void kv_pace_fetched(struct kv_pace *pace, size_t length, size_t waiting, size_t soft,
                     uint64_t now_ns);
/* When the time is over; UINT64_MAX: none runs. */
uint64_t kv_pace_due(const struct kv_pace *pace, uint64_t within_ns);

#endif

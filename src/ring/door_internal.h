/* ring/door_internal.h - what the files of src/ring share about a door's ring. */
#ifndef LX_RING_DOOR_INTERNAL_H
#define LX_RING_DOOR_INTERNAL_H

#include "ring/door.h"
#include "ring/kernel.h"

/* Entries: a batch of messages, and the poll. */
#define LX_DOOR_SQ_ENTRIES LX_POST_MAX
/* Entries: two batches that fail whole. Messages are told once, so more is not needed; an overflow
   is handled anyway. */
#define LX_DOOR_CQ_ENTRIES 128U

/*
 * user_data of a door's own completions: the kind in the top byte. A failed send also says which
 * send (the round) and which message of it.
 */
enum lx_ud_kind {
    LX_UD_BELL = 1,    /* the multishot poll on the eventfd */
    LX_UD_MESSAGE = 2, /* a ring message from another thread */
    LX_UD_SEND = 3,    /* a message that this thread could not send; success posts nothing */
    LX_UD_NOP = 4,     /* the probe's */
};

#define LX_UD(kind, round, index)                                                                  \
    (((uint64_t)(kind) << 56) | ((uint64_t)(uint32_t)(round) << 8) | (uint64_t)(uint8_t)(index))
#define LX_UD_KIND(ud)  ((unsigned)((ud) >> 56))
#define LX_UD_ROUND(ud) ((uint32_t)((ud) >> 8))
#define LX_UD_INDEX(ud) ((unsigned)((ud)&0xffU))

/* The two halves of lx_door_enable, apart so that the probe can name the call that failed. */
int lx_door_make_ring(struct lx_door *d);
int lx_door_arm(struct lx_door *d);

/* Takes all completions of the owner's ring into the door's state; flushes an overflow. */
void lx_door_absorb(struct lx_door *d);

/* The eventfd's half of lx_door_knock, without the counting. */
void lx_door_ring_bell(struct lx_door *d);

/* The ring's half of lx_door_message, without the counting; -errno where no message can be sent. */
int lx_door_try_message(struct lx_door *from, struct lx_door *to);

static inline void lx_door_count(_Atomic uint64_t *counter, uint64_t by)
{
    /* One writer: a load and a store are enough, and cheaper than a locked addition. */
    uint64_t n = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, n + by, memory_order_relaxed);
}

#endif

/*
 * The epoch lock inside (include/lanex/epoch.h is the manual): the state word, and the fast paths
 * inline for the runtime. The waits are in epoch.c. tests/model/epoch.pml is this protocol as a
 * model, to be changed with it.
 *
 * How it works
 *   All of the lock is one 64-bit word, and every change of it is one read-modify-write. A reader
 *   adds itself to READERS before it looks; if what it met says that it may not enter, it either
 *   stays counted there (a writer holds the lock, nobody else waits: it enters when that writer
 *   leaves) or moves itself to BLOCKED (writers wait: the next of them goes first). A writer enters
 *   when READERS is 0, and takes all BLOCKED readers over into READERS: they enter when it leaves.
 *   So groups of readers and writers alternate as soon as both wait.
 *
 *   A release says by that one read-modify-write who may enter now. It then at most makes a wake
 *   call with the word's address, and never looks at the word again: the owner may have freed it.
 *
 *   Readers sleep on the high half, writers on the low half, because a wake for one writer must not
 *   be eaten by a reader. Each half holds all that its sleepers wait for, so that the kernel's
 *   comparison catches every change between the last look and the sleep.
 */
#ifndef LX_EPOCH_H
#define LX_EPOCH_H

#include "lanex/epoch.h"
#include "sync/assert.h"

#include <errno.h>
#include <stdatomic.h>

/*
 * The word, low half: what writers wait for.
 *
 * READERS (bits 0-19): read holds, and readers that will hold without doing anything more: those
 * that came while a writer held and nobody waited, and those taken over from BLOCKED by the writer
 * that holds now. Also, for moments, readers that have added themselves and not yet looked. While
 * WRITER is clear all of them (but those last) are inside. No writer enters while it is not 0. Bit
 * 19 is never set by a legal number of readers: the fast paths test it to catch overflow, and
 * underflow, which borrows into it.
 *
 * WRITER (bit 20): a writer is inside. Set by the writer itself, only while READERS is 0. Cleared
 * by its release or downgrade, which adds one to PHASE in the same step.
 *
 * WRITERS_ASLEEP (bit 21): some queued writer sleeps or is about to: whoever makes the lock free
 * for a writer must wake one. Set by writers before they sleep; cleared with the last of QUEUED.
 * Stale, it costs a wake call for nothing. Illegal without QUEUED.
 *
 * READERS_ASLEEP (bit 22): the same for readers, in READERS or BLOCKED. Set by readers before they
 * sleep; cleared by a writer that enters while no reader is counted at all. May be stale at any
 * time.
 *
 * HEIR (bit 23): one queued writer was woken and found the lock taken again. While set, only that
 * writer may enter as a writer. Set and cleared by the heir: cleared as it enters, or gives up.
 * Wakes of writers go to all of them while it is set, since the kernel cannot pick the heir. It is
 * set only while the lock is not free for writers, so the release that frees it sees it. Illegal
 * without QUEUED.
 *
 * High half: what readers wait for.
 *
 * BLOCKED (bits 32-46): readers that wait behind queued writers. The next writer that enters takes
 * them all over into READERS. Should the queued writers all give up, each blocked reader moves
 * itself to READERS, once no writer holds.
 *
 * QUEUED (bits 47-61): writers that wait. While it is not 0 the door is closed: no reader that
 * comes now may enter before a writer has.
 *
 * PHASE (bits 62-63): how many times a writer has left, modulo 4. A waiting reader knows the phase
 * at which it is inside (its target): one more than when it was counted in READERS under a writer,
 * or in BLOCKED under none; two more in BLOCKED under a writer. Until it releases, no further
 * writer can enter, so the phase stays there: two bits suffice, however long the reader does not
 * look.
 */
#define LX_EPOCH_READER         (UINT64_C(1) << 0)
#define LX_EPOCH_READERS        (UINT64_C(0xFFFFF) << 0)
#define LX_EPOCH_READERS_LIMIT  (UINT64_C(1) << 19)
#define LX_EPOCH_WRITER         (UINT64_C(1) << 20)
#define LX_EPOCH_WRITERS_ASLEEP (UINT64_C(1) << 21)
#define LX_EPOCH_READERS_ASLEEP (UINT64_C(1) << 22)
#define LX_EPOCH_HEIR           (UINT64_C(1) << 23)
#define LX_EPOCH_BLOCKED_ONE    (UINT64_C(1) << 32)
#define LX_EPOCH_BLOCKED        (UINT64_C(0x7FFF) << 32)
#define LX_EPOCH_QUEUED_ONE     (UINT64_C(1) << 47)
#define LX_EPOCH_QUEUED         (UINT64_C(0x7FFF) << 47)
#define LX_EPOCH_PHASE_ONE      (UINT64_C(1) << 62)
#define LX_EPOCH_PHASE          (UINT64_C(3) << 62)

/* A reader that meets one of these must look closer. */
#define LX_EPOCH_READ_CLOSED (LX_EPOCH_WRITER | LX_EPOCH_QUEUED | LX_EPOCH_READERS_LIMIT)

/* What a free lock may show: the phase, and a mark of sleepers long gone. */
#define LX_EPOCH_FREE_BITS (LX_EPOCH_PHASE | LX_EPOCH_READERS_ASLEEP)

/* What a writer's leaving adds: WRITER off, one phase more. PHASE is on top: its carry drops off.
 */
#define LX_EPOCH_WRITER_LEAVES (LX_EPOCH_PHASE_ONE - LX_EPOCH_WRITER)

/*
 * The gate in which the body on this thread runs: `epoch` is NULL outside. Set by workers around
 * bodies; the public calls, which bodies make, refuse what would wait for that very gate.
 */
struct lx_epoch_gate {
    const lanex_epoch *epoch;
    bool write;
};
extern _Thread_local struct lx_epoch_gate lx_epoch_gate
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* The word as an atomic: public headers know no _Atomic. */
static inline _Atomic uint64_t *lx_epoch_word(const lanex_epoch *e)
{
    _Static_assert(sizeof(_Atomic uint64_t) == sizeof e->private_state &&
                       _Alignof(_Atomic uint64_t) == _Alignof(lanex_epoch),
                   "the state word is used as an atomic");
    return (_Atomic uint64_t *)(uintptr_t)&e->private_state;
}

/* For looks that decide nothing. */
static inline uint64_t lx_epoch_peek(const lanex_epoch *e)
{
    return atomic_load_explicit(lx_epoch_word(e), memory_order_relaxed);
}

/* The rest of a read acquire. `met` is the word before the caller was added to READERS. */
int lx_epoch_read_wait(lanex_epoch *e, uint64_t met, uint64_t deadline_ns,
                       lanex_cancellation *token);
/* The rest of a read release. `left` is the word after the caller was taken off READERS. */
void lx_epoch_read_left(lanex_epoch *e, uint64_t left);
/* The rest of a write acquire, whole. */
int lx_epoch_write_wait(lanex_epoch *e, uint64_t deadline_ns, lanex_cancellation *token);
/* The rest of a write release or downgrade. `met` is the word before it, with the caller counted
 * in READERS if it stays on as one. */
void lx_epoch_write_left(lanex_epoch *e, uint64_t met);

static inline int lx_epoch_read_acquire_until(lanex_epoch *e, uint64_t deadline_ns,
                                              lanex_cancellation *token)
{
    /* acquire: partners are the releases in write_release and write_downgrade. Everything that
     * changes the word is a read-modify-write, so each release heads a release sequence that
     * reaches every later value. */
    uint64_t met =
        atomic_fetch_add_explicit(lx_epoch_word(e), LX_EPOCH_READER, memory_order_acquire);
    if (LX_LIKELY(!(met & LX_EPOCH_READ_CLOSED)))
        return 0;
    return lx_epoch_read_wait(e, met, deadline_ns, token);
}

static inline void lx_epoch_read_acquire(lanex_epoch *e)
{
    (void)lx_epoch_read_acquire_until(e, LANEX_TIME_NEVER, NULL);
}

static inline int lx_epoch_read_try_acquire(lanex_epoch *e)
{
    /* A compare-exchange, not an add: a reader that only tries leaves no trace that a writer would
     * have to wait out. */
    uint64_t s = lx_epoch_peek(e);
    do {
        if (s & LX_EPOCH_READ_CLOSED) {
            LX_ASSERT(!(s & LX_EPOCH_READERS_LIMIT));
            return -EBUSY;
        }
        /* acquire: partners as in lx_epoch_read_acquire_until */
    } while (!atomic_compare_exchange_weak_explicit(lx_epoch_word(e), &s, s + LX_EPOCH_READER,
                                                    memory_order_acquire, memory_order_relaxed));
    return 0;
}

static inline void lx_epoch_read_release(lanex_epoch *e)
{
    /* release: partner is the acquire by which the next writer enters */
    uint64_t left =
        atomic_fetch_sub_explicit(lx_epoch_word(e), LX_EPOCH_READER, memory_order_release) -
        LX_EPOCH_READER;
    if (LX_UNLIKELY(left & LX_EPOCH_READ_CLOSED))
        lx_epoch_read_left(e, left);
}

static inline int lx_epoch_write_try_acquire(lanex_epoch *e)
{
    uint64_t s = lx_epoch_peek(e);
    while (!(s & ~LX_EPOCH_FREE_BITS)) {
        /* acquire: partners are the releases of readers and writers before */
        if (atomic_compare_exchange_weak_explicit(lx_epoch_word(e), &s,
                                                  (s & LX_EPOCH_PHASE) | LX_EPOCH_WRITER,
                                                  memory_order_acquire, memory_order_relaxed))
            return 0;
    }
    return -EBUSY;
}

static inline int lx_epoch_write_acquire_until(lanex_epoch *e, uint64_t deadline_ns,
                                               lanex_cancellation *token)
{
    if (LX_LIKELY(lx_epoch_write_try_acquire(e) == 0))
        return 0;
    return lx_epoch_write_wait(e, deadline_ns, token);
}

static inline void lx_epoch_write_acquire(lanex_epoch *e)
{
    (void)lx_epoch_write_acquire_until(e, LANEX_TIME_NEVER, NULL);
}

static inline void lx_epoch_write_release(lanex_epoch *e)
{
    /* release: partners are the acquires by which readers and writers enter */
    uint64_t met =
        atomic_fetch_add_explicit(lx_epoch_word(e), LX_EPOCH_WRITER_LEAVES, memory_order_release);
    if (LX_UNLIKELY((met & ~LX_EPOCH_PHASE) != LX_EPOCH_WRITER))
        lx_epoch_write_left(e, met);
}

static inline void lx_epoch_write_downgrade(lanex_epoch *e)
{
    /* release: partners are the acquires by which readers enter. No acquire is needed: the caller
     * has been inside all the time. */
    uint64_t met = atomic_fetch_add_explicit(
        lx_epoch_word(e), LX_EPOCH_WRITER_LEAVES + LX_EPOCH_READER, memory_order_release);
    if (LX_UNLIKELY((met & ~LX_EPOCH_PHASE) != LX_EPOCH_WRITER))
        lx_epoch_write_left(e, met + LX_EPOCH_READER);
}

static inline bool lx_epoch_writer_waiting(const lanex_epoch *e)
{
    return (lx_epoch_peek(e) & LX_EPOCH_QUEUED) != 0;
}

#endif

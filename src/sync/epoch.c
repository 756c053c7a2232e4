#include "sync/epoch.h"

#include "sync/cancel.h"
#include "sync/futex.h"

/* Looks before a waiter sleeps: about as long as a short hold, well below the cost of a sleep and a
 * wake (10 to 15 us). */
#define LX_EPOCH_SPINS 100

/* Looks before a writer joins the queue. Queueing closes the door and makes readers line up, which
 * costs everybody more than a short hold lasts; a writer that comes between readers' short holds
 * mostly finds a gap. Bounded, so that the fairness that begins with queueing is not put off. */
#define LX_EPOCH_LOOKS 32

/* Times a writer is woken and finds the lock taken before it becomes the heir. */
#define LX_EPOCH_HEIR_AFTER 1

_Thread_local struct lx_epoch_gate lx_epoch_gate;

/* Where writers and readers sleep: the halves of the word, wherever the machine puts them. */
static const uint32_t *half(const lanex_epoch *e, int high)
{
    const uint32_t *halves = (const uint32_t *)(const void *)&e->private_state;
    return &halves[__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? high : !high];
}

static const uint32_t *writers_bed(const lanex_epoch *e)
{
    return half(e, 0);
}

static const uint32_t *readers_bed(const lanex_epoch *e)
{
    return half(e, 1);
}

static uint64_t phase(uint64_t s)
{
    return s & LX_EPOCH_PHASE;
}

/* The illegal combinations. Every state that a slow path acts upon goes through here. */
static void check(uint64_t s)
{
    LX_ASSERT(!(s & LX_EPOCH_READERS_LIMIT));
    LX_ASSERT((s & LX_EPOCH_QUEUED) || !(s & (LX_EPOCH_WRITERS_ASLEEP | LX_EPOCH_HEIR)));
}

static void wake_readers(const lanex_epoch *e, uint64_t s)
{
    if (s & LX_EPOCH_READERS_ASLEEP)
        (void)lx_futex_wake(readers_bed(e), LX_FUTEX_ALL);
}

static void wake_writer(const lanex_epoch *e, uint64_t s)
{
    if (s & LX_EPOCH_WRITERS_ASLEEP)
        (void)lx_futex_wake(writers_bed(e), s & LX_EPOCH_HEIR ? LX_FUTEX_ALL : 1);
}

/* Wakes whom state `s` lets in, after a change that took a writer away: held or queued. */
static void wake_next(const lanex_epoch *e, uint64_t s)
{
    if (s & LX_EPOCH_READERS)
        wake_readers(e, s); /* the last of them will see to the writers */
    else if (s & LX_EPOCH_QUEUED)
        wake_writer(e, s);
    else if (s & LX_EPOCH_BLOCKED)
        wake_readers(e, s);
}

void lx_epoch_read_left(lanex_epoch *e, uint64_t left)
{
    check(left);
    LX_ASSERT(!(left & LX_EPOCH_WRITER));
    if (!(left & LX_EPOCH_READERS))
        wake_writer(e, left);
}

void lx_epoch_write_left(lanex_epoch *e, uint64_t met)
{
    check(met);
    LX_ASSERT(met & LX_EPOCH_WRITER);
    wake_next(e, met);
}

/*
 * Settles where a reader waits that has added itself to READERS and met a closed door. Returns true
 * if it is inside after all, else the phase at which it will be.
 */
static bool read_line_up(lanex_epoch *e, uint64_t s, uint64_t *ret_target)
{
    for (;;) {
        check(s);
        LX_ASSERT(s & LX_EPOCH_READERS);
        if (!(s & LX_EPOCH_QUEUED)) {
            /* Counted where it should be: inside, or inside when the writer leaves. */
            *ret_target = phase(s) + LX_EPOCH_PHASE_ONE;
            return !(s & LX_EPOCH_WRITER);
        }
        LX_ASSERT((s & LX_EPOCH_BLOCKED) != LX_EPOCH_BLOCKED);
        uint64_t n = s - LX_EPOCH_READER + LX_EPOCH_BLOCKED_ONE;
        /* acquire, for the failure: the next look may find the door open */
        if (atomic_compare_exchange_weak_explicit(lx_epoch_word(e), &s, n, memory_order_acquire,
                                                  memory_order_acquire)) {
            bool held = n & LX_EPOCH_WRITER;
            /* A reader that left meanwhile saw this one and woke nobody. */
            if (!held && !(n & LX_EPOCH_READERS))
                wake_writer(e, n);
            *ret_target = phase(n) + (held ? 2u : 1u) * LX_EPOCH_PHASE_ONE;
            return false;
        }
    }
}

/* One look of a waiting reader: true if it is inside. */
static bool read_enter(lanex_epoch *e, uint64_t target, uint64_t *ret_state)
{
    /* acquire: partners as in lx_epoch_read_acquire_until */
    uint64_t s = atomic_load_explicit(lx_epoch_word(e), memory_order_acquire);
    for (;;) {
        check(s);
        if (phase(s) == target) {
            /* LANEX_EPOCH_BYPASS: one writer went ahead; a second cannot be here. */
            LX_ASSERT(!(s & LX_EPOCH_WRITER) && (s & LX_EPOCH_READERS));
            return true;
        }
        if (s & (LX_EPOCH_WRITER | LX_EPOCH_QUEUED)) {
            *ret_state = s;
            return false;
        }
        /* The writers that this reader was blocked behind have all given up. */
        LX_ASSERT(s & LX_EPOCH_BLOCKED);
        if (atomic_compare_exchange_weak_explicit(lx_epoch_word(e), &s,
                                                  s - LX_EPOCH_BLOCKED_ONE + LX_EPOCH_READER,
                                                  memory_order_acquire, memory_order_acquire))
            return true;
    }
}

/*
 * Gives up waiting for a read, unless it has been let in. `target` as in read_wait. Whoever leaves
 * READERS here does so under a writer, and one that leaves BLOCKED is waited for by nobody: no wake
 * is owed.
 */
static int read_give_up(lanex_epoch *e, uint64_t target, int why)
{
    uint64_t s;
    if (why == -ETIMEDOUT && read_enter(e, target, &s))
        return 0;
    /* acquire: the reader may turn out to be inside; partners as in lx_epoch_read_acquire_until */
    s = atomic_load_explicit(lx_epoch_word(e), memory_order_acquire);
    for (;;) {
        check(s);
        if (phase(s) == target) {
            if (why == -ETIMEDOUT)
                return 0;
            lx_epoch_read_release(e);
            return why;
        }
        bool taken_over = (s & LX_EPOCH_WRITER) && phase(s) + LX_EPOCH_PHASE_ONE == target;
        LX_ASSERT(s & (taken_over ? LX_EPOCH_READERS : LX_EPOCH_BLOCKED));
        uint64_t n = s - (taken_over ? LX_EPOCH_READER : LX_EPOCH_BLOCKED_ONE);
        if (atomic_compare_exchange_weak_explicit(lx_epoch_word(e), &s, n, memory_order_acquire,
                                                  memory_order_acquire))
            return why;
    }
}

int lx_epoch_read_wait(lanex_epoch *e, uint64_t met, uint64_t deadline_ns,
                       lanex_cancellation *token)
{
    uint64_t target;
    if (read_line_up(e, met + LX_EPOCH_READER, &target))
        return 0;
    for (;;) {
        uint64_t s;
        for (int i = 0; i < LX_EPOCH_SPINS; i++) {
            if (read_enter(e, target, &s))
                return 0;
            lx_spin_pause();
        }
        if (read_enter(e, target, &s))
            return 0;
        if (!(s & LX_EPOCH_READERS_ASLEEP) && !atomic_compare_exchange_strong_explicit(
                                                  lx_epoch_word(e), &s, s | LX_EPOCH_READERS_ASLEEP,
                                                  memory_order_relaxed, memory_order_relaxed))
            continue;
        int r = lx_cancellation_wait(token, readers_bed(e), (uint32_t)(s >> 32), deadline_ns);
        if (r < 0)
            return read_give_up(e, target, r);
    }
}

/* True if a queued writer may enter. */
static bool write_open(uint64_t s, bool heir)
{
    return !(s & (LX_EPOCH_READERS | LX_EPOCH_WRITER)) && (heir || !(s & LX_EPOCH_HEIR));
}

/* The word once a queued writer has gone from the queue. */
static uint64_t unqueue(uint64_t s, bool heir)
{
    LX_ASSERT(s & LX_EPOCH_QUEUED);
    uint64_t n = s - LX_EPOCH_QUEUED_ONE;
    if (heir)
        n &= ~LX_EPOCH_HEIR;
    if (!(n & LX_EPOCH_QUEUED))
        n &= ~LX_EPOCH_WRITERS_ASLEEP;
    check(n);
    return n;
}

/* One look of a queued writer: true if it is inside. */
static bool write_enter(lanex_epoch *e, bool heir, uint64_t *ret_state)
{
    uint64_t s = lx_epoch_peek(e);
    while (write_open(s, heir)) {
        check(s);
        uint64_t blocked = (s & LX_EPOCH_BLOCKED) / LX_EPOCH_BLOCKED_ONE;
        uint64_t n = (unqueue(s, heir) & ~LX_EPOCH_BLOCKED) | LX_EPOCH_WRITER;
        n += blocked * LX_EPOCH_READER;
        if (blocked == 0)
            n &= ~LX_EPOCH_READERS_ASLEEP;
        /* acquire: partners are the releases of readers and writers before */
        if (atomic_compare_exchange_weak_explicit(lx_epoch_word(e), &s, n, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    }
    *ret_state = s;
    return false;
}

/* Leaves the queue, or enters if the time is up but the lock is free now. */
static int write_give_up(lanex_epoch *e, bool heir, int why)
{
    uint64_t s;
    if (why == -ETIMEDOUT && write_enter(e, heir, &s))
        return 0;
    s = lx_epoch_peek(e);
    uint64_t n;
    do {
        n = unqueue(s, heir);
    } while (!atomic_compare_exchange_weak_explicit(lx_epoch_word(e), &s, n, memory_order_relaxed,
                                                    memory_order_relaxed));
    /* This writer may have consumed the one wake that was meant for a writer, it may have been the
     * heir for whom the others held back, and it may have been the last that kept readers out. */
    if (!(n & LX_EPOCH_WRITER)) {
        if (!(n & LX_EPOCH_READERS) || !(n & LX_EPOCH_QUEUED))
            wake_next(e, n);
    }
    return why;
}

/* Joins the queue; true if the lock turned out to be free, and was taken. */
static bool write_line_up(lanex_epoch *e)
{
    uint64_t s = lx_epoch_peek(e);
    for (int i = 0; i < LX_EPOCH_LOOKS && !(s & LX_EPOCH_QUEUED); i++) {
        if (lx_epoch_write_try_acquire(e) == 0)
            return true;
        lx_spin_pause();
        s = lx_epoch_peek(e);
    }
    for (;;) {
        if (lx_epoch_write_try_acquire(e) == 0)
            return true;
        LX_ASSERT((s & LX_EPOCH_QUEUED) != LX_EPOCH_QUEUED);
        if (atomic_compare_exchange_weak_explicit(lx_epoch_word(e), &s, s + LX_EPOCH_QUEUED_ONE,
                                                  memory_order_relaxed, memory_order_relaxed))
            return false;
    }
}

int lx_epoch_write_wait(lanex_epoch *e, uint64_t deadline_ns, lanex_cancellation *token)
{
    bool heir = false;
    int lost = 0; /* times woken in vain */
    if (write_line_up(e))
        return 0;
    for (;;) {
        uint64_t s;
        for (int i = 0; i < LX_EPOCH_SPINS; i++) {
            if (write_enter(e, heir, &s))
                return 0;
            lx_spin_pause();
        }
        if (write_enter(e, heir, &s))
            return 0;
        bool claim = !heir && lost >= LX_EPOCH_HEIR_AFTER && !(s & LX_EPOCH_HEIR);
        uint64_t n = s | LX_EPOCH_WRITERS_ASLEEP | (claim ? LX_EPOCH_HEIR : 0);
        if (n != s && !atomic_compare_exchange_strong_explicit(
                          lx_epoch_word(e), &s, n, memory_order_relaxed, memory_order_relaxed))
            continue;
        heir = heir || claim;
        int r = lx_cancellation_wait(token, writers_bed(e), (uint32_t)n, deadline_ns);
        if (r < 0)
            return write_give_up(e, heir, r);
        lost += r;
    }
}

void lanex_epoch_init(lanex_epoch *epoch)
{
    atomic_init(lx_epoch_word(epoch), 0);
}

void lanex_epoch_fini(lanex_epoch *epoch)
{
    if (epoch)
        LX_ASSERT(!(lx_epoch_peek(epoch) & ~LX_EPOCH_FREE_BITS));
}

static bool in_own_gate(const lanex_epoch *epoch)
{
    return LX_UNLIKELY(lx_epoch_gate.epoch == epoch) && epoch != NULL;
}

/* In a read gate no writer is inside, so what keeps a second reader out is one that waits for it.
 */
static int read_in_own_gate(lanex_epoch *epoch)
{
    return lx_epoch_gate.write || lx_epoch_read_try_acquire(epoch) != 0 ? -EDEADLK : 0;
}

int lanex_epoch_read_acquire(lanex_epoch *epoch)
{
    if (in_own_gate(epoch))
        return read_in_own_gate(epoch);
    lx_epoch_read_acquire(epoch);
    return 0;
}

int lanex_epoch_read_try_acquire(lanex_epoch *epoch)
{
    return lx_epoch_read_try_acquire(epoch);
}

int lanex_epoch_read_acquire_until(lanex_epoch *epoch, uint64_t deadline_ns,
                                   lanex_cancellation *token)
{
    if (lanex_cancellation_is_cancelled(token))
        return -ECANCELED;
    if (in_own_gate(epoch))
        return read_in_own_gate(epoch);
    return lx_epoch_read_acquire_until(epoch, deadline_ns, token);
}

void lanex_epoch_read_release(lanex_epoch *epoch)
{
    lx_epoch_read_release(epoch);
}

int lanex_epoch_write_acquire(lanex_epoch *epoch)
{
    if (in_own_gate(epoch))
        return -EDEADLK;
    lx_epoch_write_acquire(epoch);
    return 0;
}

int lanex_epoch_write_try_acquire(lanex_epoch *epoch)
{
    return lx_epoch_write_try_acquire(epoch);
}

int lanex_epoch_write_acquire_until(lanex_epoch *epoch, uint64_t deadline_ns,
                                    lanex_cancellation *token)
{
    if (lanex_cancellation_is_cancelled(token))
        return -ECANCELED;
    if (in_own_gate(epoch))
        return -EDEADLK;
    return lx_epoch_write_acquire_until(epoch, deadline_ns, token);
}

void lanex_epoch_write_release(lanex_epoch *epoch)
{
    lx_epoch_write_release(epoch);
}

void lanex_epoch_write_downgrade(lanex_epoch *epoch)
{
    lx_epoch_write_downgrade(epoch);
}

bool lanex_epoch_writer_waiting(const lanex_epoch *epoch)
{
    return lx_epoch_writer_waiting(epoch);
}

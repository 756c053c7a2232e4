#include "ring/door_internal.h"
#include "sync/assert.h"
#include "sync/seams.h"

#include <errno.h>
#include <string.h>

#define LX_NS_PER_S 1000000000ULL

/* Tries of one submission before the door gives up on its ring. */
#define LX_ARM_TRIES 16
/* Poll completions with an error, in a row, after which the ring counts as broken. */
#define LX_BELL_FAILURES_MAX 8
/*
 * Waits in a row that the kernel refused with an error that should pass, after which the ring
 * counts as broken: pending work keeps the ring's descriptor readable, so going on would use a
 * processor.
 */
#define LX_STALLS_MAX 256
/*
 * Longest sleep of a door whose ring broke, in ns. A sender that saw `open` just before may still
 * have sent its message to the ring, which nobody reads any more; the owner then sees the work this
 * much later. Only a process that takes io_uring away from itself after start (a late seccomp
 * filter) gets here, so a few wakes a second are a fair price for never hanging.
 */
#define LX_DOOR_BROKEN_SLEEP_NS 100000000ULL
/* Longest sleep, in ns, before a DEFER_TASKRUN ring that had no memory to wait is tried again. */
#define LX_DOOR_STALLED_SLEEP_NS 1000000ULL

int lx_door_init(struct lx_door *d, const struct lx_backend *b)
{
    memset(d, 0, sizeof *d);
    d->ring_fd = -1;
    d->event_fd = lx_k_eventfd();
    if (d->event_fd < 0)
        return d->event_fd;
    d->use_ring = b->kind == LX_BACKEND_RING;
    d->setup_flags = b->setup_flags;
    d->send_msg_register = b->send_msg_register;
    d->no_iowait = b->no_iowait;
    d->defer_taskrun = (b->setup_flags & IORING_SETUP_DEFER_TASKRUN) != 0;
    return 0;
}

void lx_door_fini(struct lx_door *d)
{
    if (d->ring) {
        lx_k_ring_destroy(d->ring);
        lx_release(d->ring);
        d->ring = NULL;
        d->ring_fd = -1;
    }
    lx_k_close(d->event_fd);
    d->event_fd = -1;
}

/* From here on the door is one of the poll backend: senders see it and knock. */
static void ring_broke(struct lx_door *d)
{
    d->broken = true;
    /* Release, with the acquire in lx_door_try_message: orders nothing, marks the change. */
    atomic_store_explicit(&d->open, false, memory_order_release);
    /* What was on its way through the ring may be lost: let the owner look. */
    d->told = true;
}

/*
 * The ring is made by its owner, not by the thread that makes the door. It then needs no detour
 * through a disabled state, and, what counts more, the kernel ties a ring to the task that made it:
 * when the ring goes, that task gets task work, which would make the next epoll_wait of whichever
 * caller created the executor return EINTR.
 */
int lx_door_make_ring(struct lx_door *d)
{
    struct io_uring *ring = lx_allocate_zeroed(sizeof *ring);
    if (!ring)
        return -ENOMEM;
    struct io_uring_params params = {
        .flags = d->setup_flags | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE,
        .cq_entries = LX_DOOR_CQ_ENTRIES,
    };
    int rc = lx_k_ring_create(ring, LX_DOOR_SQ_ENTRIES, &params);
    if (rc < 0) {
        lx_release(ring);
        return rc;
    }
    d->ring = ring;
    d->ring_fd = ring->ring_fd;
    return 0;
}

/*
 * Nobody empties the eventfd on the ring backend. The poll is edge-triggered: each knock makes it
 * fire once, a burst of ten before one wait still gives one wake, and no extra completion was ever
 * seen (tests/unit/ring.c counts them); a read per wake would cost 0.4 us more. The only price is
 * one wake for nothing when an overflow makes the poll be armed again, since the descriptor is then
 * readable.
 */
int lx_door_arm(struct lx_door *d)
{
    /* Never full: sends leave the queue empty behind them, and this is the only other entry. */
    struct io_uring_sqe *sqe = io_uring_get_sqe(d->ring);
    LX_ASSERT(sqe);
    io_uring_prep_poll_multishot(sqe, d->event_fd, POLLIN);
    sqe->user_data = LX_UD(LX_UD_BELL, 0, 0);
    int rc = 0;
    for (int i = 0; i < LX_ARM_TRIES; i++) {
        rc = lx_k_ring_submit(d->ring);
        if (rc > 0) {
            d->armed = true;
            return 0;
        }
        if (rc != 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY)
            break;
        lx_door_absorb(d);
    }
    return rc < 0 ? rc : -EAGAIN;
}

int lx_door_enable(struct lx_door *d)
{
    d->enabled = true;
    if (!d->use_ring)
        return 0;
    int rc = lx_door_make_ring(d);
    if (rc == 0)
        rc = lx_door_arm(d);
    if (rc < 0) {
        ring_broke(d);
        return rc;
    }
    /* Release, with the acquire in lx_door_try_message: whoever sees it sees the ring. */
    atomic_store_explicit(&d->open, true, memory_order_release);
    return 0;
}

void lx_door_ring_bell(struct lx_door *d)
{
    int rc;
    do
        rc = lx_k_eventfd_add(d->event_fd);
    while (rc == -EINTR);
    /*
     * -EAGAIN would mean 2^64 - 2 knocks that nobody emptied: on the poll backend the descriptor is
     * then readable anyway; on the ring backend, where nobody empties it, it is 584 years at one
     * knock per ns. Anything else is a descriptor that somebody closed under us.
     */
    LX_ASSERT(rc == 0 || rc == -EAGAIN);
}

void lx_door_knock(struct lx_door *d)
{
    /* Release, with the acquire load at the end of lx_door_wait. */
    atomic_fetch_add_explicit(&d->rung, 1, memory_order_release);
    lx_door_ring_bell(d);
}

static void take_completion(struct lx_door *d, const struct io_uring_cqe *cqe)
{
    switch (LX_UD_KIND(cqe->user_data)) {
    case LX_UD_BELL:
        /* Without F_MORE the kernel has dropped the poll (an overflow, an error): a deaf doorbell
           unless it is armed again. */
        d->armed = (cqe->flags & IORING_CQE_F_MORE) != 0;
        d->bell_failures = cqe->res < 0 ? d->bell_failures + 1 : 0;
        d->told = true;
        break;
    case LX_UD_MESSAGE:
        d->told = true;
        break;
    case LX_UD_SEND:
        /* A failure of an earlier send that came late has no place to go. */
        if (LX_UD_ROUND(cqe->user_data) == d->send_round &&
            LX_UD_INDEX(cqe->user_data) < d->send_count)
            d->send_results[LX_UD_INDEX(cqe->user_data)] = cqe->res;
        break;
    default:
        break;
    }
}

void lx_door_absorb(struct lx_door *d)
{
    for (bool flushed = false;;) {
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;
        io_uring_for_each_cqe(d->ring, head, cqe)
        {
            take_completion(d, cqe);
            count++;
        }
        io_uring_cq_advance(d->ring, count);
        if (!io_uring_cq_has_overflow(d->ring) || (flushed && count == 0))
            return;
        /* The rest waits in the kernel's overflow list, and moves only when it is entered. */
        lx_door_count(&d->counts.overflows, 1);
        if (lx_k_ring_enter(d->ring_fd, 0, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
            return;
        flushed = true;
    }
}

/* Nanoseconds from now to the deadline; 0 if it has passed, UINT64_MAX if there is none. */
static uint64_t time_left(uint64_t abs_deadline_ns)
{
    if (abs_deadline_ns == LX_TIME_NEVER)
        return UINT64_MAX;
    if (abs_deadline_ns == 0)
        return 0;
    uint64_t now = lx_k_now_ns();
    return abs_deadline_ns > now ? abs_deadline_ns - now : 0;
}

/* Waits by poll(2) on one descriptor: 0 if it is ready, -ETIME, -EINTR, .. */
static int sleep_on_fd(int fd, uint64_t left_ns)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int rc = lx_k_poll(&p, 1, left_ns);
    return rc == 0 ? -ETIME : rc < 0 ? rc : 0;
}

/*
 * Sleeps outside the ring: not counted as iowait, at the price of another system call. Right only
 * where completions are posted without the owner: poll(2) on the descriptor of a DEFER_TASKRUN ring
 * is not woken by what is held back for it (seen on Linux 6.18; messages and polls alike), so the
 * probe pairs DEFER_TASKRUN with NO_IOWAIT alone. A ring that cannot wait for lack of memory comes
 * here too; its sleep is cut short for that reason.
 */
static int sleep_beside_ring(struct lx_door *d, uint64_t left_ns)
{
    if (!d->defer_taskrun)
        return sleep_on_fd(d->ring_fd, left_ns);
    bool cut = left_ns > LX_DOOR_STALLED_SLEEP_NS;
    int rc = sleep_on_fd(d->ring_fd, cut ? LX_DOOR_STALLED_SLEEP_NS : left_ns);
    int entered = lx_k_ring_enter(d->ring_fd, 0, IORING_ENTER_GETEVENTS, NULL, 0);
    if (rc == -ETIME && cut)
        return -EINTR;
    return entered < 0 && rc >= 0 ? entered : rc;
}

/* One kernel entry that waits for a completion at most `left_ns`: 0 or more, -ETIME, -EINTR, .. */
static int sleep_in_ring(struct lx_door *d, uint64_t left_ns)
{
    if (left_ns == 0) {
        int rc = lx_k_ring_enter(d->ring_fd, 0, IORING_ENTER_GETEVENTS, NULL, 0);
        return rc < 0 ? rc : -ETIME;
    }
    lx_door_count(&d->counts.sleeps, 1);
    if (!d->no_iowait)
        return sleep_beside_ring(d, left_ns);

    unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_NO_IOWAIT;
    int rc;
    if (left_ns == UINT64_MAX) {
        rc = lx_k_ring_enter(d->ring_fd, 1, flags, NULL, 0);
    } else {
        struct __kernel_timespec ts = {
            .tv_sec = (long long)(left_ns / LX_NS_PER_S),
            .tv_nsec = (long long)(left_ns % LX_NS_PER_S),
        };
        struct io_uring_getevents_arg arg = {.ts = (uint64_t)(uintptr_t)&ts};
        rc = lx_k_ring_enter(d->ring_fd, 1, flags | IORING_ENTER_EXT_ARG, &arg, sizeof arg);
    }
    d->stalls = rc >= 0 || rc == -ETIME ? 0 : d->stalls + 1;
    /* The ring cannot wait just now (no memory, a backlog): its descriptor still can. */
    if (rc == -EAGAIN || rc == -EBUSY || rc == -ENOMEM)
        rc = sleep_beside_ring(d, left_ns);
    return rc;
}

static bool was_told(struct lx_door *d)
{
    if (!d->told)
        return false;
    d->told = false;
    lx_door_count(&d->counts.wakes, 1);
    return true;
}

/* What a wait returns when nobody rang. */
static bool not_told(struct lx_door *d, bool timed_out)
{
    lx_door_count(timed_out ? &d->counts.timeouts : &d->counts.spurious, 1);
    return !timed_out;
}

static bool wait_in_ring(struct lx_door *d, uint64_t abs_deadline_ns)
{
    lx_door_absorb(d);
    if (was_told(d))
        return true;
    if (!d->armed) {
        lx_door_count(&d->counts.rearms, 1);
        if (lx_door_arm(d) < 0) {
            ring_broke(d);
            return was_told(d);
        }
    }
    int rc = sleep_in_ring(d, time_left(abs_deadline_ns));
    lx_door_absorb(d);
    bool passing =
        rc >= 0 || rc == -ETIME || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY || rc == -ENOMEM;
    if (!passing || d->bell_failures > LX_BELL_FAILURES_MAX || d->stalls > LX_STALLS_MAX)
        ring_broke(d);
    return was_told(d) || not_told(d, rc == -ETIME);
}

static bool wait_on_eventfd(struct lx_door *d, uint64_t abs_deadline_ns)
{
    if (was_told(d))
        return true;
    uint64_t left = time_left(abs_deadline_ns);
    bool cut = d->broken && left > LX_DOOR_BROKEN_SLEEP_NS;
    int rc = 0;
    if (left > 0) {
        lx_door_count(&d->counts.sleeps, 1);
        rc = sleep_on_fd(d->event_fd, cut ? LX_DOOR_BROKEN_SLEEP_NS : left);
    }
    if (lx_k_eventfd_take(d->event_fd) > 0) {
        d->told = true;
        return was_told(d);
    }
    return not_told(d, left == 0 || (rc == -ETIME && !cut));
}

bool lx_door_wait(struct lx_door *d, uint64_t abs_deadline_ns)
{
    lx_door_count(&d->counts.waits, 1);
    LX_ASSERT(d->enabled);
    bool use_ring = d->ring && !d->broken;
    bool woke = use_ring ? wait_in_ring(d, abs_deadline_ns) : wait_on_eventfd(d, abs_deadline_ns);
    /* Acquire, with the release of lx_door_knock and lx_door_try_message. */
    (void)atomic_load_explicit(&d->rung, memory_order_acquire);
    return woke;
}

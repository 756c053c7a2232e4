/*
 * ring/door.h - what a lanex thread sleeps on, and how others wake it.
 *
 * A door is an eventfd and, on the ring backend, an io_uring that polls it (multishot) and takes
 * ring messages from other threads. Its owner waits in the door; anybody knocks (eventfd) or sends
 * a message (ring). On the poll backend the same door is the eventfd alone, waited for with
 * ppoll(2).
 *
 * Pattern
 *   creator   lx_backend_probe once, lx_door_init per thread (an eventfd)
 *   owner     lx_door_enable at the start of its thread (the ring), then lx_door_wait in its loop
 *   others    publish work, then lx_door_message (a lanex thread, or one without a ring) or
 *             lx_door_knock
 *   last      lx_door_fini, when no thread uses the door any more (the owner has ended)
 *
 * What a wake means. A knock or message made before or during a wait ends that wait; several may
 * end it together. A wait may also return for no reason. So the owner looks at its work after each
 * return, and publishing comes before knocking. A knock or message synchronises with the return of
 * the wait that it ends (see `rung`).
 *
 * Cost, on one 2-CPU virtual machine with Linux 6.18: a message to an awake thread 0.3 to 0.45 us,
 * a knock 0.26 us, either to a sleeper 10 us and more until it runs. Tell the kernel once per
 * batch.
 */
#ifndef LX_RING_DOOR_H
#define LX_RING_DOOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LX_TIME_NEVER UINT64_MAX /* "no deadline" */

enum lx_backend_kind { LX_BACKEND_RING, LX_BACKEND_POLL };
enum lx_backend_want { LX_BACKEND_AUTO, LX_BACKEND_FORCE_RING, LX_BACKEND_FORCE_POLL };

#define LX_BACKEND_WHY_SIZE 200 /* bytes, with the final zero */

/* How threads sleep in this process: decided once, then only read. */
struct lx_backend {
    enum lx_backend_kind kind;
    bool send_msg_register; /* threads without a ring can send ring messages (Linux 6.13) */
    bool no_iowait;         /* a wait in the ring can be kept out of iowait (Linux 6.15) */
    unsigned setup_flags;   /* IORING_SETUP_* that each door's ring is made with */
    int refused_errno;      /* 0, or why rings are refused, positive */
    /* One line for the log. When refused: the call, its errno, and the knobs that cause it. */
    char why[LX_BACKEND_WHY_SIZE];
};

/*
 * Decides by a real round trip on two short-lived doors: a NOP, an eventfd through the multishot
 * poll, a ring message. AUTO: anything that fails there selects the poll backend and fills
 * refused_errno and why. FORCE_RING: -errno instead, and `why` (only) is filled so that the caller
 * can log it. -errno with AUTO or FORCE_POLL only if an eventfd cannot be had. Call on any thread;
 * bounded to seconds.
 */
int lx_backend_probe(enum lx_backend_want want, struct lx_backend *ret_backend);

/*
 * Written by the owner alone; any thread may read them (relaxed: each is right, together they need
 * not be of one moment).
 */
struct lx_door_counts {
    _Atomic uint64_t waits;      /* calls of lx_door_wait */
    _Atomic uint64_t sleeps;     /* those that had to ask the kernel to wait */
    _Atomic uint64_t wakes;      /* waits ended by a knock or message */
    _Atomic uint64_t timeouts;   /* waits ended by their deadline */
    _Atomic uint64_t spurious;   /* waits ended by neither */
    _Atomic uint64_t noop_wakes; /* wakes that found nothing to do: lx_door_count_noop */
    _Atomic uint64_t
        messages_sent;            /* ring messages this thread sent, to doors and callers' rings */
    _Atomic uint64_t knocks_sent; /* knocks made by lx_door_message when no message could go */
    _Atomic uint64_t rearms;      /* times the multishot poll had to be armed again */
    _Atomic uint64_t overflows;   /* times the ring's completion queue had overflowed */
};

struct io_uring;

#define LX_DOOR_PAD 64 /* bytes between what the owner writes and what others write */

/* One per lanex thread. Members are private to src/ring, but for reading `counts` and `rung`. */
struct lx_door {
    /* Set by init, constant until fini; read by everybody. */
    int event_fd;
    unsigned setup_flags;
    bool use_ring;
    bool send_msg_register;
    bool no_iowait;
    bool defer_taskrun; /* completions are posted only while the owner is in the kernel */

    /* Set by enable; others read them only after they saw `open`. */
    int ring_fd;           /* -1 without a ring */
    struct io_uring *ring; /* NULL without a ring */

    /*
     * Whether ring messages may be sent here. False before enable (there is no ring yet) and
     * after the ring broke; then senders knock. Set by the owner with release, read by senders with
     * acquire; a message that crosses the change is covered by LX_DOOR_BROKEN_SLEEP_NS in door.c.
     */
    atomic_bool open;

    char pad_owner[LX_DOOR_PAD];
    /* The owner's. */
    bool enabled;
    bool broken;            /* the ring failed after the probe: sleep on the eventfd alone */
    bool armed;             /* the multishot poll on event_fd is in the kernel */
    bool told;              /* a completion was taken that the next wait must report */
    unsigned bell_failures; /* poll completions with an error, in a row */
    unsigned stalls;        /* waits that the kernel refused for now, in a row */
    unsigned send_round;    /* tells the failures of this send from late ones of an earlier send */
    int *send_results;      /* where a failure of the current send is filed */
    unsigned send_count;
    struct lx_door_counts counts;

    char pad_shared[LX_DOOR_PAD];
    /*
     * Knocks and messages ever made here. Senders add with release before they enter the kernel;
     * the owner loads with acquire after each wait. The kernel already orders the two; this says so
     * in the language's terms, and to race detectors.
     */
    _Atomic uint64_t rung;
};

/*
 * Makes the eventfd. Any thread. -EMFILE, -ENFILE, -ENOMEM; on failure the door needs no fini. From
 * here on others may knock and send messages (which go as knocks until enable).
 */
int lx_door_init(struct lx_door *d, const struct lx_backend *b);

/*
 * On the owning thread, once, before its first wait: makes the ring, which belongs to this thread,
 * and arms the poll. A knock made earlier is not lost. -errno as io_uring_setup or io_uring_enter
 * said; the door still works then, on the eventfd alone, so whether that is a failure is the
 * caller's choice (an executor that promises to fail clean waits for each thread's result).
 */
int lx_door_enable(struct lx_door *d);

/*
 * Closes the descriptors. Nobody may be using the door or be about to. Best after the owner has
 * ended: its ring is then nobody's, and closing it disturbs no thread.
 */
void lx_door_fini(struct lx_door *d);

/* Wakes the owner through the eventfd. Any thread, also signal handlers; never blocks, keeps errno.
 */
void lx_door_knock(struct lx_door *d);

/*
 * Wakes the owner of `to` through a ring message. `from` is the calling thread's own door, or NULL
 * on a thread that has none. Knocks instead where no message can be sent. `from` == `to` makes the
 * next wait return. 1 if a ring message travelled, 0 if a knock did.
 */
int lx_door_message(struct lx_door *from, struct lx_door *to);

/*
 * The owner sleeps until it is knocked or messaged, or until the monotonic time `abs_deadline_ns`
 * (LX_TIME_NEVER: no limit; a time that has passed: look, do not sleep). False if the deadline
 * passed and nobody rang; true otherwise, sometimes for no reason.
 */
bool lx_door_wait(struct lx_door *d, uint64_t abs_deadline_ns);

/* The owner was woken and found nothing to do: for statistics. */
static inline void lx_door_count_noop(struct lx_door *d)
{
    uint64_t n = atomic_load_explicit(&d->counts.noop_wakes, memory_order_relaxed);
    atomic_store_explicit(&d->counts.noop_wakes, n + 1, memory_order_relaxed);
}

/*
 * A caller's own io_uring, addressed by a close-on-exec duplicate of its descriptor: the caller may
 * close its own, and a reused number does not receive a stranger's messages. The ring, and what is
 * posted to it, stays in the kernel until lx_foreign_ring_close.
 *
 * What the kernel says to the sender is no receipt. A message into a ring whose owner has gone
 * succeeds; one that finds the completion queue full waits in the kernel's overflow list until the
 * owner enters the kernel with IORING_ENTER_GETEVENTS; the owner of a DEFER_TASKRUN ring sees
 * messages only when it enters the kernel, about 20 per entry, and poll(2) or epoll on its
 * descriptor does not wake it (an eventfd registered with that ring does).
 */
struct lx_foreign_ring {
    int fd;
    bool send_msg_register;
};

/*
 * -EOPNOTSUPP on the poll backend, -EBADF if the descriptor is not open, -EINVAL if it is no
 * io_uring, -EMFILE. A ring that is still disabled is accepted.
 */
int lx_foreign_ring_open(const struct lx_backend *b, int ring_fd, struct lx_foreign_ring *ret_ring);
void lx_foreign_ring_close(struct lx_foreign_ring *r);

/*
 * Posts one completion {user_data, res} to the caller's ring. `from` is the calling thread's own
 * door or NULL. Passing trouble (EINTR, EAGAIN, EBUSY, EOVERFLOW, ENOMEM) is tried again a few
 * times. -EBADFD       the ring is still disabled (IORING_SETUP_R_DISABLED): nothing was posted,
 * try later -EOPNOTSUPP   the calling thread has no ring and this kernel cannot send without
 * (before 6.13): send from a thread that has a door -EAGAIN, -ENOMEM, -EOVERFLOW  the kernel had no
 * memory, also after the retries -EOWNERDEAD   the thread that a single-issuer ring belonged to has
 * ended
 */
int lx_foreign_ring_post(struct lx_door *from, struct lx_foreign_ring *r, uint64_t user_data,
                         int32_t res);

#define LX_POST_MAX 64 /* messages that one system call carries */

struct lx_post {
    uint64_t user_data;
    int32_t res;
    int32_t error; /* out: 0, or -errno as of lx_foreign_ring_post */
};

/*
 * Posts `count` completions in order, LX_POST_MAX per system call where the thread has a ring (0.18
 * us each instead of 0.28). Fills each `error`; one that failed does not stop those after it. The
 * number that were sent.
 */
size_t lx_foreign_ring_post_many(struct lx_door *from, struct lx_foreign_ring *r,
                                 struct lx_post *posts, size_t count);

#endif

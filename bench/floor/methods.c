/*
 * The ways in which one thread can tell another that sleeps.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bench.h"
#include "floor.h"
#include "futex.h"

#define POLLED  1u
#define WRITTEN 2u
#define MESSAGE 7u

struct floor_side floor_sides[2];
const struct floor_method *floor_method;

static struct floor_side *side(unsigned number)
{
    return &floor_sides[number];
}

static struct floor_side *other(unsigned number)
{
    return &floor_sides[1 - number];
}

/* ---- futex, condition variable, a cache line ---- */

static void futex_send(unsigned me)
{
    bench_flag_set(&other(me)->futex);
}

static void futex_wait(unsigned me)
{
    while (atomic_exchange(&side(me)->futex, 0) == 0)
        bench_futex_wait(&side(me)->futex, 0);
}

static void cond_init(unsigned me)
{
    pthread_mutex_init(&side(me)->mutex, NULL);
    pthread_cond_init(&side(me)->cond, NULL);
    side(me)->flag = false;
}

static void cond_send(unsigned me)
{
    pthread_mutex_lock(&other(me)->mutex);
    other(me)->flag = true;
    pthread_mutex_unlock(&other(me)->mutex);
    pthread_cond_signal(&other(me)->cond);
}

static void cond_wait(unsigned me)
{
    pthread_mutex_lock(&side(me)->mutex);
    while (!side(me)->flag)
        pthread_cond_wait(&side(me)->cond, &side(me)->mutex);
    side(me)->flag = false;
    pthread_mutex_unlock(&side(me)->mutex);
}

static void line_send(unsigned me)
{
    atomic_store_explicit(&other(me)->line, 1, memory_order_release);
}

static void line_wait(unsigned me)
{
    while (atomic_load_explicit(&side(me)->line, memory_order_acquire) == 0)
        ;
    atomic_store_explicit(&side(me)->line, 0, memory_order_relaxed);
}

/* ---- eventfd ---- */

static void event_send(unsigned me)
{
    uint64_t one = 1;

    if (write(other(me)->event_fd, &one, sizeof one) != sizeof one)
        bench_die("write", errno);
}

static void event_wait(unsigned me)
{
    uint64_t value;

    if (read(side(me)->event_fd, &value, sizeof value) != sizeof value)
        bench_die("read", errno);
}

static struct io_uring_cqe *next_cqe(struct io_uring *ring)
{
    struct io_uring_cqe *cqe;
    int rc;

    while (io_uring_peek_cqe(ring, &cqe) != 0 || cqe == NULL) {
        rc = io_uring_submit_and_wait(ring, 1);
        if (rc < 0 && rc != -EINTR)
            bench_die("submit_and_wait", rc);
    }
    return cqe;
}

/*
 * ---- eventfd polled through a ring ----
 * A multishot poll of an eventfd that nobody empties may post more than one completion for a write,
 * so the doorbell is checked against a count of messages in memory, as any real user would.
 */

static void poll_arm(unsigned me)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&side(me)->ring);

    io_uring_prep_poll_multishot(sqe, side(me)->event_fd, POLLIN);
    sqe->user_data = POLLED;
}

static void poll_init(unsigned me)
{
    poll_arm(me);
    floor_check(io_uring_submit(&side(me)->ring), "submit");
}

static void count_message(unsigned me)
{
    atomic_fetch_add(&other(me)->mail, 1);
}

static void poll_send(unsigned me)
{
    count_message(me);
    event_send(me);
}

static void poll_wait(unsigned me)
{
    struct io_uring *ring = &side(me)->ring;
    uint64_t wanted = ++side(me)->taken;

    do {
        struct io_uring_cqe *cqe = next_cqe(ring);
        do {
            floor_check(cqe->res, "completion");
            if (cqe->user_data == POLLED && (cqe->flags & IORING_CQE_F_MORE) == 0)
                poll_arm(me);
            io_uring_cqe_seen(ring, cqe);
        } while (io_uring_peek_cqe(ring, &cqe) == 0 && cqe != NULL);
    } while (atomic_load(&side(me)->mail) < wanted);
    if (floor_method->empties)
        event_wait(me);
}

/* The write to the other's eventfd goes as an SQE, submitted by the call that waits. */
static void poll_write_wait(unsigned me)
{
    static const uint64_t one = 1;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&side(me)->ring);
    int rc;

    count_message(me);
    io_uring_prep_write(sqe, other(me)->event_fd, &one, sizeof one, (uint64_t)-1);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = WRITTEN;
    rc = io_uring_submit_and_wait(&side(me)->ring, 1);
    if (rc < 0 && rc != -EINTR)
        bench_die("submit_and_wait", rc);
    poll_wait(me);
}

/* ---- a read of the eventfd armed in the ring; armed anew by the next call that waits ---- */

static void read_arm(unsigned me)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&side(me)->ring);

    io_uring_prep_read(sqe, side(me)->event_fd, &side(me)->buffer, sizeof side(me)->buffer, 0);
    sqe->user_data = POLLED;
}

static void read_init(unsigned me)
{
    read_arm(me);
    floor_check(io_uring_submit(&side(me)->ring), "submit");
}

static void read_wait(unsigned me)
{
    struct io_uring_cqe *cqe = next_cqe(&side(me)->ring);

    floor_check(cqe->res, "read");
    io_uring_cqe_seen(&side(me)->ring, cqe);
    read_arm(me);
}

/* ---- ring messages ---- */

/* Its own descriptor registered; the target's cannot be: a ring is refused as a fixed file. */
static void message_init(unsigned me)
{
    if (floor_method->registers)
        floor_check(io_uring_register_ring_fd(&side(me)->ring), "register_ring_fd");
}

static void message_send(unsigned me)
{
    floor_prepare_message(&side(me)->ring, other(me)->ring_fd);
    floor_check(io_uring_submit(&side(me)->ring), "submit");
}

static void message_wait(unsigned me)
{
    struct io_uring_cqe *cqe = next_cqe(&side(me)->ring);

    floor_check(cqe->res, "message");
    io_uring_cqe_seen(&side(me)->ring, cqe);
}

static void message_send_wait(unsigned me)
{
    int rc;

    floor_prepare_message(&side(me)->ring, other(me)->ring_fd);
    rc = io_uring_submit_and_wait(&side(me)->ring, 1);
    if (rc < 0 && rc != -EINTR)
        bench_die("submit_and_wait", rc);
    message_wait(me);
}

void floor_prepare_message(struct io_uring *ring, int ring_fd)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

    if (sqe == NULL)
        bench_die("get_sqe", ENOSPC);
    io_uring_prep_msg_ring(sqe, ring_fd, 0, MESSAGE, 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

#define EVENT(text, ring_flags, ...)                                                               \
    {                                                                                              \
        .name = text, .flags = ring_flags, .event = true, .ring = true, __VA_ARGS__                \
    }
#define POLL(ring_flags)                                                                           \
    EVENT("eventfd_uring_poll", ring_flags, .init = poll_init, .send = poll_send, .wait = poll_wait)
#define POLL_AND_READ(ring_flags)                                                                  \
    EVENT("eventfd_uring_poll_and_read", ring_flags, .init = poll_init, .send = poll_send,         \
          .wait = poll_wait, .empties = true)
#define POLL_AND_WRITE(ring_flags)                                                                 \
    EVENT("eventfd_uring_write_sqe", ring_flags, .init = poll_init, .send = poll_send,             \
          .wait = poll_wait, .send_wait = poll_write_wait)
#define READ(ring_flags)                                                                           \
    EVENT("eventfd_uring_read", ring_flags, .init = read_init, .send = event_send,                 \
          .wait = read_wait)
#define MESSAGE_RING(text, ring_flags, ...)                                                        \
    {                                                                                              \
        .name = text, .flags = ring_flags, .ring = true, .init = message_init,                     \
        .send = message_send, .wait = message_wait, __VA_ARGS__                                    \
    }

const struct floor_method floor_methods[] = {
    {.name = "cache_line", .spins = true, .send = line_send, .wait = line_wait},
    {.name = "futex", .send = futex_send, .wait = futex_wait},
    {.name = "condition_variable", .init = cond_init, .send = cond_send, .wait = cond_wait},
    {.name = "eventfd_read", .event = true, .send = event_send, .wait = event_wait},
    POLL(FLOOR_PLAIN),
    POLL(FLOOR_COOP),
    POLL(FLOOR_DEFER),
    POLL_AND_READ(FLOOR_PLAIN),
    POLL_AND_READ(FLOOR_DEFER),
    POLL_AND_WRITE(FLOOR_PLAIN),
    POLL_AND_WRITE(FLOOR_DEFER),
    READ(FLOOR_PLAIN),
    READ(FLOOR_COOP),
    READ(FLOOR_DEFER),
    MESSAGE_RING("message", FLOOR_PLAIN, .send_wait = message_send_wait),
    MESSAGE_RING("message", FLOOR_COOP, .send_wait = message_send_wait),
    MESSAGE_RING("message", FLOOR_DEFER, .send_wait = message_send_wait),
    MESSAGE_RING("message_registered", FLOOR_PLAIN, .send_wait = message_send_wait,
                 .registers = true),
    MESSAGE_RING("message_registered", FLOOR_DEFER, .send_wait = message_send_wait,
                 .registers = true),
    MESSAGE_RING("message_two_calls", FLOOR_DEFER, .send_wait = NULL),
    {0},
};

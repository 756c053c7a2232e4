#include "ring/door_internal.h"
#include "sync/assert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Tries of one message before its error is reported. */
#define LX_SEND_TRIES 16

static bool is_passing(int rc)
{
    return rc == -EINTR || rc == -EAGAIN || rc == -EBUSY || rc == -EOVERFLOW || rc == -ENOMEM;
}

/* Whether the thread can send from a ring of its own. */
static bool has_ring(const struct lx_door *from)
{
    return from && from->ring && !from->broken;
}

/*
 * Takes back the entries that the kernel did not accept. It reads the tail only when it is entered
 * (no SQPOLL), so the tail can be moved back; both of the library's counters follow the kernel's.
 */
static void withdraw(struct io_uring *ring)
{
    unsigned head = *ring->sq.khead;
    *ring->sq.ktail = head;
    ring->sq.sqe_head = head;
    ring->sq.sqe_tail = head;
}

/*
 * Sends up to LX_POST_MAX messages with one system call from the thread's own ring, filling
 * results[i]. Only failures post completions here (IOSQE_CQE_SKIP_SUCCESS); the kernel runs a
 * message within the submission, so they are there when it returns, among other completions that
 * are kept in the door's state. Linux 6.3 to 6.9 hand messages for a DEFER_TASKRUN ring to its
 * owner: a failure found there comes late and is dropped.
 */
static void send_from_ring(struct lx_door *from, int ring_fd, const struct lx_post *posts,
                           unsigned count, int *results)
{
    LX_ASSERT(count >= 1 && count <= LX_POST_MAX);
    from->send_round++;
    for (unsigned i = 0; i < count; i++) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(from->ring);
        LX_ASSERT(sqe); /* every submission leaves the queue empty behind it */
        io_uring_prep_msg_ring(sqe, ring_fd, (unsigned)posts[i].res, posts[i].user_data, 0);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
        sqe->user_data = LX_UD(LX_UD_SEND, from->send_round, i);
        results[i] = 0;
    }
    from->send_results = results;
    from->send_count = count;

    unsigned sent = 0;
    int rc = 0;
    for (int tries = 0; sent < count && tries < LX_SEND_TRIES; tries++) {
        rc = lx_k_ring_submit(from->ring);
        if (rc > 0) {
            sent += (unsigned)rc;
            tries = 0;
        } else if (rc < 0 && !is_passing(rc)) {
            break;
        } else {
            lx_door_absorb(from); /* -EBUSY: the backlog has to be taken first */
        }
    }
    if (sent < count) {
        withdraw(from->ring);
        for (unsigned i = sent; i < count; i++)
            results[i] = rc < 0 ? rc : -EAGAIN;
    }
    if (io_uring_cq_ready(from->ring) > 0 || io_uring_cq_has_overflow(from->ring))
        lx_door_absorb(from);
    from->send_results = NULL;
    from->send_count = 0;
}

/*
 * One message. Without a ring where the kernel can (0.28 us; 0.48 us through one's own ring, and
 * the result is known at once), else through the thread's ring.
 */
static int send_once(struct lx_door *from, bool send_msg_register, int ring_fd,
                     const struct lx_post *post)
{
    if (send_msg_register) {
        struct io_uring_sqe sqe;
        memset(&sqe, 0, sizeof sqe);
        io_uring_prep_msg_ring(&sqe, ring_fd, (unsigned)post->res, post->user_data, 0);
        return lx_k_ring_send(&sqe);
    }
    if (!has_ring(from))
        return -EOPNOTSUPP;
    int result;
    send_from_ring(from, ring_fd, post, 1, &result);
    return result;
}

static int send_retrying(struct lx_door *from, bool send_msg_register, int ring_fd,
                         const struct lx_post *post)
{
    int rc = -EAGAIN;
    for (int tries = 0; tries < LX_SEND_TRIES && is_passing(rc); tries++)
        rc = send_once(from, send_msg_register, ring_fd, post);
    if (rc == 0 && from)
        lx_door_count(&from->counts.messages_sent, 1);
    return rc;
}

int lx_door_try_message(struct lx_door *from, struct lx_door *to)
{
    /* Acquire, with the releases in lx_door_enable and ring_broke. */
    if (!atomic_load_explicit(&to->open, memory_order_acquire))
        return -ENOTCONN;
    struct lx_post post = {.user_data = LX_UD(LX_UD_MESSAGE, 0, 0)};
    return send_retrying(from, to->send_msg_register, to->ring_fd, &post);
}

int lx_door_message(struct lx_door *from, struct lx_door *to)
{
    if (from == to) {
        to->told = true;
        return 0;
    }
    /* Release, with the acquire load at the end of lx_door_wait. */
    atomic_fetch_add_explicit(&to->rung, 1, memory_order_release);
    if (lx_door_try_message(from, to) == 0)
        return 1;
    if (from)
        lx_door_count(&from->counts.knocks_sent, 1);
    lx_door_ring_bell(to);
    return 0;
}

int lx_foreign_ring_open(const struct lx_backend *b, int ring_fd, struct lx_foreign_ring *ret_ring)
{
    if (b->kind == LX_BACKEND_POLL)
        return -EOPNOTSUPP;
    int fd = lx_k_dup_cloexec(ring_fd);
    if (fd < 0)
        return ring_fd < 0 ? -EBADF : fd;
    /*
     * An entry that submits nothing and waits for nothing: 0 from any ring, -EBADFD from a disabled
     * one, -EOPNOTSUPP from what is no ring; what passes is said of rings alone. Asked of the
     * duplicate, so that what was checked is what is used.
     */
    int rc = lx_k_ring_enter(fd, 0, 0, NULL, 0);
    if (rc < 0 && rc != -EBADFD && !is_passing(rc)) {
        lx_k_close(fd);
        return rc == -EOPNOTSUPP ? -EINVAL : rc;
    }
    *ret_ring = (struct lx_foreign_ring){.fd = fd, .send_msg_register = b->send_msg_register};
    return 0;
}

void lx_foreign_ring_close(struct lx_foreign_ring *r)
{
    lx_k_close(r->fd);
    r->fd = -1;
}

int lx_foreign_ring_post(struct lx_door *from, struct lx_foreign_ring *r, uint64_t user_data,
                         int32_t res)
{
    struct lx_post post = {.user_data = user_data, .res = res};
    return send_retrying(from, r->send_msg_register, r->fd, &post);
}

size_t lx_foreign_ring_post_many(struct lx_door *from, struct lx_foreign_ring *r,
                                 struct lx_post *posts, size_t count)
{
    size_t sent = 0;
    for (size_t at = 0; at < count;) {
        unsigned n = count - at < LX_POST_MAX ? (unsigned)(count - at) : LX_POST_MAX;
        int results[LX_POST_MAX];
        bool batch = n > 1 && has_ring(from);
        if (batch)
            send_from_ring(from, r->fd, posts + at, n, results);
        for (unsigned i = 0; i < n; i++) {
            struct lx_post *post = &posts[at + i];
            bool done = batch && !is_passing(results[i]);
            if (done && results[i] == 0)
                lx_door_count(&from->counts.messages_sent, 1);
            post->error =
                done ? results[i] : send_retrying(from, r->send_msg_register, r->fd, post);
            sent += post->error == 0;
        }
        at += n;
    }
    return sent;
}

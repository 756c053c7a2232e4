/*
 * The ways in which a door can work on this machine: what the probe chose, and what older kernels
 * would have made it choose, so that one new kernel tests them all.
 */
#ifndef RING_VARIANTS_H
#define RING_VARIANTS_H

#include "lx_test.h"

#include "ring/door.h"
#include "ring/kernel.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#define VARIANTS_MAX 4

struct variant {
    const char *name;
    struct lx_backend backend;
};

struct variants {
    struct variant of[VARIANTS_MAX];
    unsigned count;
};

/*
 * Whether this machine lets a program pass a message from ring to ring, found out without src/ring:
 * else a broken probe would quietly take every ring out of the tests.
 */
static inline bool rings_work_here(void)
{
    struct io_uring a, b;
    if (io_uring_queue_init(2, &a, 0) < 0)
        return false;
    bool works = false;
    if (io_uring_queue_init(2, &b, 0) == 0) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&a);
        struct io_uring_cqe *cqe;
        io_uring_prep_msg_ring(sqe, b.ring_fd, 0, 4711, 0);
        works =
            io_uring_submit(&a) == 1 && io_uring_peek_cqe(&b, &cqe) == 0 && cqe->user_data == 4711;
        io_uring_queue_exit(&b);
    }
    io_uring_queue_exit(&a);
    return works;
}

/* The poll backend always; the ring ones unless the machine refuses rings. */
static inline struct variants all_variants(void)
{
    struct variants v = {.count = 0};
    struct lx_backend backend;
    cr_assert_eq(lx_backend_probe(LX_BACKEND_FORCE_POLL, &backend), 0);
    v.of[v.count++] = (struct variant){"poll", backend};
    if (lx_backend_probe(LX_BACKEND_FORCE_RING, &backend) < 0) {
        cr_assert_not(rings_work_here(), "%s", backend.why);
        fprintf(stderr, "rings are not tested here: %s\n", backend.why);
        return v;
    }
    v.of[v.count++] = (struct variant){"ring", backend};
    struct lx_backend own = backend;
    own.send_msg_register = false; /* before 6.13 */
    v.of[v.count++] = (struct variant){"ring, own messages", own};
    struct lx_backend old = own;
    old.no_iowait = false; /* before 6.15 */
    old.setup_flags &= ~IORING_SETUP_DEFER_TASKRUN;
    old.setup_flags |= IORING_SETUP_COOP_TASKRUN;
    v.of[v.count++] = (struct variant){"ring, waiting in poll(2)", old};
    return v;
}

/* Open descriptors of this process, the one that looks not counted. */
static inline unsigned count_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    cr_assert_not_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        count += e->d_name[0] != '.';
    closedir(dir);
    return count - 1;
}

#endif

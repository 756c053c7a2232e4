#include "ring/door_internal.h"
#include "sync/seams.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Longest wait for an answer of the probe's own rings, in ns: they answer in microseconds. */
#define LX_PROBE_WAIT_NS 2000000000ULL

/* Without these the waits of door.c cannot be made, or completions can be lost. */
#define LX_NEEDED_FEATURES (IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_CQE_SKIP)

/*
 * Best first; an older kernel answers -EINVAL to flags that it does not know.
 * DEFER_TASKRUN (6.1, used from 6.15: see sleep_beside_ring in door.c) posts completions only when
 * the owner waits: a wake never interrupts what runs on the thread meanwhile, where it would make a
 * job's epoll_wait return EINTR. COOP_TASKRUN (5.19) at least spares it the interrupt.
 * SINGLE_ISSUER (6.0). SUBMIT_ALL (5.18): one bad message does not stop a batch.
 */
static const unsigned setup_flags[] = {
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN,
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN,
    IORING_SETUP_SUBMIT_ALL,
};

/* Which step of the probe failed, for the log line. */
struct refusal {
    const char *step;
    int rc; /* -errno */
};

static const char *errno_name(int err, char *buf, size_t size)
{
    static const struct {
        int err;
        const char *name;
    } names[] = {
        {EPERM, "EPERM"},   {ENOSYS, "ENOSYS"}, {EOPNOTSUPP, "EOPNOTSUPP"}, {ENOMEM, "ENOMEM"},
        {EINVAL, "EINVAL"}, {EACCES, "EACCES"}, {EMFILE, "EMFILE"},         {ENFILE, "ENFILE"},
        {EAGAIN, "EAGAIN"}, {ETIME, "ETIME"},   {EBUSY, "EBUSY"},           {EBADF, "EBADF"},
        {EIO, "EIO"},       {EFAULT, "EFAULT"}, {EBADFD, "EBADFD"},         {EEXIST, "EEXIST"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].err == err)
            return names[i].name;
    (void)snprintf(buf, size, "errno %d", err);
    return buf;
}

/* One line that names the errno and everything that is known to cause it. */
static void explain(const struct refusal *why, char *ret_line, size_t size)
{
    char sysctl[8], release[64], limit[32], number[24];
    if (lx_k_read_file("/proc/sys/kernel/io_uring_disabled", sysctl, sizeof sysctl) < 0)
        (void)snprintf(sysctl, sizeof sysctl, "?");
    if (lx_k_release(release, sizeof release) < 0)
        (void)snprintf(release, sizeof release, "?");
    uint64_t memlock = lx_k_memlock_limit();
    if (memlock == UINT64_MAX)
        (void)snprintf(limit, sizeof limit, "unlimited");
    else
        (void)snprintf(limit, sizeof limit, "%llu KiB", (unsigned long long)(memlock / 1024));
    (void)snprintf(ret_line, size,
                   "%s: %s; check kernel.io_uring_disabled (%s), seccomp, RLIMIT_MEMLOCK (%s), "
                   "kernel version (%.40s)",
                   why->step, errno_name(-why->rc, number, sizeof number), sysctl, limit, release);
}

static bool refuse(struct refusal *ret_why, const char *step, int rc)
{
    ret_why->step = step;
    ret_why->rc = rc < 0 ? rc : -EIO;
    return false;
}

static bool nop_round_trip(struct lx_door *d, struct refusal *ret_why)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(d->ring);
    if (!sqe)
        return refuse(ret_why, "IORING_OP_NOP", -EBUSY);
    io_uring_prep_nop(sqe);
    sqe->user_data = LX_UD(LX_UD_NOP, 0, 0);
    int rc = lx_k_ring_submit(d->ring);
    if (rc != 1)
        return refuse(ret_why, "io_uring_enter", rc);
    /* A NOP completes within the submission: nothing to wait for. */
    unsigned head, found = 0, count = 0;
    struct io_uring_cqe *cqe;
    io_uring_for_each_cqe(d->ring, head, cqe)
    {
        found += LX_UD_KIND(cqe->user_data) == LX_UD_NOP && cqe->res == 0;
        count++;
    }
    io_uring_cq_advance(d->ring, count);
    return found == 1 ? true : refuse(ret_why, "IORING_OP_NOP", -EIO);
}

/* Waits until the door has been rung once more than `before`. */
static bool wait_for_wake(struct lx_door *d, uint64_t before, const char *step,
                          struct refusal *ret_why)
{
    uint64_t deadline = lx_k_now_ns() + LX_PROBE_WAIT_NS;
    while (atomic_load_explicit(&d->counts.wakes, memory_order_relaxed) == before) {
        bool in_time = lx_door_wait(d, deadline);
        if (d->broken)
            return refuse(ret_why, "io_uring_enter", -EIO);
        if (!in_time)
            return refuse(ret_why, step, -ETIME);
    }
    return true;
}

static bool open_door(struct lx_door *d, struct refusal *ret_why)
{
    d->enabled = true;
    if (!nop_round_trip(d, ret_why))
        return false;
    int rc = lx_door_arm(d);
    if (rc < 0)
        return refuse(ret_why, "io_uring_enter", rc);
    /* No sender yet but this thread. */
    atomic_store_explicit(&d->open, true, memory_order_relaxed);
    return true;
}

/* The real thing on both doors. Fills what newer kernels offer. */
static bool round_trip(struct lx_door *a, struct lx_door *b, struct lx_backend *backend,
                       struct refusal *ret_why)
{
    if (!open_door(a, ret_why) || !open_door(b, ret_why))
        return false;
    lx_door_knock(a);
    if (!wait_for_wake(a, 0, "eventfd poll", ret_why))
        return false;
    int rc = lx_door_try_message(a, b);
    if (rc < 0)
        return refuse(ret_why, "IORING_OP_MSG_RING", rc);
    if (!wait_for_wake(b, 0, "IORING_OP_MSG_RING", ret_why))
        return false;
    a->send_msg_register = true;
    a->told = false;
    struct refusal ignored;
    backend->send_msg_register = lx_door_try_message(NULL, a) == 0 &&
                                 wait_for_wake(a, 1, "IORING_REGISTER_SEND_MSG_RING", &ignored);
    return true;
}

static int make_door(struct lx_door *d, const struct lx_backend *backend, struct refusal *ret_why)
{
    int rc = lx_door_init(d, backend);
    if (rc < 0) {
        refuse(ret_why, "eventfd", rc);
        return rc;
    }
    rc = lx_door_make_ring(d);
    if (rc < 0) {
        refuse(ret_why, "io_uring_setup", rc);
        lx_door_fini(d);
    }
    return rc;
}

/* 0: rings work with the flags in `backend`. 1: not with these flags. -errno: not at all. */
static int try_rings(struct lx_backend *backend, struct refusal *ret_why)
{
    struct lx_door a, b;
    int rc = make_door(&a, backend, ret_why);
    if (rc < 0)
        return rc == -EINVAL ? 1 : rc;
    unsigned features = a.ring->features;
    backend->no_iowait = a.no_iowait = (features & IORING_FEAT_NO_IOWAIT) != 0;
    if ((features & LX_NEEDED_FEATURES) != LX_NEEDED_FEATURES) {
        refuse(ret_why, "io_uring features", -EOPNOTSUPP);
        rc = ret_why->rc;
    } else if (a.defer_taskrun && !a.no_iowait) {
        refuse(ret_why, "IORING_SETUP_DEFER_TASKRUN", -EINVAL);
        rc = 1;
    } else {
        rc = make_door(&b, backend, ret_why);
        if (rc == 0) {
            rc = round_trip(&a, &b, backend, ret_why) ? 0 : ret_why->rc;
            lx_door_fini(&b);
        }
    }
    lx_door_fini(&a);
    return rc;
}

struct probe {
    struct lx_backend backend;
    struct refusal why;
    int rc;
};

static void *probe_rings(void *arg)
{
    struct probe *p = arg;
    p->rc = 1;
    for (size_t i = 0; p->rc == 1 && i < sizeof setup_flags / sizeof *setup_flags; i++) {
        p->backend.setup_flags = setup_flags[i];
        p->rc = try_rings(&p->backend, &p->why);
    }
    if (p->rc == 1)
        p->rc = -EINVAL;
    return NULL;
}

/*
 * Runs probe_rings on a thread that ends with it, all signals blocked. Not interrupted by a
 * cancellation of the caller: the thread works on the caller's stack.
 */
static int run_probe(struct probe *p)
{
    sigset_t all, saved;
    int cancel_state;
    pthread_t thread;
    (void)sigfillset(&all);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    (void)pthread_sigmask(SIG_SETMASK, &all, &saved);
    int rc = lx_seams.thread_start(&thread, probe_rings, p);
    (void)pthread_sigmask(SIG_SETMASK, &saved, NULL);
    if (rc == 0)
        (void)pthread_join(thread, NULL);
    (void)pthread_setcancelstate(cancel_state, NULL);
    return -rc;
}

/* That an eventfd can be had, without which neither backend works. */
static int probe_eventfd(void)
{
    int fd = lx_k_eventfd();
    if (fd < 0)
        return fd;
    lx_k_close(fd);
    return 0;
}

int lx_backend_probe(enum lx_backend_want want, struct lx_backend *ret_backend)
{
    struct lx_backend poll = {.kind = LX_BACKEND_POLL};
    struct probe p = {.backend = {.kind = LX_BACKEND_RING}};
    int rc = probe_eventfd();
    if (rc < 0)
        return rc;
    if (want == LX_BACKEND_FORCE_POLL) {
        (void)snprintf(poll.why, sizeof poll.why, "eventfd and ppoll, as asked");
        *ret_backend = poll;
        return 0;
    }
    rc = run_probe(&p);
    if (rc < 0)
        return rc;
    if (p.rc == 0) {
        (void)snprintf(p.backend.why, sizeof p.backend.why,
                       "io_uring, setup flags 0x%x, messages without a ring: %s, iowait: %s",
                       p.backend.setup_flags, p.backend.send_msg_register ? "yes" : "no",
                       p.backend.no_iowait ? "not counted" : "avoided by ppoll");
        *ret_backend = p.backend;
        return 0;
    }
    explain(&p.why, poll.why, sizeof poll.why);
    if (want == LX_BACKEND_FORCE_RING) {
        memcpy(ret_backend->why, poll.why, sizeof poll.why);
        return p.rc;
    }
    poll.refused_errno = -p.rc;
    *ret_backend = poll;
    return 0;
}

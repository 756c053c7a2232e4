/*
 * What src/ring does when the kernel refuses what it granted before: entries that it does not take,
 * features that it does not have. kernel.h's functions are wrapped, so that the refusal comes where
 * it is wanted.
 */
#include "ring_variants.h"

#include "ring/door_internal.h"

TestSuite(ring_edges, .timeout = 60);

#define ENDLESS UINT32_MAX

/* Submissions that pass before the refusals, how many are refused, and with what. */
static unsigned passing, refusals, refused;
static int refusal;
/* Features that new rings are said to lack. */
static unsigned missing_features;
static bool machine_tells_nothing;
/* Knocks that get lost, and waits in a ring that fail. */
static bool deaf, waits_fail;

int __real_lx_k_ring_submit(struct io_uring *ring);
int __wrap_lx_k_ring_submit(struct io_uring *ring);
int __real_lx_k_ring_create(struct io_uring *ring, unsigned entries,
                            struct io_uring_params *params);
int __wrap_lx_k_ring_create(struct io_uring *ring, unsigned entries,
                            struct io_uring_params *params);
int __real_lx_k_release(char *buf, size_t size);
int __wrap_lx_k_release(char *buf, size_t size);
int __real_lx_k_eventfd_add(int fd);
int __wrap_lx_k_eventfd_add(int fd);
int __real_lx_k_ring_enter(int ring_fd, unsigned min_complete, unsigned flags, const void *arg,
                           size_t arg_size);
int __wrap_lx_k_ring_enter(int ring_fd, unsigned min_complete, unsigned flags, const void *arg,
                           size_t arg_size);
uint64_t __real_lx_k_memlock_limit(void);
uint64_t __wrap_lx_k_memlock_limit(void);

/* The entries are handed over, as far as the program goes, and the kernel takes none. */
int __wrap_lx_k_ring_submit(struct io_uring *ring)
{
    int own = ring->enter_ring_fd;

    if (passing > 0) {
        passing--;
        return __real_lx_k_ring_submit(ring);
    }
    if (refused >= refusals)
        return __real_lx_k_ring_submit(ring);
    refused++;
    ring->enter_ring_fd = -1;
    LX_REQUIRE(__real_lx_k_ring_submit(ring) == -EBADF);
    ring->enter_ring_fd = own;
    return refusal;
}

int __wrap_lx_k_ring_create(struct io_uring *ring, unsigned entries, struct io_uring_params *params)
{
    int rc = __real_lx_k_ring_create(ring, entries, params);

    if (rc >= 0) {
        ring->features &= ~missing_features;
        params->features &= ~missing_features;
    }
    return rc;
}

int __wrap_lx_k_release(char *buf, size_t size)
{
    return machine_tells_nothing ? -EPERM : __real_lx_k_release(buf, size);
}

int __wrap_lx_k_eventfd_add(int fd)
{
    return deaf ? 0 : __real_lx_k_eventfd_add(fd);
}

int __wrap_lx_k_ring_enter(int ring_fd, unsigned min_complete, unsigned flags, const void *arg,
                           size_t arg_size)
{
    return waits_fail ? -EBADF
                      : __real_lx_k_ring_enter(ring_fd, min_complete, flags, arg, arg_size);
}

uint64_t __wrap_lx_k_memlock_limit(void)
{
    return machine_tells_nothing ? UINT64_MAX : __real_lx_k_memlock_limit();
}

static void refuse(unsigned after, unsigned count, int error)
{
    passing = after;
    refusals = count;
    refused = 0;
    refusal = error;
}

/* The variant in which a thread sends from a ring of its own; false where rings are refused. */
static bool own_ring(struct lx_backend *ret_backend)
{
    if (lx_backend_probe(LX_BACKEND_FORCE_RING, ret_backend) < 0) {
        cr_assert_not(rings_work_here(), "%s", ret_backend->why);
        return false;
    }
    ret_backend->send_msg_register = false;
    return true;
}

static void must_open(struct lx_door *door, const struct lx_backend *backend)
{
    cr_assert_eq(lx_door_init(door, backend), 0);
    cr_assert_eq(lx_door_enable(door), 0);
}

/* ---- messages that the kernel does not take ---- */

#define POSTS 3u

/* How often each user_data from `first` on came. */
static void take_all(struct io_uring *ring, uint64_t first, unsigned *ret_counts)
{
    struct io_uring_cqe *cqe;

    memset(ret_counts, 0, POSTS * sizeof *ret_counts);
    while (io_uring_peek_cqe(ring, &cqe) == 0) {
        cr_assert_geq(cqe->user_data, first, "an entry that was given up was sent later");
        cr_assert_lt(cqe->user_data, first + POSTS);
        ret_counts[cqe->user_data - first]++;
        io_uring_cqe_seen(ring, cqe);
    }
}

static size_t post(struct lx_door *from, struct lx_foreign_ring *to, uint64_t first,
                   struct lx_post *posts)
{
    for (unsigned i = 0; i < POSTS; i++)
        posts[i] = (struct lx_post){.user_data = first + i};
    return lx_foreign_ring_post_many(from, to, posts, POSTS);
}

Test(ring_edges, messages_that_were_given_up_are_not_sent_later)
{
    static const int errors[] = {-EBADF, -EAGAIN};
    struct lx_backend backend;
    struct lx_foreign_ring foreign;
    struct lx_post posts[POSTS];
    struct io_uring ring;
    struct lx_door door;
    unsigned counts[POSTS];

    if (!own_ring(&backend))
        cr_skip("rings are refused here");
    must_open(&door, &backend);
    cr_assert_eq(io_uring_queue_init(8, &ring, 0), 0);
    cr_assert_eq(lx_foreign_ring_open(&backend, ring.ring_fd, &foreign), 0);
    for (unsigned e = 0; e < 2; e++) {
        refuse(0, ENDLESS, errors[e]);
        cr_assert_eq(post(&door, &foreign, 100, posts), 0);
        for (unsigned i = 0; i < POSTS; i++)
            cr_assert_eq(posts[i].error, errors[e]);
        cr_assert_eq(door.counts.messages_sent, e * POSTS);
        refuse(0, 0, 0);
        cr_assert_eq(post(&door, &foreign, 200, posts), POSTS);
        take_all(&ring, 200, counts);
        for (unsigned i = 0; i < POSTS; i++)
            cr_assert_eq(counts[i], 1);
        cr_assert_eq(door.counts.messages_sent, (e + 1) * POSTS);
    }
    lx_foreign_ring_close(&foreign);
    io_uring_queue_exit(&ring);
    lx_door_fini(&door);
}

Test(ring_edges, a_batch_that_was_refused_for_a_while_is_sent_once)
{
    struct lx_backend backend;
    struct lx_foreign_ring foreign;
    struct lx_post posts[POSTS];
    struct io_uring ring;
    struct lx_door door;
    unsigned counts[POSTS];

    if (!own_ring(&backend))
        cr_skip("rings are refused here");
    must_open(&door, &backend);
    cr_assert_eq(io_uring_queue_init(8, &ring, 0), 0);
    cr_assert_eq(lx_foreign_ring_open(&backend, ring.ring_fd, &foreign), 0);
    for (unsigned count = 1; count <= 40; count++) {
        refuse(0, count, count % 2 ? -EBUSY : -EINTR);
        cr_assert_eq(post(&door, &foreign, 300, posts), POSTS, "%u refusals", count);
        take_all(&ring, 300, counts);
        for (unsigned i = 0; i < POSTS; i++) {
            cr_assert_eq(posts[i].error, 0);
            cr_assert_eq(counts[i], 1, "%u refusals: message %u came %u times", count, i,
                         counts[i]);
        }
    }
    lx_foreign_ring_close(&foreign);
    io_uring_queue_exit(&ring);
    lx_door_fini(&door);
}

/* ---- a poll that cannot be armed again ---- */

Test(ring_edges, a_door_whose_poll_cannot_be_armed_goes_on_by_eventfd)
{
    static const int errors[] = {-EBADF, -EAGAIN, -ENOMEM};
    struct lx_backend backend;
    struct lx_door from, to;

    if (!own_ring(&backend))
        cr_skip("rings are refused here");
    must_open(&from, &backend);
    for (unsigned e = 0; e < 3; e++) {
        must_open(&to, &backend);
        to.armed = false; /* as after an overflow of the completion queue */
        refuse(0, ENDLESS, errors[e]);
        cr_assert(lx_door_wait(&to, 0), "what was on its way may be lost: the owner must look");
        cr_assert(to.broken);
        for (int i = 0; i < 3; i++) {
            cr_assert_eq(lx_door_message(&from, &to), 0, "a message to a broken ring");
            cr_assert(lx_door_wait(&to, LX_TIME_NEVER));
            cr_assert_not(lx_door_wait(&to, 0));
        }
        refuse(0, 0, 0);
        lx_door_fini(&to);
    }
    lx_door_fini(&from);
}

/* ---- the probe ---- */

Test(ring_edges, a_probe_refused_at_any_step_falls_back_and_says_why)
{
    struct lx_backend backend, whole;
    unsigned files = count_descriptors(), steps = 0;

    if (!own_ring(&whole))
        cr_skip("rings are refused here");
    for (;; steps++) {
        refuse(steps, ENDLESS, -EPERM);
        memset(&backend, 0, sizeof backend);
        cr_assert_eq(lx_backend_probe(LX_BACKEND_AUTO, &backend), 0);
        if (backend.kind == LX_BACKEND_RING)
            break;
        cr_assert_eq(backend.refused_errno, EPERM, "%s", backend.why);
        cr_assert_not_null(strstr(backend.why, "EPERM"), "%s", backend.why);
        refuse(steps, ENDLESS, -EPERM);
        cr_assert_eq(lx_backend_probe(LX_BACKEND_FORCE_RING, &backend), -EPERM);
        cr_assert_eq(count_descriptors(), files);
    }
    cr_assert_geq(steps, 4, "two NOPs and two polls at least");
    refuse(0, 0, 0);
}

Test(ring_edges, a_kernel_without_what_rings_need_is_told_apart_by_its_line)
{
    static const unsigned features[] = {IORING_FEAT_EXT_ARG, IORING_FEAT_NODROP,
                                        IORING_FEAT_CQE_SKIP};
    struct lx_backend backend;

    if (!own_ring(&backend))
        cr_skip("rings are refused here");
    machine_tells_nothing = true;
    for (unsigned i = 0; i < 3; i++) {
        missing_features = features[i];
        cr_assert_eq(lx_backend_probe(LX_BACKEND_AUTO, &backend), 0);
        cr_assert_eq(backend.kind, LX_BACKEND_POLL);
        cr_assert_eq(backend.refused_errno, EOPNOTSUPP);
        cr_assert_not_null(strstr(backend.why, "io_uring features: EOPNOTSUPP"), "%s", backend.why);
        cr_assert_not_null(strstr(backend.why, "RLIMIT_MEMLOCK (unlimited)"), "%s", backend.why);
        cr_assert_not_null(strstr(backend.why, "kernel version (?)"), "%s", backend.why);
    }
    /* Before 6.15: rings, but none whose completions wait for their owner. */
    missing_features = IORING_FEAT_NO_IOWAIT;
    cr_assert_eq(lx_backend_probe(LX_BACKEND_AUTO, &backend), 0);
    cr_assert_eq(backend.kind, LX_BACKEND_RING);
    cr_assert_not(backend.no_iowait);
    cr_assert_eq(backend.setup_flags & IORING_SETUP_DEFER_TASKRUN, 0);
}

Test(ring_edges, a_probe_whose_wait_fails_or_never_ends_falls_back)
{
    struct lx_backend backend;

    if (!own_ring(&backend))
        cr_skip("rings are refused here");
    waits_fail = deaf = true;
    cr_assert_eq(lx_backend_probe(LX_BACKEND_FORCE_RING, &backend), -EIO);
    waits_fail = false;
    cr_assert_eq(lx_backend_probe(LX_BACKEND_AUTO, &backend), 0); /* takes LX_PROBE_WAIT_NS */
    cr_assert_eq(backend.kind, LX_BACKEND_POLL);
    cr_assert_eq(backend.refused_errno, ETIME);
    cr_assert_not_null(strstr(backend.why, "eventfd poll: ETIME"), "%s", backend.why);
}

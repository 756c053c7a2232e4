/* Callers' own rings: every completion posted to one arrives, whatever kind of ring it is and
   whatever its owner does or has stopped doing. */
#include "ring_variants.h"

#include <pthread.h>
#include <sys/eventfd.h>

#define KINDS   4
#define TOO_BIG 7 /* NOPs that overflow a completion queue of 4 */

static const struct kind {
    const char *name;
    unsigned flags;
} kinds[KINDS] = {
    {"plain", 0},
    {"single issuer", IORING_SETUP_SINGLE_ISSUER},
    {"cooperative", IORING_SETUP_COOP_TASKRUN},
    {"deferred", IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN},
};

/* A caller's ring; false if this kernel does not know the flags. */
static bool make_ring(struct io_uring *ring, unsigned flags, unsigned cq_entries)
{
    struct io_uring_params params = {
        .flags = flags | IORING_SETUP_CQSIZE,
        .cq_entries = cq_entries,
    };
    int rc = io_uring_queue_init_params(2, ring, &params);
    cr_assert(rc == 0 || rc == -EINVAL, "%d", rc);
    return rc == 0;
}

/* Takes what has arrived, as an owner does that enters the kernel for it: counts[user_data]++. */
static unsigned reap(struct io_uring *ring, unsigned *counts, uint64_t size)
{
    unsigned total = 0;
    cr_assert_geq(io_uring_get_events(ring), 0);
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(ring, &cqe) == 0) {
        cr_assert_lt(cqe->user_data, size);
        cr_assert_eq(cqe->res, -(int)cqe->user_data, "the result is the one that was sent");
        counts[cqe->user_data]++;
        total++;
        io_uring_cqe_seen(ring, cqe);
    }
    return total;
}

static void stuff(struct io_uring *ring)
{
    for (int i = 0; i < TOO_BIG; i++) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
        cr_assert_not_null(sqe);
        io_uring_prep_nop(sqe);
        sqe->user_data = 0;
        cr_assert_eq(io_uring_submit(ring), 1);
    }
}

/* The sender's side: a backend, a door of its own, and the caller's ring as it addresses it. */
struct sender {
    const struct variant *variant;
    struct lx_door door;
    struct lx_foreign_ring ring;
};

static void start_sender(struct sender *s, const struct variant *v, int ring_fd)
{
    s->variant = v;
    cr_assert_eq(lx_door_init(&s->door, &v->backend), 0);
    cr_assert_eq(lx_door_enable(&s->door), 0);
    cr_assert_eq(lx_foreign_ring_open(&v->backend, ring_fd, &s->ring), 0);
    cr_assert(fcntl(s->ring.fd, F_GETFD) & FD_CLOEXEC);
}

static void stop_sender(struct sender *s)
{
    cr_assert_not(lx_door_wait(&s->door, 0), "sending must not wake the sender");
    lx_foreign_ring_close(&s->ring);
    lx_door_fini(&s->door);
}

static void post(struct sender *s, uint64_t user_data)
{
    cr_assert_eq(lx_foreign_ring_post(&s->door, &s->ring, user_data, -(int)user_data), 0, "%s",
                 s->variant->name);
}

typedef void scenario(const struct variant *v, const struct kind *k);

/* Runs a scenario for each way to send and each kind of ring. */
static void run_all(scenario *run)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        if (v->backend.kind == LX_BACKEND_POLL)
            continue;
        for (const struct kind *k = kinds; k < kinds + KINDS; k++)
            run(v, k);
    }
}

#define DEAF_POSTS  1000U
#define LATER_POSTS 100U

static void deaf_doorbell(const struct variant *v, const struct kind *k)
{
    struct io_uring ring;
    if (!make_ring(&ring, k->flags, 4))
        return;
    struct sender s;
    start_sender(&s, v, ring.ring_fd);
    stuff(&ring);
    unsigned counts[DEAF_POSTS + 1] = {0};
    for (uint64_t i = 1; i <= DEAF_POSTS / 2; i++)
        post(&s, i);
    struct lx_post batch[DEAF_POSTS / 2];
    for (uint64_t i = 0; i < DEAF_POSTS / 2; i++) {
        uint64_t user_data = DEAF_POSTS / 2 + 1 + i;
        batch[i] = (struct lx_post){.user_data = user_data, .res = -(int)user_data};
    }
    cr_assert_eq(lx_foreign_ring_post_many(&s.door, &s.ring, batch, DEAF_POSTS / 2),
                 DEAF_POSTS / 2);

    unsigned seen = 0;
    LX_EVENTUALLY((seen += reap(&ring, counts, DEAF_POSTS + 1)) >= DEAF_POSTS + TOO_BIG);
    cr_assert_eq(seen, DEAF_POSTS + TOO_BIG);
    for (unsigned i = 1; i <= DEAF_POSTS; i++)
        cr_assert_eq(counts[i], 1, "%s, %s: message %u came %u times", v->name, k->name, i,
                     counts[i]);
    for (unsigned i = 1; i <= LATER_POSTS; i++) {
        post(&s, i);
        LX_EVENTUALLY(reap(&ring, counts, DEAF_POSTS + 1) == 1);
        cr_assert_eq(counts[i], 2);
    }
    cr_assert_eq(s.door.counts.messages_sent, DEAF_POSTS + LATER_POSTS);
    stop_sender(&s);
    io_uring_queue_exit(&ring);
}

Test(ring_foreign, posts_to_a_full_ring_all_arrive_and_later_ones_too)
{
    run_all(deaf_doorbell);
}

#define BATCH 200U

static void batch_in_order(const struct variant *v, const struct kind *k)
{
    struct io_uring ring;
    if (!make_ring(&ring, k->flags, 256))
        return;
    struct sender s;
    start_sender(&s, v, ring.ring_fd);
    struct lx_post batch[BATCH];
    for (unsigned i = 0; i < BATCH; i++)
        batch[i] = (struct lx_post){.user_data = i, .res = 7, .error = 1};
    cr_assert_eq(lx_foreign_ring_post_many(&s.door, &s.ring, batch, BATCH), BATCH);
    for (unsigned i = 0; i < BATCH; i++) {
        cr_assert_eq(batch[i].error, 0);
        struct io_uring_cqe *cqe;
        cr_assert_eq(io_uring_wait_cqe(&ring, &cqe), 0);
        cr_assert_eq(cqe->user_data, i, "%s, %s", v->name, k->name);
        cr_assert_eq(cqe->res, 7);
        io_uring_cqe_seen(&ring, cqe);
    }
    stop_sender(&s);
    io_uring_queue_exit(&ring);
}

Test(ring_foreign, a_batch_arrives_in_order)
{
    run_all(batch_in_order);
}

static void disabled_ring(const struct variant *v, const struct kind *k)
{
    struct io_uring ring;
    if (!make_ring(&ring, k->flags | IORING_SETUP_R_DISABLED, 8))
        return;
    struct sender s;
    start_sender(&s, v, ring.ring_fd);
    cr_assert_eq(lx_foreign_ring_post(&s.door, &s.ring, 1, -1), -EBADFD, "%s, %s", v->name,
                 k->name);
    struct lx_post batch[3] = {{.user_data = 1}, {.user_data = 2}, {.user_data = 3}};
    cr_assert_eq(lx_foreign_ring_post_many(&s.door, &s.ring, batch, 3), 0);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(batch[i].error, -EBADFD);
    cr_assert_eq(s.door.counts.messages_sent, 0);
    cr_assert_not(lx_door_wait(&s.door, 0), "a failed send must not wake the sender");

    /* io_uring_enable_rings is declared by liburing 2.3 but missing from its library. */
    cr_assert_geq(io_uring_register((unsigned)ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0),
                  0);
    unsigned counts[2] = {0};
    post(&s, 1);
    LX_EVENTUALLY(reap(&ring, counts, 2) == 1);
    stop_sender(&s);
    io_uring_queue_exit(&ring);
}

Test(ring_foreign, a_disabled_ring_says_so_and_works_once_enabled)
{
    run_all(disabled_ring);
}

/* A failure among the sender's own completions must not hide a knock that came before it. */
static void knock_kept(const struct variant *v, const struct kind *k)
{
    struct io_uring ring;
    if (!make_ring(&ring, k->flags | IORING_SETUP_R_DISABLED, 8))
        return;
    struct sender s;
    start_sender(&s, v, ring.ring_fd);
    for (int i = 0; i < 100; i++) {
        lx_door_knock(&s.door);
        cr_assert_eq(lx_foreign_ring_post(&s.door, &s.ring, 1, -1), -EBADFD);
        cr_assert(lx_door_wait(&s.door, LX_TIME_NEVER), "%s", v->name);
        while (lx_door_wait(&s.door, 0))
            ;
    }
    stop_sender(&s);
    io_uring_queue_exit(&ring);
}

Test(ring_foreign, sending_does_not_swallow_a_knock)
{
    run_all(knock_kept);
}

static void owner_gone(const struct variant *v, const struct kind *k)
{
    struct io_uring ring, next;
    if (!make_ring(&ring, k->flags, 4))
        return;
    struct sender s;
    start_sender(&s, v, ring.ring_fd);
    int number = ring.ring_fd;
    io_uring_queue_exit(&ring);
    cr_assert(make_ring(&next, k->flags, 4));
    cr_assert_eq(next.ring_fd, number, "the number is taken again by another ring");
    for (uint64_t i = 1; i <= 100; i++) {
        int rc = lx_foreign_ring_post(&s.door, &s.ring, i, 0);
        cr_assert(rc == 0 || rc == -EOWNERDEAD || rc == -EBADFD, "%s, %s: %d", v->name, k->name,
                  rc);
    }
    unsigned counts[1] = {0};
    cr_assert_eq(reap(&next, counts, 1), 0, "a stranger got the messages");
    stop_sender(&s);
    io_uring_queue_exit(&next);
}

Test(ring_foreign, a_closed_ring_neither_hangs_nor_redirects)
{
    run_all(owner_gone);
}

struct short_lived {
    const struct kind *kind;
    struct io_uring ring;
    bool made;
};

static void *make_ring_and_end(void *arg)
{
    struct short_lived *owner = arg;
    owner->made = make_ring(&owner->ring, owner->kind->flags, 4);
    return NULL;
}

static void thread_gone(const struct variant *v, const struct kind *k)
{
    struct short_lived owner = {.kind = k};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, make_ring_and_end, &owner), 0);
    pthread_join(thread, NULL);
    if (!owner.made)
        return;
    struct sender s;
    start_sender(&s, v, owner.ring.ring_fd);
    for (uint64_t i = 1; i <= 100; i++) {
        int rc = lx_foreign_ring_post(&s.door, &s.ring, i, 0);
        cr_assert(rc == 0 || rc == -EOWNERDEAD || rc == -EBADFD, "%s, %s: %d", v->name, k->name,
                  rc);
    }
    stop_sender(&s);
    io_uring_queue_exit(&owner.ring);
}

Test(ring_foreign, the_ring_of_an_ended_thread_does_not_hang_the_sender)
{
    run_all(thread_gone);
}

/* Threads without a door, at once, to one ring. */
#define SENDERS  3U
#define PER_EACH 2000U

struct outsider {
    struct lx_foreign_ring *ring;
    uint64_t first;
};

static void *post_from_outside(void *arg)
{
    struct outsider *o = arg;
    for (uint64_t i = o->first; i < o->first + PER_EACH; i++)
        LX_REQUIRE(lx_foreign_ring_post(NULL, o->ring, i, -(int)i) == 0);
    return NULL;
}

static void from_outside(const struct variant *v, const struct kind *k)
{
    struct io_uring ring;
    if (!make_ring(&ring, k->flags, 64))
        return;
    struct lx_foreign_ring foreign;
    cr_assert_eq(lx_foreign_ring_open(&v->backend, ring.ring_fd, &foreign), 0);
    if (!v->backend.send_msg_register) {
        cr_assert_eq(lx_foreign_ring_post(NULL, &foreign, 1, 0), -EOPNOTSUPP);
    } else {
        static unsigned counts[SENDERS * PER_EACH];
        memset(counts, 0, sizeof counts);
        pthread_t threads[SENDERS];
        struct outsider args[SENDERS];
        for (unsigned i = 0; i < SENDERS; i++) {
            args[i] = (struct outsider){&foreign, i * PER_EACH};
            cr_assert_eq(pthread_create(&threads[i], NULL, post_from_outside, &args[i]), 0);
        }
        unsigned seen = 0;
        LX_EVENTUALLY((seen += reap(&ring, counts, SENDERS * PER_EACH)) >= SENDERS * PER_EACH);
        for (unsigned i = 0; i < SENDERS; i++)
            pthread_join(threads[i], NULL);
        cr_assert_eq(reap(&ring, counts, SENDERS * PER_EACH), 0);
        for (unsigned i = 0; i < SENDERS * PER_EACH; i++)
            cr_assert_eq(counts[i], 1, "%s: message %u came %u times", k->name, i, counts[i]);
    }
    lx_foreign_ring_close(&foreign);
    io_uring_queue_exit(&ring);
}

Test(ring_foreign, threads_without_a_ring_can_post_where_the_kernel_lets_them)
{
    run_all(from_outside);
}

Test(ring_foreign, what_is_no_ring_is_refused_and_leaves_no_descriptor)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        struct lx_foreign_ring foreign = {.fd = 77};
        int event_fd = eventfd(0, EFD_CLOEXEC), file = open("/dev/null", O_RDONLY | O_CLOEXEC);
        cr_assert(event_fd >= 0 && file >= 0);
        unsigned before = count_descriptors();
        bool poll = v->backend.kind == LX_BACKEND_POLL;
        cr_assert_eq(lx_foreign_ring_open(&v->backend, event_fd, &foreign),
                     poll ? -EOPNOTSUPP : -EINVAL);
        cr_assert_eq(lx_foreign_ring_open(&v->backend, file, &foreign),
                     poll ? -EOPNOTSUPP : -EINVAL);
        cr_assert_eq(lx_foreign_ring_open(&v->backend, -1, &foreign), poll ? -EOPNOTSUPP : -EBADF);
        close(file);
        cr_assert_eq(lx_foreign_ring_open(&v->backend, file, &foreign),
                     poll ? -EOPNOTSUPP : -EBADF);
        cr_assert_eq(foreign.fd, 77, "outputs are left alone on failure");
        cr_assert_eq(count_descriptors(), before - 1);
        close(event_fd);
    }
}

/* Doors: whoever knocks or sends a message wakes the owner, on each backend and whatever it was
   doing. */
#include "ring_variants.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <time.h>

#define MS 1000000ULL /* ns */

static void must_open(struct lx_door *door, const struct variant *v)
{
    cr_assert_eq(lx_door_init(door, &v->backend), 0, "%s", v->name);
    cr_assert_eq(lx_door_enable(door), 0, "%s", v->name);
}

/* Takes what is left over, so that the door is at rest. */
static void settle(struct lx_door *door)
{
    while (lx_door_wait(door, 0))
        ;
}

static bool wakes_within(struct lx_door *door, uint64_t ns)
{
    uint64_t before = door->counts.wakes;
    uint64_t deadline = lx_k_now_ns() + ns;
    while (door->counts.wakes == before)
        if (!lx_door_wait(door, deadline))
            return false;
    return true;
}

Test(ring, the_probe_says_what_it_chose)
{
    struct lx_backend backend;
    cr_assert_eq(lx_backend_probe(LX_BACKEND_AUTO, &backend), 0);
    cr_assert(strlen(backend.why) > 0);
    cr_assert_eq(backend.kind == LX_BACKEND_POLL, backend.refused_errno != 0);
    cr_assert_null(strchr(backend.why, '\n'));
    fprintf(stderr, "auto: %s\n", backend.why);

    struct lx_backend poll;
    cr_assert_eq(lx_backend_probe(LX_BACKEND_FORCE_POLL, &poll), 0);
    cr_assert_eq(poll.kind, LX_BACKEND_POLL);
    cr_assert_eq(poll.refused_errno, 0);
}

Test(ring, a_knock_before_enable_ends_the_first_wait)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        struct lx_door door;
        cr_assert_eq(lx_door_init(&door, &v->backend), 0);
        lx_door_knock(&door);
        cr_assert_eq(lx_door_message(NULL, &door), 0, "%s: not open yet, so a knock", v->name);
        cr_assert_eq(lx_door_enable(&door), 0);
        cr_assert(lx_door_wait(&door, LX_TIME_NEVER), "%s", v->name);
        settle(&door);
        cr_assert_eq(door.rung, 2);
        lx_door_fini(&door);
    }
}

Test(ring, a_knock_and_a_message_each_end_a_wait)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        struct lx_door from, to;
        must_open(&from, v);
        must_open(&to, v);
        for (int i = 0; i < 1000; i++) {
            bool ring = v->backend.kind == LX_BACKEND_RING;
            lx_door_knock(&to);
            cr_assert(wakes_within(&to, 1000 * MS), "%s knock %d", v->name, i);
            cr_assert_eq(lx_door_message(&from, &to), ring, "%s", v->name);
            cr_assert(wakes_within(&to, 1000 * MS), "%s message %d", v->name, i);
            cr_assert_eq(lx_door_message(NULL, &to), v->backend.send_msg_register, "%s", v->name);
            cr_assert(wakes_within(&to, 1000 * MS), "%s message from outside %d", v->name, i);
            cr_assert_not(lx_door_wait(&to, 0), "%s: three rings, three wakes", v->name);
        }
        cr_assert_eq(to.rung, 3000);
        cr_assert_eq(from.counts.messages_sent + from.counts.knocks_sent, 1000);
        cr_assert_not(lx_door_wait(&from, 0), "%s: sending must not wake the sender", v->name);
        lx_door_fini(&from);
        lx_door_fini(&to);
    }
}

Test(ring, a_message_to_oneself_ends_the_next_wait)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        struct lx_door door;
        must_open(&door, v);
        (void)lx_door_message(&door, &door);
        cr_assert(lx_door_wait(&door, LX_TIME_NEVER), "%s", v->name);
        cr_assert_not(lx_door_wait(&door, 0), "%s: once", v->name);
        lx_door_fini(&door);
    }
}

Test(ring, a_wait_ends_at_its_deadline_and_not_before)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        struct lx_door door;
        must_open(&door, v);
        cr_assert_not(lx_door_wait(&door, 0), "%s", v->name);
        cr_assert_not(lx_door_wait(&door, 1), "%s: long past", v->name);
        for (uint64_t ms = 1; ms <= 16; ms *= 2) {
            uint64_t deadline = lx_k_now_ns() + ms * MS;
            while (lx_door_wait(&door, deadline))
                ;
            uint64_t end = lx_k_now_ns();
            cr_assert_geq(end, deadline, "%s", v->name);
            cr_assert_lt(end, deadline + 1000 * MS, "%s: %lu ns late", v->name,
                         (unsigned long)(end - deadline));
        }
        cr_assert_geq(door.counts.timeouts, 7);
        lx_door_fini(&door);
    }
}

/* Two threads that pass a turn to and fro; a lost wake is a hang. */
struct table {
    struct lx_door doors[2];
    atomic_uint turn;
    uint64_t rounds;
    bool knock;
};

static void pass_turn(struct table *t, unsigned me)
{
    atomic_store(&t->turn, 1 - me);
    if (t->knock)
        lx_door_knock(&t->doors[1 - me]);
    else
        (void)lx_door_message(&t->doors[me], &t->doors[1 - me]);
}

static void play(struct table *t, unsigned me)
{
    for (uint64_t i = 0; i < t->rounds; i++) {
        while (atomic_load(&t->turn) != me) {
            uint64_t deadline = lx_k_now_ns() + LX_TEST_LIVENESS_S * 1000 * MS;
            LX_REQUIRE(lx_door_wait(&t->doors[me], deadline) || atomic_load(&t->turn) == me);
        }
        pass_turn(t, me);
    }
}

static void *second_player(void *arg)
{
    struct table *t = arg;
    LX_REQUIRE(lx_door_enable(&t->doors[1]) == 0);
    play(t, 1);
    return NULL;
}

static void ping_pong(const struct variant *v, uint64_t rounds, bool knock)
{
    struct table t = {.rounds = rounds, .knock = knock};
    must_open(&t.doors[0], v);
    cr_assert_eq(lx_door_init(&t.doors[1], &v->backend), 0);
    pthread_t thread;
    uint64_t start = lx_k_now_ns();
    cr_assert_eq(pthread_create(&thread, NULL, second_player, &t), 0);
    play(&t, 0);
    pthread_join(thread, NULL);
    fprintf(stderr, "%s, %s: %lu ns a round\n", v->name, knock ? "knocks" : "messages",
            (unsigned long)((lx_k_now_ns() - start) / rounds));
    cr_assert_eq(t.doors[0].rung, rounds);
    cr_assert_eq(t.doors[1].rung, rounds);
    lx_door_fini(&t.doors[0]);
    lx_door_fini(&t.doors[1]);
}

Test(ring, a_hundred_thousand_messages_to_and_fro)
{
    struct variants all = all_variants();
    unsigned chosen = all.count > 1 ? 1 : 0;
    ping_pong(&all.of[chosen], lx_test_scaled(100000), false);
}

Test(ring, every_variant_passes_the_turn_by_messages_and_knocks)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        ping_pong(v, lx_test_scaled(20000), false);
        ping_pong(v, lx_test_scaled(20000), true);
    }
}

/* An overflow of the completion queue ends the multishot poll: a door that is not armed again would
   never hear another knock. */
Test(ring, an_overflowed_door_still_hears_knocks)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        struct lx_door from, to;
        must_open(&from, v);
        must_open(&to, v);
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 1000; i++) {
                (void)lx_door_message(&from, &to);
                if (i % 100 == 50)
                    lx_door_knock(&to);
            }
            cr_assert(lx_door_wait(&to, LX_TIME_NEVER));
            settle(&to);
            for (int i = 0; i < 10; i++) {
                lx_door_knock(&to);
                cr_assert(wakes_within(&to, 1000 * MS), "%s: knock %d", v->name, i);
            }
        }
        bool posts_at_once = v->backend.kind == LX_BACKEND_RING &&
                             !(v->backend.setup_flags & IORING_SETUP_DEFER_TASKRUN);
        if (posts_at_once) {
            cr_assert_gt(to.counts.overflows, 0, "%s: the case was not reached", v->name);
            cr_assert_gt(to.counts.rearms, 0, "%s: the case was not reached", v->name);
        }
        lx_door_fini(&from);
        lx_door_fini(&to);
    }
}

Test(ring, a_ring_that_breaks_leaves_a_door_that_works)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        if (!v->backend.no_iowait)
            continue; /* does not enter its ring to wait: nothing there that could break */
        struct lx_door from, to;
        must_open(&from, v);
        must_open(&to, v);
        /* Whatever stands there now takes no io_uring_enter, as under a late seccomp filter. */
        int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
        cr_assert_geq(other, 0);
        cr_assert_eq(dup3(other, to.ring_fd, O_CLOEXEC), to.ring_fd);
        close(other);
        cr_assert(lx_door_wait(&to, LX_TIME_NEVER), "%s: the owner must look", v->name);
        cr_assert(to.broken);
        for (int i = 0; i < 10; i++) {
            cr_assert_eq(lx_door_message(&from, &to), 0, "%s: knocks from now on", v->name);
            cr_assert(wakes_within(&to, 1000 * MS), "%s", v->name);
        }
        uint64_t deadline = lx_k_now_ns() + 20 * MS;
        while (lx_door_wait(&to, deadline))
            ;
        cr_assert_geq(lx_k_now_ns(), deadline);
        cr_assert_eq(lx_door_message(&to, &from), v->backend.send_msg_register,
                     "%s: it can still send, or knock", v->name);
        cr_assert(wakes_within(&from, 1000 * MS), "%s", v->name);
        lx_door_fini(&from);
        lx_door_fini(&to);
    }
}

Test(ring, doors_leave_no_descriptor_and_none_survives_exec)
{
    struct variants all = all_variants();
    unsigned before = count_descriptors();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        for (int i = 0; i < 50; i++) {
            struct lx_door door;
            must_open(&door, v);
            cr_assert(fcntl(door.event_fd, F_GETFD) & FD_CLOEXEC);
            cr_assert(fcntl(door.event_fd, F_GETFL) & O_NONBLOCK);
            if (v->backend.kind == LX_BACKEND_RING)
                cr_assert(fcntl(door.ring_fd, F_GETFD) & FD_CLOEXEC);
            lx_door_fini(&door);
        }
        cr_assert_eq(count_descriptors(), before, "%s", v->name);
    }
}

Test(ring, errno_is_left_alone)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        struct lx_door door;
        errno = EXDEV;
        must_open(&door, v);
        lx_door_knock(&door);
        (void)lx_door_wait(&door, LX_TIME_NEVER);
        (void)lx_door_message(NULL, &door);
        settle(&door);
        (void)lx_door_wait(&door, lx_k_now_ns() + MS);
        struct lx_foreign_ring ring;
        cr_assert_lt(lx_foreign_ring_open(&v->backend, door.event_fd, &ring), 0);
        lx_door_fini(&door);
        cr_assert_eq(errno, EXDEV, "%s", v->name);
    }
}

/* A wake must not make a job's own system calls return EINTR. */
struct busy_owner {
    struct lx_door door;
    struct latch ready;
    int result;
};

static void *wait_for_something_else(void *arg)
{
    struct busy_owner *owner = arg;
    LX_REQUIRE(lx_door_enable(&owner->door) == 0);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    LX_REQUIRE(epoll >= 0);
    latch_arrive(&owner->ready);
    struct epoll_event event;
    owner->result = epoll_wait(epoll, &event, 1, 100);
    close(epoll);
    LX_REQUIRE(lx_door_wait(&owner->door, LX_TIME_NEVER));
    return NULL;
}

Test(ring, a_knock_does_not_interrupt_what_the_owner_is_doing)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        if (v->backend.kind == LX_BACKEND_RING &&
            !(v->backend.setup_flags & IORING_SETUP_DEFER_TASKRUN))
            continue; /* the price of kernels before 6.15 */
        struct busy_owner owner = {.ready = LATCH_INIT, .result = -1};
        cr_assert_eq(lx_door_init(&owner.door, &v->backend), 0);
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, wait_for_something_else, &owner), 0);
        latch_wait(&owner.ready, 1);
        for (int i = 0; i < 20; i++) {
            struct timespec pause = {.tv_nsec = 2 * (long)MS};
            nanosleep(&pause, NULL); /* spreads the knocks over the owner's wait */
            lx_door_knock(&owner.door);
            (void)lx_door_message(NULL, &owner.door);
        }
        pthread_join(thread, NULL);
        cr_assert_eq(owner.result, 0, "%s", v->name);
        lx_door_fini(&owner.door);
    }
}

#define SLEEPERS 4

struct sleepers {
    struct lx_door doors[SLEEPERS];
    struct latch awake;
    atomic_bool leave;
};

struct sleeper {
    struct sleepers *all;
    unsigned index;
};

static void *sleep_until_told(void *arg)
{
    struct sleeper *me = arg;
    struct lx_door *door = &me->all->doors[me->index];
    LX_REQUIRE(lx_door_enable(door) == 0);
    latch_arrive(&me->all->awake);
    while (!atomic_load(&me->all->leave))
        (void)lx_door_wait(door, LX_TIME_NEVER);
    return NULL;
}

static uint64_t process_cpu_ns(void)
{
    struct timespec ts;
    cr_assert_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts), 0);
    return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* Threads of the machine that are in iowait; -1 if it cannot be told. */
static long threads_in_iowait(void)
{
    long value = -1;
    char line[8192];
    FILE *stat = fopen("/proc/stat", "re");
    while (stat && fgets(line, sizeof line, stat))
        if (sscanf(line, "procs_blocked %ld", &value) == 1)
            break;
    if (stat)
        fclose(stat);
    return value;
}

Test(ring, sleepers_use_no_processor_and_no_iowait)
{
    struct variants all = all_variants();
    for (const struct variant *v = all.of; v < all.of + all.count; v++) {
        struct sleepers s = {.awake = LATCH_INIT};
        struct sleeper args[SLEEPERS];
        pthread_t threads[SLEEPERS];
        for (unsigned i = 0; i < SLEEPERS; i++) {
            args[i] = (struct sleeper){&s, i};
            cr_assert_eq(lx_door_init(&s.doors[i], &v->backend), 0);
            cr_assert_eq(pthread_create(&threads[i], NULL, sleep_until_told, &args[i]), 0);
        }
        latch_wait(&s.awake, SLEEPERS);
        for (unsigned i = 0; i < SLEEPERS; i++)
            LX_EVENTUALLY(atomic_load(&s.doors[i].counts.sleeps) > 0);
        struct timespec while_idle = {.tv_nsec = 500 * (long)MS};
        uint64_t before = process_cpu_ns();
        nanosleep(&while_idle, NULL); /* the idleness that is measured */
        uint64_t used = process_cpu_ns() - before;
        fprintf(stderr, "%s: 4 threads idle for 0.5 s used %lu us\n", v->name,
                (unsigned long)(used / 1000));
        cr_assert_lt(used, 10 * MS, "%s", v->name);
        /* Others' input and output may be in it for a moment; ours would be in it for ever. */
        LX_EVENTUALLY(threads_in_iowait() < SLEEPERS);
        atomic_store(&s.leave, true);
        for (unsigned i = 0; i < SLEEPERS; i++)
            lx_door_knock(&s.doors[i]);
        for (unsigned i = 0; i < SLEEPERS; i++) {
            pthread_join(threads[i], NULL);
            lx_door_fini(&s.doors[i]);
        }
    }
}

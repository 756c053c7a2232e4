/* The receivers of the mixed test: each completion is filed once. */
#include "mixed.h"

#include <errno.h>
#include <poll.h>

#define LOOK_MS    20   /* how long a receiver sleeps before it looks whether it may end */
#define CQ_ENTRIES 256u /* small, so that it overflows at times */
#define DOORBELL   UINT64_MAX

void mixed_book(struct mixed *mixed, uint64_t number, int status)
{
    LX_REQUIRE(number < mixed->options.jobs);
    if (atomic_fetch_add(&mixed->seen[number], 1) != 0)
        lx_test_die(__FILE__, __LINE__, "job %lu was answered twice, with %d and %d",
                    (unsigned long)number, mixed->status[number], status);
    atomic_store(&mixed->status[number], (uint8_t)status);
    if (status == LANEX_STATUS_ACTOR_FATAL)
        atomic_store(&mixed->slots[number % ACTORS].fatal, true);
    atomic_fetch_sub(&mixed->outstanding, 1);
}

void mixed_book_completion(struct mixed *mixed, lanex_completion *completion)
{
    mixed_book(mixed, (uint64_t)(uintptr_t)lanex_completion_arg(completion),
               lanex_completion_status(completion));
}

void mixed_callback(lanex_completion *completion, void *mixed)
{
    mixed_book_completion(mixed, completion);
}

static void drain(struct mixed *mixed, lanex_port *port)
{
    lanex_completion *completions[64];
    int count;

    do {
        count = lanex_port_drain(port, completions, 64);
        LX_REQUIRE(count >= 0);
        for (int i = 0; i < count; i++) {
            mixed_book_completion(mixed, completions[i]);
            lanex_completion_release(completions[i]);
        }
    } while (count == 64);
}

static void *receive_port(void *arg)
{
    struct mixed *mixed = arg;
    struct pollfd bell = {.fd = lanex_port_fd(mixed->port), .events = POLLIN};

    while (!atomic_load(&mixed->stop)) {
        /* Only what the bell announces is taken: a bell that stays silent is a hang. */
        if (poll(&bell, 1, LOOK_MS) > 0)
            drain(mixed, mixed->port);
    }
    return NULL;
}

static void *receive_ring(void *arg)
{
    struct mixed *mixed = arg;

    while (!atomic_load(&mixed->stop)) {
        struct __kernel_timespec patience = {.tv_nsec = LOOK_MS * 1000000};
        struct io_uring_cqe *cqe;
        uint64_t number;
        int32_t res;
        int rc = io_uring_wait_cqe_timeout(&mixed->uring, &cqe, &patience);

        if (rc < 0)
            continue;
        number = cqe->user_data;
        res = cqe->res;
        io_uring_cqe_seen(&mixed->uring, cqe);
        if (number == DOORBELL)
            drain(mixed, mixed->ring_port);
        else
            mixed_book(mixed, number, -res);
    }
    return NULL;
}

static void start_ring(struct mixed *mixed)
{
    struct io_uring_params params = {.flags = IORING_SETUP_CQSIZE, .cq_entries = CQ_ENTRIES};
    lanex_port_options options = {
        .size = sizeof options, .doorbell = LANEX_DOORBELL_RING, .ring_user_data = DOORBELL};
    int rc = io_uring_queue_init_params(8, &mixed->uring, &params);

    if (rc < 0)
        return; /* refused here: then by the executor too */
    rc = lanex_ring_attach(mixed->executor, mixed->uring.ring_fd, &mixed->ring);
    if (rc < 0) {
        LX_REQUIRE(rc == -EOPNOTSUPP);
        io_uring_queue_exit(&mixed->uring);
        return;
    }
    mixed->has_ring = true;
    options.ring = mixed->ring;
    LX_REQUIRE(lanex_port_create(mixed->executor, &options, &mixed->ring_port) == 0);
    LX_REQUIRE(pthread_create(&mixed->ring_thread, NULL, receive_ring, mixed) == 0);
}

void mixed_start_receivers(struct mixed *mixed)
{
    LX_REQUIRE(lanex_port_create(mixed->executor, NULL, &mixed->port) == 0);
    LX_REQUIRE(pthread_create(&mixed->port_thread, NULL, receive_port, mixed) == 0);
    start_ring(mixed);
}

void mixed_stop_receivers(struct mixed *mixed)
{
    LX_REQUIRE(atomic_load(&mixed->stop));
    pthread_join(mixed->port_thread, NULL);
    lanex_port_unref(mixed->port);
    if (!mixed->has_ring)
        return;
    pthread_join(mixed->ring_thread, NULL);
    lanex_port_unref(mixed->ring_port);
    lanex_ring_unref(mixed->ring);
    io_uring_queue_exit(&mixed->uring);
}

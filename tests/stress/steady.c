/* The steady state: what a warm executor does not do per job (allocate, enter the kernel), and that
 * what has to reach a sleeper travels as a ring message. */
#include "tests/support/lx_executor.h"

#include "sync/seams.h"

#include <liburing.h>
#include <poll.h>

TestSuite(steady, .timeout = 120);

#define JOBS    100000u
#define AT_ONCE 200u  /* jobs under way at most */
#define WARM    4000u /* at once while warming up: more than AT_ONCE plus what magazines hold */
#define ACTORS  16u

/* ---- allocations ---- */

static atomic_bool counting;
static _Atomic uint64_t allocations;

static void count_allocation(void)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_add(&allocations, 1);
}

/* All of the process, by taking malloc's place; a sanitizer has that place already. */
#if !LX_TEST_SANITIZED
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size)
{
    count_allocation();
    return __libc_malloc(size);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc reserves its names */
void *calloc(size_t count, size_t size)
{
    count_allocation();
    return __libc_calloc(count, size);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the same */
void *realloc(void *memory, size_t size)
{
    count_allocation();
    return __libc_realloc(memory, size);
}
#endif

static struct lx_seams real;

static void *counting_allocate(size_t size, bool zeroed)
{
    count_allocation();
    return real.allocate(size, zeroed);
}

static void *counting_map(size_t size)
{
    count_allocation();
    return real.map(size);
}

/* ---- the load ---- */

struct load {
    lanex_executor *executor;
    lanex_actor *actors[ACTORS];
    lanex_port *port;
    lanex_ticket *tickets[WARM];
    unsigned ticket_count;
    _Atomic uint64_t called;
};

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void note_end(lanex_completion *completion, void *arg)
{
    (void)completion;
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

static void drain_port(struct load *load, unsigned wanted)
{
    struct pollfd bell = {.fd = lanex_port_fd(load->port), .events = POLLIN};
    lanex_completion *completions[64];

    while (wanted > 0) {
        int count = lanex_port_drain(load->port, completions, 64);
        for (int i = 0; i < count; i++)
            lanex_completion_release(completions[i]);
        wanted -= (unsigned)count;
        if (count == 0)
            cr_assert_eq(poll(&bell, 1, (int)lx_test_liveness_s() * 1000), 1);
    }
}

/* So many jobs at once through callbacks, a port and tickets, with everything that a job may own.
 */
static void one_wave(struct load *load, unsigned jobs)
{
    uint64_t called = atomic_load(&load->called), expected = called;
    unsigned in_port = 0;

    for (unsigned i = 0; i < jobs; i++) {
        lanex_job_options options =
            lx_test_callback_job(i % 5 == 0 ? LANEX_LANE_MUTATING : LANEX_LANE_PURE_READ, nothing,
                                 NULL, note_end, &load->called);
        options.request_id = "request-0123456789abcdef"; /* 24 bytes */
        options.label = "label-0123456789abcdefgh";
        options.flags = LANEX_JOB_CANCELLABLE;
        options.deadline_ns = i % 4 == 0 ? UINT64_MAX - 1 : 0;
        lanex_actor *actor = load->actors[i % ACTORS];
        if (i % 3 == 0) {
            cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
            expected++;
        } else if (i % 3 == 1) {
            options.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = load->port};
            cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
            in_port++;
        } else {
            options.sink = (lanex_sink){.kind = LANEX_SINK_TICKET};
            cr_assert_eq(lanex_submit_ticket(actor, &options, &load->tickets[load->ticket_count++]),
                         0);
        }
    }
    while (load->ticket_count > 0) {
        lanex_ticket *ticket = load->tickets[--load->ticket_count];
        cr_assert_eq(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), 0);
        lanex_ticket_drop(ticket);
    }
    drain_port(load, in_port);
    LX_EVENTUALLY(atomic_load(&load->called) == expected);
}

static void begin_load(struct load *load, unsigned pool)
{
    load->executor = lx_test_executor(pool);
    for (unsigned i = 0; i < ACTORS; i++)
        load->actors[i] = lx_test_actor(load->executor, i);
    cr_assert_eq(lanex_port_create(load->executor, NULL, &load->port), 0);
}

static void end_load(struct load *load)
{
    lanex_port_unref(load->port);
    for (unsigned i = 0; i < ACTORS; i++)
        lanex_actor_unref(load->actors[i]);
    cr_assert_eq(lanex_executor_destroy(load->executor), 0);
}

Test(steady, no_allocation_per_job)
{
    static struct load load;

    real = lx_seams;
    lx_seams.allocate = counting_allocate;
    lx_seams.map = counting_map;
    begin_load(&load, 4);
    atomic_store(&counting, true);
    one_wave(&load, WARM);
    cr_assert_gt(atomic_load(&allocations), 0, "the counting does not work");
    one_wave(&load, WARM);
    atomic_store(&allocations, 0);
    for (unsigned done = 0; done < lx_test_scaled(JOBS); done += AT_ONCE)
        one_wave(&load, AT_ONCE);
    atomic_store(&counting, false);
    cr_assert_eq(atomic_load(&allocations), 0, "%lu allocations for %lu jobs",
                 (unsigned long)atomic_load(&allocations), (unsigned long)lx_test_scaled(JOBS));
    end_load(&load);
}

/* ---- wakes ---- */

static lanex_counters counters_of(const lanex_executor *executor)
{
    lanex_counters counters = {.size = sizeof counters};

    cr_assert_eq(lanex_executor_counters(executor, &counters), 0);
    return counters;
}

struct gate {
    struct latch begun;
    struct latch may_end;
};

static void hold_worker(lanex_job *job, void *context, void *arg)
{
    struct gate *gate = arg;

    (void)job;
    (void)context;
    latch_arrive(&gate->begun);
    latch_wait(&gate->may_end, 1);
}

/* With enough to do nobody sleeps, so nobody is woken: the bound is 0.05 for a job, wakes and ring
 * messages together. In scheduler mode the workers sleep while lanex-sched looks for them. */
Test(steady, a_busy_pool_wakes_nobody)
{
    enum { POOL = 2 };
    static struct load load;
    struct gate gate = {LATCH_INIT, LATCH_INIT};
    uint64_t jobs = lx_test_scaled(JOBS);
    lanex_job_options options;

    begin_load(&load, POOL);
    options = lx_test_job(LANEX_LANE_MUTATING, hold_worker, &gate);
    for (unsigned i = 0; i < POOL; i++)
        cr_assert_eq(lanex_submit(load.actors[i], &options, NULL), 0);
    latch_wait(&gate.begun, POOL);
    options = lx_test_callback_job(LANEX_LANE_PURE_READ, nothing, NULL, note_end, &load.called);
    for (uint64_t i = 0; i < jobs; i++)
        cr_assert_eq(lanex_submit(load.actors[i % ACTORS], &options, NULL), 0);
    lanex_counters before = counters_of(load.executor);
    latch_arrive(&gate.may_end);
    LX_EVENTUALLY(atomic_load(&load.called) == jobs);
    lanex_counters after = counters_of(load.executor);
    uint64_t wakes = after.wakes - before.wakes,
             messages = after.ring_messages - before.ring_messages;
    fprintf(stderr, "[----] %lu jobs: %lu wakes, %lu ring messages\n", (unsigned long)jobs,
            (unsigned long)wakes, (unsigned long)messages);
    /* A sanitizer makes a turn last longer than a worker looks at a taken seat. */
    if (lx_test_env_dispatch() == LX_TEST_DISPATCH_SEAT && !LX_TEST_SANITIZED)
        cr_assert_lt((wakes + messages) * 20, jobs);
    cr_assert_eq(atomic_load(&load.called), jobs);
    end_load(&load);
}

/* ---- ring messages ---- */

static bool has_rings(const lanex_executor *executor)
{
    lanex_config config = {.size = sizeof config};

    cr_assert_eq(lanex_executor_config(executor, &config), 0);
    return config.backend == LANEX_BACKEND_RING;
}

/* The consumer sleeps in its own ring; what it is told comes as a message, one for "not yet told".
 */
Test(steady, a_sleeping_consumer_is_told_by_a_ring_message)
{
    enum { ROUNDS = 200 };
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    lanex_port_options port_options = {
        .size = sizeof port_options, .doorbell = LANEX_DOORBELL_RING, .ring_user_data = 7};
    struct io_uring uring;
    lanex_port *port;

    if (!has_rings(executor)) {
        lanex_actor_unref(actor);
        cr_assert_eq(lanex_executor_destroy(executor), 0);
        cr_skip("no rings here");
    }
    cr_assert_eq(io_uring_queue_init(8, &uring, 0), 0);
    cr_assert_eq(lanex_ring_attach(executor, uring.ring_fd, &port_options.ring), 0);
    cr_assert_eq(lanex_port_create(executor, &port_options, &port), 0);
    uint64_t before = counters_of(executor).ring_messages;
    for (unsigned i = 0; i < ROUNDS; i++) {
        lanex_job_options options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
        struct __kernel_timespec patience = {.tv_sec = lx_test_liveness_s()};
        struct io_uring_cqe *cqe;
        lanex_completion *completion;

        options.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
        cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
        cr_assert_eq(io_uring_wait_cqe_timeout(&uring, &cqe, &patience), 0);
        cr_assert_eq(cqe->user_data, 7);
        cr_assert_eq(cqe->res, 0);
        io_uring_cqe_seen(&uring, cqe);
        cr_assert_eq(lanex_port_drain(port, &completion, 1), 1);
        lanex_completion_release(completion);
    }
    /* The last sender counts after the message has gone. */
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    cr_assert_geq(counters_of(executor).ring_messages - before, ROUNDS);
    lanex_port_unref(port);
    lanex_ring_unref(port_options.ring);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    io_uring_queue_exit(&uring);
}

struct timed {
    lanex_actor *actor;
    struct gate gate;
    struct latch expired;
};

static void note_expiry(lanex_completion *completion, void *arg)
{
    struct timed *timed = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
    latch_arrive(&timed->expired);
}

/* In a body: a job behind this one, with a deadline that only lanex-sched can keep. */
static void submit_timed(lanex_job *job, void *context, void *arg)
{
    struct timed *timed = arg;
    lanex_job_options options =
        lx_test_callback_job(LANEX_LANE_MUTATING, nothing, NULL, note_expiry, timed);

    (void)job;
    (void)context;
    options.deadline_ns = lx_test_now_ns() + 2000000;
    LX_REQUIRE(lanex_submit(timed->actor, &options, NULL) == 0);
    latch_arrive(&timed->gate.begun);
    latch_wait(&timed->gate.may_end, 1);
}

Test(steady, a_sleeping_scheduler_is_told_by_a_ring_message)
{
    for (unsigned round = 0; round < 20; round++) {
        lanex_executor *executor = lx_test_executor(2);
        struct timed timed = {.actor = lx_test_actor(executor, 1)};
        lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, submit_timed, &timed);
        uint64_t before = counters_of(executor).ring_messages;

        cr_assert_eq(lanex_submit(timed.actor, &options, NULL), 0);
        latch_wait(&timed.gate.begun, 1);
        latch_wait(&timed.expired, 1);
        if (has_rings(executor))
            cr_assert_gt(counters_of(executor).ring_messages, before);
        else
            cr_assert_eq(counters_of(executor).ring_messages, 0);
        latch_arrive(&timed.gate.may_end);
        lanex_actor_unref(timed.actor);
        cr_assert_eq(lanex_executor_destroy(executor), 0);
    }
}

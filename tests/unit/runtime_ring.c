/*
 * Completions in callers' own io_urings: one CQE a job (ring sink), and a port's doorbell. For each
 * kind of ring, and whatever its owner does or has stopped doing. On the poll backend all that is
 * refused.
 */
#include "runtime_rig.h"

#include "ring/kernel.h"

#include <unistd.h>

#define JOBS 200u
#define MANY 1000u /* jobs that complete while the ring's queue is stuffed */
#define NOPS 7     /* overflow a completion queue of 4 */
/*
 * How late a completion may come after the ring was full for a while. 50 ms is what is wanted of an
 * idle machine; a shared one can take a thread off its CPU for longer, and a deaf doorbell never
 * rings at all.
 */
#define LATE_NS UINT64_C(2000000000)

#define NOP_DATA  UINT64_C(0xffffffff)
#define BELL_DATA UINT64_C(0xfffffffe)

static const struct kind {
    const char *name;
    unsigned flags;
} kinds[] = {
    {"plain", 0},
    {"single issuer", IORING_SETUP_SINGLE_ISSUER},
    {"cooperative", IORING_SETUP_COOP_TASKRUN},
    {"deferred", IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN},
};

/* A caller with a ring of its own, attached to an executor of its own. */
struct caller {
    const struct kind *kind;
    struct io_uring uring;
    lanex_executor *executor;
    lanex_actor *actor;
    lanex_ring *ring;
    unsigned seen[MANY]; /* by user_data */
    int res[MANY];
    unsigned total, bells;
};

/* False if this kernel does not know the kind. */
static bool begin(struct caller *caller, const struct kind *kind, unsigned cq_entries,
                  unsigned more_flags)
{
    struct io_uring_params params = {
        .flags = kind->flags | more_flags | IORING_SETUP_CQSIZE,
        .cq_entries = cq_entries,
    };
    int rc;

    memset(caller, 0, sizeof *caller);
    caller->kind = kind;
    rc = io_uring_queue_init_params(2, &caller->uring, &params);
    cr_assert(rc == 0 || rc == -EINVAL, "%s: %d", kind->name, rc);
    if (rc != 0)
        return false;
    caller->executor = rig_executor();
    caller->actor = rig_actor(caller->executor, "a");
    cr_assert_eq(lanex_ring_attach(caller->executor, caller->uring.ring_fd, &caller->ring), 0);
    return true;
}

static void end(struct caller *caller)
{
    lanex_ring_unref(caller->ring);
    lanex_actor_unref(caller->actor);
    rig_destroy_executor(caller->executor);
    io_uring_queue_exit(&caller->uring);
}

/* What the owner does that enters the kernel for its completions. */
static void reap(struct caller *caller)
{
    struct io_uring_cqe *cqe;

    cr_assert_geq(io_uring_get_events(&caller->uring), 0);
    while (io_uring_peek_cqe(&caller->uring, &cqe) == 0) {
        if (cqe->user_data == BELL_DATA) {
            cr_assert_eq(cqe->res, 0);
            caller->bells++;
        } else if (cqe->user_data != NOP_DATA) {
            cr_assert_lt(cqe->user_data, MANY, "%s", caller->kind->name);
            cr_assert_eq(caller->seen[cqe->user_data]++, 0, "%s: told twice", caller->kind->name);
            caller->res[cqe->user_data] = cqe->res;
            caller->total++;
        }
        io_uring_cqe_seen(&caller->uring, cqe);
    }
}

static bool reaped(struct caller *caller, unsigned total)
{
    reap(caller);
    return caller->total >= total;
}

static void stuff(struct caller *caller)
{
    for (int i = 0; i < NOPS; i++) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&caller->uring);
        cr_assert_not_null(sqe);
        io_uring_prep_nop(sqe);
        sqe->user_data = NOP_DATA;
        cr_assert_eq(io_uring_submit(&caller->uring), 1);
    }
}

static lanex_job_options told_by_ring(const struct caller *caller, lanex_job_fn run, void *arg,
                                      uint64_t user_data)
{
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, run, arg);

    job.sink = (lanex_sink){.kind = LANEX_SINK_RING, .ring = caller->ring, .user_data = user_data};
    return job;
}

typedef void scenario(const struct kind *kind);

static void for_each_kind(scenario *run)
{
    lanex_executor *executor = rig_executor();
    bool rings = rig_has_rings(executor);

    if (!rings) {
        lanex_ring *ring;
        cr_assert_eq(lanex_ring_attach(executor, 0, &ring), -EOPNOTSUPP);
    }
    rig_destroy_executor(executor);
    for (size_t i = 0; rings && i < sizeof kinds / sizeof kinds[0]; i++)
        run(&kinds[i]);
}

/* ---- the ring sink ---- */

static void fails(lanex_job *job, void *context, void *arg)
{
    (void)context;
    (void)arg;
    LX_REQUIRE(lanex_job_respond_error(job, "code", NULL, false) == 0);
}

static void each_job_once(const struct kind *kind)
{
    static struct caller caller;
    static lanex_ticket *tickets[JOBS];
    static struct rig_data data[JOBS];

    if (!begin(&caller, kind, 512, 0))
        return;
    memset(data, 0, sizeof data);
    for (unsigned i = 0; i < JOBS; i++) {
        lanex_job_options job = told_by_ring(&caller, rig_respond, &data[i], i);
        if (i % 4 == 1)
            job.run = fails;
        if (i % 4 == 2)
            job.deadline_ns = 1; /* told by the reaper */
        if (i % 4 == 3) {        /* without a ticket */
            tickets[i] = NULL;
            cr_assert_eq(lanex_submit(caller.actor, &job, NULL), 0);
        } else {
            cr_assert_eq(lanex_submit_ticket(caller.actor, &job, &tickets[i]), 0);
        }
    }
    LX_EVENTUALLY(reaped(&caller, JOBS));
    for (unsigned i = 0; i < JOBS; i++) {
        static const int statuses[] = {LANEX_STATUS_OK, LANEX_STATUS_JOB_FAILED,
                                       LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED, LANEX_STATUS_OK};
        cr_assert_eq(caller.seen[i], 1);
        cr_assert_eq(caller.res[i], -statuses[i % 4]);
        if (tickets[i] == NULL)
            continue;
        cr_assert_eq(lanex_ticket_poll(tickets[i]), 1, "told before it was over");
        lanex_completion *completion = lanex_ticket_completion(tickets[i]);
        cr_assert_eq(lanex_completion_status(completion), statuses[i % 4]);
        lanex_ticket_drop(tickets[i]);
    }
    end(&caller);
    for (unsigned i = 0; i < JOBS; i++)
        cr_assert_eq(rig_destroyed(&data[i]), i % 4 == 0 || i % 4 == 3);
}

Test(ring_sink, tells_of_each_job_once)
{
    for_each_kind(each_job_once);
}

static void deaf_ring(const struct kind *kind)
{
    static struct caller caller;
    unsigned later = (unsigned)lx_test_scaled(100);

    if (!begin(&caller, kind, 4, 0))
        return;
    stuff(&caller);
    for (unsigned i = 0; i < MANY; i++) {
        lanex_job_options job = told_by_ring(&caller, rig_nothing, NULL, i);
        cr_assert_eq(lanex_submit(caller.actor, &job, NULL), 0);
    }
    for (;;) {
        lanex_counters counters = {.size = sizeof counters};
        cr_assert_eq(lanex_executor_counters(caller.executor, &counters), 0);
        if (counters.completed[0] == MANY)
            break;
    }
    LX_EVENTUALLY(reaped(&caller, MANY));
    memset(caller.seen, 0, sizeof caller.seen);
    caller.total = 0;
    for (unsigned i = 0; i < later; i++) {
        uint64_t before = lx_test_now_ns();
        lanex_job_options job = told_by_ring(&caller, rig_nothing, NULL, i);
        cr_assert_eq(lanex_submit(caller.actor, &job, NULL), 0);
        LX_EVENTUALLY(reaped(&caller, i + 1));
        cr_assert_lt(lx_test_now_ns() - before, LATE_NS, "%s: job %u", kind->name, i);
    }
    end(&caller);
}

Test(ring_sink, a_ring_that_was_full_misses_nothing_and_hears_again)
{
    for_each_kind(deaf_ring);
}

static void unreferenced(const struct kind *kind)
{
    static struct caller caller;
    struct rig_block block = {0};

    if (!begin(&caller, kind, 16, 0))
        return;
    lanex_job_options job = told_by_ring(&caller, rig_block, &block, 5);
    cr_assert_eq(lanex_submit(caller.actor, &job, NULL), 0);
    latch_wait(&block.entered, 1);
    lanex_ring_unref(lanex_ring_ref(caller.ring));
    lanex_ring_unref(caller.ring);
    caller.ring = NULL;
    latch_arrive(&block.leave);
    LX_EVENTUALLY(reaped(&caller, 1));
    cr_assert_eq(caller.seen[5], 1);
    end(&caller);
}

Test(ring_sink, jobs_under_way_keep_the_ring)
{
    for_each_kind(unreferenced);
}

/* The owner has gone: nobody hears it, nothing hangs, the ticket knows. */
static void owner_gone(const struct kind *kind)
{
    static struct caller caller;
    struct rig_block block = {0};
    struct rig_data data = {0};
    lanex_ticket *ticket;

    if (!begin(&caller, kind, 16, 0))
        return;
    lanex_job_options job = told_by_ring(&caller, rig_block, &block, 5);
    cr_assert_eq(lanex_submit_ticket(caller.actor, &job, &ticket), 0);
    latch_wait(&block.entered, 1);
    io_uring_queue_exit(&caller.uring);
    latch_arrive(&block.leave);
    rig_expect(ticket, LANEX_STATUS_OK);
    for (unsigned i = 0; i < 10; i++) {
        job = told_by_ring(&caller, rig_respond, &data, i);
        memset(&data, 0, sizeof data);
        cr_assert_eq(lanex_submit(caller.actor, &job, NULL), 0);
        LX_EVENTUALLY(rig_destroyed(&data));
    }
    lanex_ring_unref(caller.ring);
    lanex_actor_unref(caller.actor);
    rig_destroy_executor(caller.executor);
}

Test(ring_sink, a_ring_whose_owner_is_gone_holds_nothing_up)
{
    for_each_kind(owner_gone);
}

/* Not enabled yet: messages wait, in lanex-reap's hands, until it is. */
static void disabled(const struct kind *kind)
{
    static struct caller caller;

    if (!begin(&caller, kind, 64, IORING_SETUP_R_DISABLED))
        return;
    for (unsigned i = 0; i < 20; i++) {
        lanex_job_options job = told_by_ring(&caller, rig_nothing, NULL, i);
        lanex_ticket *ticket;
        cr_assert_eq(lanex_submit_ticket(caller.actor, &job, &ticket), 0);
        rig_expect(ticket, LANEX_STATUS_OK);
    }
    /* io_uring_enable_rings is declared by liburing 2.3 but missing from its library. */
    cr_assert_eq(
        io_uring_register((unsigned)caller.uring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0),
        0);
    LX_EVENTUALLY(reaped(&caller, 20));
    end(&caller);
}

Test(ring_sink, messages_wait_for_a_ring_to_be_enabled)
{
    for_each_kind(disabled);
}

/* ---- the doorbell ---- */

static lanex_port *make_port(struct caller *caller)
{
    lanex_port_options options = {.size = sizeof options,
                                  .doorbell = LANEX_DOORBELL_RING,
                                  .ring = caller->ring,
                                  .ring_user_data = BELL_DATA};
    lanex_port *port = NULL;

    cr_assert_eq(lanex_port_create(caller->executor, &options, &port), 0);
    cr_assert_eq(lanex_port_fd(port), -EINVAL);
    return port;
}

static bool belled(struct caller *caller, unsigned bells)
{
    reap(caller);
    return caller->bells >= bells;
}

static void submit_to_port(struct caller *caller, lanex_port *port, lanex_job_fn run, void *arg)
{
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, run, arg);

    job.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
    cr_assert_eq(lanex_submit(caller->actor, &job, NULL), 0);
}

/* Drains only when the bell has rung, `max` at a time. */
static unsigned drain_by_bell(struct caller *caller, lanex_port *port, unsigned wanted, size_t max)
{
    lanex_completion *got[64];
    unsigned total = 0;

    while (total < wanted) {
        LX_EVENTUALLY(belled(caller, 1));
        caller->bells = 0;
        int count = lanex_port_drain(port, got, max);
        cr_assert(count >= 0 && (size_t)count <= max);
        for (int i = 0; i < count; i++)
            lanex_completion_release(got[i]);
        total += (unsigned)count;
    }
    return total;
}

static void port_with_ring_bell(const struct kind *kind)
{
    static struct caller caller;
    static struct rig_data data[JOBS];
    lanex_completion *one;

    if (!begin(&caller, kind, 64, 0))
        return;
    memset(data, 0, sizeof data);
    lanex_port *port = make_port(&caller);
    for (unsigned i = 0; i < JOBS; i++)
        submit_to_port(&caller, port, rig_respond, &data[i]);
    cr_assert_eq(drain_by_bell(&caller, port, JOBS, 7), JOBS);
    for (unsigned i = 0; i < JOBS; i++)
        cr_assert(rig_destroyed(&data[i]));
    cr_assert_eq(lanex_port_drain(port, &one, 1), 0);
    cr_assert_eq(lanex_port_detach(port), 0);
    submit_to_port(&caller, port, rig_nothing, NULL);
    cr_assert_eq(lanex_executor_drain(caller.executor, rig_liveness_ns(), NULL), 0);
    reap(&caller);
    caller.bells = 0;
    cr_assert_eq(lanex_port_drain(port, &one, 1), 0);
    reap(&caller);
    cr_assert_eq(caller.bells, 0, "%s: rung after it was detached", kind->name);
    lanex_port_unref(port);
    end(&caller);
}

Test(ring_bell, a_port_rings_and_rings_again_for_the_rest)
{
    for_each_kind(port_with_ring_bell);
}

static void deaf_bell(const struct kind *kind)
{
    static struct caller caller;
    unsigned later = (unsigned)lx_test_scaled(100);

    if (!begin(&caller, kind, 4, 0))
        return;
    lanex_port *port = make_port(&caller);
    stuff(&caller);
    for (unsigned i = 0; i < MANY; i++)
        submit_to_port(&caller, port, rig_nothing, NULL);
    for (;;) {
        lanex_counters counters = {.size = sizeof counters};
        cr_assert_eq(lanex_executor_counters(caller.executor, &counters), 0);
        if (counters.completed[0] == MANY)
            break;
    }
    cr_assert_eq(drain_by_bell(&caller, port, MANY, 64), MANY);
    for (unsigned i = 0; i < later; i++) {
        uint64_t before = lx_test_now_ns();
        submit_to_port(&caller, port, rig_nothing, NULL);
        cr_assert_eq(drain_by_bell(&caller, port, 1, 64), 1);
        cr_assert_lt(lx_test_now_ns() - before, LATE_NS, "%s: job %u", kind->name, i);
    }
    lanex_port_unref(port);
    end(&caller);
}

Test(ring_bell, a_bell_that_found_the_ring_full_is_heard_and_rings_again)
{
    for_each_kind(deaf_bell);
}

static void port_outlives(const struct kind *kind)
{
    static struct caller caller;
    struct rig_data data[5] = {{0}};
    lanex_completion *got[2];

    if (!begin(&caller, kind, 64, 0))
        return;
    lanex_port *port = make_port(&caller);
    for (unsigned i = 0; i < 5; i++)
        submit_to_port(&caller, port, rig_respond, &data[i]);
    lanex_ring_unref(caller.ring); /* the port keeps it */
    lanex_actor_unref(caller.actor);
    rig_destroy_executor(caller.executor);
    LX_EVENTUALLY(belled(&caller, 1));
    cr_assert_eq(lanex_port_drain(port, got, 2), 2);
    for (int i = 0; i < 2; i++)
        lanex_completion_release(got[i]);
    lanex_port_unref(port);
    for (unsigned i = 0; i < 5; i++)
        cr_assert(rig_destroyed(&data[i]));
    io_uring_queue_exit(&caller.uring);
}

Test(ring_bell, a_port_outlives_its_executor)
{
    for_each_kind(port_outlives);
}

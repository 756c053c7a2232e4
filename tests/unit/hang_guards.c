/* What cannot end says so at once instead of hanging: waits for jobs, gates, drain and destroy. */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <pthread.h>

TestSuite(hang_guards, .timeout = 60);

#define FOREVER LANEX_TIME_NEVER

static lanex_executor *executor_with(lanex_executor_options options)
{
    lanex_executor *executor = NULL;

    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    return executor;
}

static void end(lanex_executor *executor)
{
    cr_assert_eq(lanex_executor_drain(executor, FOREVER, NULL), 0);
    lx_test_at_rest(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void wait_for_latch(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    latch_wait((struct latch *)arg, 1);
}

/* ---- waits for jobs ---- */

/* A job whose body submits another one and waits for it. */
struct nested {
    lanex_actor *actor; /* of the inner job */
    lanex_job_options inner;
    uint64_t timeout_ns;
    struct latch *begun;  /* arrived at when the body runs; NULL: none */
    struct latch *may_go; /* waited for before the inner job is submitted; NULL: none */
    bool keep;            /* the inner ticket is left to the test */
    lanex_ticket *left;
    int rc;
};

static void submit_and_wait(lanex_job *job, void *context, void *arg)
{
    struct nested *nested = arg;
    lanex_ticket *ticket;

    (void)job;
    (void)context;
    if (nested->begun != NULL)
        latch_arrive(nested->begun);
    if (nested->may_go != NULL)
        latch_wait(nested->may_go, 1);
    LX_REQUIRE(lanex_submit_ticket(nested->actor, &nested->inner, &ticket) == 0);
    nested->rc = lanex_ticket_wait(ticket, nested->timeout_ns);
    LX_REQUIRE(nested->rc != 0 || lanex_ticket_poll(ticket) == 1);
    if (nested->keep)
        nested->left = ticket;
    else
        lanex_ticket_drop(ticket);
}

static struct nested nested_of(lanex_actor *actor, enum lanex_lane lane)
{
    return (struct nested){
        .actor = actor,
        .inner = lx_test_job(lane, nothing, NULL),
        .timeout_ns = FOREVER,
        .rc = 1,
    };
}

/* Runs the outer job to its end; what the inner wait gave. */
static int run_nested(lanex_actor *actor, enum lanex_lane lane, struct nested *nested)
{
    lanex_job_options outer = lx_test_job(lane, submit_and_wait, nested);
    lanex_ticket *ticket;

    nested->keep = true;
    cr_assert_eq(lanex_submit_ticket(actor, &outer, &ticket), 0);
    cr_assert_eq(lanex_ticket_wait(ticket, FOREVER), 0);
    lanex_ticket_drop(ticket);
    /* Nothing is left that the next one could stand behind. */
    cr_assert_eq(lanex_ticket_wait(nested->left, FOREVER), 0);
    cr_assert_eq(lanex_completion_status(lanex_ticket_completion(nested->left)), LANEX_STATUS_OK);
    lanex_ticket_drop(nested->left);
    return nested->rc;
}

static void check_lanes(const lanex_executor_options *options,
                        const char *const expected[]) /* by outer lane: 'D' or '0' by inner lane */
{
    lanex_executor *executor = executor_with(*options);
    lanex_actor *actor = lx_test_actor(executor, 1);
    lanex_actor *other = lx_test_actor(executor, 2);

    for (unsigned outer = 0; outer < 5; outer++) {
        for (unsigned inner = 0; inner < 5; inner++) {
            struct nested nested = nested_of(actor, (enum lanex_lane)inner);
            int rc = run_nested(actor, (enum lanex_lane)outer, &nested);
            cr_assert_eq(rc, expected[outer][inner] == 'D' ? -EDEADLK : 0,
                         "lane %u waits for lane %u: %d", outer, inner, rc);
            /* Another actor's jobs are in nobody's way. */
            nested = nested_of(other, (enum lanex_lane)inner);
            cr_assert_eq(run_nested(actor, (enum lanex_lane)outer, &nested), 0);
        }
    }
    lanex_actor_unref(actor);
    lanex_actor_unref(other);
    end(executor);
}

Test(hang_guards, a_job_may_wait_for_what_can_start_beside_it)
{
    lanex_executor_options options = lx_test_executor_options(4);
    /* read, serial, heavy, mutating, commit */
    static const char *const expected[] = {"000D0", "0D0D0", "00000", "DDDDD", "000DD"};

    options.heavy_permits = 2;
    check_lanes(&options, expected);
}

Test(hang_guards, one_slot_an_actor_leaves_room_for_commits_alone)
{
    lanex_executor_options options = lx_test_executor_options(4);
    static const char *const expected[] = {"DDDD0", "DDDD0", "DDDD0", "DDDDD", "000DD"};

    options.actor_cap = 1;
    options.heavy_permits = 2;
    check_lanes(&options, expected);
}

Test(hang_guards, the_last_permit_is_not_waited_for_by_its_holder)
{
    lanex_executor_options options = lx_test_executor_options(4);
    lanex_executor *executor;
    lanex_actor *actor, *other;
    struct nested nested;

    options.heavy_permits = 1;
    executor = executor_with(options);
    actor = lx_test_actor(executor, 1);
    other = lx_test_actor(executor, 2);
    nested = nested_of(other, LANEX_LANE_HEAVY_INIT);
    cr_assert_eq(run_nested(actor, LANEX_LANE_HEAVY_INIT, &nested), -EDEADLK);
    nested = nested_of(other, LANEX_LANE_HEAVY_INIT);
    cr_assert_eq(run_nested(actor, LANEX_LANE_PURE_READ, &nested), 0);
    lanex_actor_unref(actor);
    lanex_actor_unref(other);
    end(executor);
}

Test(hang_guards, a_limited_wait_is_refused_at_once_too)
{
    lanex_executor *executor = lx_test_executor(4);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct nested nested = nested_of(actor, LANEX_LANE_PURE_READ);

    nested.timeout_ns = UINT64_C(3600000000000); /* an hour: the suite would end first */
    cr_assert_eq(run_nested(actor, LANEX_LANE_MUTATING, &nested), -EDEADLK);
    nested.timeout_ns = 0; /* a look is no wait */
    cr_assert_eq(run_nested(actor, LANEX_LANE_MUTATING, &nested), -ETIMEDOUT);
    lanex_actor_unref(actor);
    end(executor);
}

struct self_wait {
    struct latch ready;
    lanex_ticket *ticket;
    int rc;
};

static void wait_for_itself(lanex_job *job, void *context, void *arg)
{
    struct self_wait *self = arg;

    (void)job;
    (void)context;
    latch_wait(&self->ready, 1);
    self->rc = lanex_ticket_wait(self->ticket, FOREVER);
}

Test(hang_guards, a_job_does_not_wait_for_itself)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct self_wait self = {.rc = 1};
    lanex_job_options options = lx_test_job(LANEX_LANE_HEAVY_INIT, wait_for_itself, &self);

    cr_assert_eq(lanex_submit_ticket(actor, &options, &self.ticket), 0);
    latch_arrive(&self.ready);
    cr_assert_eq(lanex_ticket_wait(self.ticket, FOREVER), 0);
    cr_assert_eq(self.rc, -EDEADLK);
    lanex_ticket_drop(self.ticket);
    lanex_actor_unref(actor);
    end(executor);
}

Test(hang_guards, an_install_step_needs_the_gate_that_the_waiter_holds)
{
    lanex_executor_options options = lx_test_executor_options(4);
    lanex_executor *executor;
    lanex_actor *actor;
    struct nested nested;

    options.heavy_permits = 2;
    executor = executor_with(options);
    actor = lx_test_actor(executor, 1);
    nested = nested_of(actor, LANEX_LANE_HEAVY_INIT);
    nested.inner.install = nothing;
    cr_assert_eq(run_nested(actor, LANEX_LANE_PURE_READ, &nested), -EDEADLK);
    cr_assert_eq(run_nested(actor, LANEX_LANE_HEAVY_INIT, &nested), 0);
    lanex_actor_unref(actor);
    end(executor);
}

struct ticket_waiter {
    lanex_ticket *ticket;
    struct latch begun, may_go;
    int rc;
};

static void wait_for_ticket(lanex_job *job, void *context, void *arg)
{
    struct ticket_waiter *waiter = arg;

    (void)job;
    (void)context;
    latch_arrive(&waiter->begun);
    latch_wait(&waiter->may_go, 1);
    waiter->rc = lanex_ticket_wait(waiter->ticket, FOREVER);
}

static uint64_t queued(lanex_executor *executor)
{
    lanex_liveness liveness = {.size = sizeof liveness};

    LX_REQUIRE(lanex_executor_liveness(executor, &liveness) == 0);
    return liveness.queued[0];
}

static uint64_t running(lanex_executor *executor)
{
    lanex_liveness liveness = {.size = sizeof liveness};

    LX_REQUIRE(lanex_executor_liveness(executor, &liveness) == 0);
    return liveness.running[0];
}

/* The build is over, its install step waits for the reader, which waits for the job. */
Test(hang_guards, a_reader_does_not_wait_for_an_install_step_that_waits_for_it)
{
    lanex_executor *executor = lx_test_executor(4);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct latch build = LATCH_INIT;
    lanex_job_options heavy = lx_test_job(LANEX_LANE_HEAVY_INIT, wait_for_latch, &build);
    struct ticket_waiter waiter = {.rc = 1};
    lanex_job_options read = lx_test_job(LANEX_LANE_PURE_READ, wait_for_ticket, &waiter);
    lanex_ticket *ticket;

    heavy.install = nothing;
    cr_assert_eq(lanex_submit_ticket(actor, &heavy, &waiter.ticket), 0);
    cr_assert_eq(lanex_submit_ticket(actor, &read, &ticket), 0);
    latch_wait(&waiter.begun, 1);
    latch_arrive(&build);
    LX_EVENTUALLY(running(executor) == 1);
    latch_arrive(&waiter.may_go);
    cr_assert_eq(lanex_ticket_wait(ticket, FOREVER), 0);
    cr_assert_eq(waiter.rc, -EDEADLK);
    cr_assert_eq(lanex_ticket_wait(waiter.ticket, FOREVER), 0);
    lanex_ticket_drop(ticket);
    lanex_ticket_drop(waiter.ticket);
    lanex_actor_unref(actor);
    end(executor);
}

/* ---- waits that close a circle ---- */

static void count_results(const struct nested *nested, unsigned count, unsigned *ret_refused,
                          unsigned *ret_ended)
{
    *ret_refused = 0;
    *ret_ended = 0;
    for (unsigned i = 0; i < count; i++) {
        *ret_refused += nested[i].rc == -EDEADLK;
        *ret_ended += nested[i].rc == 0;
    }
}

/* `count` outer jobs, each on its own actor, all run before any submits its inner job. */
#define MOST_TOGETHER 8u
static void run_together(lanex_actor **outer_actors, enum lanex_lane lane, struct nested *nested,
                         unsigned count)
{
    struct latch begun = LATCH_INIT, may_go = LATCH_INIT;
    lanex_ticket *tickets[MOST_TOGETHER];

    for (unsigned i = 0; i < count; i++) {
        lanex_job_options outer = lx_test_job(lane, submit_and_wait, &nested[i]);
        nested[i].begun = &begun;
        nested[i].may_go = &may_go;
        cr_assert_eq(lanex_submit_ticket(outer_actors[i], &outer, &tickets[i]), 0);
    }
    latch_wait(&begun, count);
    latch_arrive(&may_go);
    for (unsigned i = 0; i < count; i++) {
        cr_assert_eq(lanex_ticket_wait(tickets[i], FOREVER), 0);
        lanex_ticket_drop(tickets[i]);
    }
}

Test(hang_guards, the_last_worker_does_not_join_those_that_wait_for_a_worker)
{
    enum { POOL = 3 };
    lanex_executor *executor = lx_test_executor(POOL);
    lanex_actor *outer[POOL], *inner = lx_test_actor(executor, 100);
    struct nested nested[POOL];
    unsigned refused, ended;

    for (unsigned i = 0; i < POOL; i++) {
        outer[i] = lx_test_actor(executor, i);
        nested[i] = nested_of(inner, LANEX_LANE_PURE_READ);
    }
    run_together(outer, LANEX_LANE_PURE_READ, nested, POOL);
    count_results(nested, POOL, &refused, &ended);
    cr_assert_eq(refused, 1);
    cr_assert_eq(ended, POOL - 1);
    for (unsigned i = 0; i < POOL; i++)
        lanex_actor_unref(outer[i]);
    lanex_actor_unref(inner);
    end(executor);
}

Test(hang_guards, reads_that_hold_all_read_slots_do_not_all_wait_for_reads)
{
    enum { READS = 2 };
    lanex_executor_options options = lx_test_executor_options(4);
    lanex_executor *executor;
    lanex_actor *actor, *outer[READS];
    struct nested nested[READS];
    unsigned refused, ended;

    options.read_cap = READS;
    executor = executor_with(options);
    actor = lx_test_actor(executor, 1);
    for (unsigned i = 0; i < READS; i++) {
        outer[i] = actor;
        nested[i] = nested_of(actor, LANEX_LANE_PURE_READ);
    }
    run_together(outer, LANEX_LANE_PURE_READ, nested, READS);
    count_results(nested, READS, &refused, &ended);
    cr_assert_eq(refused, 1);
    cr_assert_eq(ended, READS - 1);
    lanex_actor_unref(actor);
    end(executor);
}

Test(hang_guards, writers_do_not_wait_for_each_other_in_a_circle)
{
    enum { WRITERS = 3 };
    lanex_executor *executor = lx_test_executor(6);
    lanex_actor *outer[WRITERS];
    struct nested nested[WRITERS];
    unsigned refused, ended;

    for (unsigned i = 0; i < WRITERS; i++)
        outer[i] = lx_test_actor(executor, i);
    for (unsigned i = 0; i < WRITERS; i++)
        nested[i] = nested_of(outer[(i + 1) % WRITERS], LANEX_LANE_PURE_READ);
    run_together(outer, LANEX_LANE_MUTATING, nested, WRITERS);
    count_results(nested, WRITERS, &refused, &ended);
    cr_assert_eq(refused, 1);
    cr_assert_eq(ended, WRITERS - 1);
    for (unsigned i = 0; i < WRITERS; i++)
        lanex_actor_unref(outer[i]);
    end(executor);
}

/* The same chain without the closing link: long, but it ends. */
Test(hang_guards, a_chain_of_waits_that_ends_is_let_be)
{
    enum { LINKS = 3 };
    lanex_executor *executor = lx_test_executor(6);
    lanex_actor *outer[LINKS + 1];
    struct nested nested[LINKS];
    unsigned refused, ended;

    for (unsigned i = 0; i <= LINKS; i++)
        outer[i] = lx_test_actor(executor, i);
    for (unsigned i = 0; i < LINKS; i++)
        nested[i] = nested_of(outer[i + 1], LANEX_LANE_PURE_READ);
    run_together(outer, LANEX_LANE_MUTATING, nested, LINKS);
    count_results(nested, LINKS, &refused, &ended);
    cr_assert_eq(refused, 0);
    cr_assert_eq(ended, LINKS);
    for (unsigned i = 0; i <= LINKS; i++)
        lanex_actor_unref(outer[i]);
    end(executor);
}

/* ---- behind a job that waits for the waiter ---- */

/* A read runs, a writer is queued behind it, then the read submits `inner` and waits. */
static int wait_behind_writer(enum lanex_policy policy, lanex_job_options inner)
{
    lanex_executor_options options = lx_test_executor_options(4);
    lanex_executor *executor;
    lanex_actor *actor;
    struct latch begun = LATCH_INIT, may_go = LATCH_INIT;
    lanex_job_options outer, writer = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
    struct nested nested;
    lanex_ticket *ticket;

    options.policy = policy;
    executor = executor_with(options);
    actor = lx_test_actor(executor, 1);
    nested = nested_of(actor, LANEX_LANE_PURE_READ);
    nested.inner = inner;
    nested.begun = &begun;
    nested.may_go = &may_go;
    outer = lx_test_job(LANEX_LANE_PURE_READ, submit_and_wait, &nested);
    cr_assert_eq(lanex_submit_ticket(actor, &outer, &ticket), 0);
    latch_wait(&begun, 1);
    cr_assert_eq(lanex_submit(actor, &writer, NULL), 0);
    latch_arrive(&may_go);
    cr_assert_eq(lanex_ticket_wait(ticket, FOREVER), 0);
    lanex_ticket_drop(ticket);
    lanex_actor_unref(actor);
    end(executor);
    return nested.rc;
}

Test(hang_guards, a_writer_ahead_in_line_counts_where_it_cannot_be_overtaken)
{
    lanex_job_options read = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    lanex_job_options serial = lx_test_job(LANEX_LANE_SERIAL_STATUS, nothing, NULL);
    lanex_job_options background = read;

    background.job_class = LANEX_CLASS_MAINTENANCE;
    cr_assert_eq(wait_behind_writer(LANEX_POLICY_READS_FIRST, read), 0);
    cr_assert_eq(wait_behind_writer(LANEX_POLICY_READS_FIRST, serial), -EDEADLK);
    cr_assert_eq(wait_behind_writer(LANEX_POLICY_READS_FIRST, background), -EDEADLK);
    cr_assert_eq(wait_behind_writer(LANEX_POLICY_ARRIVAL, read), -EDEADLK);
    cr_assert_eq(wait_behind_writer(LANEX_POLICY_ARRIVAL, background), -EDEADLK);
}

/* The same with a writer that has been promoted: it lets no other interactive job start. */
static int wait_behind_promoted(uint32_t flags, uint64_t timeout_ns)
{
    lanex_executor_options options = lx_test_executor_options(4);
    lanex_executor *executor;
    lanex_actor *actor;
    struct latch begun = LATCH_INIT, may_go = LATCH_INIT;
    lanex_job_options outer, writer = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
    struct nested nested;
    lanex_ticket *ticket;
    uint64_t start;

    options.flags = flags;
    options.promotion_age_ms = 1;
    executor = executor_with(options);
    actor = lx_test_actor(executor, 1);
    nested = nested_of(actor, LANEX_LANE_PURE_READ);
    nested.timeout_ns = timeout_ns;
    nested.begun = &begun;
    nested.may_go = &may_go;
    outer = lx_test_job(LANEX_LANE_PURE_READ, submit_and_wait, &nested);
    cr_assert_eq(lanex_submit_ticket(actor, &outer, &ticket), 0);
    latch_wait(&begun, 1);
    cr_assert_eq(lanex_submit(actor, &writer, NULL), 0);
    LX_EVENTUALLY(queued(executor) == 1);
    start = lx_test_now_ns();
    LX_EVENTUALLY(lx_test_now_ns() > start + UINT64_C(20000000)); /* its age is over 1 ms then */
    latch_arrive(&may_go);
    cr_assert_eq(lanex_ticket_wait(ticket, FOREVER), 0);
    lanex_ticket_drop(ticket);
    lanex_actor_unref(actor);
    end(executor);
    return nested.rc;
}

Test(hang_guards, a_promoted_writer_counts_where_nothing_suspends_it)
{
    cr_assert_eq(wait_behind_promoted(LANEX_EXECUTOR_NO_PROMOTION_SUSPENSION, FOREVER), -EDEADLK);
    /* Here the reader would count as stuck in a minute, and the wait would end: no deadlock. */
    cr_assert_eq(wait_behind_promoted(0, UINT64_C(1000000)), -ETIMEDOUT);
}

/* ---- callbacks ---- */

struct in_callback {
    lanex_executor *executor;
    lanex_ticket *ticket; /* of a job that has not ended */
    int wait, limited, look, drain, destroy;
    struct latch done;
};

static void wait_in_callback(lanex_completion *completion, void *arg)
{
    struct in_callback *in = arg;

    (void)completion;
    in->wait = lanex_ticket_wait(in->ticket, FOREVER);
    in->limited = lanex_ticket_wait(in->ticket, UINT64_C(3600000000000));
    in->look = lanex_ticket_wait(in->ticket, 0);
    in->drain = lanex_executor_drain(in->executor, FOREVER, NULL);
    in->destroy = lanex_executor_destroy(in->executor);
    latch_arrive(&in->done);
}

static void check_callback(bool never_runs)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1), *other = lx_test_actor(executor, 2);
    struct latch held = LATCH_INIT;
    struct in_callback in = {.executor = executor};
    lanex_job_options blocker = lx_test_job(LANEX_LANE_PURE_READ, wait_for_latch, &held);
    lanex_job_options asker =
        lx_test_callback_job(LANEX_LANE_SERIAL_STATUS, nothing, NULL, wait_in_callback, &in);

    if (never_runs)
        asker.deadline_ns = 1; /* long past: answered on the reaper */
    cr_assert_eq(lanex_submit_ticket(actor, &blocker, &in.ticket), 0);
    cr_assert_eq(lanex_submit(other, &asker, NULL), 0);
    latch_wait(&in.done, 1);
    cr_assert_eq(in.wait, -EDEADLK);
    cr_assert_eq(in.limited, -EDEADLK);
    cr_assert_eq(in.look, -ETIMEDOUT);
    cr_assert_eq(in.drain, -EDEADLK);
    cr_assert_eq(in.destroy, -EDEADLK);
    latch_arrive(&held);
    cr_assert_eq(lanex_ticket_wait(in.ticket, FOREVER), 0);
    lanex_ticket_drop(in.ticket);
    lanex_actor_unref(actor);
    lanex_actor_unref(other);
    end(executor);
}

Test(hang_guards, a_callback_on_a_worker_does_not_wait)
{
    check_callback(false);
}

Test(hang_guards, a_callback_on_the_reaper_does_not_wait)
{
    check_callback(true);
}

/* ---- the executor from inside ---- */

struct from_inside {
    lanex_executor *executor;
    int drain, destroy;
};

static void end_the_executor(lanex_job *job, void *context, void *arg)
{
    struct from_inside *inside = arg;

    (void)job;
    (void)context;
    inside->drain = lanex_executor_drain(inside->executor, FOREVER, NULL);
    inside->destroy = lanex_executor_destroy(inside->executor);
}

Test(hang_guards, a_job_neither_drains_nor_destroys_its_executor)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct from_inside inside = {.executor = executor};
    lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, end_the_executor, &inside);
    lanex_ticket *ticket;

    cr_assert_eq(lanex_submit_ticket(actor, &options, &ticket), 0);
    cr_assert_eq(lanex_ticket_wait(ticket, FOREVER), 0);
    lanex_ticket_drop(ticket);
    cr_assert_eq(inside.drain, -EDEADLK);
    cr_assert_eq(inside.destroy, -EDEADLK);
    /* Neither call had an effect. */
    options = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
    cr_assert_eq(lanex_submit_ticket(actor, &options, &ticket), 0);
    cr_assert_eq(lanex_ticket_wait(ticket, FOREVER), 0);
    cr_assert_eq(lanex_completion_status(lanex_ticket_completion(ticket)), LANEX_STATUS_OK);
    lanex_ticket_drop(ticket);
    lanex_actor_unref(actor);
    end(executor);
}

/* ---- the epoch of one's own actor ---- */

struct gate {
    lanex_epoch *epoch;
    struct latch begun;
    bool expect_writer; /* look only once a writer waits outside */
    int read, read_until, read_try, write, write_until, write_try;
};

static void ask_gate(lanex_job *job, void *context, void *arg)
{
    struct gate *gate = arg;

    (void)context;
    gate->epoch = lanex_actor_epoch(lanex_job_actor(job));
    latch_arrive(&gate->begun);
    if (gate->expect_writer)
        LX_EVENTUALLY(lanex_epoch_writer_waiting(gate->epoch));
    gate->read = lanex_epoch_read_acquire(gate->epoch);
    if (gate->read == 0)
        lanex_epoch_read_release(gate->epoch);
    gate->read_until = lanex_epoch_read_acquire_until(gate->epoch, FOREVER, NULL);
    if (gate->read_until == 0)
        lanex_epoch_read_release(gate->epoch);
    gate->read_try = lanex_epoch_read_try_acquire(gate->epoch);
    if (gate->read_try == 0)
        lanex_epoch_read_release(gate->epoch);
    gate->write = lanex_epoch_write_acquire(gate->epoch);
    if (gate->write == 0)
        lanex_epoch_write_release(gate->epoch);
    gate->write_until = lanex_epoch_write_acquire_until(gate->epoch, FOREVER, NULL);
    if (gate->write_until == 0)
        lanex_epoch_write_release(gate->epoch);
    gate->write_try = lanex_epoch_write_try_acquire(gate->epoch);
    if (gate->write_try == 0)
        lanex_epoch_write_release(gate->epoch);
}

static void *write_outside(void *epoch)
{
    LX_REQUIRE(lanex_epoch_write_acquire(epoch) == 0);
    lanex_epoch_write_release(epoch);
    return NULL;
}

static struct gate ask(lanex_actor *actor, enum lanex_lane lane, bool writer)
{
    struct gate gate = {.expect_writer = writer};
    lanex_job_options options = lx_test_job(lane, ask_gate, &gate);
    lanex_ticket *ticket;
    pthread_t thread;

    cr_assert_eq(lanex_submit_ticket(actor, &options, &ticket), 0);
    if (writer) {
        latch_wait(&gate.begun, 1);
        cr_assert_eq(pthread_create(&thread, NULL, write_outside, lanex_actor_epoch(actor)), 0);
    }
    cr_assert_eq(lanex_ticket_wait(ticket, FOREVER), 0);
    lanex_ticket_drop(ticket);
    if (writer)
        cr_assert_eq(pthread_join(thread, NULL), 0);
    return gate;
}

static void check_gate(const struct gate *gate, int read, int read_try, int write, int write_try)
{
    cr_assert_eq(gate->read, read);
    cr_assert_eq(gate->read_until, read);
    cr_assert_eq(gate->read_try, read_try);
    cr_assert_eq(gate->write, write);
    cr_assert_eq(gate->write_until, write);
    cr_assert_eq(gate->write_try, write_try);
}

Test(hang_guards, the_own_gate_is_not_asked_for_twice)
{
    static const enum lanex_lane readers[] = {LANEX_LANE_PURE_READ, LANEX_LANE_SERIAL_STATUS,
                                              LANEX_LANE_MAINTENANCE_COMMIT};
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct gate gate;

    for (unsigned i = 0; i < 3; i++) {
        gate = ask(actor, readers[i], false);
        check_gate(&gate, 0, 0, -EDEADLK, -EBUSY);
        gate = ask(actor, readers[i], true);
        check_gate(&gate, -EDEADLK, -EBUSY, -EDEADLK, -EBUSY);
    }
    gate = ask(actor, LANEX_LANE_MUTATING, false);
    check_gate(&gate, -EDEADLK, -EBUSY, -EDEADLK, -EBUSY);
    gate = ask(actor, LANEX_LANE_HEAVY_INIT, false); /* builds in no gate */
    check_gate(&gate, 0, 0, 0, 0);
    lanex_actor_unref(actor);
    end(executor);
}

struct other_epoch {
    lanex_epoch *epoch;
    int read, write;
};

static void ask_other(lanex_job *job, void *context, void *arg)
{
    struct other_epoch *other = arg;

    (void)job;
    (void)context;
    other->read = lanex_epoch_read_acquire(other->epoch);
    lanex_epoch_read_release(other->epoch);
    other->write = lanex_epoch_write_acquire(other->epoch);
    lanex_epoch_write_release(other->epoch);
}

Test(hang_guards, other_epochs_are_none_of_the_gates_business)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1), *another = lx_test_actor(executor, 2);
    struct other_epoch other = {.epoch = lanex_actor_epoch(another), .read = 1, .write = 1};
    lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, ask_other, &other);

    cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
    lanex_actor_unref(actor);
    end(executor);
    cr_assert_eq(other.read, 0);
    cr_assert_eq(other.write, 0);
    lanex_actor_unref(another);
}

static void panic_in_gate(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
    lanex_panic("on purpose");
}

struct after_panic {
    lanex_epoch *epoch;
    int status, rc;
    struct latch done;
};

static void write_after_panic(lanex_completion *completion, void *arg)
{
    struct after_panic *after = arg;

    after->status = lanex_completion_status(completion);
    after->rc = lanex_epoch_write_acquire(after->epoch);
    if (after->rc == 0)
        lanex_epoch_write_release(after->epoch);
    latch_arrive(&after->done);
}

/* The callback runs on the worker whose body has just been left by a jump. */
Test(hang_guards, a_panic_leaves_no_gate_behind_on_its_worker)
{
    static const enum lanex_lane lanes[] = {LANEX_LANE_PURE_READ, LANEX_LANE_SERIAL_STATUS,
                                            LANEX_LANE_MUTATING};
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);

    for (unsigned i = 0; i < 3; i++) {
        struct after_panic after = {.epoch = lanex_actor_epoch(actor), .rc = 1};
        lanex_job_options options =
            lx_test_callback_job(lanes[i], panic_in_gate, NULL, write_after_panic, &after);

        cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
        latch_wait(&after.done, 1);
        cr_assert_eq(after.status, lanes[i] == LANEX_LANE_MUTATING ? LANEX_STATUS_ACTOR_FATAL
                                                                   : LANEX_STATUS_JOB_PANICKED);
        cr_assert_eq(after.rc, 0);
    }
    lanex_actor_unref(actor);
    end(executor);
}

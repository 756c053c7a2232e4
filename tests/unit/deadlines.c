/*
 * Deadlines and the rules that look at the clock, through the real threads. Where the rules count
 * in seconds the clock is made up: the machine's, set forward by the test.
 */
#include "tests/support/lx_executor.h"

#include "sync/seams.h"

#include <errno.h>

TestSuite(deadlines, .timeout = 60);

#define MS      UINT64_C(1000000)
#define FOREVER LANEX_TIME_NEVER

/* What became of a job. */
struct fate {
    struct latch ran, over;
    uint64_t over_ns;
    unsigned run_order, over_order; /* from 1 */
    int status;
    bool retryable;
    char code[32], message[128], phase[16];
};

static atomic_uint runs, ends;

static void note_run(lanex_job *job, void *context, void *arg)
{
    struct fate *fate = arg;

    (void)job;
    (void)context;
    fate->run_order = atomic_fetch_add(&runs, 1) + 1;
    latch_arrive(&fate->ran);
}

static void note_end(lanex_completion *completion, void *arg)
{
    struct fate *fate = arg;

    fate->over_ns = lx_test_now_ns();
    fate->over_order = atomic_fetch_add(&ends, 1) + 1;
    fate->status = lanex_completion_status(completion);
    fate->retryable = lanex_completion_retryable(completion);
    snprintf(fate->code, sizeof fate->code, "%s", lanex_completion_code(completion));
    snprintf(fate->message, sizeof fate->message, "%s", lanex_completion_message(completion));
    snprintf(fate->phase, sizeof fate->phase, "%s", lanex_completion_phase(completion));
    latch_arrive(&fate->over);
}

static uint64_t submit(lanex_actor *actor, enum lanex_lane lane, uint64_t deadline_ns,
                       lanex_job_fn run, struct fate *fate)
{
    lanex_job_options options = lx_test_callback_job(lane, run, fate, note_end, fate);
    uint64_t number;

    options.deadline_ns = deadline_ns;
    cr_assert_eq(lanex_submit(actor, &options, &number), 0);
    return number;
}

/* Keeps the actor's gate until it is let go. */
struct blocker {
    struct latch entered, leave, over;
};

static void block(lanex_job *job, void *context, void *arg)
{
    struct blocker *blocker = arg;

    (void)job;
    (void)context;
    latch_arrive(&blocker->entered);
    latch_wait(&blocker->leave, 1);
}

static void note_unblocked(lanex_completion *completion, void *arg)
{
    struct blocker *blocker = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    latch_arrive(&blocker->over);
}

static void start_blocker(lanex_actor *actor, enum lanex_lane lane, struct blocker *blocker)
{
    lanex_job_options options = lx_test_callback_job(lane, block, blocker, note_unblocked, blocker);

    cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
    latch_wait(&blocker->entered, 1);
}

static void end(lanex_executor *executor, lanex_actor *actor)
{
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_drain(executor, FOREVER, NULL), 0);
    lx_test_at_rest(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

static void check_expired(const struct fate *fate, uint64_t deadline_ns)
{
    cr_assert_eq(fate->status, LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
    cr_assert_str_eq(fate->code, "request_deadline_exceeded");
    cr_assert_str_not_empty(fate->message);
    cr_assert_str_eq(fate->phase, "queue");
    cr_assert_not(fate->retryable);
    cr_assert_eq(latch_count(&fate->ran), 0);
    cr_assert_eq(latch_count(&fate->over), 1);
    cr_assert_ge(fate->over_ns, deadline_ns, "answered %llu ns early",
                 (unsigned long long)(deadline_ns - fate->over_ns));
}

Test(deadlines, a_waiting_job_is_answered_when_its_time_passes_and_nothing_else_happens)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct blocker blocker = {.leave = LATCH_INIT};
    struct fate fate = {.status = -1};
    uint64_t deadline;

    start_blocker(actor, LANEX_LANE_MUTATING, &blocker);
    deadline = lx_test_now_ns() + 20 * MS;
    submit(actor, LANEX_LANE_PURE_READ, deadline, note_run, &fate);
    latch_wait(&fate.over, 1);
    check_expired(&fate, deadline);
    cr_assert_eq(latch_count(&blocker.over), 0);
    latch_arrive(&blocker.leave);
    end(executor, actor);
}

Test(deadlines, a_job_submitted_too_late_never_runs)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);

    for (unsigned lane = 0; lane < 5; lane++) {
        struct fate fate = {.status = -1}, next = {.status = -1};
        uint64_t now = lx_test_now_ns();

        submit(actor, (enum lanex_lane)lane, now, note_run, &fate);
        submit(actor, (enum lanex_lane)lane, FOREVER, note_run, &next);
        latch_wait(&fate.over, 1);
        check_expired(&fate, now);
        latch_wait(&next.over, 1);
        cr_assert_eq(next.status, LANEX_STATUS_OK);
        cr_assert_eq(latch_count(&next.ran), 1);
        cr_assert_str_empty(next.phase);
    }
    end(executor, actor);
}

Test(deadlines, a_job_that_has_begun_is_not_cut_off)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct blocker blocker = {.leave = LATCH_INIT};
    lanex_job_options options =
        lx_test_callback_job(LANEX_LANE_PURE_READ, block, &blocker, note_unblocked, &blocker);
    uint64_t deadline;

    /* Long enough that it does begin on a loaded machine. */
    deadline = lx_test_now_ns() + 1000 * MS;
    options.deadline_ns = deadline;
    cr_assert_eq(lanex_submit(actor, &options, NULL), 0);
    latch_wait(&blocker.entered, 1);
    LX_EVENTUALLY(lx_test_now_ns() > deadline + 10 * MS);
    cr_assert_eq(latch_count(&blocker.over), 0);
    latch_arrive(&blocker.leave);
    latch_wait(&blocker.over, 1); /* with status ok */
    end(executor, actor);
}

Test(deadlines, survivors_keep_their_order)
{
    enum { JOBS = 40 };
    static struct fate fates[JOBS];
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct blocker blocker = {.leave = LATCH_INIT};
    unsigned run = 0, expired = 0;
    uint64_t deadline;

    start_blocker(actor, LANEX_LANE_MUTATING, &blocker);
    deadline = lx_test_now_ns() + 30 * MS;
    for (unsigned i = 0; i < JOBS; i++)
        submit(actor, LANEX_LANE_SERIAL_STATUS, i % 3 == 1 ? deadline : FOREVER, note_run,
               &fates[i]);
    for (unsigned i = 1; i < JOBS; i += 3) {
        latch_wait(&fates[i].over, 1);
        check_expired(&fates[i], deadline);
        cr_assert_eq(fates[i].over_order, ++expired); /* equal deadlines: in order of arrival */
    }
    latch_arrive(&blocker.leave);
    for (unsigned i = 0; i < JOBS; i++) {
        latch_wait(&fates[i].over, 1);
        if (i % 3 != 1)
            cr_assert_eq(fates[i].run_order, ++run, "job %u ran as number %u", i,
                         fates[i].run_order);
    }
    end(executor, actor);
}

/* The one timer goes to the earliest, whoever comes, goes or is cancelled. */
Test(deadlines, the_earliest_is_watched)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    struct blocker blocker = {.leave = LATCH_INIT};
    struct fate late = {.status = -1}, soon = {.status = -1}, sooner = {.status = -1};
    uint64_t start, number;

    start_blocker(actor, LANEX_LANE_MUTATING, &blocker);
    start = lx_test_now_ns();
    submit(actor, LANEX_LANE_PURE_READ, start + 3600000 * MS, note_run, &late);
    submit(actor, LANEX_LANE_PURE_READ, start + 40 * MS, note_run, &soon);
    number = submit(actor, LANEX_LANE_PURE_READ, start + 20 * MS, note_run, &sooner);
    /* Perhaps it has expired by now on a loaded machine. */
    bool cancelled = lanex_cancel(executor, number) == LANEX_CANCEL_QUEUED_REMOVED;
    latch_wait(&soon.over, 1);
    check_expired(&soon, start + 40 * MS);
    latch_wait(&sooner.over, 1);
    cr_assert_eq(sooner.status, cancelled ? LANEX_STATUS_REQUEST_CANCELLED
                                          : LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
    cr_assert_eq(latch_count(&late.over), 0);
    latch_arrive(&blocker.leave);
    latch_wait(&late.over, 1);
    cr_assert_eq(late.status, LANEX_STATUS_OK);
    end(executor, actor);
}

/* ---- a slow serial lane (a shorter one than in the field) ---- */

Test(deadlines, a_slow_serial_job_lets_deadlines_pass_and_others_run)
{
    enum { WAITING = 20 };
    static struct fate fates[WAITING];
    lanex_executor *executor = lx_test_executor(3);
    lanex_actor *actor = lx_test_actor(executor, 1), *other = lx_test_actor(executor, 2);
    struct blocker blocker = {.leave = LATCH_INIT};
    struct fate beside = {.status = -1};
    uint64_t deadline;

    start_blocker(actor, LANEX_LANE_SERIAL_STATUS, &blocker);
    deadline = lx_test_now_ns() + 100 * MS;
    for (unsigned i = 0; i < WAITING; i++)
        submit(actor, LANEX_LANE_SERIAL_STATUS, deadline, note_run, &fates[i]);
    submit(other, LANEX_LANE_SERIAL_STATUS, FOREVER, note_run, &beside);
    latch_wait(&beside.over, 1);
    cr_assert_eq(beside.status, LANEX_STATUS_OK);
    for (unsigned i = 0; i < WAITING; i++) {
        latch_wait(&fates[i].over, 1);
        check_expired(&fates[i], deadline);
    }
    cr_assert_eq(latch_count(&blocker.over), 0); /* while the slow one still runs */
    latch_arrive(&blocker.leave);
    lanex_actor_unref(other);
    end(executor, actor);
}

/* ---- with a clock that the test sets forward ---- */

static _Atomic uint64_t ahead_ns;

static uint64_t clock_ahead(void)
{
    return lx_test_now_ns() + atomic_load(&ahead_ns);
}

/* Before any executor: the seams are read by all threads. */
static void make_clock_up(void)
{
    lx_seams.now_ns = clock_ahead;
    lx_seams.now_coarse_ns = clock_ahead;
}

/* A sleeping scheduler does not see the clock jump: a job elsewhere brings a turn about. */
static void pass(uint64_t ms, lanex_actor *elsewhere)
{
    struct fate fate = {.status = -1};

    atomic_fetch_add(&ahead_ns, ms * MS);
    submit(elsewhere, LANEX_LANE_PURE_READ, 0, note_run, &fate);
    latch_wait(&fate.over, 1);
    cr_assert_eq(fate.status, LANEX_STATUS_OK);
}

struct scene {
    lanex_executor *executor;
    lanex_actor *actor, *elsewhere;
    struct blocker reader;
    struct fate writer;
};

static uint64_t queued(const lanex_executor *executor)
{
    lanex_liveness liveness = {.size = sizeof liveness};

    LX_REQUIRE(lanex_executor_liveness(executor, &liveness) == 0);
    return liveness.queued[LANEX_CLASS_INTERACTIVE];
}

/* A read runs, a writer waits for it. Of pool 6: 5 slots, 4 reads an actor. */
static struct scene *set_scene(uint32_t flags, uint64_t writer_deadline_ms)
{
    static struct scene scene;
    lanex_executor_options options = lx_test_executor_options(6);

    make_clock_up();
    options.flags = flags;
    options.actor_cap = 5;
    options.read_cap = 4;
    cr_assert_eq(lanex_executor_create(&options, &scene.executor), 0);
    scene.actor = lx_test_actor(scene.executor, 1);
    scene.elsewhere = lx_test_actor(scene.executor, 2);
    start_blocker(scene.actor, LANEX_LANE_PURE_READ, &scene.reader);
    submit(scene.actor, LANEX_LANE_MUTATING,
           writer_deadline_ms != 0 ? clock_ahead() + writer_deadline_ms * MS : FOREVER, note_run,
           &scene.writer);
    /* Its age counts from the turn that sees it, which is not to come after a jump of the clock. */
    LX_EVENTUALLY(queued(scene.executor) == 1);
    return &scene;
}

/* A read submitted now overtakes the writer. */
static void expect_overtaken(struct scene *scene)
{
    struct fate read = {.status = -1};

    submit(scene->actor, LANEX_LANE_PURE_READ, 0, note_run, &read);
    latch_wait(&read.over, 1);
    cr_assert_eq(read.status, LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&scene->writer.ran), 0);
}

/* It does not: it is still queued, with the writer, after a later job has come and gone. */
static void expect_held(struct scene *scene, struct fate *read)
{
    submit(scene->actor, LANEX_LANE_PURE_READ, 0, note_run, read);
    pass(0, scene->elsewhere);
    LX_EVENTUALLY(queued(scene->executor) == 2);
    cr_assert_eq(latch_count(&read->ran), 0);
}

static void end_scene(struct scene *scene)
{
    latch_arrive(&scene->reader.leave);
    /* The kernel knows only the true clock: by the made-up one drain's short naps would last as
     * long as it is ahead. */
    atomic_store(&ahead_ns, 0);
    lanex_actor_unref(scene->elsewhere);
    end(scene->executor, scene->actor);
}

static void check_urgency(uint64_t writer_deadline_ms, uint64_t not_yet_ms, uint64_t then_ms)
{
    struct scene *scene = set_scene(0, writer_deadline_ms);
    struct fate read = {.status = -1};

    if (not_yet_ms != 0) {
        expect_overtaken(scene);
        pass(not_yet_ms, scene->elsewhere);
        expect_overtaken(scene);
    }
    pass(then_ms, scene->elsewhere);
    expect_held(scene, &read);
    latch_arrive(&scene->reader.leave);
    latch_wait(&scene->writer.over, 1);
    cr_assert_eq(scene->writer.status, LANEX_STATUS_OK);
    latch_wait(&read.over, 1);
    cr_assert_gt(read.run_order, scene->writer.run_order);
    expect_overtaken(&(struct scene){.actor = scene->actor}); /* reads go on */
    end_scene(scene);
}

Test(deadlines, a_writer_stops_new_reads_at_the_promotion_age)
{
    check_urgency(0, 5000, 1100);
}

/* 20 s away: urgent once the age has reached what remains, at half time. */
Test(deadlines, a_writer_with_a_far_deadline_is_urgent_at_half_time)
{
    check_urgency(20000, 9000, 1100);
}

/* 9 s away: urgent once no more than the promotion age remains, after 3 s. */
Test(deadlines, a_writer_is_urgent_when_its_deadline_is_near)
{
    check_urgency(9000, 2000, 1100);
}

Test(deadlines, a_writer_with_a_near_deadline_is_urgent_at_once)
{
    check_urgency(5000, 0, 0);
}

Test(deadlines, an_urgent_writer_that_expires_lets_reads_go_on)
{
    struct scene *scene = set_scene(0, 5000);
    struct fate read = {.status = -1};

    expect_held(scene, &read);
    pass(5000, scene->elsewhere);
    latch_wait(&scene->writer.over, 1);
    cr_assert_eq(scene->writer.status, LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
    latch_wait(&read.over, 1);
    cr_assert_eq(read.status, LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&scene->writer.ran), 0);
    end_scene(scene);
}

Test(deadlines, a_stuck_reader_suspends_promotion)
{
    struct scene *scene = set_scene(0, 0);
    struct fate read = {.status = -1};

    pass(7000, scene->elsewhere);
    expect_held(scene, &read);
    pass(52000, scene->elsewhere); /* the reader has run for 59 s */
    cr_assert_eq(queued(scene->executor), 2);
    pass(1100, scene->elsewhere);
    latch_wait(&read.over, 1);
    cr_assert_eq(read.status, LANEX_STATUS_OK);
    cr_assert_eq(latch_count(&scene->writer.ran), 0);
    latch_arrive(&scene->reader.leave);
    latch_wait(&scene->writer.over, 1);
    cr_assert_eq(scene->writer.status, LANEX_STATUS_OK);
    end_scene(scene);
}

Test(deadlines, promotion_is_not_suspended_where_that_is_switched_off)
{
    struct scene *scene = set_scene(LANEX_EXECUTOR_NO_PROMOTION_SUSPENSION, 0);
    struct fate read = {.status = -1};

    pass(7000, scene->elsewhere);
    expect_held(scene, &read);
    pass(120000, scene->elsewhere);
    pass(0, scene->elsewhere);
    cr_assert_eq(queued(scene->executor), 2);
    latch_arrive(&scene->reader.leave);
    latch_wait(&read.over, 1);
    cr_assert_gt(read.run_order, scene->writer.run_order);
    end_scene(scene);
}

/* Only readers from before the writer count as stuck: one that overtook it can be waited for. */
Test(deadlines, a_reader_that_overtook_the_writer_does_not_suspend_promotion)
{
    struct scene *scene = set_scene(0, 0);
    struct blocker later = {.leave = LATCH_INIT};
    struct fate read = {.status = -1};

    pass(1000, scene->elsewhere);
    start_blocker(scene->actor, LANEX_LANE_PURE_READ, &later);
    pass(120000, scene->elsewhere);
    expect_held(scene, &read);
    latch_arrive(&later.leave); /* only the old one is left, and that is stuck */
    latch_wait(&read.over, 1);
    cr_assert_eq(latch_count(&scene->writer.ran), 0);
    end_scene(scene);
}

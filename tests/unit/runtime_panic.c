/*
 * Panics: what the client is told, what is cleaned up, what becomes of the actor and the worker;
 * and faults of the machine inside a job, where they are contained.
 */
#include "runtime_rig.h"

#include <sys/resource.h>

static const struct {
    enum lanex_lane lane;
    const char *label, *code;
    enum lanex_status status;
} lanes[] = {
    {LANEX_LANE_PURE_READ, "executor::Interactive::PureRead", "job_panicked",
     LANEX_STATUS_JOB_PANICKED},
    {LANEX_LANE_SERIAL_STATUS, "executor::Interactive::SerialStatus", "job_panicked",
     LANEX_STATUS_JOB_PANICKED},
    {LANEX_LANE_HEAVY_INIT, "executor::Interactive::HeavyInit", "job_panicked",
     LANEX_STATUS_JOB_PANICKED},
    {LANEX_LANE_MUTATING, "executor::Interactive::Mutating", "actor_fatal",
     LANEX_STATUS_ACTOR_FATAL},
    {LANEX_LANE_MAINTENANCE_COMMIT, "executor::Interactive::MaintenanceCommit", "job_panicked",
     LANEX_STATUS_JOB_PANICKED},
};

static void panics(lanex_job *job, void *context, void *arg)
{
    (void)context;
    if (arg != NULL)
        lanex_job_respond(job, arg, rig_destroy);
    lanex_panic("%s number %d", "reason", 7);
}

static void panics_at_once(lanex_job *job, void *context, void *arg)
{
    (void)arg;
    panics(job, context, NULL);
}

static void expect_panic(lanex_ticket *ticket, enum lanex_status status, const char *code,
                         const char *message)
{
    lanex_completion *completion = rig_wait(ticket);

    cr_assert_eq(lanex_completion_status(completion), (int)status);
    cr_assert_str_eq(lanex_completion_code(completion), code);
    cr_assert_str_eq(lanex_completion_message(completion), message);
    cr_assert_not(lanex_completion_retryable(completion));
    lanex_ticket_drop(ticket);
}

/* All workers are there: so many jobs of as many actors run at once. */
static void expect_whole_capacity(lanex_executor *executor)
{
    struct rig_block block = {0};
    lanex_ticket *tickets[4];
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, rig_block, &block);

    for (unsigned i = 0; i < 4; i++) {
        const char key[] = {'c', (char)('0' + i), 0};
        lanex_actor *actor = rig_actor(executor, key);
        tickets[i] = rig_submit(actor, &job);
        lanex_actor_unref(actor);
    }
    latch_wait(&block.entered, 4);
    latch_arrive(&block.leave);
    for (unsigned i = 0; i < 4; i++) {
        const char key[] = {'c', (char)('0' + i), 0};
        rig_expect(tickets[i], LANEX_STATUS_OK);
        cr_assert_eq(rig_remove(executor, key), 0);
    }
}

Test(panic, each_lane_says_what_happened_and_gives_all_back)
{
    lanex_executor *executor = rig_executor();

    for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++) {
        lanex_actor *actor = rig_actor(executor, "a");
        struct rig_data data = {0};
        lanex_job_options job = rig_job(lanes[i].lane, panics, &data);
        char message[200];

        snprintf(message, sizeof message, "command '%s' panicked: reason number 7", lanes[i].label);
        expect_panic(rig_submit(actor, &job), lanes[i].status, lanes[i].code, message);
        cr_assert(rig_destroyed(&data), "what it had answered before");
        job = rig_job(LANEX_LANE_MUTATING, rig_nothing, NULL);
        /* The gate is free; only a writer's panic makes the actor unusable. */
        rig_run(actor, &job,
                lanes[i].lane == LANEX_LANE_MUTATING ? LANEX_STATUS_ACTOR_FATAL : LANEX_STATUS_OK);
        expect_whole_capacity(executor);
        cr_assert_eq(rig_remove(executor, "a"), 0);
        lanex_actor_unref(actor);
    }
    lanex_counters counters = {.size = sizeof counters};
    cr_assert_eq(lanex_executor_counters(executor, &counters), 0);
    cr_assert_eq(counters.panicked, sizeof lanes / sizeof lanes[0]);
    rig_destroy_executor(executor);
}

Test(panic, the_longest_label_does_not_hide_the_text)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    static char label[LANEX_LABEL_MAX + 1], message[LANEX_LABEL_MAX + 100];
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, panics, NULL);

    memset(label, 'l', LANEX_LABEL_MAX);
    snprintf(message, sizeof message, "command '%s' panicked: reason number 7", label);
    job.label = label;
    expect_panic(rig_submit(actor, &job), LANEX_STATUS_JOB_PANICKED, "job_panicked", message);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- clean-ups ---- */

struct trail {
    char text[16];
    size_t length;
};
struct step {
    struct trail *trail;
    char letter;
};

static void note(void *arg)
{
    const struct step *step = arg;

    step->trail->text[step->trail->length++] = step->letter;
}

static void note_and_panic(void *arg)
{
    note(arg);
    lanex_panic("second reason");
}

static void note_with_cleanups(void *arg)
{
    lanex_cleanup inner;

    lanex_cleanup_push(&inner, note, arg);
    lanex_cleanup_pop(true);
}

static void body_with_cleanups(lanex_job *job, void *context, void *arg)
{
    lanex_cleanup a, b, c, d, e;
    struct step steps[] = {{arg, 'a'}, {arg, 'b'}, {arg, 'c'}, {arg, 'd'}, {arg, 'e'}};

    (void)job;
    (void)context;
    lanex_cleanup_push(&a, note, &steps[0]);
    lanex_cleanup_push(&b, note_and_panic, &steps[1]);
    lanex_cleanup_push(&c, note, &steps[2]);
    lanex_cleanup_pop(true);
    lanex_cleanup_push(&d, note, &steps[3]);
    lanex_cleanup_pop(false);
    lanex_cleanup_push(&e, note_with_cleanups, &steps[4]);
    lanex_panic("first reason");
}

Test(panic, clean_ups_run_last_first_also_past_one_that_panics)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct trail trail = {.length = 0};
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, body_with_cleanups, &trail);

    job.label = "cleaner";
    expect_panic(rig_submit(actor, &job), LANEX_STATUS_JOB_PANICKED, "job_panicked",
                 "command 'cleaner' panicked: first reason");
    cr_assert_str_eq(trail.text, "ceba");
    /* Nothing of it is left for the next body on these workers. */
    for (int i = 0; i < 8; i++) {
        job = rig_job(LANEX_LANE_PURE_READ, panics, NULL);
        rig_run(actor, &job, LANEX_STATUS_JOB_PANICKED);
    }
    cr_assert_str_eq(trail.text, "ceba");
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

static void destroy_by_panic(void *data)
{
    rig_destroy(data);
    lanex_panic("in a destructor");
}

static void body_with_a_destructor_that_panics(lanex_job *job, void *context, void *arg)
{
    struct rig_data *data = arg;

    (void)context;
    lanex_job_respond(job, &data[0], destroy_by_panic);
    lanex_job_respond(job, &data[1], rig_destroy);
}

Test(panic, a_destructor_that_panics_takes_no_other_data_along)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data data[2] = {{0}};
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, body_with_a_destructor_that_panics, data);

    rig_run(actor, &job, LANEX_STATUS_JOB_PANICKED);
    cr_assert(rig_destroyed(&data[0]) && rig_destroyed(&data[1]));
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- the fatal actor ---- */

static void panic_when_let(lanex_job *job, void *context, void *arg)
{
    rig_block(job, context, arg);
    lanex_panic("late");
}

Test(panic, a_fatal_actor_answers_everything_until_it_is_registered_anew)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_block block = {0};
    struct latch ran = LATCH_INIT;
    lanex_ticket *queued[70], *first; /* more than one slice of answers */
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, panic_when_let, &block);

    first = rig_submit(actor, &job);
    latch_wait(&block.entered, 1);
    job = rig_job(LANEX_LANE_PURE_READ, rig_count, &ran);
    for (unsigned i = 0; i < 70; i++) {
        job.job_class = i % 2;
        job.lane = i % 5;
        queued[i] = rig_submit(actor, &job);
    }
    latch_arrive(&block.leave);
    rig_expect(first, LANEX_STATUS_ACTOR_FATAL);
    for (unsigned i = 0; i < 70; i++) {
        lanex_completion *completion = rig_wait(queued[i]);
        cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_ACTOR_FATAL);
        cr_assert_str_eq(lanex_completion_code(completion), "actor_fatal");
        lanex_ticket_drop(queued[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        job.job_class = i % 2;
        rig_run(actor, &job, LANEX_STATUS_ACTOR_FATAL);
    }
    cr_assert_eq(lanex_actor_register(executor, "a", 1, NULL, NULL), 0, "it is still there");
    rig_run(actor, &job, LANEX_STATUS_ACTOR_FATAL);
    cr_assert_eq(latch_count(&ran), 0);
    cr_assert_eq(rig_remove(executor, "a"), 0);
    lanex_actor *again = rig_actor(executor, "a");
    rig_run(again, &job, LANEX_STATUS_OK);
    rig_run(actor, &job, LANEX_STATUS_ACTOR_NOT_REGISTERED);
    cr_assert_eq(latch_count(&ran), 1);
    expect_whole_capacity(executor);
    lanex_actor_unref(actor);
    lanex_actor_unref(again);
    rig_destroy_executor(executor);
}

Test(panic, in_an_install_step_makes_the_actor_fatal)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    struct rig_data data = {0};
    lanex_job_options job = rig_job(LANEX_LANE_HEAVY_INIT, rig_respond, &data);

    job.install = panics_at_once;
    job.label = "loader";
    lanex_ticket *ticket = rig_submit(actor, &job);
    lanex_completion *completion = rig_wait(ticket);
    cr_assert_eq(lanex_completion_status(completion), LANEX_STATUS_ACTOR_FATAL);
    cr_assert_str_eq(lanex_completion_message(completion),
                     "command 'loader' panicked: reason number 7");
    cr_assert(rig_destroyed(&data));
    lanex_ticket_drop(ticket);
    job = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
    rig_run(actor, &job, LANEX_STATUS_ACTOR_FATAL);
    expect_whole_capacity(executor);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* ---- faults ---- */

static void raise_inside(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    raise(*(const int *)arg);
}

/* As raise() cannot tell a fault from a sent signal, the commonest one is made in earnest. */
static void write_nowhere(lanex_job *job, void *context, void *arg)
{
    int *volatile nowhere = arg;

    (void)job;
    (void)context;
    *nowhere = 1;
}

static void fault_in_cleanup(void *arg)
{
    *(int *)arg += 1;
    raise(SIGFPE);
}

static void count_cleanup(void *arg)
{
    *(int *)arg += 10;
}

static void faults_with_cleanups(lanex_job *job, void *context, void *arg)
{
    lanex_cleanup outer, inner;

    (void)job;
    (void)context;
    lanex_cleanup_push(&outer, count_cleanup, arg);
    lanex_cleanup_push(&inner, fault_in_cleanup, arg);
    raise(SIGILL);
}

static unsigned grow(unsigned depth, volatile unsigned char *caller)
{
    volatile unsigned char frame[4096];

    frame[0] = caller[0];
    frame[sizeof frame - 1] = (unsigned char)depth;
    return depth == 0 ? frame[0] : grow(depth - 1, frame) + frame[sizeof frame - 1];
}

static void overflow_the_stack(lanex_job *job, void *context, void *arg)
{
    volatile unsigned char start = 1;

    (void)job;
    (void)context;
    *(volatile unsigned *)arg = grow(UINT32_MAX, &start);
}

Test(panic, faults_are_contained_where_asked_for)
{
    if (getenv("LANEX_TEST_VALGRIND") != NULL)
        cr_skip("its registers are not exact where a handler jumps out of a fault");
    lanex_executor_options options = rig_options();
    options.flags = LANEX_EXECUTOR_CONTAIN_SIGNALS;
    lanex_executor *executor = rig_executor_with(&options);
    lanex_actor *actor = rig_actor(executor, "a");
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static const char *const names[] = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"};
    char message[100];
    int cleaned = 0;

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        int signo = signals[i];
        lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, raise_inside, &signo);
        job.label = "faulty";
        snprintf(message, sizeof message, "command 'faulty' panicked: %s", names[i]);
        expect_panic(rig_submit(actor, &job), LANEX_STATUS_JOB_PANICKED, "job_panicked", message);
    }
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, faults_with_cleanups, &cleaned);
    job.label = "faulty";
    expect_panic(rig_submit(actor, &job), LANEX_STATUS_JOB_PANICKED, "job_panicked",
                 "command 'faulty' panicked: SIGILL");
    cr_assert_eq(cleaned, 11);
    expect_whole_capacity(executor);
    job = rig_job(LANEX_LANE_MUTATING, raise_inside, (void *)(uintptr_t)&signals[0]);
    rig_run(actor, &job, LANEX_STATUS_ACTOR_FATAL);
    expect_whole_capacity(executor);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(panic, an_overflowing_stack_and_a_wild_write_are_contained)
{
    /* The sanitizers see both first, and end the process: that is what they are for. */
    if (LX_TEST_SANITIZED)
        cr_skip_test("a sanitizer reports these");
    lanex_executor_options options = rig_options();
    options.flags = LANEX_EXECUTOR_CONTAIN_SIGNALS;
    lanex_executor *executor = rig_executor_with(&options);
    lanex_actor *actor = rig_actor(executor, "a");
    unsigned result = 0;

    for (int i = 0; i < 3; i++) {
        lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, write_nowhere, NULL);
        job.label = "faulty";
        expect_panic(rig_submit(actor, &job), LANEX_STATUS_JOB_PANICKED, "job_panicked",
                     "command 'faulty' panicked: SIGSEGV");
        job.run = overflow_the_stack;
        job.arg = &result;
        expect_panic(rig_submit(actor, &job), LANEX_STATUS_JOB_PANICKED, "job_panicked",
                     "command 'faulty' panicked: SIGSEGV");
    }
    expect_whole_capacity(executor);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

/* What a job hands to lanex by a wild pointer. */
enum wild {
    WILD_KEY_REGISTER,
    WILD_KEY_REMOVE,
    WILD_KEY_LOOKUP,
    WILD_ID,
    WILD_LABEL,
    WILD_TOKEN,
    WILD_PORT,
    WILD_BATCH,
    WILD_DEFERRED,
    WILDS,
};

struct wild_call {
    lanex_executor *executor;
    lanex_actor *actor;
    enum wild wild;
    lanex_deferred *deferred;
};

static void call_with_a_wild_pointer(lanex_job *job, void *context, void *arg)
{
    struct wild_call *call = arg;
    lanex_job_options inner = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
    lanex_job_options wild = inner;
    lanex_submission batch[2] = {{call->actor, &inner}, {call->actor, &wild}};
    void *nowhere = (void *)(uintptr_t)16;
    lanex_actor *actor;

    (void)context;
    wild.request_id = call->wild == WILD_ID || call->wild == WILD_BATCH ? nowhere : NULL;
    wild.request_id_length = wild.request_id != NULL ? 10 : 0;
    wild.label = call->wild == WILD_LABEL ? nowhere : NULL;
    wild.label_length = wild.label != NULL ? 10 : 0;
    wild.cancellation = call->wild == WILD_TOKEN ? nowhere : NULL;
    if (call->wild == WILD_PORT)
        wild.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = nowhere};
    switch (call->wild) {
    case WILD_KEY_REGISTER:
        lanex_actor_register(call->executor, nowhere, 10, NULL, &actor);
        break;
    case WILD_KEY_REMOVE:
        lanex_actor_remove(call->executor, nowhere, 10);
        break;
    case WILD_KEY_LOOKUP:
        lanex_submit_by_key(call->executor, nowhere, 10, &inner, NULL);
        break;
    case WILD_BATCH:
        lanex_submit_batch(batch, 2, NULL);
        break;
    case WILD_DEFERRED:
        LX_REQUIRE(lanex_job_defer(job, &call->deferred) == 0);
        lanex_deferred_respond_error(call->deferred, "code", nowhere, false);
        break;
    default:
        lanex_submit(call->actor, &wild, NULL);
        break;
    }
}

/* The containment is for leaving in order: nothing may be left locked, or waited for by destroy. */
Test(panic, a_wild_pointer_given_to_lanex_by_a_contained_job_leaves_nothing_locked, .timeout = 60)
{
    if (LX_TEST_SANITIZED)
        cr_skip_test("a sanitizer reports these");
    lanex_executor_options options = rig_options();
    options.flags = LANEX_EXECUTOR_CONTAIN_SIGNALS;
    lanex_executor *executor = rig_executor_with(&options);
    lanex_actor *actor = rig_actor(executor, "a"), *other;

    for (int wild = 0; wild < WILDS; wild++) {
        struct wild_call call = {executor, actor, (enum wild)wild, NULL};
        lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, call_with_a_wild_pointer, &call);
        job.label = "faulty";
        expect_panic(rig_submit(actor, &job), LANEX_STATUS_JOB_PANICKED, "job_panicked",
                     "command 'faulty' panicked: SIGSEGV");
        lanex_deferred_drop(call.deferred);
    }
    expect_whole_capacity(executor);
    other = rig_actor(executor, "b");
    lanex_actor_unref(other);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

static void panicking_callback(lanex_completion *completion, void *arg)
{
    (void)completion;
    (void)arg;
    lanex_panic("no job runs here");
}

Test(panic, outside_a_job_aborts, .signal = SIGABRT)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);
    const struct rlimit no_core = {0, 0};

    setrlimit(RLIMIT_CORE, &no_core);
    job.sink = (lanex_sink){.kind = LANEX_SINK_CALLBACK, .callback = panicking_callback};
    lanex_submit(actor, &job, NULL);
    lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL);
}

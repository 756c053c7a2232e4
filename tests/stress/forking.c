/*
 * Bodies that fork while others run. The child may exec or _exit; a child that comes back from the
 * body, or panics in it, is ended by lanex: it is no worker, and must not release the gate, answer
 * the job a second time, ring the parent's bells or post to its rings. The parent's job is answered
 * by the parent, once.
 */
#include "tests/support/lx_executor.h"
#include "tests/support/lx_left.h"

#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(forking); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define ROUNDS      24u /* of the short form */
#define FORKS       8u  /* jobs of a round whose body forks */
#define OTHERS      40u /* jobs around them */
#define ACTORS      4u
#define ITS_OWN_END 42 /* what a child exits with that ends itself */
/* A child that does not end is killed, and the test fails by its status. */
#define CHILD_SECONDS 60u

enum way { WAY_RETURN, WAY_PANIC, WAY_EXIT, WAY_EXEC, WAY_CALL_THEN_RETURN, WAYS };

struct round {
    lanex_executor *executor;
    lanex_actor *actors[ACTORS];
    lanex_port *port;
    bool has_ring;
    struct io_uring uring;
    lanex_ring *ring;
    atomic_uint seen[FORKS + OTHERS]; /* completions, by number */
    atomic_uint cleaned;              /* clean-up functions that ran, in this process */
};

static struct round round_now;

struct fork_job {
    uint64_t number;
    enum way way;
};

static struct fork_job fork_jobs[FORKS];

static void clean_up(void *arg)
{
    (void)arg;
    atomic_fetch_add(&round_now.cleaned, 1);
    if (getpid() != *(pid_t *)arg)
        _exit(1); /* the parent's clean-ups are none of the child's business */
}

/* In the child. Whatever comes back from here comes back from the body. */
static void end_child(lanex_job *job, enum way way)
{
    sigset_t all;
    char data[] = "x";

    sigfillset(&all);
    (void)sigprocmask(SIG_UNBLOCK, &all, NULL);
    (void)signal(SIGABRT, SIG_DFL);
    (void)alarm(CHILD_SECONDS);
    switch (way) {
    case WAY_PANIC:
        lanex_panic("in the child");
    case WAY_EXIT:
        _exit(ITS_OWN_END);
    case WAY_EXEC:
        (void)execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    case WAY_CALL_THEN_RETURN:
        if (lanex_executor_drain(round_now.executor, LANEX_TIME_NEVER, NULL) != -ECHILD)
            _exit(2);
        lanex_job_respond(job, data, NULL);
        break;
    default:
        break;
    }
}

static int expected_exit(enum way way)
{
    return way == WAY_EXIT ? ITS_OWN_END : way == WAY_EXEC ? 0 : LANEX_FORKED_EXIT;
}

/* The job's answer is the parent's body's: no data, or the panic's. */
static void fork_body(lanex_job *job, void *context, void *arg)
{
    const struct fork_job *at = arg;
    pid_t parent = getpid(), child;
    lanex_cleanup cleanup;
    int status;

    (void)context;
    lanex_cleanup_push(&cleanup, clean_up, &parent);
    child = fork();
    LX_REQUIRE(child >= 0);
    if (child == 0) {
        end_child(job, at->way);
        return;
    }
    while (waitpid(child, &status, 0) != child)
        LX_REQUIRE(errno == EINTR);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected_exit(at->way))
        lx_test_die(__FILE__, __LINE__, "way %d: the child ended with status %x", (int)at->way,
                    (unsigned)status);
    lanex_cleanup_pop(false);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void count(uint64_t number, int status)
{
    LX_REQUIRE(status == LANEX_STATUS_OK);
    LX_REQUIRE(number < FORKS + OTHERS);
    LX_REQUIRE(atomic_fetch_add(&round_now.seen[number], 1) == 0);
}

static void count_callback(lanex_completion *completion, void *arg)
{
    count((uint64_t)(uintptr_t)arg, lanex_completion_status(completion));
}

/* All that has come so far, to the port and the ring. */
static unsigned take_what_is_there(void)
{
    lanex_completion *completions[16];
    struct io_uring_cqe *cqe;
    int drained = lanex_port_drain(round_now.port, completions, 16);
    unsigned taken = (unsigned)drained;

    LX_REQUIRE(drained >= 0);
    for (int i = 0; i < drained; i++) {
        const struct fork_job *at = lanex_completion_arg(completions[i]);
        count(at->number, lanex_completion_status(completions[i]));
        lanex_completion_release(completions[i]);
    }
    while (round_now.has_ring && io_uring_peek_cqe(&round_now.uring, &cqe) == 0) {
        count(cqe->user_data, -cqe->res);
        io_uring_cqe_seen(&round_now.uring, cqe);
        taken++;
    }
    return taken;
}

static bool all_seen(void)
{
    (void)take_what_is_there();
    for (unsigned i = 0; i < FORKS + OTHERS; i++) {
        if (atomic_load(&round_now.seen[i]) == 0)
            return false;
    }
    return true;
}

static void submit(struct lx_rng *rng, uint64_t number)
{
    static const enum lanex_lane lanes[] = {LANEX_LANE_PURE_READ, LANEX_LANE_SERIAL_STATUS,
                                            LANEX_LANE_HEAVY_INIT, LANEX_LANE_MUTATING};
    bool forks = number < FORKS;
    lanex_job_options job =
        lx_test_job(lanes[lx_rng_below(rng, 4)], forks ? fork_body : nothing, NULL);

    job.sink = (lanex_sink){.kind = LANEX_SINK_CALLBACK,
                            .callback = count_callback,
                            .callback_arg = (void *)(uintptr_t)number};
    if (forks) {
        fork_jobs[number] = (struct fork_job){number, (enum way)lx_rng_below(rng, WAYS)};
        job.arg = &fork_jobs[number];
        if (number % 3 == 1)
            job.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = round_now.port};
        else if (number % 3 == 2 && round_now.has_ring)
            job.sink =
                (lanex_sink){.kind = LANEX_SINK_RING, .ring = round_now.ring, .user_data = number};
    }
    LX_REQUIRE(lanex_submit(round_now.actors[lx_rng_below(rng, ACTORS)], &job, NULL) == 0);
}

static void begin_round(struct lx_rng *rng)
{
    memset(&round_now, 0, sizeof round_now);
    round_now.executor = lx_test_executor((unsigned)lx_rng_between(rng, 2, 4));
    for (unsigned i = 0; i < ACTORS; i++)
        round_now.actors[i] = lx_test_actor(round_now.executor, i);
    LX_REQUIRE(lanex_port_create(round_now.executor, NULL, &round_now.port) == 0);
    if (io_uring_queue_init(64, &round_now.uring, 0) < 0)
        return;
    round_now.has_ring =
        lanex_ring_attach(round_now.executor, round_now.uring.ring_fd, &round_now.ring) == 0;
    if (!round_now.has_ring)
        io_uring_queue_exit(&round_now.uring);
}

static void end_round(void)
{
    lx_test_at_rest(round_now.executor);
    for (unsigned i = 0; i < ACTORS; i++)
        lanex_actor_unref(round_now.actors[i]);
    LX_REQUIRE(atomic_load(&round_now.cleaned) == 0);
    LX_REQUIRE(lanex_executor_destroy(round_now.executor) == 0);
    /* Nobody posts any more, and nothing is there but what was counted. */
    LX_REQUIRE(take_what_is_there() == 0);
    lanex_port_unref(round_now.port);
    if (round_now.has_ring) {
        lanex_ring_unref(round_now.ring);
        io_uring_queue_exit(&round_now.uring);
    }
}

static void one_round(struct lx_rng *rng)
{
    begin_round(rng);
    for (uint64_t number = 0; number < FORKS + OTHERS; number++)
        submit(rng, number * 7 % (FORKS + OTHERS)); /* forks among the others */
    LX_EVENTUALLY(all_seen());
    LX_REQUIRE(lanex_executor_drain(round_now.executor, LANEX_TIME_NEVER, NULL) == 0);
    end_round();
}

Test(forking, a_child_that_comes_back_from_a_body_ends_and_answers_nothing)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t end = lx_test_soak_end_ns(1);
    struct lx_test_left before;
    uint64_t rounds = 0;

    one_round(&rng); /* with what the C library makes once */
    before = lx_test_left();
    while (rounds < lx_test_scaled(ROUNDS) || lx_test_now_ns() < end) {
        one_round(&rng);
        rounds++;
    }
    lx_test_nothing_left(before);
    fprintf(stderr, "[----] %lu rounds\n", (unsigned long)rounds);
}

/* ---- callbacks ---- */

struct forked_callback {
    enum { BY_A_WORKER, BY_THE_REAPER } thread;
    struct latch over;
};

static void fork_in_callback(lanex_completion *completion, void *arg)
{
    struct forked_callback *at = arg;
    int expected =
        at->thread == BY_A_WORKER ? LANEX_STATUS_OK : LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED;
    int status;
    pid_t child;

    LX_REQUIRE(lanex_completion_status(completion) == expected);
    child = fork();
    LX_REQUIRE(child >= 0);
    if (child == 0) {
        end_child(NULL, WAY_RETURN);
        return;
    }
    while (waitpid(child, &status, 0) != child)
        LX_REQUIRE(errno == EINTR);
    LX_REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == LANEX_FORKED_EXIT);
    latch_arrive(&at->over);
}

Test(forking, a_child_that_comes_back_from_a_callback_ends)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);

    for (unsigned i = 0; i < 2; i++) {
        struct forked_callback at = {.thread = i == 0 ? BY_A_WORKER : BY_THE_REAPER};
        lanex_job_options job =
            lx_test_callback_job(LANEX_LANE_PURE_READ, nothing, NULL, fork_in_callback, &at);
        job.deadline_ns = i == 0 ? 0 : 1; /* long past: it never runs */
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
        latch_wait(&at.over, 1);
    }
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

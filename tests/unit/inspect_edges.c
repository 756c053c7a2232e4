/*
 * Views at their edges: more of them at one job than it can count, no memory for what they tell,
 * and chains of waiting that come back to where they began.
 */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <sched.h>

#include "runtime/actor.h"
#include "runtime/executor.h"
#include "sync/seams.h"

TestSuite(inspect_edges, .timeout = 60);

/* A view's search looks at so many jobs before it lets others have the seat (LX_VIEW_SLICE). */
#define SLICE 512u
/* What is queued beyond. */
#define BEYOND 3u
/* As many holds as views leave room for on one job (LX_VIEW_HOLDS). */
#define ALL_HOLDS (128u * LX_WORD_HOLD)

/* Linked with --wrap=sched_yield: lanex yields between two tries of a view. */
int __real_sched_yield(void);
int __wrap_sched_yield(void);
static void (*at_yield)(void);

int __wrap_sched_yield(void)
{
    void (*once)(void) = at_yield;

    at_yield = NULL;
    if (once != NULL)
        once();
    return __real_sched_yield();
}

struct body {
    struct latch begun, go;
};

static void wait_for_go(lanex_job *job, void *context, void *arg)
{
    struct body *body = arg;

    (void)job;
    (void)context;
    latch_arrive(&body->begun);
    latch_wait(&body->go, 1);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static lanex_executor *executor;
static lanex_actor *actor;
static struct body body;

static void submit(enum lanex_lane lane, lanex_job_fn run, const char *id, uint64_t *ret_number)
{
    lanex_job_options options = lx_test_job(lane, run, &body);

    options.request_id = id;
    LX_REQUIRE(lanex_submit(actor, &options, ret_number) == 0);
}

static struct lanex_job *job_at(uint64_t number)
{
    return lx_slab_at(&executor->jobs, (uint32_t)number & ((1u << LX_NUMBER_INDEX_BITS) - 1));
}

static void begin(unsigned pool)
{
    executor = lx_test_executor(pool);
    actor = lx_test_actor(executor, 1);
}

static void end(void)
{
    latch_arrive(&body.go);
    cr_assert_eq(lanex_executor_drain(executor, LANEX_TIME_NEVER, NULL), 0);
    lx_test_at_rest(executor);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* ---- more views at one job than its count of holds has room for ---- */

static uint64_t queued[SLICE + BEYOND];
static uint64_t recycled;
static struct latch answered = LATCH_INIT;

/* On lanex-reap, which has just freed the job that was answered before this one. */
static void submit_another(lanex_completion *completion, void *arg)
{
    (void)completion;
    (void)arg;
    submit(LANEX_LANE_MUTATING, nothing, "another", &recycled);
    latch_arrive(&answered);
}

/* The others let go of the job at which the search had come to a halt. It is cancelled, and its
   object becomes another job, the last of all. */
static void recycle(void)
{
    atomic_fetch_sub(&job_at(queued[SLICE])->entry.word, ALL_HOLDS);
    LX_REQUIRE(lanex_cancel(executor, queued[SLICE]) == LANEX_CANCEL_QUEUED_REMOVED);
    LX_REQUIRE(lanex_cancel(executor, queued[SLICE + 1]) == LANEX_CANCEL_QUEUED_REMOVED);
    latch_wait(&answered, 1);
}

Test(inspect_edges, a_search_whose_place_became_another_job_misses_none)
{
    begin(2);
    submit(LANEX_LANE_MUTATING, wait_for_go, "runs", NULL);
    latch_wait(&body.begun, 1);
    for (unsigned i = 0; i < SLICE + BEYOND; i++) {
        lanex_job_options options = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
        if (i == SLICE + 1)
            options =
                lx_test_callback_job(LANEX_LANE_MUTATING, nothing, NULL, submit_another, NULL);
        options.request_id = i == SLICE + BEYOND - 1 ? "wanted" : "other";
        cr_assert_eq(lanex_submit(actor, &options, &queued[i]), 0);
    }
    cr_assert_eq(lanex_job_state(executor, "\1\0\0", 4, "wanted", 6), LANEX_STATE_QUEUED);
    atomic_fetch_add(&job_at(queued[SLICE])->entry.word, ALL_HOLDS);
    cr_assert_eq(lanex_job_state_try(executor, "\1\0\0", 4, "wanted", 6), -EBUSY);
    at_yield = recycle;
    cr_assert_eq(lanex_job_state(executor, "\1\0\0", 4, "wanted", 6), LANEX_STATE_QUEUED);
    cr_assert_eq(latch_count(&answered), 1, "the view did not have to try again");
    cr_assert_eq(job_at(recycled), job_at(queued[SLICE]), "the object was not used again");
    end();
}

static void let_go(void)
{
    atomic_fetch_sub(&job_at(queued[0])->entry.word, ALL_HOLDS);
}

Test(inspect_edges, views_of_a_job_that_too_many_look_at_wait_or_are_busy)
{
    lanex_running_jobs *jobs = NULL;
    lanex_blockers *blockers = NULL;
    lanex_explanation *explanation = NULL;

    begin(2);
    submit(LANEX_LANE_MUTATING, wait_for_go, "runs", &queued[0]);
    latch_wait(&body.begun, 1);
    atomic_fetch_add(&job_at(queued[0])->entry.word, ALL_HOLDS);
    cr_assert_eq(lanex_executor_running_mutating_try(executor, &jobs), -EBUSY);
    cr_assert_eq(lanex_executor_census_try(executor, 0, &jobs), -EBUSY);
    cr_assert_eq(lanex_job_blockers_try(executor, "\1\0\0", 4, "runs", 4, &blockers), -EBUSY);
    cr_assert_eq(lanex_explain_job_try(executor, queued[0], &explanation), -EBUSY);
    cr_assert(jobs == NULL && blockers == NULL && explanation == NULL);
    at_yield = let_go;
    cr_assert_eq(lanex_executor_census(executor, 0, &jobs), 0);
    cr_assert_null(at_yield, "the census did not have to wait");
    cr_assert_eq(jobs->count, 1, "a census that was refused has reported the job");
    lanex_running_jobs_free(jobs);
    end();
}

/* ---- no memory ---- */

static _Thread_local unsigned allocations_left; /* of this thread; 0: no limit */
static void *(*allocate)(size_t size, bool zeroed);

static void *allocate_counted(size_t size, bool zeroed)
{
    if (allocations_left > 0 && --allocations_left == 0) {
        allocations_left = 1;
        return NULL;
    }
    return allocate(size, zeroed);
}

static void phase(void *context, char *text, size_t size)
{
    (void)context;
    snprintf(text, size, "at rest");
}

/* Refuses the k-th allocation and all after it, for each k, until the call succeeds. */
#define EACH_REFUSAL(call, free_result, least)                                                     \
    do {                                                                                           \
        int rc_ = -ENOMEM;                                                                         \
        unsigned k_ = 0;                                                                           \
        while (rc_ == -ENOMEM) {                                                                   \
            allocations_left = ++k_;                                                               \
            rc_ = (call);                                                                          \
            allocations_left = 0;                                                                  \
        }                                                                                          \
        cr_assert_eq(rc_, 0, #call);                                                               \
        cr_assert_gt(k_, (least), #call);                                                          \
        free_result;                                                                               \
    } while (0)

Test(inspect_edges, a_view_that_gets_no_memory_says_so_and_leaves_nothing)
{
    lanex_executor_options options = lx_test_executor_options(8);
    char id[LANEX_REQUEST_ID_MAX + 1], writer[LANEX_REQUEST_ID_MAX + 1];
    lanex_running_jobs *jobs = NULL;
    lanex_blockers *blockers = NULL;
    lanex_explanation *explanation = NULL;

    allocate = lx_seams.allocate;
    lx_seams.allocate = allocate_counted;
    options.context_phase = phase;
    options.profile = LANEX_PROFILE_MANY_CORE;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    actor = lx_test_actor(executor, 1);
    /* Long names, so that one chunk of memory does not hold what is told. */
    memset(id, 'r', sizeof id - 1);
    memset(writer, 'w', sizeof writer - 1);
    id[sizeof id - 1] = writer[sizeof writer - 1] = '\0';
    for (unsigned i = 0; i < 7; i++)
        submit(LANEX_LANE_PURE_READ, wait_for_go, id, NULL);
    latch_wait(&body.begun, 7);
    submit(LANEX_LANE_MUTATING, nothing, writer, &queued[0]);
    EACH_REFUSAL(lanex_job_blockers(executor, "\1\0\0", 4, writer, 0, &blockers),
                 lanex_blockers_free(blockers), 3);
    EACH_REFUSAL(lanex_explain_job(executor, queued[0], &explanation),
                 lanex_explanation_free(explanation), 2);
    EACH_REFUSAL(lanex_executor_running_mutating(executor, &jobs), lanex_running_jobs_free(jobs),
                 1);
    /* A census that failed has reported nothing. */
    EACH_REFUSAL(lanex_executor_census(executor, 0, &jobs), (void)0, 3);
    cr_assert_eq(jobs->count, 7);
    lanex_running_jobs_free(jobs);
    end();
}

/* ---- explain ---- */

static lanex_ticket *ticket;
static struct latch may_wait = LATCH_INIT;
static uint64_t waiter;

static void wait_for_ticket(lanex_job *job, void *context, void *arg)
{
    (void)context;
    (void)arg;
    waiter = lanex_job_number(job);
    latch_arrive(&body.begun);
    latch_wait(&may_wait, 1);
    LX_REQUIRE(lanex_ticket_wait(ticket, LANEX_TIME_NEVER) == 0);
}

static bool waits_for_ticket(void)
{
    lanex_explanation *explanation = NULL;
    bool waits;

    LX_REQUIRE(lanex_explain_job(executor, waiter, &explanation) == 0);
    waits = explanation->chain[0].reason == LANEX_WAIT_TICKET;
    lanex_explanation_free(explanation);
    return waits;
}

Test(inspect_edges, a_job_that_waits_for_a_worker_is_held_by_one_that_can_end)
{
    lanex_explanation *explanation = NULL;
    lanex_actor *others[2];
    lanex_job_options options;
    uint64_t awaited;

    begin(2);
    others[0] = lx_test_actor(executor, 2);
    others[1] = lx_test_actor(executor, 3);
    submit(LANEX_LANE_PURE_READ, wait_for_ticket, "waits", NULL);
    latch_wait(&body.begun, 1);
    options = lx_test_job(LANEX_LANE_PURE_READ, wait_for_go, &body);
    options.request_id = "can end";
    cr_assert_eq(lanex_submit(others[0], &options, NULL), 0);
    latch_wait(&body.begun, 2);
    /* No worker is left for what the first body waits for. */
    options = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    cr_assert_eq(lanex_submit_ticket(others[1], &options, &ticket), 0);
    awaited = lanex_ticket_job(ticket);
    latch_arrive(&may_wait);
    LX_EVENTUALLY(waits_for_ticket());
    cr_assert_eq(lanex_explain_job(executor, awaited, &explanation), 0);
    cr_assert_not(explanation->circle, "%s", explanation->text);
    cr_assert_eq(explanation->count, 2, "%s", explanation->text);
    cr_assert_eq(explanation->chain[0].reason, LANEX_WAIT_WORKERS);
    cr_assert_str_eq(explanation->chain[1].job.request_id, "can end");
    lanex_explanation_free(explanation);
    latch_arrive(&body.go);
    lanex_actor_unref(others[0]);
    lanex_actor_unref(others[1]);
    end();
    lanex_ticket_drop(ticket);
}

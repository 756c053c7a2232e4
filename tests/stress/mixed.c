/*
 * Everything at once: jobs of all lanes, classes and sinks on 64 actors, with cancels, seals,
 * deadlines, panics, fatal actors that are registered anew, deferred answers and install steps.
 * Each job gets exactly one completion, and at the end every counter is back where it began.
 *
 * LANEX_STRESS_JOBS sets how many; a soak goes on in rounds.
 */
#include "mixed.h"

#include <errno.h>
#include <sched.h>

TestSuite(mixed); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define JOBS         200000u /* of the short form */
#define SUBMITTERS   2u
#define AT_ONCE      4000u /* jobs under way at most */
#define TICKETS      32u   /* tickets that a submitter keeps */
#define RECENT       64u   /* numbers that it cancels among */
#define BATCH        8u
#define DEADLINES_NS 2000000u /* deadlines lie up to so far ahead */

struct ticket_at {
    lanex_ticket *ticket;
    uint64_t number;
};

struct submitter {
    struct mixed *mixed;
    struct lx_rng rng;
    struct ticket_at tickets[TICKETS];
    unsigned first_ticket, ticket_count;
    struct {
        uint64_t job, number;
    } recent[RECENT];
    uint64_t submitted;
    pthread_t thread;
};

/* ---- actors ---- */

static void release_context(void *arg)
{
    struct context *context = arg;

    LX_REQUIRE(context->a == context->b);
    atomic_fetch_sub(&context->mixed->live_contexts, 1);
    free(context);
}

/* Under the slot's mutex, or before there are threads. */
static void register_slot(struct mixed *mixed, unsigned number)
{
    struct context *context = calloc(1, sizeof *context);
    lanex_actor_options options = {.size = sizeof options,
                                   .context = context,
                                   .context_release = release_context,
                                   .weight = number % 3};

    context->mixed = mixed;
    atomic_fetch_add(&mixed->live_contexts, 1);
    LX_REQUIRE(lanex_actor_register(mixed->executor, &number, sizeof number, &options,
                                    &mixed->slots[number].actor) == 1);
    atomic_store(&mixed->slots[number].fatal, false);
}

static void renew_slot(struct mixed *mixed, unsigned number)
{
    struct slot *slot = &mixed->slots[number];

    pthread_mutex_lock(&slot->mutex);
    LX_REQUIRE(lanex_actor_remove(mixed->executor, &number, sizeof number) == 0);
    lanex_actor_unref(slot->actor);
    register_slot(mixed, number);
    pthread_mutex_unlock(&slot->mutex);
}

/* Retiring is refused while anything of the actor is under way. */
static void try_retire(struct mixed *mixed, unsigned number)
{
    struct slot *slot = &mixed->slots[number];
    int rc;

    pthread_mutex_lock(&slot->mutex);
    rc = lanex_actor_retire(mixed->executor, &number, sizeof number);
    LX_REQUIRE(rc == 0 || rc == -EBUSY);
    if (rc == 0) {
        lanex_actor_unref(slot->actor);
        register_slot(mixed, number);
    }
    pthread_mutex_unlock(&slot->mutex);
}

static lanex_actor *take_actor(struct mixed *mixed, unsigned number)
{
    struct slot *slot = &mixed->slots[number];
    lanex_actor *actor;

    if (atomic_load(&slot->fatal))
        renew_slot(mixed, number);
    pthread_mutex_lock(&slot->mutex);
    actor = lanex_actor_ref(slot->actor);
    pthread_mutex_unlock(&slot->mutex);
    return actor;
}

/* ---- one job ---- */

static void choose(struct submitter *submitter, uint64_t number, lanex_job_options *options)
{
    static const char *const labels[] = {"0 read", "1 status", "2 init", "3 write", "4 commit"};
    struct lx_rng *rng = &submitter->rng;
    uint64_t roll = lx_rng_below(rng, 100);
    enum lanex_lane lane = roll < 45   ? LANEX_LANE_PURE_READ
                           : roll < 60 ? LANEX_LANE_SERIAL_STATUS
                           : roll < 68 ? LANEX_LANE_HEAVY_INIT
                           : roll < 90 ? LANEX_LANE_MUTATING
                                       : LANEX_LANE_MAINTENANCE_COMMIT;

    *options = lx_test_job(lane, mixed_run, (void *)(uintptr_t)number);
    options->job_class =
        lx_rng_percent(rng, 25) ? LANEX_CLASS_MAINTENANCE : LANEX_CLASS_INTERACTIVE;
    options->label = labels[lane];
    if (lx_rng_percent(rng, 50))
        options->request_id = "id-0123456789abcdef01234";
    if (lane == LANEX_LANE_HEAVY_INIT && lx_rng_percent(rng, 50))
        options->install = mixed_install;
    if (lx_rng_percent(rng, 30))
        options->flags = LANEX_JOB_CANCELLABLE;
    if (lx_rng_percent(rng, 5))
        options->deadline_ns = lx_test_now_ns() + lx_rng_below(rng, DEADLINES_NS);
    if (lx_rng_percent(rng, 5))
        options->coalesce_key = (uint32_t)lx_rng_between(rng, 1, LANEX_COALESCE_KEY_MAX);
    if (lx_rng_percent(rng, 10))
        options->cost = (uint32_t)lx_rng_between(rng, 1, 100);
}

static void choose_sink(struct submitter *submitter, uint64_t number, lanex_sink *sink)
{
    struct mixed *mixed = submitter->mixed;
    uint64_t roll = lx_rng_below(&submitter->rng, 100);

    if (roll < 3) {
        atomic_fetch_or(&mixed->flags[number], FLAG_UNCOUNTED);
        *sink = (lanex_sink){.kind = LANEX_SINK_NONE};
    } else if (roll < 35) {
        *sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = mixed->port};
    } else if (roll < 50 && mixed->has_ring) {
        *sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = mixed->ring_port};
    } else if (roll < 60 && mixed->has_ring) {
        *sink = (lanex_sink){.kind = LANEX_SINK_RING, .ring = mixed->ring, .user_data = number};
    } else {
        *sink = (lanex_sink){
            .kind = LANEX_SINK_CALLBACK, .callback = mixed_callback, .callback_arg = mixed};
    }
}

static void settle_oldest_ticket(struct submitter *submitter)
{
    struct ticket_at *at = &submitter->tickets[submitter->first_ticket % TICKETS];

    LX_REQUIRE(lanex_ticket_wait(at->ticket, LANEX_TIME_NEVER) == 0);
    mixed_book_completion(submitter->mixed, lanex_ticket_completion(at->ticket));
    lanex_ticket_drop(at->ticket);
    submitter->first_ticket++;
    submitter->ticket_count--;
}

static void submit_with_ticket(struct submitter *submitter, lanex_actor *actor, uint64_t number,
                               lanex_job_options *options)
{
    struct mixed *mixed = submitter->mixed;
    bool dropped = lx_rng_percent(&submitter->rng, 20);
    lanex_ticket *ticket;

    if (dropped)
        atomic_fetch_or(&mixed->flags[number], FLAG_UNCOUNTED);
    else
        atomic_fetch_add(&mixed->outstanding, 1);
    LX_REQUIRE(lanex_submit_ticket(actor, options, &ticket) == 0);
    if (dropped) {
        lanex_ticket_drop(ticket);
        return;
    }
    if (submitter->ticket_count == TICKETS)
        settle_oldest_ticket(submitter);
    submitter->tickets[(submitter->first_ticket + submitter->ticket_count++) % TICKETS] =
        (struct ticket_at){ticket, number};
}

static void remember(struct submitter *submitter, uint64_t job, uint64_t number)
{
    submitter->recent[submitter->submitted % RECENT].job = job;
    submitter->recent[submitter->submitted % RECENT].number = number;
    submitter->submitted++;
}

static void submit_one(struct submitter *submitter, uint64_t number)
{
    struct mixed *mixed = submitter->mixed;
    lanex_actor *actor = take_actor(mixed, (unsigned)(number % ACTORS));
    lanex_job_options options;
    uint64_t job;

    choose(submitter, number, &options);
    if (lx_rng_percent(&submitter->rng, 15)) {
        submit_with_ticket(submitter, actor, number, &options);
    } else {
        choose_sink(submitter, number, &options.sink);
        if ((atomic_load(&mixed->flags[number]) & FLAG_UNCOUNTED) == 0)
            atomic_fetch_add(&mixed->outstanding, 1);
        LX_REQUIRE(lanex_submit(actor, &options, &job) == 0);
        remember(submitter, job, number);
    }
    lanex_actor_unref(actor);
}

static void submit_batch(struct submitter *submitter, uint64_t first)
{
    struct mixed *mixed = submitter->mixed;
    lanex_job_options options[BATCH];
    lanex_submission batch[BATCH];
    uint64_t jobs[BATCH];

    for (unsigned i = 0; i < BATCH; i++) {
        choose(submitter, first + i, &options[i]);
        choose_sink(submitter, first + i, &options[i].sink);
        if ((atomic_load(&mixed->flags[first + i]) & FLAG_UNCOUNTED) == 0)
            atomic_fetch_add(&mixed->outstanding, 1);
        batch[i] =
            (lanex_submission){take_actor(mixed, (unsigned)((first + i) % ACTORS)), &options[i]};
    }
    LX_REQUIRE(lanex_submit_batch(batch, BATCH, jobs) == 0);
    for (unsigned i = 0; i < BATCH; i++) {
        lanex_actor_unref(batch[i].actor);
        remember(submitter, jobs[i], first + i);
    }
}

static void cancel_some(struct submitter *submitter)
{
    struct mixed *mixed = submitter->mixed;
    uint64_t known = submitter->submitted < RECENT ? submitter->submitted : RECENT;
    uint64_t at;

    if (known == 0)
        return;
    at = lx_rng_below(&submitter->rng, known);
    switch (lanex_cancel(mixed->executor, submitter->recent[at].job)) {
    case LANEX_CANCEL_QUEUED_REMOVED:
        atomic_fetch_or(&mixed->flags[submitter->recent[at].number], FLAG_REMOVED);
        break;
    case LANEX_CANCEL_RUNNING_COMMITTED:
        atomic_fetch_or(&mixed->flags[submitter->recent[at].number], FLAG_COMMITTED);
        break;
    case LANEX_CANCEL_RUNNING_SIGNALLED:
    case LANEX_CANCEL_NOT_FOUND:
        break;
    default:
        lx_test_die(__FILE__, __LINE__, "cancel gave no outcome");
    }
}

static void disturb(struct submitter *submitter)
{
    struct mixed *mixed = submitter->mixed;
    struct lx_rng *rng = &submitter->rng;
    unsigned number = (unsigned)lx_rng_below(rng, ACTORS);

    if (lx_rng_percent(rng, 10))
        cancel_some(submitter);
    switch (lx_rng_below(rng, 1000)) {
    case 0:
        renew_slot(mixed, number);
        break;
    case 1:
        try_retire(mixed, number);
        break;
    case 2:
        LX_REQUIRE(lanex_actor_cancel_queued_maintenance(mixed->executor, &number, sizeof number) >=
                   -ENOENT);
        break;
    default:
        break;
    }
}

static void *submit_all(void *arg)
{
    struct submitter *submitter = arg;
    struct mixed *mixed = submitter->mixed;

    for (;;) {
        bool batch = lx_rng_percent(&submitter->rng, 5);
        uint64_t first = atomic_fetch_add(&mixed->next, batch ? BATCH : 1);

        if (first >= mixed->jobs)
            break;
        if (batch && first + BATCH <= mixed->jobs) {
            submit_batch(submitter, first);
        } else {
            for (uint64_t n = first; n < mixed->jobs && n < first + (batch ? BATCH : 1); n++)
                submit_one(submitter, n);
        }
        disturb(submitter);
        while (atomic_load(&mixed->outstanding) > AT_ONCE)
            sched_yield();
    }
    while (submitter->ticket_count > 0)
        settle_oldest_ticket(submitter);
    return NULL;
}

/* ---- the books ---- */

static void check_job(const struct mixed *mixed, uint64_t number)
{
    unsigned flags = mixed->flags[number], status = mixed->status[number];
    unsigned seen = mixed->seen[number], ran = mixed->ran[number];

    cr_assert_leq(ran, 1);
    if ((flags & FLAG_COMMITTED) != 0)
        cr_assert((flags & FLAG_EFFECT) != 0, "job %lu", (unsigned long)number);
    if ((flags & FLAG_REMOVED) != 0)
        cr_assert_eq(ran, 0, "job %lu was removed and ran", (unsigned long)number);
    if ((flags & FLAG_UNCOUNTED) != 0) {
        cr_assert_eq(seen, 0);
        return;
    }
    cr_assert_eq(seen, 1, "job %lu: %u completions", (unsigned long)number, seen);
    if ((flags & FLAG_REMOVED) != 0)
        cr_assert_eq(status, LANEX_STATUS_REQUEST_CANCELLED);
    switch (status) {
    case LANEX_STATUS_OK:
    case LANEX_STATUS_JOB_FAILED:
    case LANEX_STATUS_JOB_PANICKED:
    case LANEX_STATUS_JOB_ABANDONED:
        cr_assert_eq(ran, 1, "job %lu: status %u without running", (unsigned long)number, status);
        break;
    case LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED:
    case LANEX_STATUS_MAINTENANCE_CANCELLED:
    case LANEX_STATUS_MAINTENANCE_BACKPRESSURE:
    case LANEX_STATUS_ACTOR_NOT_REGISTERED:
        cr_assert_eq(ran, 0, "job %lu: status %u, but it ran", (unsigned long)number, status);
        break;
    case LANEX_STATUS_REQUEST_CANCELLED:
    case LANEX_STATUS_ACTOR_FATAL:
        break;
    default:
        cr_assert_fail("job %lu: status %u", (unsigned long)number, status);
    }
}

static void check_books(const struct mixed *mixed)
{
    uint64_t by_status[LANEX_STATUS_EXECUTOR_SHUTDOWN + 1] = {0}, uncounted = 0;

    for (uint64_t i = 0; i < mixed->jobs; i++) {
        check_job(mixed, i);
        if ((mixed->flags[i] & FLAG_UNCOUNTED) != 0)
            uncounted++;
        else
            by_status[mixed->status[i]]++;
    }
    fprintf(stderr, "[----] %lu jobs:", (unsigned long)mixed->jobs);
    for (unsigned s = 0; s <= LANEX_STATUS_EXECUTOR_SHUTDOWN; s++)
        fprintf(stderr, " %lu", (unsigned long)by_status[s]);
    fprintf(stderr, ", untold %lu; %lu panics\n", (unsigned long)uncounted,
            (unsigned long)mixed->panics);
}

static void check_counters(const struct mixed *mixed)
{
    lanex_counters counters = {.size = sizeof counters};

    lx_test_at_rest(mixed->executor);
    cr_assert_eq(lanex_executor_counters(mixed->executor, &counters), 0);
    cr_assert_eq(counters.actors, ACTORS);
    cr_assert_eq(counters.panicked, mixed->panics);
    /* Each job ran to its end or was answered without. */
    cr_assert_eq(counters.completed[0] + counters.completed[1] + counters.refused[0] +
                     counters.refused[1],
                 mixed->jobs);
    fprintf(stderr,
            "[----] %lu turns, %lu by the scheduler; %lu wakes, %lu in vain; %lu ring messages; "
            "%lu job slots\n",
            (unsigned long)counters.turns, (unsigned long)counters.turns_by_scheduler,
            (unsigned long)counters.wakes, (unsigned long)counters.wakes_without_work,
            (unsigned long)counters.ring_messages, (unsigned long)counters.jobs_allocated);
}

/* ---- one round ---- */

static void open_books(struct mixed *mixed)
{
    mixed->seen = calloc(mixed->jobs, 1);
    mixed->status = calloc(mixed->jobs, 1);
    mixed->ran = calloc(mixed->jobs, 1);
    mixed->flags = calloc(mixed->jobs, 1);
    cr_assert(mixed->seen && mixed->status && mixed->ran && mixed->flags);
}

static void close_books(struct mixed *mixed)
{
    free((void *)mixed->seen);
    free((void *)mixed->status);
    free((void *)mixed->ran);
    free((void *)mixed->flags);
}

static void run(struct mixed *mixed, struct lx_rng *rng)
{
    static struct submitter submitters[SUBMITTERS];

    for (unsigned i = 0; i < SUBMITTERS; i++) {
        submitters[i] = (struct submitter){.mixed = mixed, .rng = lx_rng_seeded(lx_rng_next(rng))};
        cr_assert_eq(pthread_create(&submitters[i].thread, NULL, submit_all, &submitters[i]), 0);
    }
    for (unsigned i = 0; i < SUBMITTERS; i++)
        pthread_join(submitters[i].thread, NULL);
    LX_EVENTUALLY(atomic_load(&mixed->outstanding) == 0);
}

static void one_round(uint64_t jobs, uint64_t seed, unsigned pool)
{
    static struct mixed mixed;
    struct lx_rng rng = lx_rng_seeded(seed);
    uint64_t start = lx_test_now_ns();

    memset(&mixed, 0, sizeof mixed);
    mixed.executor = lx_test_executor(pool);
    mixed.jobs = jobs;
    mixed.seed = seed;
    open_books(&mixed);
    for (unsigned i = 0; i < ACTORS; i++) {
        pthread_mutex_init(&mixed.slots[i].mutex, NULL);
        register_slot(&mixed, i);
    }
    mixed_start_answerer(&mixed);
    mixed_start_receivers(&mixed);
    run(&mixed, &rng);
    cr_assert_eq(lanex_executor_drain(mixed.executor, LANEX_TIME_NEVER, NULL), 0);
    atomic_store(&mixed.stop, true);
    mixed_stop_answerer(&mixed);
    mixed_stop_receivers(&mixed);
    fprintf(stderr, "[----] %.2f s\n", (double)(lx_test_now_ns() - start) / 1e9);
    check_counters(&mixed);
    for (unsigned i = 0; i < ACTORS; i++) {
        lanex_actor_unref(mixed.slots[i].actor);
        pthread_mutex_destroy(&mixed.slots[i].mutex);
    }
    cr_assert_eq(lanex_executor_destroy(mixed.executor), 0);
    check_books(&mixed);
    cr_assert_eq(mixed.live_data, 0, "response data leaked or destroyed twice");
    cr_assert_eq(mixed.live_contexts, 0);
    close_books(&mixed);
}

static uint64_t jobs_wanted(void)
{
    const char *text = getenv("LANEX_STRESS_JOBS");

    return text != NULL ? strtoull(text, NULL, 10) : lx_test_scaled(JOBS);
}

Test(mixed, each_job_gets_one_completion)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t end = lx_test_now_ns() + lx_test_soak_seconds() * UINT64_C(1000000000);

    do
        one_round(jobs_wanted(), lx_rng_next(&rng), (unsigned)lx_rng_between(&rng, 2, 8));
    while (lx_test_now_ns() < end);
}

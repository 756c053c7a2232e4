/* The load of the mixed test: random users who submit, cancel, renew and retire actors. */
#include "mixed.h"

#include <errno.h>
#include <sched.h>

#define AT_ONCE      4000u /* jobs under way at most */
#define TICKETS      32u   /* tickets that a submitter keeps */
#define RECENT       64u   /* numbers that it cancels among */
#define BATCH        8u
#define DEADLINES_NS 2000000u /* deadlines lie up to so far ahead */

struct ticket_at {
    lanex_ticket *ticket;
    uint64_t number;
};

struct mixed_submitter {
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

/* Under the slot's mutex, or before there are threads. False only for lack of memory. */
static bool register_slot(struct mixed *mixed, unsigned number)
{
    struct slot *slot = &mixed->slots[number];
    struct context *context = calloc(1, sizeof *context);
    lanex_actor_options options = {.size = sizeof options,
                                   .context = context,
                                   .context_release = release_context,
                                   .weight = number % 3};
    lanex_actor *actor;
    int rc = -ENOMEM;

    if (context != NULL) {
        context->mixed = mixed;
        atomic_fetch_add(&mixed->live_contexts, 1);
        rc = lanex_actor_register(mixed->executor, &number, sizeof number, &options, &actor);
    }
    if (rc == -ENOMEM && mixed->options.memory_may_lack) {
        if (context != NULL)
            release_context(context);
        return false;
    }
    LX_REQUIRE(rc == 1);
    lanex_actor_unref(slot->actor);
    slot->actor = actor;
    atomic_store(&slot->fatal, false);
    return true;
}

/* Without memory the key stays free and the old handle in place: renewed the next time. */
static void register_anew(struct mixed *mixed, unsigned number)
{
    struct slot *slot = &mixed->slots[number];

    slot->free = !register_slot(mixed, number);
    if (slot->free)
        atomic_store(&slot->fatal, true);
}

static void renew_slot(struct mixed *mixed, unsigned number)
{
    struct slot *slot = &mixed->slots[number];

    pthread_mutex_lock(&slot->mutex);
    LX_REQUIRE(lanex_actor_remove(mixed->executor, &number, sizeof number) ==
               (slot->free ? -ENOENT : 0));
    register_anew(mixed, number);
    pthread_mutex_unlock(&slot->mutex);
}

/* Retiring is refused while anything of the actor is under way. */
static void try_retire(struct mixed *mixed, unsigned number)
{
    struct slot *slot = &mixed->slots[number];
    int rc;

    pthread_mutex_lock(&slot->mutex);
    rc = lanex_actor_retire(mixed->executor, &number, sizeof number);
    LX_REQUIRE(rc == 0 || rc == -EBUSY || (rc == -ENOENT && slot->free));
    if (rc == 0)
        register_anew(mixed, number);
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

static void choose(struct mixed_submitter *submitter, uint64_t number, lanex_job_options *options)
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

static void choose_sink(struct mixed_submitter *submitter, uint64_t number, lanex_sink *sink)
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

/* Before submit, so that the completion finds it. */
static void expect_completion(struct mixed *mixed, uint64_t number)
{
    if ((atomic_load(&mixed->flags[number]) & FLAG_UNCOUNTED) == 0)
        atomic_fetch_add(&mixed->outstanding, 1);
}

/*
 * True if submit took what it was given. Without memory it is tried again until it does: what was
 * refused must have left nothing behind.
 */
static bool was_taken(struct mixed *mixed, int rc)
{
    if (rc == 0)
        return true;
    LX_REQUIRE(rc == -ENOMEM && mixed->options.memory_may_lack);
    atomic_fetch_add(&mixed->refusals, 1);
    sched_yield();
    return false;
}

static void settle_oldest_ticket(struct mixed_submitter *submitter)
{
    struct ticket_at *at = &submitter->tickets[submitter->first_ticket % TICKETS];

    LX_REQUIRE(lanex_ticket_wait(at->ticket, LANEX_TIME_NEVER) == 0);
    mixed_book_completion(submitter->mixed, lanex_ticket_completion(at->ticket));
    lanex_ticket_drop(at->ticket);
    submitter->first_ticket++;
    submitter->ticket_count--;
}

static void submit_with_ticket(struct mixed_submitter *submitter, lanex_actor *actor,
                               uint64_t number, lanex_job_options *options)
{
    struct mixed *mixed = submitter->mixed;
    bool dropped = lx_rng_percent(&submitter->rng, 20);
    lanex_ticket *ticket;

    if (dropped)
        atomic_fetch_or(&mixed->flags[number], FLAG_UNCOUNTED);
    expect_completion(mixed, number);
    while (!was_taken(mixed, lanex_submit_ticket(actor, options, &ticket)))
        ;
    if (dropped) {
        lanex_ticket_drop(ticket);
        return;
    }
    if (submitter->ticket_count == TICKETS)
        settle_oldest_ticket(submitter);
    submitter->tickets[(submitter->first_ticket + submitter->ticket_count++) % TICKETS] =
        (struct ticket_at){ticket, number};
}

static void remember(struct mixed_submitter *submitter, uint64_t job, uint64_t number)
{
    submitter->recent[submitter->submitted % RECENT].job = job;
    submitter->recent[submitter->submitted % RECENT].number = number;
    submitter->submitted++;
}

static void submit_one(struct mixed_submitter *submitter, uint64_t number)
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
        expect_completion(mixed, number);
        while (!was_taken(mixed, lanex_submit(actor, &options, &job)))
            ;
        remember(submitter, job, number);
    }
    lanex_actor_unref(actor);
}

static void submit_batch(struct mixed_submitter *submitter, uint64_t first)
{
    struct mixed *mixed = submitter->mixed;
    lanex_job_options options[BATCH];
    lanex_submission batch[BATCH];
    uint64_t jobs[BATCH];

    for (unsigned i = 0; i < BATCH; i++) {
        choose(submitter, first + i, &options[i]);
        choose_sink(submitter, first + i, &options[i].sink);
        expect_completion(mixed, first + i);
        batch[i] =
            (lanex_submission){take_actor(mixed, (unsigned)((first + i) % ACTORS)), &options[i]};
    }
    while (!was_taken(mixed, lanex_submit_batch(batch, BATCH, jobs)))
        ;
    for (unsigned i = 0; i < BATCH; i++) {
        lanex_actor_unref(batch[i].actor);
        remember(submitter, jobs[i], first + i);
    }
}

static void cancel_some(struct mixed_submitter *submitter)
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

static void disturb(struct mixed_submitter *submitter)
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
    struct mixed_submitter *submitter = arg;
    struct mixed *mixed = submitter->mixed;

    for (;;) {
        bool batch = lx_rng_percent(&submitter->rng, 5);
        uint64_t first = atomic_fetch_add(&mixed->next, batch ? BATCH : 1);

        if (first >= mixed->options.jobs)
            break;
        if (mixed->options.before_job != NULL)
            mixed->options.before_job(mixed->options.arg, first);
        if (batch && first + BATCH <= mixed->options.jobs) {
            submit_batch(submitter, first);
        } else {
            for (uint64_t n = first; n < mixed->options.jobs && n < first + (batch ? BATCH : 1);
                 n++)
                submit_one(submitter, n);
        }
        disturb(submitter);
        while (atomic_load(&mixed->outstanding) > AT_ONCE)
            sched_yield();
    }
    while (submitter->ticket_count > 0)
        settle_oldest_ticket(submitter);
    atomic_fetch_sub(&mixed->submitting, 1);
    return NULL;
}

/* ---- from begin to end ---- */

void mixed_begin(struct mixed *mixed, const struct mixed_options *options)
{
    struct lx_rng rng = lx_rng_seeded(options->seed);

    memset(mixed, 0, sizeof *mixed);
    mixed->options = *options;
    LX_REQUIRE(lanex_executor_create(&options->executor, &mixed->executor) == 0);
    mixed_open_books(mixed);
    for (unsigned i = 0; i < ACTORS; i++) {
        pthread_mutex_init(&mixed->slots[i].mutex, NULL);
        LX_REQUIRE(register_slot(mixed, i));
    }
    mixed_start_answerer(mixed);
    mixed_start_receivers(mixed);
    mixed->submitters = calloc(options->submitters, sizeof *mixed->submitters);
    LX_REQUIRE(mixed->submitters != NULL);
    atomic_store(&mixed->submitting, options->submitters);
    for (unsigned i = 0; i < options->submitters; i++) {
        struct mixed_submitter *at = &mixed->submitters[i];
        *at = (struct mixed_submitter){.mixed = mixed, .rng = lx_rng_seeded(lx_rng_next(&rng))};
        LX_REQUIRE(pthread_create(&at->thread, NULL, submit_all, at) == 0);
    }
}

bool mixed_goes_on(struct mixed *mixed)
{
    return atomic_load(&mixed->submitting) > 0;
}

void mixed_end(struct mixed *mixed)
{
    for (unsigned i = 0; i < mixed->options.submitters; i++)
        pthread_join(mixed->submitters[i].thread, NULL);
    LX_EVENTUALLY(atomic_load(&mixed->outstanding) == 0);
    LX_REQUIRE(lanex_executor_drain(mixed->executor, LANEX_TIME_NEVER, NULL) == 0);
    atomic_store(&mixed->stop, true);
    mixed_stop_answerer(mixed);
    mixed_stop_receivers(mixed);
    for (unsigned i = 0; i < ACTORS; i++) {
        if (mixed->slots[i].free)
            renew_slot(mixed, i);
    }
    mixed_check_counters(mixed);
    for (unsigned i = 0; i < ACTORS; i++) {
        lanex_actor_unref(mixed->slots[i].actor);
        pthread_mutex_destroy(&mixed->slots[i].mutex);
    }
    LX_REQUIRE(lanex_executor_destroy(mixed->executor) == 0);
    mixed_check_books(mixed);
    mixed_close_books(mixed);
    free(mixed->submitters);
}

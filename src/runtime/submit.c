/*
 * Submission: check the options, make the job, push it, try the seat. Runs no user code and never
 * waits.
 */
#include <errno.h>
#include <string.h>

#include "runtime/actor.h"
#include "runtime/executor.h"
#include "runtime/port.h"
#include "runtime/probe.h"
#include "runtime/ring_sink.h"
#include "sync/assert.h"
#include "sync/seams.h"

_Static_assert(LANEX_REQUEST_ID_MAX <= LX_PROBE_MAX && LANEX_LABEL_MAX <= LX_PROBE_MAX,
               "a text is probed by its ends");

static bool length_ok(const char *text, size_t length, size_t max)
{
    if (text == NULL)
        return length == 0;
    if (length == 0)
        return strnlen(text, max + 1) <= max;
    if (length > max)
        return false;
    lx_probe(text, length);
    return true;
}

/*
 * Ports, rings and tokens are probed (probe.h) through a word that is atomic: others write to them.
 */
static int check_sink(const lanex_sink *sink, bool ticket)
{
    if (sink->kind == LANEX_SINK_PORT && sink->port != NULL)
        (void)atomic_load_explicit(&sink->port->expected, memory_order_relaxed);
    if (sink->kind == LANEX_SINK_RING && sink->ring != NULL)
        (void)atomic_load_explicit(&sink->ring->refs, memory_order_relaxed);
    if (sink->reserved != 0)
        return -EINVAL;
    switch (sink->kind) {
    case LANEX_SINK_NONE:
        return 0;
    case LANEX_SINK_TICKET:
        return ticket ? 0 : -EINVAL;
    case LANEX_SINK_PORT:
        return sink->port != NULL && !ticket ? 0 : -EINVAL;
    case LANEX_SINK_RING:
        return sink->ring != NULL ? 0 : -EINVAL;
    case LANEX_SINK_CALLBACK:
        return sink->callback != NULL && !ticket ? 0 : -EINVAL;
    default:
        return -EINVAL;
    }
}

static int check_options(const lanex_job_options *options, bool ticket)
{
    if (options == NULL || options->size != sizeof *options || options->run == NULL ||
        options->job_class >= LX_CLASSES || options->lane >= LX_LANES ||
        options->cost > LANEX_COST_MAX || options->coalesce_key > LANEX_COALESCE_KEY_MAX ||
        (options->flags & ~(uint32_t)(LANEX_JOB_CANCELLABLE | LANEX_JOB_CONFIGURE)) != 0 ||
        options->reserved != 0)
        return -EINVAL;
    if (options->install != NULL && options->lane != LANEX_LANE_HEAVY_INIT)
        return -EINVAL;
    if (!length_ok(options->request_id, options->request_id_length, LANEX_REQUEST_ID_MAX) ||
        !length_ok(options->label, options->label_length, LANEX_LABEL_MAX))
        return -EINVAL;
    if (options->cancellation != NULL)
        (void)lx_cancellation_load(options->cancellation);
    return check_sink(&options->sink, ticket);
}

/* The sink's target must live until the delivery. */
static void hold_sink(struct lanex_job *job)
{
    switch (job->entry.sink_kind & LX_SINK_KIND_MASK) {
    case LANEX_SINK_PORT:
        lx_port_expect(job->target.port);
        break;
    case LANEX_SINK_RING:
        lanex_ring_ref(job->target.ring);
        break;
    default:
        break;
    }
}

static void unhold_sink(struct lanex_job *job)
{
    switch (job->entry.sink_kind & LX_SINK_KIND_MASK) {
    case LANEX_SINK_PORT:
        lx_port_unexpect(job->target.port);
        break;
    case LANEX_SINK_RING:
        lanex_ring_unref(job->target.ring);
        break;
    default:
        break;
    }
}

/*
 * Whether it may wait in the inbox until a job has ended (see seat.c): then it brings along since
 * when it is queued. Writers are counted at once, for lanex_writer_waiting.
 */
static bool may_lie(const struct lanex_executor *ex, struct lanex_job *job)
{
    struct lx_job_entry *entry = &job->entry;

    if (entry->actor == NULL || !lx_seat_is_full(ex, entry->actor) ||
        entry->job_class != LANEX_CLASS_INTERACTIVE || entry->lane == LANEX_LANE_MUTATING ||
        entry->extra != NULL || (entry->flags & LX_JOB_FLAG_CANCELLED) != 0 ||
        atomic_load_explicit(&lx_actor_of(entry->actor)->refuses, memory_order_relaxed))
        return false;
    entry->since_ns = lx_seams.now_coarse_ns();
    entry->flags |= LX_JOB_FLAG_SINCE;
    return true;
}

static int push_job(struct lanex_executor *ex, struct lanex_job *job)
{
    const struct lx_actor_entry *actor = job->entry.actor; /* the caller holds it */
    bool lies = may_lie(ex, job);

    hold_sink(job);
    if (!lx_inbox_push(&ex->inbox, (struct lx_inbox_node *)job, LX_EVENT_SUBMIT)) {
        unhold_sink(job);
        lx_job_discard(job);
        return -ESHUTDOWN;
    }
    if (!lies || !lx_seat_leave_lying(ex, actor))
        lx_seat_notify(ex);
    return 0;
}

/* The number is told before the push: the job may be over, and the caller told of that, before the
 * push returns. */
static int push_numbered(struct lanex_executor *ex, struct lanex_job *job, uint64_t *ret_number)
{
    uint64_t unset;
    int rc;

    if (ret_number == NULL)
        return push_job(ex, job);
    unset = *ret_number;
    *ret_number = atomic_load_explicit(&job->number, memory_order_relaxed);
    rc = push_job(ex, job);
    if (rc < 0)
        *ret_number = unset;
    return rc;
}

/* After an error *ret_job means nothing. */
static int submit(struct lanex_actor *actor, const lanex_job_options *options, bool ticket,
                  uint64_t *ret_number, struct lanex_job **ret_job)
{
    struct lanex_job *job;
    int rc;

    if (actor == NULL)
        return -EINVAL;
    rc = lx_executor_check(actor->executor);
    if (rc == 0)
        rc = check_options(options, ticket);
    if (rc == 0)
        rc = lx_job_create(actor->executor, actor, options, ticket, &job);
    if (rc != 0)
        return rc;
    if (ret_job != NULL)
        *ret_job = job;
    return push_numbered(actor->executor, job, ret_number);
}

int lanex_submit(lanex_actor *actor, const lanex_job_options *options, uint64_t *ret_job)
{
    return submit(actor, options, false, ret_job, NULL);
}

int lanex_submit_ticket(lanex_actor *actor, const lanex_job_options *options,
                        lanex_ticket **ret_ticket)
{
    struct lanex_job *job;
    int rc;

    if (ret_ticket == NULL)
        return -EINVAL;
    rc = submit(actor, options, true, NULL, &job);
    if (rc == 0)
        *ret_ticket = (lanex_ticket *)job;
    return rc;
}

int lanex_submit_by_key(lanex_executor *executor, const void *key, size_t key_length,
                        const lanex_job_options *options, uint64_t *ret_job)
{
    lanex_actor *actor;
    struct lanex_job *job;
    int rc = lanex_actor_lookup(executor, key, key_length, &actor);

    if (rc == 0) {
        rc = submit(actor, options, false, ret_job, NULL);
        lanex_actor_unref(actor);
        return rc;
    }
    if (rc != -ENOENT)
        return rc;
    /* Answered through the turn like every refusal, so that it keeps its place among the caller's
     * others. */
    rc = check_options(options, false);
    if (rc == 0)
        rc = lx_job_create(executor, NULL, options, false, &job);
    if (rc != 0)
        return rc;
    return push_numbered(executor, job, ret_job);
}

static int check_batch(const lanex_submission *submissions, size_t count)
{
    struct lanex_executor *ex;

    if (submissions == NULL || submissions[0].actor == NULL)
        return -EINVAL;
    ex = submissions[0].actor->executor;
    for (size_t i = 0; i < count; i++) {
        int rc;
        if (submissions[i].actor == NULL || submissions[i].actor->executor != ex)
            return -EINVAL;
        rc = check_options(submissions[i].options, false);
        if (rc < 0)
            return rc;
    }
    return lx_executor_check(ex);
}

/* Takes a chain apart again that was never pushed. */
static void discard_chain(uintptr_t link)
{
    while (link != LX_INBOX_EMPTY) {
        struct lx_inbox_node *node = lx_inbox_node_of(link);
        link = node->next;
        unhold_sink((struct lanex_job *)node);
        lx_job_discard((struct lanex_job *)node);
    }
}

/*
 * Numbers are told before the push: once pushed, the jobs belong to the turn. They stand in
 * since_ns, which the turn sets later, and change places with what was in ret_jobs; a second swap
 * leaves all as it was.
 */
static void swap_numbers(uintptr_t newest, size_t count, uint64_t *ret_jobs)
{
    uintptr_t link = newest;

    if (ret_jobs == NULL)
        return;
    for (size_t i = count; i-- > 0; link = lx_inbox_node_of(link)->next) {
        struct lanex_job *job = (struct lanex_job *)lx_inbox_node_of(link);
        uint64_t before = ret_jobs[i];

        ret_jobs[i] = job->entry.since_ns;
        job->entry.since_ns = before;
    }
}

int lanex_submit_batch(const lanex_submission *submissions, size_t count, uint64_t *ret_jobs)
{
    uintptr_t newest = LX_INBOX_EMPTY;
    struct lx_inbox_node *oldest = NULL;
    struct lanex_executor *ex;
    bool was_empty;
    int rc;

    if (count == 0)
        return 0;
    if (count > LANEX_BATCH_MAX)
        return -E2BIG;
    rc = check_batch(submissions, count);
    if (rc < 0)
        return rc;
    ex = submissions[0].actor->executor;
    for (size_t i = 0; i < count; i++) {
        struct lanex_job *job;

        rc = lx_job_create(ex, submissions[i].actor, submissions[i].options, false, &job);
        if (rc < 0) {
            discard_chain(newest);
            return rc;
        }
        hold_sink(job);
        job->entry.since_ns = atomic_load_explicit(&job->number, memory_order_relaxed);
        ((struct lx_inbox_node *)job)->next = newest;
        newest = lx_inbox_link((struct lx_inbox_node *)job, LX_EVENT_SUBMIT);
        if (oldest == NULL)
            oldest = (struct lx_inbox_node *)job;
    }
    LX_ASSERT(oldest != NULL); /* count is not 0 */
    swap_numbers(newest, count, ret_jobs);
    if (!lx_inbox_push_chain(&ex->inbox, newest, oldest, &was_empty)) {
        oldest->next = LX_INBOX_EMPTY;
        swap_numbers(newest, count, ret_jobs);
        discard_chain(newest);
        return -ESHUTDOWN;
    }
    lx_seat_notify(ex);
    return 0;
}

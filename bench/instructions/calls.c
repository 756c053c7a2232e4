/*
 * Instructions per public call that submits, cancels or receives, on the caller's thread alone:
 * what is submitted queues while the workers are held.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab.h"

#define BATCH 50u
#define TAKE  100u

static lanex_ticket *tickets[LAB_CALLS];
static uint64_t numbers[LAB_CALLS];

static lanex_actor *actor(unsigned i)
{
    return lab_actors[i % LAB_ACTORS];
}

static void submit(const char *name, const lanex_job_options *options)
{
    lab_hold();
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        lab_check(lanex_submit(actor(i), options, &numbers[i]), name);
    lab_end(name, LAB_CALLS);
}

/* Twice, so that the slab has grown before it is counted. */
static void submit_twice(const char *name, const lanex_job_options *options)
{
    submit("warm-up", options);
    lab_release();
    submit(name, options);
    lab_release();
}

static void submits(void)
{
    lanex_job_options options = lab_job(LANEX_LANE_PURE_READ);

    submit_twice("submit-none", &options);
    options.request_id = "request-0123456789-abcde";
    submit_twice("submit-id-24", &options);
    options.label = "a command";
    options.flags = LANEX_JOB_CANCELLABLE;
    submit_twice("submit-id-label-token", &options);
    options = lab_job(LANEX_LANE_MUTATING);
    submit_twice("submit-writer", &options);
    options = lab_job(LANEX_LANE_PURE_READ);
    options.job_class = LANEX_CLASS_MAINTENANCE;
    submit_twice("submit-maintenance", &options);
    options = lab_job(LANEX_LANE_PURE_READ);
    options.deadline_ns = UINT64_MAX / 4;
    submit_twice("submit-deadline", &options);
    options = lab_counted_job(LANEX_LANE_PURE_READ);
    lab_count_from();
    submit_twice("submit-callback", &options);
}

static void submit_by_key(void)
{
    lanex_job_options options = lab_job(LANEX_LANE_PURE_READ);
    const void *keys[LAB_ACTORS];
    size_t length = 0;

    for (unsigned i = 0; i < LAB_ACTORS; i++)
        keys[i] = lanex_actor_key(lab_actors[i], &length); /* all of one length */
    lab_hold();
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        lab_check(lanex_submit_by_key(lab_executor, keys[i % LAB_ACTORS], length, &options, NULL),
                  "submit_by_key");
    lab_end("submit-by-key", LAB_CALLS);
    lab_release();
}

static void submit_batch(void)
{
    lanex_job_options options = lab_job(LANEX_LANE_PURE_READ);
    lanex_submission batch[BATCH];

    for (unsigned i = 0; i < BATCH; i++)
        batch[i] = (lanex_submission){.actor = actor(i), .options = &options};
    lab_hold();
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i += BATCH)
        lab_check(lanex_submit_batch(batch, BATCH, NULL), "submit_batch");
    lab_end("submit-batch-of-50", LAB_CALLS);
    lab_release();
}

static void use_tickets(void)
{
    lanex_job_options options = lab_job(LANEX_LANE_PURE_READ);

    lab_hold();
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        lab_check(lanex_submit_ticket(actor(i), &options, &tickets[i]), "submit_ticket");
    lab_end("submit-ticket", LAB_CALLS);
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        lab_check(lanex_ticket_poll(tickets[i]), "ticket_poll");
    lab_end("ticket-poll", LAB_CALLS);
    lab_release();
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        lab_check(lanex_ticket_wait(tickets[i], LANEX_TIME_NEVER), "ticket_wait");
    lab_end("ticket-wait-done", LAB_CALLS);
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        lanex_ticket_drop(tickets[i]);
    lab_end("ticket-drop", LAB_CALLS);
}

static void use_port(void)
{
    lanex_job_options options = lab_job(LANEX_LANE_PURE_READ);
    lanex_completion *taken[LAB_CALLS];
    lanex_port *port;

    lab_check(lanex_port_create(lab_executor, NULL, &port), "port_create");
    options.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
    lab_hold();
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        lab_check(lanex_submit(actor(i), &options, NULL), "submit");
    lab_end("submit-port", LAB_CALLS);
    lab_release();
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i += TAKE)
        if (lanex_port_drain(port, &taken[i], TAKE) != (int)TAKE)
            lab_check(-EPROTO, "port_drain");
    lab_end("port-drain-of-100", LAB_CALLS);
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        lanex_completion_release(taken[i]);
    lab_end("completion-release", LAB_CALLS);
    lanex_port_unref(port);
}

static void expect(int outcome, int wanted, const char *what)
{
    if (outcome != wanted) {
        fprintf(stderr, "bench-instructions: %s: %d instead of %d\n", what, outcome, wanted);
        exit(1);
    }
}

/* Backwards: each from the end of its actor's queue. */
static void cancel(void)
{
    lanex_job_options options = lab_job(LANEX_LANE_PURE_READ);

    submit("warm-up", &options);
    lab_begin();
    for (unsigned i = LAB_CALLS; i-- > 0;)
        expect(lanex_cancel(lab_executor, numbers[i]), LANEX_CANCEL_QUEUED_REMOVED, "cancel");
    lab_end("cancel-queued", LAB_CALLS);
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        expect(lanex_cancel(lab_executor, numbers[i]), LANEX_CANCEL_NOT_FOUND, "cancel");
    lab_end("cancel-gone", LAB_CALLS);
    lab_release();
}

static void use_tokens(void)
{
    static lanex_cancellation *tokens[LAB_CALLS];

    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        lab_check(lanex_cancellation_create(&tokens[i]), "cancellation_create");
    lab_end("token-create", LAB_CALLS);
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        lab_check(lanex_cancellation_cancel(tokens[i]), "cancellation_cancel");
    lab_end("token-cancel", LAB_CALLS);
    lab_begin();
    for (unsigned i = 0; i < LAB_CALLS; i++)
        lanex_cancellation_unref(tokens[i]);
    lab_end("token-unref", LAB_CALLS);
}

void lab_calls(void)
{
    submits();
    submit_by_key();
    submit_batch();
    use_tickets();
    use_port();
    cancel();
    use_tokens();
}

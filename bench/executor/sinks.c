/*
 * W10 sinks: W1 and W3 for each sink of lanex, the receiver in a real loop: the submitting thread
 * submits until 4096 jobs are outstanding, receives what there is (sleeping if there is nothing),
 * and goes on.
 *
 *   callback   counted on the workers, as in W1; receives when half of them are back
 *   ticket     waits for the oldest ticket and drops it
 *   port       a port whose eventfd an epoll loop waits for
 *   port-ring  a port whose doorbell is a message into the receiver's io_uring (DEFER_TASKRUN)
 *   cqe        a CQE per job in that io_uring; the response is taken from its ticket
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "bench.h"
#include "executor.h"
#include "futex.h"
#include "meter.h"
#include "report.h"
#include "stream.h"
#include "ticks.h"

#define JOBS        2000000
#define JOBS_QUICK  400000
#define TRIPS       50000
#define TRIPS_QUICK 10000
#define TAKE        256u  /* completions of one drain */
#define RING_SQ     64u   /* entries; nothing is submitted through it */
#define RING_CQ     8192u /* entries: more than a window */
#define DOORBELL    1u    /* user_data of the port's messages */

struct sink;

/* The receiver; members by sink. */
struct receiver {
    const struct sink *sink;
    lanex_job_options options;
    uint64_t base; /* callback: completions before */
    uint64_t sent, received;
    lanex_ticket **tickets; /* ticket: by number of the job; cqe: by slot */
    uint16_t *slots;        /* cqe: the free ones, a stack; a CQE's user_data is its job's slot */
    unsigned free;
    lanex_port *port;
    lanex_ring *ring;
    struct io_uring uring;
    int epoll;
};

struct sink {
    const char *name;
    void (*open)(struct receiver *receiver);
    void (*close)(struct receiver *receiver);
    void (*submit)(struct receiver *receiver, lanex_actor *actor);
    /* Takes at least one completion, sleeping if there is none. */
    void (*receive)(struct receiver *receiver);
};

static void body(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void submit_plain(struct receiver *receiver, lanex_actor *actor)
{
    bench_check(lanex_submit(actor, &receiver->options, NULL), "submit");
}

static void submit_with_ticket(struct receiver *receiver, lanex_actor *actor)
{
    lanex_ticket **ticket = &receiver->tickets[receiver->sent % BENCH_WINDOW];

    bench_check(lanex_submit_ticket(actor, &receiver->options, ticket), "submit_ticket");
}

static void check_completion(lanex_completion *completion)
{
    if (completion == NULL || lanex_completion_status(completion) != LANEX_STATUS_OK)
        bench_die("a job did not end well", EPROTO);
}

/* ---- callback ---- */

static void count(lanex_completion *completion, void *arg)
{
    (void)completion;
    (void)arg;
    bench_meter_add(0);
}

static void open_callback(struct receiver *receiver)
{
    receiver->base = bench_meter_sum(0);
    receiver->options.sink = (lanex_sink){.kind = LANEX_SINK_CALLBACK, .callback = count};
}

static void receive_callback(struct receiver *receiver)
{
    uint64_t outstanding = receiver->sent - receiver->received;
    uint64_t half = (outstanding + 1) / 2;

    bench_meter_wait(0, receiver->base + receiver->received + half, outstanding - half);
    receiver->received = bench_meter_sum(0) - receiver->base;
}

/* ---- ticket ---- */

static void open_tickets(struct receiver *receiver)
{
    receiver->tickets = calloc(BENCH_WINDOW, sizeof(lanex_ticket *));
    if (receiver->tickets == NULL)
        bench_die("tickets", ENOMEM);
    receiver->options.sink = (lanex_sink){.kind = LANEX_SINK_TICKET};
}

static void close_tickets(struct receiver *receiver)
{
    free(receiver->tickets);
}

static void receive_ticket(struct receiver *receiver)
{
    lanex_ticket *ticket = receiver->tickets[receiver->received++ % BENCH_WINDOW];

    bench_check(lanex_ticket_wait(ticket, LANEX_TIME_NEVER), "ticket_wait");
    check_completion(lanex_ticket_completion(ticket));
    lanex_ticket_drop(ticket);
}

/* ---- port ---- */

static void drain(struct receiver *receiver)
{
    lanex_completion *taken[TAKE];
    int n;

    do {
        n = bench_check(lanex_port_drain(receiver->port, taken, TAKE), "port_drain");
        for (int i = 0; i < n; i++) {
            check_completion(taken[i]);
            lanex_completion_release(taken[i]);
        }
        receiver->received += (uint64_t)n;
    } while (n == (int)TAKE);
}

static void open_port(struct receiver *receiver)
{
    struct epoll_event event = {.events = EPOLLIN};

    bench_check(lanex_port_create(bench_executor, NULL, &receiver->port), "port_create");
    receiver->options.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = receiver->port};
    receiver->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (receiver->epoll < 0 ||
        epoll_ctl(receiver->epoll, EPOLL_CTL_ADD, lanex_port_fd(receiver->port), &event) != 0)
        bench_die("epoll", errno);
}

static void close_port(struct receiver *receiver)
{
    close(receiver->epoll);
    lanex_port_unref(receiver->port);
}

static void receive_port(struct receiver *receiver)
{
    struct epoll_event event;

    if (epoll_wait(receiver->epoll, &event, 1, -1) < 0 && errno != EINTR)
        bench_die("epoll_wait", errno);
    drain(receiver);
}

/* ---- the receiver's own ring ---- */

static void open_ring(struct receiver *receiver)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = RING_CQ,
    };
    int rc = io_uring_queue_init_params(RING_SQ, &receiver->uring, &params);

    bench_check(rc, "io_uring");
    bench_check(lanex_ring_attach(bench_executor, receiver->uring.ring_fd, &receiver->ring),
                "ring_attach");
}

static void close_ring(struct receiver *receiver)
{
    lanex_ring_unref(receiver->ring);
    io_uring_queue_exit(&receiver->uring);
}

static void wait_ring(struct receiver *receiver)
{
    int rc = io_uring_submit_and_wait(&receiver->uring, 1);

    if (rc < 0 && rc != -EINTR)
        bench_die("submit_and_wait", rc);
}

static void open_port_ring(struct receiver *receiver)
{
    lanex_port_options options = {.size = sizeof options, .doorbell = LANEX_DOORBELL_RING};

    open_ring(receiver);
    options.ring = receiver->ring;
    options.ring_user_data = DOORBELL;
    bench_check(lanex_port_create(bench_executor, &options, &receiver->port), "port_create");
    receiver->options.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = receiver->port};
}

static void close_port_ring(struct receiver *receiver)
{
    lanex_port_unref(receiver->port);
    close_ring(receiver);
}

static void receive_port_ring(struct receiver *receiver)
{
    wait_ring(receiver);
    io_uring_cq_advance(&receiver->uring, io_uring_cq_ready(&receiver->uring));
    drain(receiver);
}

static void open_cqe(struct receiver *receiver)
{
    open_tickets(receiver);
    open_ring(receiver);
    receiver->slots = calloc(BENCH_WINDOW, sizeof *receiver->slots);
    if (receiver->slots == NULL)
        bench_die("slots", ENOMEM);
    for (receiver->free = 0; receiver->free < BENCH_WINDOW; receiver->free++)
        receiver->slots[receiver->free] = (uint16_t)receiver->free;
    receiver->options.sink = (lanex_sink){.kind = LANEX_SINK_RING, .ring = receiver->ring};
}

static void close_cqe(struct receiver *receiver)
{
    close_ring(receiver);
    close_tickets(receiver);
    free(receiver->slots);
}

static void submit_cqe(struct receiver *receiver, lanex_actor *actor)
{
    unsigned slot = receiver->slots[--receiver->free];

    receiver->options.sink.user_data = slot;
    bench_check(lanex_submit_ticket(actor, &receiver->options, &receiver->tickets[slot]),
                "submit_ticket");
}

static void receive_cqe(struct receiver *receiver)
{
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;

    wait_ring(receiver);
    io_uring_for_each_cqe(&receiver->uring, head, cqe)
    {
        lanex_ticket *ticket = receiver->tickets[cqe->user_data];
        check_completion(lanex_ticket_completion(ticket));
        lanex_ticket_drop(ticket);
        receiver->slots[receiver->free++] = (uint16_t)cqe->user_data;
        seen++;
    }
    io_uring_cq_advance(&receiver->uring, seen);
    receiver->received += seen;
}

/* ---- the two workloads ---- */

static void close_nothing(struct receiver *receiver)
{
    (void)receiver;
}

static const struct sink sinks[] = {
    {"callback", open_callback, close_nothing, submit_plain, receive_callback},
    {"ticket", open_tickets, close_tickets, submit_with_ticket, receive_ticket},
    {"port", open_port, close_port, submit_plain, receive_port},
    {"port-ring", open_port_ring, close_port_ring, submit_plain, receive_port_ring},
    {"cqe", open_cqe, close_cqe, submit_cqe, receive_cqe},
};

static void flood(struct receiver *receiver, lanex_actor *const *actors, uint64_t jobs)
{
    unsigned actor = 0;

    for (uint64_t i = 0; i < jobs; i++) {
        while (receiver->sent - receiver->received >= BENCH_WINDOW)
            receiver->sink->receive(receiver);
        receiver->sink->submit(receiver, actors[actor]);
        receiver->sent++;
        actor = actor + 1 == BENCH_ACTORS ? 0 : actor + 1;
    }
    while (receiver->received < receiver->sent)
        receiver->sink->receive(receiver);
}

static void begin_report(const struct sink *sink, struct bench_usage *usage)
{
    bench_usage_end(usage);
    bench_report_begin("sinks");
    bench_param_text("sink", sink->name);
    bench_param_real("other_cpus", usage->busy_s);
}

static void measure_flood(struct receiver *receiver, lanex_actor *const *actors)
{
    uint64_t jobs = (uint64_t)bench_jobs_wanted(JOBS, JOBS_QUICK);

    flood(receiver, actors, jobs / 20);
    for (unsigned rep = 0; rep < bench_options.reps; rep++) {
        struct bench_usage usage = bench_usage_begin();
        flood(receiver, actors, jobs);
        begin_report(receiver->sink, &usage);
        bench_param_int("rep", rep);
        bench_param_int("jobs", (long long)jobs);
        bench_report("jobs_per_s", (double)jobs / ((double)usage.wall_ns / 1e9), "1/s");
        bench_report("cpu_s_per_mjob", usage.cpu_s / ((double)jobs / 1e6), "s");
    }
}

static void measure_trips(struct receiver *receiver, lanex_actor *actor)
{
    long trips = bench_options.quick ? TRIPS_QUICK : TRIPS, kept = 0;
    uint32_t *ticks = malloc((size_t)trips * sizeof *ticks);
    struct bench_usage usage = {0};

    if (ticks == NULL)
        bench_die("latencies", ENOMEM);
    for (long i = -trips / 20; i < trips; i++) {
        uint64_t begin = bench_ticks();
        if (i == 0)
            usage = bench_usage_begin();
        receiver->sink->submit(receiver, actor);
        receiver->sent++;
        while (receiver->received < receiver->sent)
            receiver->sink->receive(receiver);
        if (i >= 0)
            ticks[kept++] = bench_ticks_short(bench_ticks() - begin);
    }
    begin_report(receiver->sink, &usage);
    bench_param_int("jobs", kept);
    bench_sort_ticks(ticks, kept);
    bench_report("p50", bench_rank_ns(ticks, kept, 0.50), "ns");
    bench_report("p99", bench_rank_ns(ticks, kept, 0.99), "ns");
    free(ticks);
}

static void measure_sink(const struct sink *sink, lanex_actor *const *actors)
{
    struct receiver receiver = {
        .sink = sink,
        .options = {.size = sizeof receiver.options, .run = body},
    };

    sink->open(&receiver);
    measure_flood(&receiver, actors);
    measure_trips(&receiver, actors[0]);
    sink->close(&receiver);
}

void bench_sinks(void)
{
    struct bench_actor **actors = bench_actors_new(BENCH_ACTORS, BENCH_NORMAL);
    lanex_actor *handles[BENCH_ACTORS];

    for (unsigned i = 0; i < BENCH_ACTORS; i++)
        handles[i] = (lanex_actor *)(void *)actors[i];
    for (unsigned i = 0; i < sizeof sinks / sizeof sinks[0]; i++) {
        bool needs_ring = sinks[i].open == open_port_ring || sinks[i].open == open_cqe;
        if (bench_options.sink != NULL && strcmp(bench_options.sink, sinks[i].name) != 0)
            continue;
        if (needs_ring && bench_options.backend != NULL &&
            strcmp(bench_options.backend, "poll") == 0)
            continue; /* -EOPNOTSUPP there */
        measure_sink(&sinks[i], handles);
    }
    bench_actors_free(actors, BENCH_ACTORS);
}

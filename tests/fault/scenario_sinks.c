/* What becomes of completions: tickets, ports with both doorbells, rings, callbacks, none. */
#include "scenario.h"

#include <poll.h>

#define MIXED      48u                   /* jobs, of each sink in turn */
#define BELL       UINT64_C(0x100000000) /* user_data of the doorbell; jobs have their number */
#define RING_WAITS 30                    /* seconds for a CQE; a hang else */

struct sinks {
    struct scenario *scenario;
    bool has_uring;
    struct io_uring uring;
    lanex_ring *ring;
    lanex_port *port, *ring_port; /* NULL: could not be had */
    lanex_ticket *tickets[MIXED];
    unsigned in_port, in_ring_port, in_ring; /* jobs whose answers are still to come */
};

/* ---- the caller's ring ---- */

static void open_targets(struct sinks *sinks)
{
    struct scenario *s = sinks->scenario;
    lanex_config config = {.size = sizeof config};

    LX_REQUIRE(lanex_executor_config(s->executor, &config) == 0);
    if (!SCENARIO_CALL(s, lanex_port_create(s->executor, NULL, &sinks->port)))
        LX_REQUIRE(sinks->port == NULL);
    if (config.backend != LANEX_BACKEND_RING)
        return;
    LX_REQUIRE(io_uring_queue_init(8, &sinks->uring, 0) == 0);
    sinks->has_uring = true;
    if (!SCENARIO_CALL(s, lanex_ring_attach(s->executor, sinks->uring.ring_fd, &sinks->ring))) {
        LX_REQUIRE(sinks->ring == NULL);
        return;
    }
    lanex_port_options options = {.size = sizeof options,
                                  .doorbell = LANEX_DOORBELL_RING,
                                  .ring = sinks->ring,
                                  .ring_user_data = BELL};
    if (!SCENARIO_CALL(s, lanex_port_create(s->executor, &options, &sinks->ring_port)))
        LX_REQUIRE(sinks->ring_port == NULL);
}

static void close_targets(struct sinks *sinks)
{
    lanex_port_unref(sinks->port);
    lanex_port_unref(sinks->ring_port);
    lanex_ring_unref(sinks->ring);
    if (sinks->has_uring)
        io_uring_queue_exit(&sinks->uring);
}

static unsigned drain(struct scenario *s, lanex_port *port)
{
    lanex_completion *taken[8];
    unsigned all = 0;
    int count = 8;

    while (count == 8) {
        errno = SCENARIO_ERRNO;
        count = lanex_port_drain(port, taken, 8);
        LX_REQUIRE(scenario_call(s, count, "lanex_port_drain"));
        for (int i = 0; i < count; i++) {
            struct scenario_job *job = lanex_completion_arg(taken[i]);
            atomic_fetch_add(&job->answers, 1);
            lanex_completion_release(taken[i]);
        }
        all += (unsigned)count;
    }
    return all;
}

/* Looks only when told, so that a bell that was not rung is found out. */
static void drain_when_rung(struct sinks *sinks)
{
    struct pollfd bell = {.fd = lanex_port_fd(sinks->port), .events = POLLIN};

    while (sinks->in_port > 0) {
        int rc = poll(&bell, 1, RING_WAITS * 1000);
        if (rc < 0 && errno == EINTR)
            continue;
        LX_REQUIRE(rc == 1);
        sinks->in_port -= drain(sinks->scenario, sinks->port);
    }
}

static void reap_ring(struct sinks *sinks)
{
    struct scenario *s = sinks->scenario;

    while (sinks->in_ring + sinks->in_ring_port > 0) {
        struct __kernel_timespec patience = {.tv_sec = RING_WAITS};
        struct io_uring_cqe *cqe = NULL;
        int rc = io_uring_wait_cqe_timeout(&sinks->uring, &cqe, &patience);

        if (rc == -EINTR)
            continue;
        if (rc != 0)
            lx_test_die(__FILE__, __LINE__, "%u and %u missing in the ring: %d", sinks->in_ring,
                        sinks->in_ring_port, rc);
        if (cqe->user_data == BELL) {
            sinks->in_ring_port -= drain(s, sinks->ring_port);
        } else {
            LX_REQUIRE(cqe->user_data < SCENARIO_JOBS && cqe->res == 0);
            atomic_fetch_add(&s->jobs[cqe->user_data].answers, 1);
            sinks->in_ring--;
        }
        io_uring_cqe_seen(&sinks->uring, cqe);
    }
}

/* ---- the jobs ---- */

static void run_mixed(lanex_job *job, void *context, void *arg)
{
    struct scenario_job *mine = arg;
    struct scenario *s = mine->scenario;
    ptrdiff_t number = mine - s->jobs;

    scenario_count_run(job, context, arg);
    if (number % 6 != 4 && number % 7 == 6)
        SCENARIO_CALL(s, lanex_job_respond_error(job, "as_it_shall", "fails as it shall", false));
    else if (number == 11 || number == 23)
        lanex_panic("as it shall");
}

static void submit_ticket(struct sinks *sinks, unsigned i, struct scenario_job *job,
                          lanex_job_options *options)
{
    struct scenario *s = sinks->scenario;

    options->sink = (lanex_sink){.kind = LANEX_SINK_NONE};
    job->accepted =
        SCENARIO_CALL(s, lanex_submit_ticket(s->actors[i % 2], options, &sinks->tickets[i]));
    LX_REQUIRE(job->accepted == (sinks->tickets[i] != NULL));
}

static void submit_to(struct sinks *sinks, unsigned i, struct scenario_job *job,
                      lanex_job_options *options, unsigned *outstanding)
{
    struct scenario *s = sinks->scenario;

    if (scenario_submit(s, s->actors[i % 2], job, options, NULL) && outstanding != NULL)
        ++*outstanding;
}

static void submit_mixed(struct sinks *sinks, unsigned i)
{
    static const enum lanex_lane lanes[] = {LANEX_LANE_PURE_READ, LANEX_LANE_SERIAL_STATUS,
                                            LANEX_LANE_MUTATING, LANEX_LANE_HEAVY_INIT,
                                            LANEX_LANE_MAINTENANCE_COMMIT};
    struct scenario *s = sinks->scenario;
    lanex_job_options options;
    struct scenario_job *job = scenario_next(s, lanes[i % 5], run_mixed, &options);
    unsigned *outstanding = NULL;

    if (i % 5 == 4)
        options.job_class = LANEX_CLASS_MAINTENANCE;
    options.request_id = i % 2 == 0 ? "an id of twenty-four byte" : NULL;
    if (i % 6 == 0) {
        submit_ticket(sinks, i, job, &options);
        return;
    }
    if (i % 6 == 1 && sinks->port != NULL) {
        options.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = sinks->port};
        outstanding = &sinks->in_port;
    } else if (i % 6 == 2 && sinks->ring_port != NULL) {
        options.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = sinks->ring_port};
        outstanding = &sinks->in_ring_port;
    } else if (i % 6 == 3) {
        options.sink = (lanex_sink){.kind = LANEX_SINK_NONE};
        job->silent = true;
    } else if (i % 6 == 4 && sinks->ring != NULL) {
        options.sink =
            (lanex_sink){.kind = LANEX_SINK_RING, .ring = sinks->ring, .user_data = s->used - 1};
        outstanding = &sinks->in_ring;
    }
    submit_to(sinks, i, job, &options, outstanding);
}

void scenario_sinks(struct scenario *s)
{
    struct sinks sinks = {.scenario = s};

    LX_REQUIRE(s->used == 0);
    open_targets(&sinks);
    for (unsigned i = 0; i < MIXED; i++)
        submit_mixed(&sinks, i);
    for (unsigned i = 0; i < MIXED; i++) {
        if (sinks.tickets[i] == NULL)
            continue;
        LX_REQUIRE(SCENARIO_CALL(s, lanex_ticket_wait(sinks.tickets[i], LANEX_TIME_NEVER)));
        atomic_fetch_add(&s->jobs[i].answers, 1);
        lanex_ticket_drop(sinks.tickets[i]);
    }
    drain_when_rung(&sinks);
    reap_ring(&sinks);
    close_targets(&sinks);
}

/* A port that is detached gives back what is in it, and the rest is destroyed. */
void scenario_detach(struct scenario *s)
{
    lanex_port *port = NULL;
    struct scenario_job *jobs[3];
    lanex_job_options options;
    int count;

    if (!SCENARIO_CALL(s, lanex_port_create(s->executor, NULL, &port)))
        return;
    for (unsigned i = 0; i < 3; i++) {
        jobs[i] = scenario_next(s, LANEX_LANE_MUTATING, scenario_count_run, &options);
        options.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
        scenario_submit(s, s->actors[0], jobs[i], &options, NULL);
        LX_EVENTUALLY(!jobs[i]->accepted || atomic_load(&jobs[i]->ran) == 1);
    }
    errno = SCENARIO_ERRNO;
    count = lanex_port_detach(port);
    LX_REQUIRE(scenario_call(s, count, "lanex_port_detach"));
    LX_REQUIRE(drain(s, port) == (unsigned)count);
    for (unsigned i = 0; i < 3; i++) /* its end came after the port's */
        jobs[i]->silent = atomic_load(&jobs[i]->answers) == 0;
    lanex_port_unref(port);
}

/*
 * Users of the simulated world that check what they can see by themselves: each accepted job is
 * completed once, readers and writers stay apart, caps and reserves hold, serial lanes keep their
 * order, a promoted writer is not passed, contexts outlive their jobs, nothing waits for ever.
 */
#include <lanex/lanex.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/nap.h"
#include "sim.h"
#include "sync/seams.h"

#define ACTORS       3u
#define JOBS_MAX     (SIM_USERS_MAX * SIM_OPS_MAX)
#define CONTEXTS_MAX (JOBS_MAX + ACTORS)
#define LANES        5u
#define MS           UINT64_C(1000000)
#define CLOCK_SLACK  (15 * MS)  /* coarse steps, and a turn that has begun */
#define TURN_STEPS   20000u     /* within which the turn that takes a job runs, mostly */
#define NAP_MAX      (150 * MS) /* a door that sleeps beside its ring looks again by then */

enum kind { SUBMIT, CANCEL, REST, REPLACE, LOOK, KINDS };
enum conduct { PLAIN, YIELDS, SLEEPS, PANICS, DEFERS, ANSWERS, SEALS, LATER, CONDUCTS };
enum sink { TICKET, PORT, CALLBACK, NONE, RING_PORT, SINKS };

/* Settings (sim_scenario.set). */
enum setting { POOL, ACTOR_CAP, PERMITS, POLICY, DISPATCH, PROMOTION_MS, EARLY, QUEUE_CAP };

struct context {
    bool in_use, released;
    unsigned key;
    int readers, status, commits, reads, writers, heavy, running; /* bodies now */
    uint64_t last[SIM_USERS_MAX][2][LANES];
};

struct job {
    bool accepted, begun, over;
    bool may_be_dropped; /* it has a deadline, or somebody has asked to cancel it */
    unsigned completions, destroyed, user;
    uint32_t lane, job_class, conduct, sink;
    bool inside;  /* its body runs */
    bool removed; /* a cancel has said so */
    uint64_t sequence, at_ns, deadline_ns, number;
    struct context *context; /* known when it begins */
    lanex_actor *actor;
    lanex_ticket *ticket;
    unsigned bodies;
    uint64_t submit_no, begun_no; /* steps */
};

struct user {
    const struct sim_scenario *scenario;
    unsigned index, jobs;
    lanex_actor *actor[ACTORS];
    lanex_port *port, *ring_port;
    lanex_ring *ring;
    int ring_fd;
    unsigned expected, ring_expected, port_got, ring_got;
    struct job *job[SIM_OPS_MAX];
};

static struct world {
    lanex_executor *executor;
    lanex_config config;
    uint32_t pool, reserve;
    struct context context[CONTEXTS_MAX];
    struct job job[JOBS_MAX];
    unsigned jobs, contexts;
    int maintenance, heavy, bodies;
    struct sim_latch over; /* callbacks */
    unsigned callbacks;
    lanex_deferred *deferred[JOBS_MAX];
    unsigned deferred_count;
    struct sim_latch deferrals;
    bool ended;
    bool disturbed; /* actors were replaced or became fatal: jobs may be answered unrun */
    uint32_t faults;
    uint64_t sequence;
} w;

/* ---- bodies ---- */

static bool reads(uint32_t lane)
{
    return lane != LANEX_LANE_MUTATING && lane != LANEX_LANE_HEAVY_INIT;
}

static void check_inside(const struct context *c)
{
    SIM_CHECK(!c->released);
    SIM_CHECK(c->writers == 0 || (c->writers == 1 && c->readers == 0));
    SIM_CHECK(c->reads <= (int)w.config.read_cap);
    SIM_CHECK(c->status <= 1 && c->commits <= 1);
    SIM_CHECK(c->running - c->commits <= (int)w.config.actor_cap);
    SIM_CHECK(w.heavy <= (int)w.config.heavy_permits);
    SIM_CHECK(w.maintenance <= (int)(w.pool - w.reserve));
    SIM_CHECK(w.bodies <= (int)w.pool);
}

static void count_body(struct context *c, const struct job *job, bool write, int by)
{
    c->readers += reads(job->lane) ? by : 0;
    c->writers += write ? by : 0;
    c->reads += job->lane == LANEX_LANE_PURE_READ ? by : 0;
    c->status += job->lane == LANEX_LANE_SERIAL_STATUS ? by : 0;
    c->commits += job->lane == LANEX_LANE_MAINTENANCE_COMMIT ? by : 0;
    c->running += by;
    w.heavy += job->lane == LANEX_LANE_HEAVY_INIT ? by : 0;
    w.maintenance += job->job_class == LANEX_CLASS_MAINTENANCE ? by : 0;
    w.bodies += by;
}

/* A read that came when a writer was urgent already must not pass it. */
static void check_promotion(const struct job *read)
{
    uint64_t age = w.config.promotion_age_ms * MS + CLOCK_SLACK + TURN_STEPS * sim_step_ns();

    if (w.config.policy != LANEX_POLICY_READS_FIRST || read->lane != LANEX_LANE_PURE_READ ||
        read->job_class != LANEX_CLASS_INTERACTIVE)
        return;
    for (unsigned i = 0; i < w.jobs; i++) {
        const struct job *writer = &w.job[i];
        if (writer->lane != LANEX_LANE_MUTATING || !writer->accepted || writer->begun ||
            writer->may_be_dropped || writer->over || writer->actor != read->actor ||
            writer->completions > 0 || writer->job_class != LANEX_CLASS_INTERACTIVE)
            continue;
        if (read->at_ns > writer->at_ns + age)
            sim_fail("job %llu, a read, passed the promoted writer %llu",
                     (unsigned long long)read->sequence, (unsigned long long)writer->sequence);
    }
}

static void check_order(struct context *c, const struct job *job)
{
    uint64_t *last = &c->last[job->user][job->job_class][job->lane];

    if (job->lane == LANEX_LANE_PURE_READ || job->lane == LANEX_LANE_HEAVY_INIT)
        return;
    if (job->sequence <= *last)
        sim_fail("job %llu runs after job %llu of its lane, which came later",
                 (unsigned long long)job->sequence, (unsigned long long)*last);
    *last = job->sequence;
}

/*
 * Jobs that ran already when this one was submitted were in flight when it was dispatched: each of
 * them left one idle worker less. Maintenance needs more than the reserve.
 */
static void check_reserve(const struct job *job)
{
    uint32_t in_flight = 0;

    if (job->job_class != LANEX_CLASS_MAINTENANCE)
        return;
    for (unsigned i = 0; i < w.jobs; i++)
        in_flight += w.job[i].inside && w.job[i].begun_no < job->submit_no;
    if (w.pool - in_flight <= w.reserve)
        sim_fail(
            "job %llu, maintenance, began while %u of %u workers were busy since before it came",
            (unsigned long long)job->sequence, in_flight, w.pool);
}

static void enter(struct context *c, struct job *job, bool write)
{
    sim_note("begin %llu lane %u%s", (unsigned long long)job->sequence, job->lane,
             write && job->lane == LANEX_LANE_HEAVY_INIT ? " install" : "");
    SIM_CHECK(!job->removed);
    job->bodies++;
    if (!job->begun) {
        job->begun = true;
        check_order(c, job);
        check_promotion(job);
        check_reserve(job);
    }
    job->inside = true;
    job->begun_no = sim_step();
    job->context = c;
    count_body(c, job, write, 1);
    check_inside(c);
}

static void leave(struct context *c, struct job *job, bool write)
{
    check_inside(c);
    job->inside = false;
    count_body(c, job, write, -1);
    sim_note("end %llu", (unsigned long long)job->sequence);
}

static void destroy_data(void *data)
{
    struct job *job = data;

    job->destroyed++;
}

static void defer(lanex_job *handle)
{
    lanex_deferred *deferred;

    if (lanex_job_defer(handle, &deferred) < 0)
        return;
    w.deferred[w.deferred_count++] = deferred;
    sim_latch_add(&w.deferrals, 1);
}

static void behave(lanex_job *handle, struct context *c, struct job *job, bool write)
{
    enter(c, job, write);
    for (uint64_t n = sim_random() % 4; n > 0; n--)
        sim_yield();
    switch (job->conduct) {
    case YIELDS:
        for (int i = 0; i < 30; i++)
            sim_yield();
        break;
    case SLEEPS:
        sim_sleep_ns(sim_random() % (4 * MS));
        break;
    case LATER:
        sim_sleep_ns(sim_random() % (40 * MS));
        break;
    case PANICS:
        w.disturbed |= write;
        leave(c, job, write);
        lanex_panic("as asked");
    case DEFERS:
        if (job->lane != LANEX_LANE_HEAVY_INIT)
            defer(handle);
        break;
    case ANSWERS:
        lanex_job_respond(handle, job, destroy_data);
        break;
    case SEALS:
        if (lanex_cancelled() || !lanex_seal())
            (void)lanex_job_respond_error(handle, "stopped", "as asked", false);
        break;
    default:
        break;
    }
    leave(c, job, write);
}

static void run(lanex_job *handle, void *context, void *arg)
{
    struct job *job = arg;

    behave(handle, context, job, job->lane == LANEX_LANE_MUTATING);
}

static void install(lanex_job *handle, void *context, void *arg)
{
    struct job *job = arg;
    struct context *c = context;

    (void)handle;
    enter(c, job, true);
    sim_yield();
    leave(c, job, true);
}

/* ---- completions ---- */

static void complete(const lanex_completion *completion, struct job *job)
{
    job->completions++;
    job->over = true;
    sim_note("completion of %llu: %s", (unsigned long long)job->sequence,
             lanex_completion_code(completion));
    if (job->completions != 1)
        sim_fail("job %llu was completed %u times", (unsigned long long)job->sequence,
                 job->completions);
    int status = lanex_completion_status(completion);
    SIM_CHECK(!job->removed || status == LANEX_STATUS_REQUEST_CANCELLED);
    if (status == LANEX_STATUS_OK && !job->begun)
        sim_fail("job %llu was answered ok and never ran", (unsigned long long)job->sequence);
    if (status == LANEX_STATUS_REQUEST_CANCELLED && job->begun &&
        job->lane != LANEX_LANE_HEAVY_INIT)
        sim_fail("job %llu ran and was answered as cancelled", (unsigned long long)job->sequence);
}

static void callback(lanex_completion *completion, void *arg)
{
    complete(completion, arg);
    sim_latch_add(&w.over, 1);
}

/* ---- contexts and actors ---- */

static void release_context(void *context)
{
    struct context *c = context;

    SIM_CHECK(!c->released);
    SIM_CHECK(c->running == 0);
    c->released = true;
}

static lanex_actor *register_actor(unsigned key)
{
    char name[8] = {'k', (char)('0' + key)};
    lanex_actor *actor = NULL;

    SIM_CHECK(w.contexts < CONTEXTS_MAX);
    struct context *c = &w.context[w.contexts++];
    *c = (struct context){.key = key, .in_use = true};
    lanex_actor_options options = {
        .size = sizeof options, .context = c, .context_release = release_context};
    int rc = lanex_actor_register(w.executor, name, strlen(name), &options, &actor);
    if (rc != 1)
        c->in_use = false;
    if (rc < 0)
        SIM_CHECK(rc == -ESHUTDOWN || rc == -ENOMEM);
    return rc < 0 ? NULL : actor;
}

static void replace_actor(struct user *u, const struct sim_op *op)
{
    unsigned key = op->arg[0];
    char name[8] = {'k', (char)('0' + key)};
    w.disturbed = true;
    int rc = op->arg[1] % 2 == 0 ? lanex_actor_remove(w.executor, name, strlen(name))
                                 : lanex_actor_retire(w.executor, name, strlen(name));

    sim_note("actor %u removed: %d", key, rc);
    lanex_actor_unref(u->actor[key]);
    u->actor[key] = register_actor(key);
}

/* ---- operations ---- */

static void fill_sink(struct user *u, struct job *job, lanex_sink *sink)
{
    switch (job->sink) {
    case PORT:
        *sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = u->port};
        break;
    case RING_PORT:
        *sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = u->ring_port};
        break;
    case CALLBACK:
        *sink =
            (lanex_sink){.kind = LANEX_SINK_CALLBACK, .callback = callback, .callback_arg = job};
        break;
    default:
        break;
    }
}

static void submit(struct user *u, const struct sim_op *op)
{
    unsigned key = op->arg[0];

    if (u->actor[key] == NULL || w.jobs == JOBS_MAX)
        return;
    struct job *job = &w.job[w.jobs++];
    *job = (struct job){
        .user = u->index,
        .lane = op->arg[1],
        .job_class = op->arg[4] & 1,
        .conduct = op->arg[2],
        .sink = op->arg[3],
        .sequence = ++w.sequence,
        .actor = u->actor[key],
    };
    if ((job->sink == PORT && u->port == NULL) || (job->sink == RING_PORT && u->ring_port == NULL))
        job->sink = TICKET;
    lanex_job_options options = {
        .size = sizeof options,
        .job_class = job->job_class,
        .lane = job->lane,
        .run = run,
        .arg = job,
        .cost = 1 + (op->arg[4] >> 8) % 3,
        .flags = (op->arg[4] & 2) != 0 ? LANEX_JOB_CANCELLABLE : 0,
        .coalesce_key = (op->arg[4] & 12) == 12 ? 5 : 0,
    };
    if (job->lane == LANEX_LANE_HEAVY_INIT && (op->arg[4] & 16) != 0)
        options.install = install;
    if (op->wide != 0)
        options.deadline_ns = sim_now_ns() + op->wide;
    job->may_be_dropped = op->wide != 0;
    job->deadline_ns = options.deadline_ns;
    job->submit_no = sim_step();
    fill_sink(u, job, &options.sink);
    job->at_ns = sim_now_ns();
    job->accepted = true; /* it may run before the call returns */
    int rc = job->sink == TICKET ? lanex_submit_ticket(u->actor[key], &options, &job->ticket)
                                 : lanex_submit(u->actor[key], &options, &job->number);
    job->at_ns = sim_now_ns();
    if (rc < 0) {
        SIM_CHECK(rc == -ENOMEM || rc == -ESHUTDOWN);
        SIM_CHECK(!job->begun && job->completions == 0);
        job->accepted = false;
        job->over = true;
        return;
    }
    if (job->sink == TICKET)
        job->number = lanex_ticket_job(job->ticket);
    u->expected += job->sink == PORT;
    u->ring_expected += job->sink == RING_PORT;
    w.callbacks += job->sink == CALLBACK;
    u->job[u->jobs++] = job;
    sim_note("submitted %llu: actor %u lane %u class %u conduct %u sink %u",
             (unsigned long long)job->sequence, key, job->lane, job->job_class, job->conduct,
             job->sink);
}

static void drain_port(lanex_port *port, unsigned *got)
{
    lanex_completion *list[3];
    int n;

    while ((n = lanex_port_drain(port, list, 3)) > 0) {
        for (int i = 0; i < n; i++) {
            complete(list[i], lanex_completion_arg(list[i]));
            lanex_completion_release(list[i]);
        }
        *got += (unsigned)n;
    }
}

static void cancel(struct user *u, const struct sim_op *op)
{
    if (u->jobs == 0)
        return;
    struct job *job = u->job[op->arg[0] % u->jobs];
    job->may_be_dropped = true;
    int rc = lanex_cancel(w.executor, job->number);
    if (rc == LANEX_CANCEL_QUEUED_REMOVED) {
        SIM_CHECK(!job->begun);
        job->removed = true;
    }
    SIM_CHECK(rc > 0 || rc == -ESHUTDOWN || rc == -ENOMEM);
    sim_note("cancel %llu: %d", (unsigned long long)job->sequence, rc);
}

static void perform(struct user *u, const struct sim_op *op)
{
    switch (op->kind) {
    case SUBMIT:
        submit(u, op);
        break;
    case CANCEL:
        cancel(u, op);
        break;
    case REST:
        sim_sleep_ns(op->wide);
        break;
    case REPLACE:
        replace_actor(u, op);
        break;
    case LOOK:
        if (u->port != NULL)
            drain_port(u->port, &u->port_got);
        break;
    default:
        break;
    }
}

/* ---- a user's life ---- */

static void open_ports(struct user *u)
{
    lanex_port_options options = {.size = sizeof options, .doorbell = LANEX_DOORBELL_RING};

    u->ring_fd = -1;
    if (lanex_port_create(w.executor, NULL, &u->port) < 0)
        u->port = NULL;
    if (sim_chance(400))
        return;
    u->ring_fd = sim_ring_open(sim_chance(500) ? 2 : 16, sim_chance(500));
    if (u->ring_fd < 0 || lanex_ring_attach(w.executor, u->ring_fd, &u->ring) < 0)
        return;
    options.ring = u->ring;
    if (lanex_port_create(w.executor, &options, &u->ring_port) < 0)
        u->ring_port = NULL;
}

static void await_ports(struct user *u)
{
    struct sim_cqe cqe;

    while (u->port_got < u->expected) {
        drain_port(u->port, &u->port_got);
        if (u->port_got < u->expected)
            SIM_CHECK(sim_fd_wait(lanex_port_fd(u->port), UINT64_MAX));
    }
    while (u->ring_got < u->ring_expected) {
        drain_port(u->ring_port, &u->ring_got);
        if (u->ring_got < u->ring_expected)
            sim_ring_reap(u->ring_fd, &cqe, 1, UINT64_MAX);
    }
}

static void await_tickets(struct user *u)
{
    for (unsigned i = 0; i < u->jobs; i++) {
        struct job *job = u->job[i];
        if (job->sink != TICKET)
            continue;
        SIM_CHECK(lanex_ticket_wait(job->ticket, LANEX_TIME_NEVER) == 0);
        complete(lanex_ticket_completion(job->ticket), job);
        lanex_ticket_drop(job->ticket);
    }
}

static void user_main(void *arg)
{
    struct user *u = arg;
    const struct sim_scenario *s = u->scenario;

    open_ports(u);
    for (unsigned key = 0; key < ACTORS; key++)
        u->actor[key] = register_actor(key);
    for (uint32_t i = 0; i < s->count[u->index]; i++)
        perform(u, &s->op[u->index][i]);
    await_ports(u);
    await_tickets(u);
    lanex_port_unref(u->port);
    lanex_port_unref(u->ring_port);
    lanex_ring_unref(u->ring);
    for (unsigned key = 0; key < ACTORS; key++)
        lanex_actor_unref(u->actor[key]);
    if (u->ring_fd >= 0)
        sim_fd_close(u->ring_fd);
    lanex_executor_unref(w.executor);
}

static void answerer_main(void *arg)
{
    unsigned next = 0;

    (void)arg;
    for (;;) {
        sim_latch_wait(&w.deferrals, next + 1, UINT64_MAX);
        if (next == w.deferred_count)
            return; /* told to stop */
        lanex_deferred *deferred = w.deferred[next++];
        sim_yield();
        if (next % 3 == 0)
            lanex_deferred_drop(deferred);
        else
            (void)lanex_deferred_respond(deferred, NULL, NULL);
    }
}

/* ---- the whole ---- */

/* Its end, or its answer, is known. */
static bool is_over(const struct job *job)
{
    return !job->accepted || job->over ||
           (job->begun && !job->inside && job->lane != LANEX_LANE_HEAVY_INIT);
}

/* Whether nothing that SPEC knows keeps this read from starting. */
static bool could_run(const struct job *read)
{
    uint32_t running = 0;

    if (read->lane != LANEX_LANE_PURE_READ || read->job_class != LANEX_CLASS_INTERACTIVE ||
        w.config.policy != LANEX_POLICY_READS_FIRST || w.bodies >= (int)w.pool)
        return false;
    for (unsigned i = 0; i < w.jobs; i++) {
        const struct job *other = &w.job[i];
        if (other->actor != read->actor || is_over(other))
            continue;
        if (other->lane != LANEX_LANE_PURE_READ)
            return false;
        running += other->inside;
    }
    return running < w.config.read_cap && running < w.config.actor_cap;
}

/* Whether its answer, if it had one, would be known. */
static bool would_be_known(const struct job *job)
{
    return job->sink == CALLBACK ||
           (job->job_class == LANEX_CLASS_INTERACTIVE && !w.disturbed && !job->may_be_dropped);
}

/* Every thread sleeps: then no job may be waiting that could run, or that is late. */
static void on_quiet(uint64_t next_ns)
{
    uint64_t now = sim_now_ns();
    bool dozes = (w.faults & SIM_FAULT_ERRORS) != 0 && next_ns - now < NAP_MAX;
    /* Where workers nap (runtime/nap.h), a job may wait for the end of that. */
    bool naps = sim_brisk_ns() != LX_BRISK_NS && next_ns - now <= LX_NAP_NS;

    if (w.ended || dozes || naps)
        return;
    for (unsigned i = 0; i < w.jobs; i++) {
        const struct job *job = &w.job[i];
        if (!job->accepted || job->begun || job->over || job->number == 0 || !would_be_known(job))
            continue;
        if (w.bodies == 0)
            sim_fail("every thread sleeps, no job runs, and job %llu is neither begun nor answered",
                     (unsigned long long)job->sequence);
        if (could_run(job))
            sim_fail("every thread sleeps, and job %llu could run",
                     (unsigned long long)job->sequence);
        if (job->deadline_ns != 0 && job->deadline_ns + CLOCK_SLACK < next_ns)
            sim_fail("every thread will sleep beyond the deadline of job %llu",
                     (unsigned long long)job->sequence);
    }
}

static bool start(const struct sim_scenario *s)
{
    lanex_executor_options options = {
        .size = sizeof options,
        .pool_size = s->set[POOL],
        .actor_cap = s->set[ACTOR_CAP],
        .heavy_permits = s->set[PERMITS],
        .policy = s->set[POLICY],
        .dispatch = s->set[DISPATCH],
        .promotion_age_ms = s->set[PROMOTION_MS],
        .maintenance_queue_cap = s->set[QUEUE_CAP],
        .spin_us = sim_spin_us(),
    };
    int rc = lanex_executor_create(&options, &w.executor);

    if (rc < 0) {
        sim_note("create: %d", rc);
        SIM_CHECK((s->faults & (SIM_FAULT_MEMORY | SIM_FAULT_ERRORS)) != 0);
        return false;
    }
    w.config.size = sizeof w.config;
    SIM_CHECK(lanex_executor_config(w.executor, &w.config) == 0);
    w.pool = w.config.pool_size;
    w.reserve = w.pool >= 4 ? 2 : 1;
    return true;
}

static void check_end(void)
{
    for (unsigned i = 0; i < w.jobs; i++) {
        const struct job *job = &w.job[i];
        unsigned wanted = job->accepted && job->sink != NONE ? 1 : 0;
        if (job->completions != wanted)
            sim_fail("job %llu has %u completions at the end, not %u",
                     (unsigned long long)job->sequence, job->completions, wanted);
        SIM_CHECK(job->destroyed <= 1);
    }
    for (unsigned i = 0; i < w.contexts; i++)
        SIM_CHECK(!w.context[i].in_use || w.context[i].released);
}

static void play(const struct sim_scenario *s)
{
    static struct user user[SIM_USERS_MAX];
    unsigned thread[SIM_USERS_MAX];

    w.faults = s->faults;
    if (!start(s))
        return;
    sim_hooks.on_quiet = on_quiet;
    sim_gates_are_open = true;
    unsigned answerer = sim_spawn(answerer_main, NULL, "answerer");
    for (unsigned i = 0; i < s->users; i++) {
        user[i] = (struct user){.scenario = s, .index = i};
        lanex_executor_ref(w.executor);
        char name[16] = {'u', 's', 'e', 'r', '-', (char)('0' + i)};
        thread[i] = sim_spawn(user_main, &user[i], name);
    }
    if (s->set[EARLY] != 0) {
        sim_sleep_ns(s->set[EARLY]);
        w.disturbed = true;
        SIM_CHECK(lanex_executor_destroy(w.executor) == 0);
        w.ended = true;
    }
    for (unsigned i = 0; i < s->users; i++)
        sim_join(thread[i]);
    if (s->set[EARLY] == 0) {
        if (s->seed % 3 == 0)
            SIM_CHECK(lanex_executor_drain(w.executor, LANEX_TIME_NEVER, NULL) == 0);
        sim_latch_wait(&w.over, w.callbacks, UINT64_MAX);
        SIM_CHECK(lanex_executor_destroy(w.executor) == 0);
        w.ended = true;
    }
    sim_latch_wait(&w.over, w.callbacks, UINT64_MAX);
    sim_latch_add(&w.deferrals, 1);
    sim_join(answerer);
    check_end();
}

static void generate(struct sim_scenario *s)
{
    uint64_t state = s->seed ^ UINT64_C(0xB5297A4D);
    static const uint32_t lanes[] = {0, 0, 0, 1, 2, 2, 3, 3, 4};

    s->users = 1 + (uint32_t)(sim_draw(&state) % 4);
    s->set[POOL] = 2 + (uint32_t)(sim_draw(&state) % 4);
    s->set[ACTOR_CAP] = 1 + (uint32_t)(sim_draw(&state) % 4);
    s->set[PERMITS] = 1 + (uint32_t)(sim_draw(&state) % 3);
    s->set[POLICY] = (uint32_t)(sim_draw(&state) % 4 == 0);
    s->set[DISPATCH] = sim_draw(&state) % 3 == 0 ? LANEX_DISPATCH_SCHEDULER : LANEX_DISPATCH_SEAT;
    s->set[PROMOTION_MS] = 1 + (uint32_t)(sim_draw(&state) % 20);
    s->set[QUEUE_CAP] = 2 + (uint32_t)(sim_draw(&state) % 30);
    if (sim_draw(&state) % 4 == 0)
        s->set[EARLY] = 1 + (uint32_t)(sim_draw(&state) % (2 * MS));
    uint32_t mostly = (uint32_t)(sim_draw(&state) % 3); /* one lane in the foreground */
    bool one_actor = sim_draw(&state) % 3 == 0;
    for (uint32_t u = 0; u < s->users; u++) {
        s->count[u] = 4 + (uint32_t)(sim_draw(&state) % (SIM_OPS_MAX - 4));
        for (uint32_t i = 0; i < s->count[u]; i++) {
            struct sim_op *op = &s->op[u][i];
            uint64_t dice = sim_draw(&state) % 100;
            op->kind = dice < 74   ? SUBMIT
                       : dice < 84 ? CANCEL
                       : dice < 92 ? REST
                       : dice < 94 ? REPLACE
                                   : LOOK;
            op->arg[0] = one_actor ? 0 : (uint32_t)(sim_draw(&state) % ACTORS);
            uint64_t lane = sim_draw(&state);
            op->arg[1] = lane % 3 == 0 ? mostly : lanes[(lane >> 8) % 9];
            uint64_t conduct = sim_draw(&state);
            op->arg[2] = conduct % 3 == 0 ? (uint32_t)((conduct >> 8) % CONDUCTS) : PLAIN;
            op->arg[3] = (uint32_t)(sim_draw(&state) % SINKS);
            op->arg[4] = (uint32_t)sim_draw(&state);
            if (op->arg[1] == LANEX_LANE_MAINTENANCE_COMMIT || dice < 20)
                op->arg[4] |= 1; /* maintenance */
            else
                op->arg[4] &= ~1u;
            if (op->kind == CANCEL)
                op->arg[0] = (uint32_t)sim_draw(&state);
            uint64_t wide = sim_draw(&state);
            op->wide = op->kind == REST ? wide % (5 * MS)
                       : wide % 8 == 0  ? 1 + (wide >> 8) % (20 * MS)
                                        : 0;
        }
    }
}

static void describe(const struct sim_op *op, char *text, size_t size)
{
    static const char *const kinds[] = {"submit", "cancel", "rest", "replace actor", "drain port"};
    static const char *const lanes[] = {"pure_read", "serial_status", "heavy_init", "mutating",
                                        "maintenance_commit"};
    static const char *const conducts[] = {"plain",  "yields",  "sleeps", "panics",
                                           "defers", "answers", "seals",  "sleeps long"};
    static const char *const sinks[] = {"ticket", "port", "callback", "none", "port with ring"};

    if (op->kind == SUBMIT)
        snprintf(text, size, "submit to actor %u: %s %s, %s, sink %s, deadline in %llu ns",
                 op->arg[0], (op->arg[4] & 1) != 0 ? "maintenance" : "interactive",
                 lanes[op->arg[1]], conducts[op->arg[2]], sinks[op->arg[3]],
                 (unsigned long long)op->wide);
    else
        snprintf(text, size, "%s %u", kinds[op->kind], op->arg[0]);
}

const struct sim_users sim_users_basic = {
    .name = "basic",
    .generate = generate,
    .play = play,
    .describe = describe,
};

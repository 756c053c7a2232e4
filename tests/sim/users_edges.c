/*
 * Users of the simulated world at the edges of an executor's life: batches, tickets dropped early,
 * ports detached and dropped with jobs outstanding, rings whose owner dies, jobs that submit,
 * epochs held from outside, views, contexts held, handles and references used after destroy. What
 * is checked: nothing is answered twice or lost, nothing leaks, nothing waits for ever, no call
 * fails with what it does not name.
 */
#include <lanex/lanex.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

#define ACTORS   2u
#define JOBS_MAX 2000u
#define BATCH    5u
#define US       UINT64_C(1000)

enum kind {
    BATCH_SUBMIT,
    NESTED,
    DROP_TICKET,
    DETACH,
    NEW_PORT,
    RING_DEATH,
    HOLD_EPOCH,
    VIEWS,
    HOLD_CONTEXT,
    FATAL,
    REPLACE,
    DRAIN,
    TOKEN,
    KEEP_DEFERRED,
    REST,
    KINDS
};

struct context {
    int refs;
    bool removed, torn;
    int users;
};

struct job {
    unsigned completions, bodies, data_destroyed;
    bool accepted, counted; /* counted: exactly one completion is wanted */
    bool data_made;
    uint32_t conduct;
    lanex_actor *actor;
};

struct user {
    unsigned index;
    lanex_actor *actor[ACTORS];
    lanex_port *port;
    unsigned outstanding; /* in port */
    lanex_deferred *kept[SIM_OPS_MAX];
};

static struct world {
    const struct sim_scenario *scenario;
    lanex_executor *executor;
    struct job job[JOBS_MAX];
    unsigned jobs;
    struct context context[JOBS_MAX];
    unsigned contexts;
    struct sim_latch done;
    unsigned callbacks;
    lanex_deferred *deferred[JOBS_MAX];
    unsigned deferreds;
    int kept_ring;
} w;

static bool may_fail(int rc)
{
    return rc == -ESHUTDOWN || (rc == -ENOMEM && (w.scenario->faults & SIM_FAULT_MEMORY) != 0) ||
           (rc == -EMFILE && (w.scenario->faults & SIM_FAULT_MEMORY) != 0);
}

static void check_call(int rc, int line)
{
    if (rc < 0 && !may_fail(rc))
        sim_fail("%s:%d: the call said %d", __FILE__, line, rc);
}
#define CHECK_CALL(rc) check_call(rc, __LINE__)

/* ---- bodies and completions ---- */

static void count_completion(lanex_completion *completion, void *arg)
{
    struct job *job = arg;

    (void)lanex_completion_status(completion);
    if (++job->completions != 1)
        sim_fail("a job was completed %u times", job->completions);
    sim_latch_add(&w.done, 1);
}

static void destroy_data(void *data)
{
    struct job *job = data;

    job->data_destroyed++;
}

static void run(lanex_job *handle, void *context, void *arg);

static struct job *new_job(lanex_actor *actor, uint32_t conduct)
{
    if (actor == NULL || w.jobs == JOBS_MAX)
        return NULL;
    struct job *job = &w.job[w.jobs++];
    *job = (struct job){.actor = actor, .conduct = conduct};
    return job;
}

static lanex_job_options options_of(struct job *job, uint32_t dice)
{
    lanex_job_options options = {
        .size = sizeof options,
        .lane = dice % 5,
        .job_class = dice % 5 == LANEX_LANE_MAINTENANCE_COMMIT ? LANEX_CLASS_MAINTENANCE
                                                               : (dice >> 8) % 4 == 0,
        .run = run,
        .arg = job,
        .flags = (dice >> 12) % 2 == 0 ? LANEX_JOB_CANCELLABLE : 0,
        .request_id =
            (dice >> 16) % 2 == 0 ? "a request whose id is longer than twenty-four bytes" : "short",
    };

    if ((dice >> 20) % 8 == 0)
        options.deadline_ns = sim_now_ns() + (dice >> 10);
    return options;
}

static int submit_counted(lanex_actor *actor, uint32_t dice)
{
    struct job *job = new_job(actor, dice >> 24);

    if (job == NULL)
        return 0;
    lanex_job_options options = options_of(job, dice);
    options.sink = (lanex_sink){
        .kind = LANEX_SINK_CALLBACK, .callback = count_completion, .callback_arg = job};
    job->counted = true;
    w.callbacks++;
    int rc = lanex_submit(actor, &options, NULL);
    if (rc < 0) {
        SIM_CHECK(job->bodies == 0 && job->completions == 0);
        w.callbacks--;
        job->counted = false;
    }
    return rc;
}

static void run(lanex_job *handle, void *context, void *arg)
{
    struct job *job = arg;
    struct context *c = context;
    lanex_deferred *deferred;

    SIM_CHECK(!c->torn && c->refs > 0);
    sim_note("job %d begins, conduct %u", (int)(job - w.job), job->conduct % 16);
    SIM_CHECK(++job->bodies == 1);
    c->users++;
    for (uint64_t n = sim_random() % 4; n > 0; n--)
        sim_yield();
    if (job->conduct % 4 == 1)
        sim_sleep_ns(sim_random() % (300 * US));
    SIM_CHECK(!c->torn && c->refs > 0);
    c->users--;
    switch (job->conduct % 16) {
    case 1:
    case 2: { /* submits to its own actor, and does not wait */
        int rc = submit_counted(lanex_job_actor(handle), (uint32_t)sim_random() & 0x00ffffffu);
        CHECK_CALL(rc);
        break;
    }
    case 3:
        job->data_made = true;
        lanex_job_respond(handle, job, destroy_data);
        break;
    case 4:
        lanex_panic("as asked");
    case 5:
    case 6:
        if (lanex_job_defer(handle, &deferred) == 0)
            w.deferred[w.deferreds++] = deferred;
        if (sim_chance(200))
            lanex_panic("after deferring");
        break;
    default:
        break;
    }
}

/* ---- actors ---- */

static void retain(void *context)
{
    struct context *c = context;

    SIM_CHECK(c->refs > 0);
    c->refs++;
}

static void release(void *context)
{
    struct context *c = context;

    SIM_CHECK(c->refs > 0);
    c->refs--;
}

static void teardown(void *context)
{
    struct context *c = context;

    SIM_CHECK(!c->torn && c->users == 0);
    c->torn = true;
}

static const char *const names[ACTORS] = {"first", "second"};

static lanex_actor *register_actor(unsigned key)
{
    lanex_actor *actor = NULL;

    SIM_CHECK(w.contexts < JOBS_MAX);
    struct context *c = &w.context[w.contexts++];
    *c = (struct context){.refs = 1};
    lanex_actor_options options = {.size = sizeof options,
                                   .context = c,
                                   .context_retain = retain,
                                   .context_release = release,
                                   .context_teardown = teardown};
    int rc = lanex_actor_register(w.executor, names[key], strlen(names[key]), &options, &actor);
    if (rc != 1)
        c->refs = 0;
    CHECK_CALL(rc);
    return rc < 0 ? NULL : actor;
}

static void replace(struct user *u, const struct sim_op *op)
{
    unsigned key = op->arg[0] % ACTORS;
    int rc = op->arg[1] % 2 == 0 ? lanex_actor_remove(w.executor, names[key], strlen(names[key]))
                                 : lanex_actor_retire(w.executor, names[key], strlen(names[key]));

    SIM_CHECK(rc >= 0 || rc == -ENOENT || rc == -EBUSY || may_fail(rc));
    lanex_actor_unref(u->actor[key]);
    u->actor[key] = register_actor(key);
}

static void hold_context(struct user *u, const struct sim_op *op)
{
    lanex_actor *actor = u->actor[op->arg[0] % ACTORS];
    void *context;

    if (actor == NULL)
        return;
    int rc = lanex_actor_context_acquire(actor, &context);
    SIM_CHECK(rc == 0 || rc == -ENOENT || may_fail(rc));
    if (rc < 0)
        return;
    for (uint64_t n = sim_random() % 30; n > 0; n--) {
        SIM_CHECK(((struct context *)context)->refs > 0);
        sim_yield();
    }
    release(context);
}

static void hold_epoch(struct user *u, const struct sim_op *op)
{
    lanex_actor *actor = u->actor[op->arg[0] % ACTORS];
    bool write = op->arg[1] % 2 == 0;

    if (actor == NULL)
        return;
    lanex_epoch *epoch = lanex_actor_epoch(actor);
    int rc = write ? lanex_epoch_write_acquire(epoch) : lanex_epoch_read_acquire(epoch);
    SIM_CHECK(rc == 0);
    if (sim_chance(300))
        sim_sleep_ns(sim_random() % (200 * US));
    for (uint64_t n = sim_random() % 60; n > 0; n--)
        sim_yield();
    if (write)
        lanex_epoch_write_release(epoch);
    else
        lanex_epoch_read_release(epoch);
}

/* ---- sinks ---- */

static void batch(struct user *u, const struct sim_op *op)
{
    lanex_submission list[BATCH];
    lanex_job_options options[BATCH];
    struct job *jobs[BATCH];
    unsigned count = 1 + op->arg[2] % BATCH, made = 0;

    for (; made < count; made++) {
        lanex_actor *actor = u->actor[(op->arg[0] + made) % ACTORS];
        jobs[made] = new_job(actor, (op->arg[1] >> 24) + made);
        if (jobs[made] == NULL)
            return;
        options[made] = options_of(jobs[made], op->arg[1] * (made + 1));
        options[made].sink = (lanex_sink){
            .kind = LANEX_SINK_CALLBACK, .callback = count_completion, .callback_arg = jobs[made]};
        list[made] = (lanex_submission){actor, &options[made]};
    }
    for (unsigned i = 0; i < count; i++)
        jobs[i]->counted = true;
    w.callbacks += count;
    int rc = lanex_submit_batch(list, count, NULL);
    CHECK_CALL(rc);
    for (unsigned i = 0; rc < 0 && i < count; i++) {
        SIM_CHECK(jobs[i]->bodies == 0 && jobs[i]->completions == 0);
        jobs[i]->counted = false;
        w.callbacks--;
    }
}

static void drop_ticket(struct user *u, const struct sim_op *op)
{
    lanex_actor *actor = u->actor[op->arg[0] % ACTORS];
    struct job *job = new_job(actor, op->arg[1] >> 24);
    lanex_ticket *ticket;

    if (job == NULL)
        return;
    lanex_job_options options = options_of(job, op->arg[1]);
    int rc = lanex_submit_ticket(actor, &options, &ticket);
    CHECK_CALL(rc);
    if (rc < 0)
        return;
    job->accepted = true;
    switch (op->arg[2] % 3) {
    case 0:
        for (uint64_t n = sim_random() % 40; n > 0; n--)
            sim_yield();
        break;
    case 1:
        rc = lanex_ticket_wait(ticket, sim_random() % (50 * US));
        SIM_CHECK(rc == 0 || rc == -ETIMEDOUT);
        SIM_CHECK((rc == 0) == (lanex_ticket_completion(ticket) != NULL) || rc < 0);
        break;
    default:
        break;
    }
    lanex_ticket_drop(ticket);
}

static void new_port(struct user *u)
{
    lanex_port_unref(u->port);
    u->outstanding = 0;
    int rc = lanex_port_create(w.executor, NULL, &u->port);
    CHECK_CALL(rc);
    if (rc < 0)
        u->port = NULL;
}

static void submit_to_port(struct user *u, const struct sim_op *op, lanex_port *port)
{
    lanex_actor *actor = u->actor[op->arg[0] % ACTORS];
    struct job *job = new_job(actor, op->arg[1] >> 24);

    if (job == NULL || port == NULL)
        return;
    lanex_job_options options = options_of(job, op->arg[1]);
    options.sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = port};
    CHECK_CALL(lanex_submit(actor, &options, NULL));
}

static void take_some(lanex_port *port)
{
    lanex_completion *list[2];
    int n = port == NULL ? 0 : lanex_port_drain(port, list, 2);

    for (int i = 0; i < n; i++) {
        struct job *job = lanex_completion_arg(list[i]);
        SIM_CHECK(++job->completions == 1);
        lanex_completion_release(list[i]);
    }
}

static void detach(struct user *u, const struct sim_op *op)
{
    for (unsigned i = 0; i < 3; i++)
        submit_to_port(u, op, u->port);
    for (uint64_t n = sim_random() % 100; n > 0; n--)
        sim_yield();
    take_some(u->port);
    if (op->arg[2] % 2 == 0 && u->port != NULL)
        SIM_CHECK(lanex_port_detach(u->port) >= 0);
    take_some(u->port);
    new_port(u);
}

/* A thread that has a ring told to it, and ends without looking. */
struct doomed {
    struct user *user;
    const struct sim_op *op;
};

static void doomed_main(void *arg)
{
    struct doomed *d = arg;
    int fd = sim_ring_open(2, d->op->arg[2] % 2 == 0);
    lanex_ring *ring;
    lanex_port *port;

    if (fd < 0)
        return;
    int rc = lanex_ring_attach(w.executor, fd, &ring);
    SIM_CHECK(rc == 0 || rc == -EOPNOTSUPP || may_fail(rc));
    if (rc == 0) {
        lanex_port_options options = {
            .size = sizeof options, .doorbell = LANEX_DOORBELL_RING, .ring = ring};
        rc = lanex_port_create(w.executor, &options, &port);
        CHECK_CALL(rc);
        for (unsigned i = 0; rc == 0 && i < 4; i++)
            submit_to_port(d->user, d->op, port);
        if (rc == 0)
            lanex_port_unref(port);
        lanex_ring_unref(ring);
    }
    if (d->op->arg[3] % 2 == 0) {
        sim_fd_close(fd);
        return;
    }
    sim_sleep_ns(d->op->arg[3] % (100 * US));
    sim_fd_close(fd);
}

static void ring_death(struct user *u, const struct sim_op *op)
{
    struct doomed doomed = {.user = u, .op = op};

    sim_join(sim_spawn(doomed_main, &doomed, "doomed"));
}

/* ---- views ---- */

static void look(const struct sim_op *op)
{
    lanex_liveness liveness = {.size = sizeof liveness};
    lanex_counters counters = {.size = sizeof counters};
    lanex_actor_list *actors;
    lanex_running_jobs *jobs;
    lanex_blockers *blockers;
    size_t count;
    const char *key = names[op->arg[1] % ACTORS];
    int rc = 0;

    switch (op->arg[0] % 7) {
    case 0:
        rc = lanex_executor_liveness(w.executor, &liveness);
        break;
    case 1:
        rc = lanex_executor_counters(w.executor, &counters);
        SIM_CHECK(rc < 0 || counters.non_runnable_dispatches == 0);
        break;
    case 2:
        rc = lanex_actor_entries(w.executor, &actors);
        if (rc >= 0)
            lanex_actor_entries_free(actors);
        break;
    case 3:
        rc = lanex_executor_running_mutating(w.executor, &jobs);
        if (rc >= 0)
            lanex_running_jobs_free(jobs);
        break;
    case 4:
        rc = lanex_job_blockers(w.executor, key, strlen(key), "short", 0, &blockers);
        if (rc >= 0)
            lanex_blockers_free(blockers);
        break;
    case 5:
        rc = lanex_actor_count(w.executor, &count);
        break;
    default:
        rc = lanex_actor_try_count(w.executor, &count);
        break;
    }
    SIM_CHECK(rc >= 0 || rc == -EBUSY || may_fail(rc));
}

static void use_token(struct user *u, const struct sim_op *op)
{
    lanex_actor *actor = u->actor[op->arg[0] % ACTORS];
    struct job *job = new_job(actor, op->arg[1] >> 24);
    lanex_cancellation *token;

    if (job == NULL || lanex_cancellation_create(&token) < 0)
        return;
    lanex_job_options options = options_of(job, op->arg[1] & ~(1u << 12));
    options.flags = 0;
    options.cancellation = token;
    options.sink = (lanex_sink){
        .kind = LANEX_SINK_CALLBACK, .callback = count_completion, .callback_arg = job};
    job->counted = true;
    w.callbacks++;
    int rc = lanex_submit(actor, &options, NULL);
    CHECK_CALL(rc);
    if (rc < 0) {
        job->counted = false;
        w.callbacks--;
    }
    for (uint64_t n = sim_random() % 60; n > 0; n--)
        sim_yield();
    (void)lanex_cancellation_cancel(token);
    lanex_cancellation_unref(token);
}

/* ---- the whole ---- */

static void perform(struct user *u, const struct sim_op *op)
{
    int rc;

    sim_note("operation %u", op->kind);
    switch (op->kind) {
    case BATCH_SUBMIT:
        batch(u, op);
        break;
    case NESTED:
        CHECK_CALL(submit_counted(u->actor[op->arg[0] % ACTORS], op->arg[1] | (1u << 24)));
        break;
    case DROP_TICKET:
        drop_ticket(u, op);
        break;
    case DETACH:
        detach(u, op);
        break;
    case NEW_PORT:
        new_port(u);
        break;
    case RING_DEATH:
        ring_death(u, op);
        break;
    case HOLD_EPOCH:
        hold_epoch(u, op);
        break;
    case VIEWS:
        look(op);
        break;
    case HOLD_CONTEXT:
        hold_context(u, op);
        break;
    case FATAL:
        rc = lanex_actor_fatal(w.executor, names[op->arg[0] % ACTORS],
                               strlen(names[op->arg[0] % ACTORS]));
        SIM_CHECK(rc >= 0 || rc == -ENOENT || may_fail(rc));
        break;
    case REPLACE:
        replace(u, op);
        break;
    case TOKEN:
        use_token(u, op);
        break;
    case REST:
        sim_sleep_ns(op->wide);
        break;
    default:
        break;
    }
}

static void user_main(void *arg)
{
    struct user *u = arg;
    const struct sim_scenario *s = w.scenario;

    new_port(u);
    for (unsigned key = 0; key < ACTORS; key++)
        u->actor[key] = register_actor(key);
    for (uint32_t i = 0; i < s->count[u->index]; i++)
        if (s->op[u->index][i].kind < KINDS)
            perform(u, &s->op[u->index][i]);
    lanex_port_unref(u->port);
    for (unsigned key = 0; key < ACTORS; key++)
        lanex_actor_unref(u->actor[key]);
    lanex_executor_unref(w.executor);
}

/* Handles are answered late: some after the executor has gone. */
static void answer_deferred(void)
{
    for (unsigned i = 0; i < w.deferreds; i++) {
        if (i % 2 == 0)
            lanex_deferred_drop(w.deferred[i]);
        else
            (void)lanex_deferred_respond(w.deferred[i], NULL, NULL);
    }
    w.deferreds = 0;
}

enum setting { POOL, DISPATCH, EARLY, DRAIN_FIRST, ANSWER_FIRST };

static void finish(const struct sim_scenario *s)
{
    size_t left;

    if (s->set[DRAIN_FIRST] != 0) {
        int rc = lanex_executor_drain(w.executor, s->set[DRAIN_FIRST], &left);
        SIM_CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -ESHUTDOWN);
    }
    if (s->set[ANSWER_FIRST] != 0)
        answer_deferred();
    SIM_CHECK(lanex_executor_destroy(w.executor) == 0);
}

static void play(const struct sim_scenario *s)
{
    static struct user user[SIM_USERS_MAX];
    unsigned thread[SIM_USERS_MAX];
    lanex_executor_options options = {.size = sizeof options,
                                      .pool_size = s->set[POOL],
                                      .dispatch = s->set[DISPATCH],
                                      .spin_us = sim_spin_us()};

    w.scenario = s;
    if (lanex_executor_create(&options, &w.executor) < 0) {
        SIM_CHECK((s->faults & (SIM_FAULT_MEMORY | SIM_FAULT_ERRORS)) != 0);
        return;
    }
    lanex_executor *second = lanex_executor_ref(w.executor);
    for (unsigned i = 0; i < s->users; i++) {
        user[i] = (struct user){.index = i};
        lanex_executor_ref(w.executor);
        char name[16] = {'u', 's', 'e', 'r', '-', (char)('0' + i)};
        thread[i] = sim_spawn(user_main, &user[i], name);
    }
    if (s->set[EARLY] != 0) {
        sim_sleep_ns(s->set[EARLY]);
        finish(s);
    }
    for (unsigned i = 0; i < s->users; i++)
        sim_join(thread[i]);
    if (s->set[EARLY] == 0)
        finish(s);
    SIM_CHECK(lanex_submit_by_key(second, "first", 5, NULL, NULL) < 0);
    sim_latch_wait(&w.done, w.callbacks, UINT64_MAX);
    answer_deferred();
    lanex_executor_unref(second);
    for (unsigned i = 0; i < w.jobs; i++) {
        SIM_CHECK(!w.job[i].counted || w.job[i].completions == 1);
        SIM_CHECK(w.job[i].data_destroyed == (w.job[i].data_made ? 1u : 0u));
    }
    for (unsigned i = 0; i < w.contexts; i++)
        SIM_CHECK(w.context[i].refs == 0);
}

static void generate(struct sim_scenario *s)
{
    uint64_t state = s->seed ^ UINT64_C(0x1F123BB5);
    uint64_t favourite = sim_draw(&state) % KINDS;

    s->users = 1 + (uint32_t)(sim_draw(&state) % 4);
    s->set[POOL] = 2 + (uint32_t)(sim_draw(&state) % 3);
    s->set[DISPATCH] = sim_draw(&state) % 3 == 0 ? LANEX_DISPATCH_SCHEDULER : LANEX_DISPATCH_SEAT;
    if (sim_draw(&state) % 2 == 0)
        s->set[EARLY] = 1 + (uint32_t)(sim_draw(&state) % (400 * US));
    if (sim_draw(&state) % 3 == 0)
        s->set[DRAIN_FIRST] = 1 + (uint32_t)(sim_draw(&state) % (1000 * US));
    s->set[ANSWER_FIRST] = (uint32_t)(sim_draw(&state) % 2);
    for (uint32_t u = 0; u < s->users; u++) {
        s->count[u] = 4 + (uint32_t)(sim_draw(&state) % (SIM_OPS_MAX / 2));
        for (uint32_t i = 0; i < s->count[u]; i++) {
            struct sim_op *op = &s->op[u][i];
            op->kind = (uint32_t)(sim_draw(&state) % 3 == 0 ? favourite : sim_draw(&state) % KINDS);
            for (unsigned k = 0; k < 5; k++)
                op->arg[k] = (uint32_t)sim_draw(&state);
            op->wide = 1 + sim_draw(&state) % (50 * US);
        }
    }
}

static void describe(const struct sim_op *op, char *text, size_t size)
{
    static const char *const kinds[KINDS] = {"batch",
                                             "submit a job that submits",
                                             "submit, drop ticket",
                                             "detach port",
                                             "new port",
                                             "ring whose owner dies",
                                             "hold epoch",
                                             "look",
                                             "hold context",
                                             "fatal",
                                             "replace actor",
                                             "nothing",
                                             "token",
                                             "nothing",
                                             "rest"};

    snprintf(text, size, "%s: %x %x %x %x", kinds[op->kind], op->arg[0], op->arg[1], op->arg[2],
             op->arg[3]);
}

const struct sim_users sim_users_edges = {
    .name = "edges",
    .generate = generate,
    .play = play,
    .describe = describe,
};

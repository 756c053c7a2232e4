/*
 * Users of the simulated world that own io_urings and ports, and part with them while jobs run: one
 * CQE per job with its own user_data and status, and only when its ticket is done; none for a
 * stranger who has got the number of a closed descriptor; nothing hangs on a ring whose owner has
 * gone; a port that is detached hands back what it said, and nothing after. Each response that a
 * body gave is destroyed once, whoever was or was not told of it.
 */
#include <lanex/lanex.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

#define JOBS_MAX  (SIM_USERS_MAX * SIM_OPS_MAX)
#define MS        UINT64_C(1000000)
#define TAG_SHIFT 32u /* of a ring's generation in user_data; below it the job's place, or BELL */
#define BELL      UINT32_MAX

enum kind { SUBMIT, CANCEL, REST, REAP, DETACH, MOVE, KINDS };
enum conduct { PLAIN, YIELDS, SLEEPS, PANICS, CONDUCTS };
enum sink { RING, PORT, RING_PORT, SINKS };
/* What a user does with its ring. */
enum life {
    KEEPS, /* reaps it to the end */
    MOVES, /* closes it and opens another, which gets its number */
    DIES,  /* another thread has made it, and ends while jobs still post to it */
    LIVES
};

enum setting { POOL, DISPATCH, EARLY, LIFE /* one of each user from here on */ };

struct job {
    bool accepted, begun;
    uint32_t conduct, sink, generation;
    unsigned answers, cqes, responded, destroyed;
    struct door *door; /* the port it goes to */
    lanex_ticket *ticket;
    uint64_t number;
};

/* A port and what it owes. */
struct door {
    lanex_port *port;
    uint32_t sink;
    unsigned expected, got;
};

struct user {
    const struct sim_scenario *scenario;
    unsigned index, jobs;
    enum life life;
    lanex_actor *actor;
    struct door door[SINKS]; /* PORT and RING_PORT */
    lanex_ring *ring;
    int ring_fd;
    uint32_t generation;
    unsigned cqes_expected, cqes_got;
    struct sim_latch opened; /* DIES: the other thread has made the ring, or not */
    unsigned owner;
    struct job *job[SIM_OPS_MAX];
};

static struct world {
    lanex_executor *executor;
    struct job job[JOBS_MAX];
    unsigned jobs;
    bool lossy; /* the executor ends under way: then nobody tries a refused CQE again */
} w;

/* ---- bodies ---- */

static void destroy_data(void *data)
{
    struct job *job = data;

    if (++job->destroyed > job->responded)
        sim_fail("a response was destroyed %u times", job->destroyed);
}

static void run(lanex_job *handle, void *context, void *arg)
{
    struct job *job = arg;

    (void)context;
    SIM_CHECK(!job->begun);
    job->begun = true;
    job->responded++;
    lanex_job_respond(handle, job, destroy_data);
    switch (job->conduct) {
    case YIELDS:
        for (int i = 0; i < 20; i++)
            sim_yield();
        break;
    case SLEEPS:
        sim_sleep_ns(sim_random() % (3 * MS));
        break;
    case PANICS:
        lanex_panic("as asked");
    default:
        break;
    }
}

/* ---- completions ---- */

static void check_answer(const lanex_completion *completion, const struct job *job)
{
    int status = lanex_completion_status(completion);

    SIM_CHECK(job->accepted);
    SIM_CHECK(status != LANEX_STATUS_OK || job->begun);
    SIM_CHECK(status != LANEX_STATUS_JOB_PANICKED || job->conduct == PANICS);
    SIM_CHECK(status != LANEX_STATUS_REQUEST_CANCELLED || !job->begun);
}

/* A CQE that a ring of this generation has received. */
static void check_cqe(struct user *u, const struct sim_cqe *cqe, uint32_t generation)
{
    uint32_t place = (uint32_t)cqe->user_data;

    if (cqe->user_data >> TAG_SHIFT != generation)
        sim_fail("ring %u of user %u received a message for ring %llu", generation, u->index,
                 (unsigned long long)(cqe->user_data >> TAG_SHIFT));
    if (place == BELL) {
        SIM_CHECK(cqe->res == 0);
        return;
    }
    SIM_CHECK(place < u->jobs);
    struct job *job = u->job[place];
    SIM_CHECK(job->sink == RING && job->generation == generation);
    sim_note("user %u: CQE of job %u, %d", u->index, place, (int)cqe->res);
    if (++job->cqes != 1)
        sim_fail("job %u of user %u has %u CQEs", place, u->index, job->cqes);
    u->cqes_got++;
    if (job->ticket == NULL)
        return; /* the submission has not returned yet */
    SIM_CHECK(lanex_ticket_poll(job->ticket) == 1);
    const lanex_completion *completion = lanex_ticket_completion(job->ticket);
    SIM_CHECK(cqe->res == -(int32_t)lanex_completion_status(completion));
    check_answer(completion, job);
}

static void reap(struct user *u, uint64_t timeout_ns)
{
    struct sim_cqe cqes[3];
    unsigned n;

    if (u->life == DIES || u->ring_fd < 0)
        return;
    n = sim_ring_reap(u->ring_fd, cqes, 3, timeout_ns);
    for (unsigned i = 0; i < n; i++)
        check_cqe(u, &cqes[i], u->generation);
}

static unsigned drain(struct door *door, size_t max)
{
    lanex_completion *list[4];
    int n = lanex_port_drain(door->port, list, max);

    SIM_CHECK(n >= 0);
    for (int i = 0; i < n; i++) {
        struct job *job = lanex_completion_arg(list[i]);
        SIM_CHECK(job->door == door && job->sink == door->sink);
        if (++job->answers != 1)
            sim_fail("a port has handed out a job %u times", job->answers);
        check_answer(list[i], job);
        lanex_completion_release(list[i]);
    }
    door->got += (unsigned)n;
    return (unsigned)n;
}

/* ---- rings and ports ---- */

static void open_ring(struct user *u)
{
    u->generation++;
    u->ring = NULL;
    u->ring_fd = sim_ring_open(sim_chance(500) ? 2 : 16, sim_chance(500));
    if (u->ring_fd < 0)
        return;
    int rc = lanex_ring_attach(w.executor, u->ring_fd, &u->ring);
    SIM_CHECK(rc == 0 || rc == -EOPNOTSUPP || rc == -EMFILE || rc == -ENOMEM || rc == -ESHUTDOWN);
    if (rc < 0)
        u->ring = NULL;
}

/* Makes the ring, reaps it for a while, and ends without a word. */
static void owner_main(void *arg)
{
    struct user *u = arg;
    struct sim_cqe cqe;

    open_ring(u);
    sim_latch_add(&u->opened, 1);
    if (u->ring_fd < 0)
        return;
    for (uint64_t n = sim_random() % 12; n > 0; n--) {
        if (sim_ring_reap(u->ring_fd, &cqe, 1, sim_random() % (2 * MS)) > 0)
            check_cqe(u, &cqe, u->generation);
    }
    sim_note("the owner of user %u's ring goes", u->index);
}

static void open_port(struct user *u, uint32_t sink)
{
    lanex_port_options options = {
        .size = sizeof options,
        .doorbell = sink == RING_PORT ? LANEX_DOORBELL_RING : LANEX_DOORBELL_EVENTFD,
        .ring = sink == RING_PORT ? u->ring : NULL,
        .ring_user_data = (uint64_t)u->generation << TAG_SHIFT | BELL,
    };
    struct door *door = &u->door[sink];

    *door = (struct door){.sink = sink};
    if (sink == RING_PORT && u->ring == NULL)
        return;
    if (lanex_port_create(w.executor, &options, &door->port) < 0)
        door->port = NULL;
}

/* Its jobs' answers are not waited for any more. */
static void forget_door(const struct user *u, const struct door *door)
{
    for (unsigned i = 0; i < u->jobs; i++) {
        if (u->job[i]->door == door)
            u->job[i]->door = NULL;
    }
}

/* Stops listening: what the port says is left is what it hands back. */
static void detach(struct user *u, uint32_t sink)
{
    struct door *door = &u->door[sink];
    unsigned left = 0, n;

    if (door->port == NULL)
        return;
    int told = lanex_port_detach(door->port);
    SIM_CHECK(told >= 0);
    while ((n = drain(door, 2)) > 0)
        left += n;
    if (left != (unsigned)told)
        sim_fail("detach said %d and drain gave %u", told, left);
    sim_yield();
    SIM_CHECK(drain(door, 4) == 0);
    SIM_CHECK(lanex_port_detach(door->port) == 0);
    forget_door(u, door);
    lanex_port_unref(door->port);
    sim_note("user %u: detached, %d left", u->index, told);
    open_port(u, sink);
}

/* Another ring instead, most likely under the same number. */
static void move(struct user *u)
{
    if (u->life != MOVES || u->ring_fd < 0)
        return;
    detach(u, RING_PORT);
    lanex_port_unref(u->door[RING_PORT].port);
    if (sim_chance(500)) {
        lanex_ring_unref(u->ring);
        sim_fd_close(u->ring_fd);
    } else {
        sim_fd_close(u->ring_fd);
        lanex_ring_unref(u->ring);
    }
    u->cqes_expected = u->cqes_got = 0;
    open_ring(u);
    open_port(u, RING_PORT);
}

/* ---- operations ---- */

static bool fill_sink(struct user *u, struct job *job, uint32_t place, lanex_sink *sink)
{
    job->door = &u->door[job->sink];
    if (job->sink != RING && job->door->port != NULL) {
        *sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = job->door->port};
        return true;
    }
    job->door = NULL;
    if (u->ring == NULL)
        return false;
    job->sink = RING;
    job->generation = u->generation;
    *sink = (lanex_sink){.kind = LANEX_SINK_RING,
                         .ring = u->ring,
                         .user_data = (uint64_t)u->generation << TAG_SHIFT | place};
    return true;
}

static void submit(struct user *u, const struct sim_op *op)
{
    if (u->actor == NULL)
        return;
    struct job *job = &w.job[w.jobs++];
    *job = (struct job){.accepted = true, .conduct = op->arg[1], .sink = op->arg[2]};
    lanex_job_options options = {
        .size = sizeof options, .lane = op->arg[0], .run = run, .arg = job};
    if (!fill_sink(u, job, u->jobs, &options.sink))
        job->sink = SINKS; /* a ticket alone */
    if (op->wide != 0)
        options.deadline_ns = sim_now_ns() + op->wide;
    u->job[u->jobs++] = job;
    int rc = job->door == NULL ? lanex_submit_ticket(u->actor, &options, &job->ticket)
                               : lanex_submit(u->actor, &options, &job->number);
    if (rc < 0) {
        SIM_CHECK(rc == -ENOMEM || rc == -ESHUTDOWN);
        SIM_CHECK(!job->begun && job->cqes == 0);
        job->accepted = false;
        job->ticket = NULL;
        job->door = NULL;
        return;
    }
    if (job->ticket != NULL)
        job->number = lanex_ticket_job(job->ticket);
    else
        job->door->expected++;
    u->cqes_expected += job->sink == RING;
    sim_note("user %u: job %u submitted, sink %u", u->index, u->jobs - 1, job->sink);
}

static void perform(struct user *u, const struct sim_op *op)
{
    switch (op->kind) {
    case SUBMIT:
        submit(u, op);
        break;
    case CANCEL:
        if (u->jobs > 0 && u->job[op->arg[0] % u->jobs]->accepted)
            (void)lanex_cancel(w.executor, u->job[op->arg[0] % u->jobs]->number);
        break;
    case REST:
        sim_sleep_ns(op->wide);
        break;
    case REAP:
        reap(u, op->wide % 3 == 0 ? op->wide : 0);
        for (uint32_t sink = PORT; sink < SINKS; sink++) {
            if (u->door[sink].port != NULL)
                drain(&u->door[sink], 1 + op->arg[0] % 4);
        }
        break;
    case DETACH:
        detach(u, op->arg[2] == RING ? PORT : op->arg[2]);
        break;
    case MOVE:
        move(u);
        break;
    default:
        break;
    }
}

/* ---- a user's life ---- */

static void await_doors(struct user *u)
{
    for (uint32_t sink = PORT; sink < SINKS; sink++) {
        struct door *door = &u->door[sink];
        if (sim_chance(250)) {
            /* It is dropped with whatever is in it and will come. */
            forget_door(u, door);
            continue;
        }
        while (door->port != NULL && door->got < door->expected) {
            drain(door, 1 + sim_random() % 4);
            if (door->got == door->expected)
                break;
            if (sink == PORT)
                SIM_CHECK(sim_fd_wait(lanex_port_fd(door->port), UINT64_MAX));
            else if (u->life == DIES || w.lossy)
                sim_sleep_ns(MS / 2);
            else
                reap(u, UINT64_MAX);
        }
    }
}

static void await_tickets(struct user *u)
{
    while (u->life != DIES && !w.lossy && u->ring != NULL && u->cqes_got < u->cqes_expected)
        reap(u, UINT64_MAX);
    for (unsigned i = 0; i < u->jobs; i++) {
        struct job *job = u->job[i];
        if (job->ticket == NULL)
            continue;
        SIM_CHECK(lanex_ticket_wait(job->ticket, LANEX_TIME_NEVER) == 0);
        check_answer(lanex_ticket_completion(job->ticket), job);
        job->answers++;
    }
    reap(u, 0);
    if (u->life == DIES)
        sim_join(u->owner); /* it looks at tickets while it lives */
    for (unsigned i = 0; i < u->jobs; i++) {
        lanex_ticket_drop(u->job[i]->ticket);
        u->job[i]->ticket = NULL;
    }
}

static void user_main(void *arg)
{
    struct user *u = arg;
    const struct sim_scenario *s = u->scenario;
    const char name[2] = {'k', (char)('0' + u->index / 2)};

    if (u->life == DIES) {
        u->owner = sim_spawn(owner_main, u, "ring-owner");
        sim_latch_wait(&u->opened, 1, UINT64_MAX);
    } else {
        open_ring(u);
    }
    open_port(u, PORT);
    open_port(u, RING_PORT);
    if (lanex_actor_register(w.executor, name, sizeof name, NULL, &u->actor) < 0)
        u->actor = NULL;
    for (uint32_t i = 0; i < s->count[u->index]; i++)
        perform(u, &s->op[u->index][i]);
    await_doors(u);
    await_tickets(u);
    lanex_port_unref(u->door[PORT].port);
    lanex_port_unref(u->door[RING_PORT].port);
    lanex_ring_unref(u->ring);
    lanex_actor_unref(u->actor);
    if (u->ring_fd >= 0)
        sim_fd_close(u->ring_fd);
    lanex_executor_unref(w.executor);
}

/* ---- the whole ---- */

static bool start(const struct sim_scenario *s)
{
    lanex_executor_options options = {.size = sizeof options,
                                      .pool_size = s->set[POOL],
                                      .dispatch = s->set[DISPATCH],
                                      .spin_us = sim_spin_us()};
    int rc = lanex_executor_create(&options, &w.executor);

    if (rc < 0)
        SIM_CHECK((s->faults & (SIM_FAULT_MEMORY | SIM_FAULT_ERRORS)) != 0);
    return rc == 0;
}

static void check_end(void)
{
    for (unsigned i = 0; i < w.jobs; i++) {
        const struct job *job = &w.job[i];
        if (job->destroyed != job->responded)
            sim_fail("job %u gave %u responses, and %u were destroyed", i, job->responded,
                     job->destroyed);
        /* Those whose port was detached may have been told of nobody. */
        if (job->accepted && (job->sink == RING || job->sink == SINKS || job->door != NULL))
            SIM_CHECK(job->answers == 1);
    }
}

static void play(const struct sim_scenario *s)
{
    static struct user user[SIM_USERS_MAX];
    unsigned thread[SIM_USERS_MAX];

    w.lossy = s->set[EARLY] != 0;
    if (!start(s))
        return;
    sim_gates_are_open = true;
    for (unsigned i = 0; i < s->users; i++) {
        user[i] = (struct user){
            .scenario = s, .index = i, .life = (enum life)s->set[LIFE + i], .ring_fd = -1};
        lanex_executor_ref(w.executor);
        char name[16] = {'u', 's', 'e', 'r', '-', (char)('0' + i)};
        thread[i] = sim_spawn(user_main, &user[i], name);
    }
    if (s->set[EARLY] != 0) {
        sim_sleep_ns(s->set[EARLY]);
        SIM_CHECK(lanex_executor_destroy(w.executor) == 0);
    }
    for (unsigned i = 0; i < s->users; i++)
        sim_join(thread[i]);
    if (s->set[EARLY] == 0)
        SIM_CHECK(lanex_executor_destroy(w.executor) == 0);
    check_end();
}

static void generate(struct sim_scenario *s)
{
    uint64_t state = s->seed ^ UINT64_C(0x52494E47);
    static const uint32_t lanes[] = {LANEX_LANE_PURE_READ, LANEX_LANE_PURE_READ,
                                     LANEX_LANE_MUTATING, LANEX_LANE_SERIAL_STATUS};
    static const enum kind kinds[] = {CANCEL, REST, REST, REAP, REAP, REAP, DETACH, MOVE};

    s->users = 1 + (uint32_t)(sim_draw(&state) % 4);
    s->set[POOL] = 2 + (uint32_t)(sim_draw(&state) % 3);
    s->set[DISPATCH] = sim_draw(&state) % 3 == 0 ? LANEX_DISPATCH_SCHEDULER : LANEX_DISPATCH_SEAT;
    if (sim_draw(&state) % 4 == 0)
        s->set[EARLY] = 1 + (uint32_t)(sim_draw(&state) % (2 * MS));
    for (uint32_t u = 0; u < s->users; u++) {
        s->set[LIFE + u] = (uint32_t)(sim_draw(&state) % LIVES);
        s->count[u] = 4 + (uint32_t)(sim_draw(&state) % (SIM_OPS_MAX - 4));
        for (uint32_t i = 0; i < s->count[u]; i++) {
            struct sim_op *op = &s->op[u][i];
            uint64_t dice = sim_draw(&state), wide = sim_draw(&state);
            op->kind = dice % 100 < 65 ? SUBMIT : kinds[(dice >> 8) % 8];
            op->arg[0] = op->kind == SUBMIT ? lanes[(dice >> 16) % 4] : (uint32_t)(dice >> 16);
            op->arg[1] = (dice >> 24) % 2 == 0 ? PLAIN : (uint32_t)((dice >> 32) % CONDUCTS);
            /* A panic of a writer ends its actor: not what is looked at here. */
            if (op->kind == SUBMIT && op->arg[0] == LANEX_LANE_MUTATING && op->arg[1] == PANICS)
                op->arg[1] = YIELDS;
            op->arg[2] = (uint32_t)((dice >> 40) % SINKS);
            op->wide = op->kind == SUBMIT ? (wide % 10 == 0 ? 1 + (wide >> 8) % (4 * MS) : 0)
                                          : wide % (2 * MS);
        }
    }
}

static void describe(const struct sim_op *op, char *text, size_t size)
{
    static const char *const kinds[] = {"submit", "cancel", "rest", "reap", "detach", "move ring"};
    static const char *const conducts[] = {"plain", "yields", "sleeps", "panics"};
    static const char *const sinks[] = {"ring", "port", "port with ring"};

    if (op->kind == SUBMIT)
        snprintf(text, size, "submit: lane %u, %s, sink %s, deadline in %llu ns", op->arg[0],
                 conducts[op->arg[1]], sinks[op->arg[2]], (unsigned long long)op->wide);
    else
        snprintf(text, size, "%s (%u, %llu)", kinds[op->kind], op->arg[2],
                 (unsigned long long)op->wide);
}

const struct sim_users sim_users_rings = {
    .name = "rings",
    .generate = generate,
    .play = play,
    .describe = describe,
};

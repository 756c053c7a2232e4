/* The full users' operations on jobs: submitting, cancelling, taking completions. */
#include "users.h"

#include <errno.h>
#include <string.h>

static const char *const names[USERS_KEYS] = {"alpha", "beta", "gamma", "delta"};

/* Bits of sim_op.arg[4]. */
#define FLAG_TOKEN    (1u << 0)
#define FLAG_OWN      (1u << 1) /* the token is the user's */
#define FLAG_INSTALL  (1u << 2)
#define FLAG_BY_KEY   (1u << 3)
#define FLAG_COALESCE (1u << 4)
#define FLAG_FRESH    (1u << 5) /* look the actor up again */
#define FLAG_EARLIER  (1u << 6) /* its token is cancelled before */

struct draft {
    struct users_job *job;
    lanex_job_options options;
};

static void fill_sink(const struct user *user, struct users_job *job, lanex_sink *sink)
{
    if ((job->sink == USERS_TO_PORT && user->port == NULL) ||
        (job->sink == USERS_TO_RING_PORT && user->ring_port == NULL) ||
        (job->sink == USERS_TO_RING && user->ring == NULL) ||
        (user->detached && (job->sink == USERS_TO_PORT || job->sink == USERS_TO_RING_PORT)))
        job->sink = USERS_TO_CALLBACK;
    switch (job->sink) {
    case USERS_TO_CALLBACK:
        *sink =
            (lanex_sink){.kind = LANEX_SINK_CALLBACK, .callback = users_told, .callback_arg = job};
        break;
    case USERS_TO_PORT:
        *sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = user->port};
        break;
    case USERS_TO_RING_PORT:
        *sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = user->ring_port};
        break;
    case USERS_TO_RING:
        *sink =
            (lanex_sink){.kind = LANEX_SINK_RING, .ring = user->ring, .user_data = job->index + 1};
        break;
    default:
        break;
    }
}

static void make_token(struct users_job *job, uint32_t flags, lanex_job_options *options)
{
    if ((flags & FLAG_TOKEN) == 0)
        return;
    if ((flags & FLAG_OWN) != 0 && lanex_cancellation_create(&job->token) == 0)
        options->cancellation = job->token;
    else
        options->flags = LANEX_JOB_CANCELLABLE;
}

/* What its body does; seldom what makes the actor fatal, after which little else can happen. */
static uint32_t conduct_of(uint32_t dice, uint32_t lane)
{
    static const uint32_t conducts[] = {
        USERS_PLAIN,
        USERS_PLAIN,
        USERS_PLAIN,
        USERS_RESPONDS,
        USERS_RESPONDS,
        USERS_FAILS,
        USERS_RESPONDS_TWICE,
        USERS_SEALS,
        USERS_SEALS,
        USERS_SEALS,
        USERS_DEFERS,
        USERS_DEFERS,
        USERS_PANICS,
        USERS_PANICS_WITH_DATA,
        USERS_DEFERS_AND_PANICS,
    };
    uint32_t conduct = conducts[dice % (sizeof conducts / sizeof *conducts)];
    bool panics = conduct == USERS_PANICS || conduct == USERS_PANICS_WITH_DATA ||
                  conduct == USERS_DEFERS_AND_PANICS;

    return panics && lane == LANEX_LANE_MUTATING && (dice >> 4) % 4 != 0 ? USERS_SEALS : conduct;
}

/* A job as the operation asks; `dice` makes the jobs of a batch differ. */
static bool draft(struct user *user, const struct sim_op *op, uint32_t dice, struct draft *draft)
{
    struct users_job *job;
    lanex_job_options *options = &draft->options;
    uint32_t flags = op->arg[4], key = op->arg[0] % USERS_KEYS;
    uint32_t sink = op->arg[3] % USERS_SINKS;
    bool by_key = (flags & FLAG_BY_KEY) != 0 && op->kind == USERS_SUBMIT &&
                  sink != USERS_TO_TICKET && sink != USERS_TO_RING;

    if (users.jobs == USERS_JOBS || (!by_key && user->handle[key] == NULL))
        return false;
    job = draft->job = &users.job[users.jobs];
    *job = (struct users_job){.index = users.jobs++,
                              .owner = user->index,
                              .conduct = conduct_of((op->arg[2] & 0xff) + dice, op->arg[1] % 5),
                              .yields = (op->arg[2] >> 8) % 12,
                              .sink = sink};
    job->sleep_ns = (op->arg[2] >> 16) % 4 == 0 ? 0 : (op->arg[2] >> 18) * UINT64_C(400);
    if ((op->arg[2] >> 12) % 16 == 0)
        job->sleep_ns = 400 * USERS_MS;
    *options = (lanex_job_options){
        .size = sizeof *options,
        .job_class = (op->arg[1] >> 8) & 1,
        .lane = op->arg[1] % 5,
        .run = users_run,
        .arg = job,
        .cost = 1 + (op->arg[1] >> 16) % 4,
        .coalesce_key = (flags & FLAG_COALESCE) != 0 ? 1 + (flags >> 16) % 3 : 0,
        .deadline_ns = op->wide != 0 ? sim_now_ns() + op->wide : 0,
        .request_id = (flags >> 24) % 2 == 0 ? "a request id of more than a word" : NULL,
    };
    if (options->lane == LANEX_LANE_HEAVY_INIT && (flags & FLAG_INSTALL) != 0)
        options->install = users_install;
    make_token(job, flags, options);
    fill_sink(user, job, &options->sink);
    job->facts = (struct check_facts){
        .actor = by_key ? CHECK_NO_ACTOR : user->actor[key],
        .key = key,
        .job_class = options->job_class,
        .lane = options->lane,
        .cost = options->cost,
        .coalesce_key = options->job_class == LANEX_CLASS_MAINTENANCE ? options->coalesce_key : 0,
        .deadline_ns = options->deadline_ns,
        .install = options->install != NULL,
        .token = (flags & FLAG_TOKEN) != 0,
        .told = job->sink != USERS_TO_NONE,
        .prompt = job->sink == USERS_TO_CALLBACK,
    };
    return true;
}

static void cancel_token(struct users_job *job)
{
    check_cancel_begin(&users.check, job->index);
    check_token_cancel_end(&users.check, job->index, lanex_cancellation_cancel(job->token));
}

static void note_submit(const struct users_job *job)
{
    const struct check_facts *facts = &job->facts;

    sim_note("submit %u: key %u actor %u lane %u class %u cost %u deadline %llu install %d token "
             "%d conduct %u sink %u",
             job->index, facts->key, facts->actor, facts->lane, facts->job_class, facts->cost,
             (unsigned long long)facts->deadline_ns, facts->install, facts->token, job->conduct,
             job->sink);
}

static void submit(struct user *user, const struct sim_op *op)
{
    uint32_t key = op->arg[0] % USERS_KEYS;
    bool ended = check_ended(&users.check);
    struct draft d;
    struct users_job *job;
    int rc;

    if ((op->arg[4] & FLAG_FRESH) != 0)
        users_take_handle(user, key);
    if (!draft(user, op, 0, &d))
        return;
    job = d.job;
    note_submit(job);
    check_submit_begin(&users.check, job->index, &job->facts);
    if (job->token != NULL && (op->arg[4] & FLAG_EARLIER) != 0 && op->arg[4] % 7 == 0)
        cancel_token(job);
    if (job->sink == USERS_TO_TICKET || job->sink == USERS_TO_RING)
        rc = lanex_submit_ticket(user->handle[key], &d.options, &job->ticket);
    else if (job->facts.actor == CHECK_NO_ACTOR)
        rc = lanex_submit_by_key(users.executor, names[key], strlen(names[key]), &d.options,
                                 &job->number);
    else
        rc = lanex_submit(user->handle[key], &d.options, &job->number);
    check_submit_end(&users.check, job->index, rc);
    check_call_result(&users.check, ended, rc == -ENOMEM && ended ? -ESHUTDOWN : rc);
    SIM_CHECK(rc == 0 || rc == -ENOMEM || rc == -ESHUTDOWN);
    if (rc == 0 && job->ticket != NULL)
        job->number = lanex_ticket_job(job->ticket);
}

static void submit_batch(struct user *user, const struct sim_op *op)
{
    struct draft drafts[USERS_BATCH];
    lanex_submission batch[USERS_BATCH];
    uint64_t numbers[USERS_BATCH];
    uint32_t count = 0;
    int rc;

    for (uint32_t i = 0; i < USERS_BATCH; i++) {
        struct sim_op one = *op;
        one.arg[0] += i;
        one.arg[1] += i * op->arg[5 - 1] % 3;
        if (one.arg[3] % USERS_SINKS == USERS_TO_TICKET ||
            one.arg[3] % USERS_SINKS == USERS_TO_RING)
            one.arg[3] = USERS_TO_CALLBACK;
        if (!draft(user, &one, i, &drafts[count]))
            continue;
        batch[count] =
            (lanex_submission){user->handle[one.arg[0] % USERS_KEYS], &drafts[count].options};
        count++;
    }
    if (count == 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        note_submit(drafts[i].job);
        check_submit_begin(&users.check, drafts[i].job->index, &drafts[i].job->facts);
    }
    rc = lanex_submit_batch(batch, count, numbers);
    for (uint32_t i = 0; i < count; i++) {
        check_submit_end(&users.check, drafts[i].job->index, rc);
        if (rc == 0)
            drafts[i].job->number = numbers[i];
    }
    SIM_CHECK(rc == 0 || rc == -ENOMEM || (rc == -ESHUTDOWN && users.check.destroy_begun));
}

static void cancel(const struct sim_op *op, bool by_token)
{
    struct users_job *job;

    if (users.jobs == 0)
        return;
    /* Mostly a late one. */
    uint32_t among = op->arg[2] % 3 == 0 ? 24 : 6;
    job = &users.job[users.jobs - 1 - op->arg[1] % (users.jobs < among ? users.jobs : among)];
    if (!users.check.jobs[job->index].used || (by_token ? job->token == NULL : job->number == 0))
        return;
    if (by_token) {
        cancel_token(job);
        return;
    }
    check_cancel_begin(&users.check, job->index);
    int outcome = lanex_cancel(users.executor, job->number);
    sim_note("cancel %u: %d", job->index, outcome);
    check_cancel_end(&users.check, job->index, outcome);
}

/* ---- taking completions ---- */

static void take_port(lanex_port *port)
{
    lanex_completion *list[3];
    int count;

    while ((count = lanex_port_drain(port, list, 3)) > 0) {
        for (int i = 0; i < count; i++) {
            users_told(list[i], lanex_completion_arg(list[i]));
            lanex_completion_release(list[i]);
        }
    }
}

static void take_ring(struct user *user)
{
    struct sim_cqe cqes[4];
    unsigned count;

    while ((count = sim_ring_reap(user->ring_fd, cqes, 4, 0)) > 0) {
        for (unsigned i = 0; i < count; i++) {
            if (cqes[i].user_data == 0)
                continue; /* the port's bell */
            struct users_job *job = &users.job[cqes[i].user_data - 1];
            SIM_CHECK(!job->told_by_ring);
            job->told_by_ring = true;
            job->ring_result = cqes[i].res;
        }
    }
}

/* A ticket that is over is read and given back. */
static void take_ticket(struct users_job *job, bool wait)
{
    int rc = wait ? lanex_ticket_wait(job->ticket, USERS_MS) : lanex_ticket_poll(job->ticket);

    SIM_CHECK(rc == 0 || rc == 1 || rc == -ETIMEDOUT);
    if (wait ? rc != 0 : rc != 1)
        return;
    users_told(lanex_ticket_completion(job->ticket), job);
    lanex_ticket_drop(job->ticket);
    job->ticket = NULL;
}

void users_take(struct user *user)
{
    if (user->port != NULL)
        take_port(user->port);
    if (user->ring_port != NULL)
        take_port(user->ring_port);
    if (user->ring_fd >= 0)
        take_ring(user);
    for (uint32_t i = 0; i < users.jobs; i++) {
        struct users_job *job = &users.job[i];
        if (job->owner == user->index && job->ticket != NULL &&
            (job->sink == USERS_TO_TICKET || job->told_by_ring))
            take_ticket(job, false);
    }
}

static void wait_or_drop(struct user *user, uint64_t dice)
{
    for (uint32_t i = 0; i < users.jobs; i++) {
        struct users_job *job = &users.job[i];
        if (job->owner != user->index || job->ticket == NULL || job->sink != USERS_TO_TICKET)
            continue;
        if (dice % 4 != 0) {
            take_ticket(job, true);
            return;
        }
        check_untold(&users.check, job->index);
        lanex_ticket_drop(job->ticket);
        job->ticket = NULL;
        return;
    }
}

/* What its ports have not delivered by now, they never may. */
void users_untold_ports(const struct user *user)
{
    for (uint32_t i = 0; i < users.jobs; i++) {
        const struct users_job *job = &users.job[i];
        if (job->owner == user->index && !users.check.jobs[i].completed &&
            (job->sink == USERS_TO_PORT || job->sink == USERS_TO_RING_PORT))
            check_untold(&users.check, i);
    }
}

static void detach(struct user *user)
{
    if (user->detached)
        return;
    user->detached = true;
    users_untold_ports(user);
    if (user->port != NULL)
        SIM_CHECK(lanex_port_detach(user->port) >= 0);
    if (user->ring_port != NULL)
        SIM_CHECK(lanex_port_detach(user->ring_port) >= 0);
}

/* Was everything asleep until this thread's sleep ended, and has nothing moved since? Then the view
 * must equal the recount. */
static void look_when_still(void)
{
    lanex_liveness live = {.size = sizeof live};
    uint64_t events;

    sim_sleep_ns(300 * USERS_MS);
    if (users.still_events != users.check.events || users.still_turns != users.turns)
        return;
    events = users.check.events;
    SIM_CHECK(lanex_executor_liveness(users.executor, &live) == 0);
    if (events == users.check.events && users.still_turns == users.turns)
        check_still(&users.check, &live);
}

static void drain(const struct sim_op *op)
{
    uint64_t began_ns = sim_now_ns();
    size_t left = 0;
    int rc;

    check_drain_begin(&users.check);
    rc = lanex_executor_drain(users.executor, op->wide, &left);
    check_drain_end(&users.check, rc, left, began_ns, op->wide);
}

void users_perform(struct user *user, const struct sim_op *op)
{
    uint32_t key = op->arg[0] % USERS_KEYS;

    switch (op->kind) {
    case USERS_SUBMIT:
        submit(user, op);
        break;
    case USERS_BATCH_SUBMIT:
        submit_batch(user, op);
        break;
    case USERS_CANCEL:
    case USERS_TOKEN:
        cancel(op, op->kind == USERS_TOKEN);
        break;
    case USERS_REGISTER:
        users_register(user, key, op->arg[1] % 4);
        break;
    case USERS_REMOVE:
    case USERS_RETIRE:
        users_remove(key, op->kind == USERS_RETIRE);
        break;
    case USERS_CANCEL_MAINTENANCE:
        users_cancel_maintenance(key);
        break;
    case USERS_ANSWER:
        users_answer_one(op->arg[1]);
        break;
    case USERS_TAKE:
        users_take(user);
        break;
    case USERS_DETACH:
        detach(user);
        break;
    case USERS_TICKET:
        wait_or_drop(user, op->arg[1]);
        break;
    case USERS_QUERY:
        users_query(key, op->arg[1]);
        break;
    case USERS_STILL:
        look_when_still();
        break;
    case USERS_REST:
        sim_sleep_ns(op->wide);
        break;
    case USERS_DRAIN:
        drain(op);
        break;
    default:
        break;
    }
    check_tick(&users.check);
}

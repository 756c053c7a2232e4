#include "admission_naive.h"

#include <stdlib.h>
#include <string.h>

#include <lanex/completion.h>
#include <lanex/job.h>

#include "tests/support/lx_require.h"

#define ROOM(array, count, room)                                                                   \
    do {                                                                                           \
        if ((count) == (room)) {                                                                   \
            (room) = (room) == 0 ? 16 : (room)*2;                                                  \
            (array) = realloc((array), (room) * sizeof *(array));                                  \
            LX_REQUIRE((array) != NULL);                                                           \
        }                                                                                          \
    } while (0)

#define MS UINT64_C(1000000)

static bool has_switch(const struct naive *naive, uint32_t flag)
{
    return (naive->config.flags & flag) != 0;
}

void naive_init(struct naive *naive, const lanex_config *config)
{
    memset(naive, 0, sizeof *naive);
    naive->config = *config;
}

void naive_fini(struct naive *naive)
{
    free(naive->jobs);
    free(naive->actors);
    free(naive->rotation);
    free(naive->dispatched);
    free(naive->settled);
}

void naive_begin(struct naive *naive, uint64_t now_ns)
{
    naive->now_ns = now_ns;
    naive->dispatched_count = 0;
    naive->settled_count = 0;
}

static struct naive_job *job_by_id(struct naive *naive, unsigned id)
{
    for (size_t i = 0; i < naive->job_count; i++) {
        if (naive->jobs[i].id == id)
            return &naive->jobs[i];
    }
    return NULL;
}

static void settle(struct naive *naive, unsigned id, int status)
{
    ROOM(naive->settled, naive->settled_count, naive->settled_room);
    naive->settled[naive->settled_count++] = (struct naive_answer){id, status};
}

static void forget_over(struct naive *naive)
{
    size_t kept = 0;

    for (size_t i = 0; i < naive->job_count; i++) {
        if (naive->jobs[i].state != NAIVE_OVER)
            naive->jobs[kept++] = naive->jobs[i];
    }
    naive->job_count = kept;
}

static unsigned queued_of(const struct naive *naive, unsigned actor, int job_class)
{
    unsigned count = 0;

    for (size_t i = 0; i < naive->job_count; i++) {
        const struct naive_job *job = &naive->jobs[i];
        if (job->state == NAIVE_QUEUED && job->actor == actor &&
            (job_class < 0 || job->job_class == (unsigned)job_class))
            count++;
    }
    return count;
}

/* Queued jobs that `leave` holds for are answered, in arrival order. */
static void left_queue(struct naive *naive, unsigned actor)
{
    if (queued_of(naive, actor, -1) == 0) {
        naive->actors[actor].deficit = 0;
        naive->actors[actor].largest_cost = 0;
    }
}

static uint32_t answer_queued(struct naive *naive, unsigned actor, int job_class, int status)
{
    uint32_t count = 0;

    for (size_t i = 0; i < naive->job_count; i++) {
        struct naive_job *job = &naive->jobs[i];
        if (job->state != NAIVE_QUEUED || job->actor != actor ||
            (job_class >= 0 && job->job_class != (unsigned)job_class))
            continue;
        job->state = NAIVE_OVER;
        settle(naive, job->id, status);
        count++;
    }
    left_queue(naive, actor);
    return count;
}

static void drop_built(struct naive *naive, unsigned actor)
{
    for (;;) {
        struct naive_job *first = NULL;
        for (size_t i = 0; i < naive->job_count; i++) {
            struct naive_job *job = &naive->jobs[i];
            if (job->state == NAIVE_BUILT && job->actor == actor &&
                (first == NULL || job->built_order < first->built_order))
                first = job;
        }
        if (first == NULL)
            return;
        first->state = NAIVE_OVER;
        settle(naive, first->id, LANEX_STATUS_ACTOR_FATAL);
    }
}

void naive_register(struct naive *naive, unsigned id, uint32_t weight)
{
    LX_REQUIRE(id == naive->actor_count);
    ROOM(naive->actors, naive->actor_count, naive->actor_room);
    naive->actors[naive->actor_count++] =
        (struct naive_actor){.id = id, .weight = weight, .registered = true};
    ROOM(naive->rotation, naive->rotation_count, naive->rotation_room);
    naive->rotation[naive->rotation_count++] = id;
}

void naive_remove(struct naive *naive, unsigned actor)
{
    size_t at = 0;

    while (naive->rotation[at] != actor)
        at++;
    memmove(&naive->rotation[at], &naive->rotation[at + 1],
            (naive->rotation_count - at - 1) * sizeof naive->rotation[0]);
    naive->rotation_count--;
    if (at < naive->cursor)
        naive->cursor--;
    if (naive->cursor == naive->rotation_count)
        naive->cursor = 0;
    if (at < naive->overdue_cursor)
        naive->overdue_cursor--;
    naive->actors[actor].registered = false;
    if (naive->open_actor == actor)
        naive->open = false;
    drop_built(naive, actor);
    answer_queued(naive, actor, -1, LANEX_STATUS_ACTOR_FATAL);
    forget_over(naive);
}

static void drop_duplicates(struct naive *naive, unsigned actor)
{
    uint64_t seen = 0;

    for (size_t i = 0; i < naive->job_count; i++) {
        struct naive_job *job = &naive->jobs[i];
        if (job->state != NAIVE_QUEUED || job->actor != actor ||
            job->job_class != LANEX_CLASS_MAINTENANCE || job->coalesce_key == 0)
            continue;
        if ((seen >> job->coalesce_key) & 1) {
            job->state = NAIVE_OVER;
            settle(naive, job->id, LANEX_STATUS_MAINTENANCE_CANCELLED);
        }
        seen |= UINT64_C(1) << job->coalesce_key;
    }
}

static bool key_is_queued(const struct naive *naive, const struct naive_job *asked)
{
    for (size_t i = 0; i < naive->job_count; i++) {
        const struct naive_job *job = &naive->jobs[i];
        if (job->state == NAIVE_QUEUED && job->actor == asked->actor &&
            job->job_class == LANEX_CLASS_MAINTENANCE && job->coalesce_key == asked->coalesce_key)
            return true;
    }
    return false;
}

static int refusal(struct naive *naive, const struct naive_job *job, bool known_actor,
                   bool token_cancelled)
{
    const lanex_config *config = &naive->config;
    bool background = job->job_class == LANEX_CLASS_MAINTENANCE;
    int full =
        background ? LANEX_STATUS_MAINTENANCE_BACKPRESSURE : LANEX_STATUS_EXECUTOR_BACKPRESSURE;
    uint32_t actor_cap =
        background ? config->maintenance_queue_cap : config->interactive_actor_queue_cap;
    uint32_t total_cap =
        background ? config->maintenance_total_queue_cap : config->interactive_queue_cap;

    if (!known_actor || !naive->actors[job->actor].registered)
        return LANEX_STATUS_ACTOR_NOT_REGISTERED;
    if (naive->actors[job->actor].fatal)
        return LANEX_STATUS_ACTOR_FATAL;
    if (naive->draining)
        return LANEX_STATUS_EXECUTOR_SHUTDOWN;
    if (token_cancelled)
        return LANEX_STATUS_REQUEST_CANCELLED;
    if (background && job->coalesce_key != 0 && key_is_queued(naive, job))
        return LANEX_STATUS_MAINTENANCE_CANCELLED;
    if (actor_cap != 0 && queued_of(naive, job->actor, (int)job->job_class) >= actor_cap) {
        if (background)
            drop_duplicates(naive, job->actor);
        if (queued_of(naive, job->actor, (int)job->job_class) >= actor_cap)
            return full;
    }
    if (job->deadline_ns <= naive->now_ns)
        return LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED;
    if (total_cap != 0 && naive_count_all(naive).queued[job->job_class] >= total_cap)
        return full;
    return LANEX_STATUS_OK;
}

void naive_submit(struct naive *naive, const struct naive_job *asked, bool known_actor,
                  bool token_cancelled)
{
    int status = refusal(naive, asked, known_actor, token_cancelled);
    struct naive_job job = *asked;

    if (status != LANEX_STATUS_OK) {
        settle(naive, asked->id, status);
        return;
    }
    job.state = NAIVE_QUEUED;
    job.submitted_ns = naive->now_ns;
    if (job.cost > naive->actors[job.actor].largest_cost)
        naive->actors[job.actor].largest_cost = job.cost;
    ROOM(naive->jobs, naive->job_count, naive->job_room);
    naive->jobs[naive->job_count++] = job;
}

void naive_end(struct naive *naive, unsigned id, bool panicked)
{
    struct naive_job *job = job_by_id(naive, id);
    struct naive_actor *actor = &naive->actors[job->actor];
    bool wrote = job->lane == LANEX_LANE_MUTATING || job->state == NAIVE_INSTALLING;

    job->state = NAIVE_OVER;
    if (panicked && wrote && !actor->fatal) {
        actor->fatal = true;
        if (actor->registered) {
            drop_built(naive, actor->id);
            answer_queued(naive, actor->id, -1, LANEX_STATUS_ACTOR_FATAL);
        }
    }
    forget_over(naive);
}

bool naive_build_done(struct naive *naive, unsigned id)
{
    struct naive_job *job = job_by_id(naive, id);

    if (!naive->actors[job->actor].registered || naive->actors[job->actor].fatal) {
        job->state = NAIVE_OVER;
        settle(naive, id, LANEX_STATUS_ACTOR_FATAL);
        forget_over(naive);
        return false;
    }
    job->state = NAIVE_BUILT;
    job->built_order = ++naive->built;
    job->overdue = false;
    return true;
}

bool naive_cancel(struct naive *naive, unsigned id)
{
    struct naive_job *job = job_by_id(naive, id);

    if (job == NULL || job->state != NAIVE_QUEUED)
        return false;
    job->state = NAIVE_OVER;
    settle(naive, id, LANEX_STATUS_REQUEST_CANCELLED);
    left_queue(naive, job->actor);
    forget_over(naive);
    return true;
}

uint32_t naive_cancel_maintenance(struct naive *naive, unsigned actor)
{
    uint32_t count =
        answer_queued(naive, actor, LANEX_CLASS_MAINTENANCE, LANEX_STATUS_MAINTENANCE_CANCELLED);

    forget_over(naive);
    return count;
}

void naive_expire(struct naive *naive)
{
    for (;;) {
        struct naive_job *first = NULL;
        for (size_t i = 0; i < naive->job_count; i++) {
            struct naive_job *job = &naive->jobs[i];
            if (job->state == NAIVE_QUEUED && job->deadline_ns <= naive->now_ns &&
                (first == NULL || job->deadline_ns < first->deadline_ns))
                first = job;
        }
        if (first == NULL)
            break;
        first->state = NAIVE_OVER;
        settle(naive, first->id, LANEX_STATUS_REQUEST_DEADLINE_EXCEEDED);
        left_queue(naive, first->actor);
    }
    forget_over(naive);
}

/* ---- SPEC 3 ---- */

static void count_job(struct naive_counts *counts, const struct naive *naive,
                      const struct naive_job *job)
{
    bool on_worker = job->state == NAIVE_RUNNING || job->state == NAIVE_INSTALLING;

    if (job->state == NAIVE_OVER)
        return;
    if (job->state == NAIVE_QUEUED) {
        counts->queued[job->job_class]++;
        if (job->submitted_ns < counts->oldest_ns[job->job_class])
            counts->oldest_ns[job->job_class] = job->submitted_ns;
        if (job->job_class == LANEX_CLASS_MAINTENANCE && job->coalesce_key != 0)
            counts->keys |= UINT64_C(1) << job->coalesce_key;
        return;
    }
    if (on_worker)
        counts->running[job->job_class]++;
    counts->built += job->state == NAIVE_BUILT;
    counts->reads += job->lane == LANEX_LANE_PURE_READ;
    counts->serials += job->lane == LANEX_LANE_SERIAL_STATUS;
    counts->heavies += job->lane == LANEX_LANE_HEAVY_INIT;
    counts->commits += job->lane == LANEX_LANE_MAINTENANCE_COMMIT;
    counts->writers += job->lane == LANEX_LANE_MUTATING || job->state == NAIVE_INSTALLING;
    if (job->lane != LANEX_LANE_MAINTENANCE_COMMIT ||
        has_switch(naive, LANEX_EXECUTOR_COMMIT_COUNTS_TOWARD_CAP))
        counts->in_flight++;
}

struct naive_counts naive_count_actor(const struct naive *naive, unsigned actor)
{
    struct naive_counts counts = {.oldest_ns = {UINT64_MAX, UINT64_MAX}};

    for (size_t i = 0; i < naive->job_count; i++) {
        if (naive->jobs[i].actor == actor)
            count_job(&counts, naive, &naive->jobs[i]);
    }
    return counts;
}

struct naive_counts naive_count_all(const struct naive *naive)
{
    struct naive_counts counts = {.oldest_ns = {UINT64_MAX, UINT64_MAX}};

    for (size_t i = 0; i < naive->job_count; i++)
        count_job(&counts, naive, &naive->jobs[i]);
    return counts;
}

static bool permit_is_free(const struct naive *naive)
{
    return naive_count_all(naive).heavies < naive->config.heavy_permits;
}

/* May this lane of the actor start, were there permits enough? */
static bool actor_allows(const struct naive *naive, unsigned actor, unsigned lane)
{
    struct naive_counts counts = naive_count_actor(naive, actor);
    bool slot = counts.in_flight < naive->config.actor_cap;

    if (counts.writers > 0)
        return false;
    switch (lane) {
    case LANEX_LANE_PURE_READ:
        return slot && counts.reads < naive->config.read_cap;
    case LANEX_LANE_SERIAL_STATUS:
        return slot && counts.serials == 0;
    case LANEX_LANE_MAINTENANCE_COMMIT:
        return counts.commits == 0 &&
               (slot || !has_switch(naive, LANEX_EXECUTOR_COMMIT_COUNTS_TOWARD_CAP));
    case LANEX_LANE_MUTATING:
        return slot && counts.reads + counts.serials + counts.commits == 0;
    default:
        return slot;
    }
}

static bool may_start(const struct naive *naive, const struct naive_job *job)
{
    return job != NULL && actor_allows(naive, job->actor, job->lane) &&
           (job->lane != LANEX_LANE_HEAVY_INIT || permit_is_free(naive));
}

/* ---- SPEC 4 ---- */

/* The oldest queued job of the actor and class in the lanes of the mask. */
static struct naive_job *oldest(const struct naive *naive, unsigned actor, unsigned job_class,
                                unsigned lanes)
{
    for (size_t i = 0; i < naive->job_count; i++) {
        struct naive_job *job = &naive->jobs[i];
        if (job->state == NAIVE_QUEUED && job->actor == actor && job->job_class == job_class &&
            ((lanes >> job->lane) & 1) != 0)
            return job;
    }
    return NULL;
}

#define EVERY_LANE     0x1fu
#define LANE_BIT(lane) (1u << (lane))

static bool urgent(const struct naive *naive, const struct naive_job *job)
{
    uint64_t promotion = naive->config.promotion_age_ms * MS;
    uint64_t age = naive->now_ns - job->submitted_ns;

    if (job->deadline_ns == UINT64_MAX)
        return age >= promotion;
    return job->deadline_ns - naive->now_ns <= (age > promotion ? age : promotion);
}

static bool writer_urgent(const struct naive *naive, unsigned actor)
{
    for (size_t i = 0; i < naive->job_count; i++) {
        const struct naive_job *job = &naive->jobs[i];
        if (job->state == NAIVE_QUEUED && job->actor == actor &&
            job->job_class == LANEX_CLASS_INTERACTIVE && job->lane == LANEX_LANE_MUTATING &&
            urgent(naive, job))
            return true;
    }
    return false;
}

static bool promotion_suspended(const struct naive *naive, const struct naive_job *writer)
{
    struct naive_counts counts = naive_count_actor(naive, writer->actor);
    uint64_t newest = 0;

    if (has_switch(naive, LANEX_EXECUTOR_NO_PROMOTION_SUSPENSION) || counts.writers > 0 ||
        counts.reads + counts.serials + counts.commits == 0)
        return false;
    for (size_t i = 0; i < naive->job_count; i++) {
        const struct naive_job *job = &naive->jobs[i];
        if (job->actor != writer->actor || job->state != NAIVE_RUNNING ||
            job->lane == LANEX_LANE_HEAVY_INIT)
            continue;
        if (job->started_ns > writer->submitted_ns)
            return false;
        if (job->started_ns > newest)
            newest = job->started_ns;
    }
    return naive->now_ns - newest >= LANEX_STUCK_READER_MS * MS;
}

/* The oldest of the lanes, past heavy_init if that waits for nothing but a permit; NULL: none may
 * start. */
static struct naive_job *oldest_with_step_over(const struct naive *naive, unsigned actor,
                                               unsigned job_class, unsigned lanes)
{
    struct naive_job *job = oldest(naive, actor, job_class, lanes);

    if (job != NULL && job->lane == LANEX_LANE_HEAVY_INIT && !permit_is_free(naive) &&
        actor_allows(naive, actor, LANEX_LANE_HEAVY_INIT) &&
        !has_switch(naive, LANEX_EXECUTOR_NO_PERMIT_STEP_OVER))
        job = oldest(naive, actor, job_class, lanes & ~LANE_BIT(LANEX_LANE_HEAVY_INIT));
    return may_start(naive, job) ? job : NULL;
}

/* True if an aged job of the other lanes decides; *ret_job: NULL if it must wait. */
static bool aged_decides(const struct naive *naive, unsigned actor, struct naive_job **ret_job)
{
    unsigned lanes = LANE_BIT(LANEX_LANE_SERIAL_STATUS) | LANE_BIT(LANEX_LANE_HEAVY_INIT) |
                     LANE_BIT(LANEX_LANE_MAINTENANCE_COMMIT);
    struct naive_counts counts = naive_count_actor(naive, actor);

    if (has_switch(naive, LANEX_EXECUTOR_NO_AGED_LANES))
        return false;
    /* One that waits for its own lane or for a permit is not starved by reads. */
    if (counts.writers == 0 && counts.serials > 0)
        lanes &= ~LANE_BIT(LANEX_LANE_SERIAL_STATUS);
    if (counts.writers == 0 && counts.commits > 0)
        lanes &= ~LANE_BIT(LANEX_LANE_MAINTENANCE_COMMIT);
    if (actor_allows(naive, actor, LANEX_LANE_HEAVY_INIT) && !permit_is_free(naive))
        lanes &= ~LANE_BIT(LANEX_LANE_HEAVY_INIT);
    struct naive_job *job = oldest(naive, actor, LANEX_CLASS_INTERACTIVE, lanes);
    if (job == NULL || naive->now_ns - job->submitted_ns < naive->config.promotion_age_ms * MS)
        return false;
    *ret_job = may_start(naive, job) ? job : NULL;
    return true;
}

static struct naive_job *next_interactive(const struct naive *naive, unsigned actor)
{
    const unsigned none = LANEX_CLASS_INTERACTIVE;
    struct naive_job *writer = oldest(naive, actor, none, LANE_BIT(LANEX_LANE_MUTATING));
    struct naive_job *read = oldest(naive, actor, none, LANE_BIT(LANEX_LANE_PURE_READ));
    struct naive_job *aged;

    if (writer != NULL && writer_urgent(naive, actor) && !promotion_suspended(naive, writer))
        return may_start(naive, writer) ? writer : NULL;
    if (read != NULL && aged_decides(naive, actor, &aged))
        return aged;
    if (read != NULL)
        return may_start(naive, read) ? read : NULL;
    return oldest_with_step_over(naive, actor, none, EVERY_LANE);
}

/* The job of the actor that may start now in a visit of that class, but for its cost. */
static struct naive_job *next_job(const struct naive *naive, unsigned actor, unsigned job_class)
{
    struct naive_counts counts = naive_count_actor(naive, actor);
    struct naive_job *job = NULL;

    if (counts.built > 0) {
        for (size_t i = 0; i < naive->job_count; i++) {
            struct naive_job *built = &naive->jobs[i];
            if (built->state == NAIVE_BUILT && built->actor == actor &&
                (job == NULL || built->built_order < job->built_order))
                job = built;
        }
        return job_class == LANEX_CLASS_INTERACTIVE && counts.writers == 0 &&
                       counts.reads + counts.serials + counts.commits == 0
                   ? job
                   : NULL;
    }
    if (naive->config.policy == LANEX_POLICY_ARRIVAL) {
        struct naive_job *head = oldest(naive, actor, LANEX_CLASS_INTERACTIVE, EVERY_LANE);
        if (job_class == LANEX_CLASS_MAINTENANCE && head != NULL &&
            head->lane == LANEX_LANE_MUTATING)
            return NULL;
        job = oldest(naive, actor, job_class, EVERY_LANE);
        return may_start(naive, job) ? job : NULL;
    }
    if (job_class == LANEX_CLASS_INTERACTIVE)
        return next_interactive(naive, actor);
    if (oldest(naive, actor, LANEX_CLASS_INTERACTIVE, LANE_BIT(LANEX_LANE_MUTATING)) != NULL)
        return NULL;
    return oldest_with_step_over(naive, actor, job_class, EVERY_LANE);
}

/* ---- SPEC 5 ---- */

static unsigned idle_workers(const struct naive *naive)
{
    struct naive_counts counts = naive_count_all(naive);

    return naive->config.pool_size - counts.running[0] - counts.running[1];
}

static bool class_may_start(const struct naive *naive, unsigned job_class)
{
    if (job_class == LANEX_CLASS_INTERACTIVE)
        return idle_workers(naive) > 0;
    return naive_count_all(naive).running[job_class] < naive->config.maintenance_cap &&
           idle_workers(naive) > naive->config.interactive_reserve;
}

static void start(struct naive *naive, struct naive_job *job)
{
    bool was_queued = job->state == NAIVE_QUEUED;

    job->state = was_queued ? NAIVE_RUNNING : NAIVE_INSTALLING;
    job->started_ns = naive->now_ns;
    ROOM(naive->dispatched, naive->dispatched_count, naive->dispatched_room);
    naive->dispatched[naive->dispatched_count++] = job->id;
    if (was_queued)
        left_queue(naive, job->actor);
}

static void grow(const struct naive *naive, struct naive_actor *actor)
{
    uint64_t limit = naive->config.deficit_cap * actor->weight;

    if (limit < actor->largest_cost)
        limit = actor->largest_cost;
    actor->deficit += naive->config.drr_quantum * actor->weight;
    if (actor->deficit > limit)
        actor->deficit = limit;
}

static void visit(struct naive *naive, unsigned id, unsigned job_class, bool *started, bool *held)
{
    struct naive_actor *actor = &naive->actors[id];
    bool goes_on = naive->open && naive->open_actor == id && naive->open_class == job_class;
    bool grown = goes_on && naive->open_grown;
    uint64_t starts = goes_on ? naive->open_starts : 0;

    if (goes_on)
        naive->open = false;
    for (; starts < actor->weight && class_may_start(naive, job_class); starts++) {
        struct naive_job *job = next_job(naive, id, job_class);
        if (job == NULL)
            return;
        if (job->state == NAIVE_QUEUED) {
            if (!grown)
                grow(naive, actor);
            grown = true;
            if (job->cost > actor->deficit) {
                *held = true;
                return;
            }
            actor->deficit -= job->cost;
        }
        start(naive, job);
        *started = true;
    }
    if (starts < actor->weight && queued_of(naive, id, (int)job_class) > 0) {
        naive->open = true;
        naive->open_actor = id;
        naive->open_class = job_class;
        naive->open_starts = starts;
        naive->open_grown = grown;
    }
}

static void run_round(struct naive *naive, unsigned job_class, bool *started, bool *held)
{
    for (size_t left = naive->rotation_count; left > 0; left--) {
        unsigned actor;
        if (!class_may_start(naive, job_class))
            return;
        actor = naive->rotation[naive->cursor];
        visit(naive, actor, job_class, started, held);
        if (naive->open && naive->open_actor == actor && naive->open_class == job_class)
            return; /* it stopped for want of a worker, and goes on with the next */
        naive->cursor = (naive->cursor + 1) % naive->rotation_count;
    }
}

static bool overdue_runs(const struct naive *naive)
{
    for (size_t i = 0; i < naive->job_count; i++) {
        if (naive->jobs[i].overdue)
            return true;
    }
    return false;
}

static void start_overdue(struct naive *naive, bool *started)
{
    size_t count = naive->rotation_count;

    if (has_switch(naive, LANEX_EXECUTOR_NO_MAINTENANCE_MAX_WAIT) || idle_workers(naive) == 0 ||
        class_may_start(naive, LANEX_CLASS_MAINTENANCE) || overdue_runs(naive))
        return;
    for (size_t i = 0; i < count; i++) {
        size_t at = (naive->overdue_cursor + i) % count;
        struct naive_job *job = next_job(naive, naive->rotation[at], LANEX_CLASS_MAINTENANCE);
        if (job == NULL ||
            naive->now_ns - job->submitted_ns < naive->config.maintenance_max_wait_ms * MS)
            continue;
        job->overdue = true;
        start(naive, job);
        *started = true;
        naive->overdue_cursor = at + 1;
        return;
    }
}

/* A visit that could go on is over when the cursor has left its actor. */
static void close_visit(struct naive *naive)
{
    if (naive->open && naive->rotation[naive->cursor] != naive->open_actor)
        naive->open = false;
}

void naive_schedule(struct naive *naive)
{
    bool started = true, held = false;

    while ((started || held) && idle_workers(naive) > 0) {
        started = held = false;
        run_round(naive, LANEX_CLASS_INTERACTIVE, &started, &held);
        close_visit(naive);
        if (idle_workers(naive) > 0 && class_may_start(naive, LANEX_CLASS_MAINTENANCE))
            run_round(naive, LANEX_CLASS_MAINTENANCE, &started, &held);
        close_visit(naive);
        start_overdue(naive, &started);
    }
}

/*
 * The seat: who runs scheduler turns.
 *
 * Protocol (tests/model/seat.pml)
 *   An event is pushed to the inbox (a sequentially consistent read-modify-write), then the pusher
 * looks at the seat. If it is free the pusher takes it and runs the turn; if it is taken the pusher
 * goes on, because the holder will look at the inbox again: it stores 0 to the seat, passes a full
 * fence, and loads the inbox. Of {push; look at seat} and {leave; fence; look at inbox} at least
 * one sees the other, so no event stays in the inbox with the seat free. Without that fence both
 * may see the old values, and the event waits for ever.
 *
 * Jobs left lying. While every worker is taken, or while a writer has the actor to itself, a job
 * more can only be queued, and each end of a job is followed by a turn, which takes all that lies
 * in the inbox. So the pusher of such a job does not look at the seat: it looks at `lying` and the
 * actor's `writers`, which turns set before they leave. The argument is the one above, with these
 * words in the place of the seat: of {push; look at them} and {clear them; leave; fence; look at
 * inbox} at least one sees the other, and while they stand, an end is to come. Left lying is only
 * what nobody can miss meanwhile: no job that is answered without a worker (refused, expired,
 * coalesced), none with a timer, none that a running body may ask for (writers_queued). It brings
 * its own time along, and whoever reads the views has the inbox handled first. For the same jobs a
 * watching worker (spin.h) is as good as an end to come. A thread leaves
 * LX_LEFT_LYING jobs at most, so that a turn finds the inbox short.
 *
 * A turn handles at most LX_TURN_EVENTS events. A user stays for a few turns, by what it is; what
 * is left then goes to lanex-sched, which is told.
 *
 * What is done in the seat is bounded and runs no user code. What costs a system call (waking a
 * worker, the scheduler, the reaper) is noted there and done after leaving.
 */
#include <errno.h>

#include "admission/views.h"
#include "runtime/actor.h"
#include "runtime/executor.h"
#include "runtime/nap.h"
#include "sync/assert.h"
#include "sync/futex.h"
#include "sync/seams.h"

#define LX_TURN_EVENTS 64u /* events a turn handles before others get the admission state */
#define LX_COARSE_STEP_NS                                                                          \
    UINT64_C(10000000) /* the coarse clock is at most that much behind: a tick of HZ=100 */
#define LX_SUBMITTER_TURNS                                                                         \
    2u                     /* turns a submitter runs before it leaves the rest to lanex-sched      \
                            */
#define LX_WORKER_TURNS 4u /* likewise a worker */
#define LX_RECOUNT_VISITS                                                                          \
    64u                        /* phantoms are recounted at rest, and in so many visits of actors  \
                                */
#define LX_LEFT_LYING      64u /* jobs that a thread pushes without a look at the seat */
#define LX_SCHEDULER_TURNS 64u /* likewise lanex-sched, before it looks at its door again */

/* What has to be done once the seat is left. */
struct turn_result {
    struct lanex_job *own; /* for the worker that runs the turn */
    bool wake_worker;
    bool tell_reaper;
    bool tell_quiet;
    bool more; /* events or due work are left */
    struct lx_request *applied;
};

/* ---- one event ---- */

static void handle_end(struct lanex_executor *ex, struct lanex_job *job, bool panicked)
{
    struct lanex_actor *actor = lx_actor_of(job->entry.actor);

    ex->ends_seen[job->entry.job_class]++;
    ex->frees_seen++;
    lx_admission_end(&ex->admission, &job->entry, panicked);
    if (LX_UNLIKELY(panicked) && (actor->entry.flags & LX_ACTOR_FATAL) != 0)
        lx_actor_refuses(actor);
    if (LX_UNLIKELY(actor->stage == LX_ACTOR_REMOVED))
        lx_actor_maybe_gone(ex, actor);
    lx_job_release(job, LX_WORD_HOLD);
}

static void set_exact_time(struct lx_admission *adm)
{
    uint64_t now = lx_now_ns();

    if (now > adm->now_ns)
        lx_admission_begin(adm, now);
}

static void handle_event(struct lanex_executor *ex, uintptr_t link)
{
    struct lx_inbox_node *node = lx_inbox_node_of(link);
    struct lx_request *request;

    switch (lx_inbox_kind_of(link)) {
    case LX_EVENT_SUBMIT:
        /* A turn without timers has begun with the coarse time, by which a deadline that has passed
         * may look like one to come. */
        if (((struct lanex_job *)node)->entry.extra != NULL)
            set_exact_time(&ex->admission);
        lx_admission_submit(&ex->admission, &((struct lanex_job *)node)->entry);
        break;
    case LX_EVENT_END:
        handle_end(ex, (struct lanex_job *)node, false);
        break;
    case LX_EVENT_END_PANICKED:
        handle_end(ex, (struct lanex_job *)node, true);
        break;
    case LX_EVENT_BUILT:
        /* If the install step cannot come any more the job was settled, and goes to the reaper. */
        ex->frees_seen++;
        lx_admission_built(&ex->admission, &((struct lanex_job *)node)->entry);
        break;
    case LX_EVENT_REQUEST:
        request = (struct lx_request *)(void *)node;
        if (!request->at_end)
            request->apply(ex, request);
        node->next = (uintptr_t)ex->applied;
        ex->applied = request;
        break;
    default:
        LX_ASSERT(lx_inbox_kind_of(link) == LX_EVENT_ACTOR_UNUSED);
        lx_actor_unused(ex, lx_actor_of_node(node));
        break;
    }
}

/* The next event in order of arrival, or LX_INBOX_EMPTY. */
static uintptr_t next_event(struct lanex_executor *ex, uintptr_t instead)
{
    uintptr_t link = ex->pending;

    if (link == LX_INBOX_EMPTY) {
        if (instead == LX_INBOX_EMPTY && !lx_inbox_has(&ex->inbox))
            return LX_INBOX_EMPTY;
        link = lx_inbox_take(&ex->inbox, instead);
        if (link == LX_INBOX_EMPTY)
            return LX_INBOX_EMPTY;
    }
    ex->pending = lx_inbox_node_of(link)->next;
    return link;
}

/* ---- what came of it ---- */

static void hand_out(struct lanex_executor *ex, bool takes_job, struct turn_result *result)
{
    struct lx_job_entry *entry = ex->admission.dispatched.head;

    while (entry != NULL) {
        struct lx_job_entry *next = entry->next;
        /* The place of the links becomes the place of the response; an install step goes on with
         * that of its build. */
        if (!lx_job_has_mark(entry, LX_JOB_MARK_ANSWERED)) {
            entry->response[0] = 0;
            entry->response[1] = 0;
        }
        if (takes_job && result->own == NULL) {
            result->own = lx_job_of(entry);
        } else {
            lx_run_queue_push(&ex->run_queue, lx_job_of(entry));
            result->wake_worker = true;
        }
        entry = next;
    }
    ex->admission.dispatched = (struct lx_job_list){NULL, NULL, 0};
}

static void push_to_reaper(struct lanex_executor *ex, struct lx_inbox_node *node,
                           enum lx_reap_kind kind)
{
    bool open = lx_reaper_push(ex, node, kind);

    LX_ASSERT(open); /* the thread outlives the seat */
}

static void hand_to_reaper(struct lanex_executor *ex, struct turn_result *result)
{
    struct lx_job_entry *entry = ex->admission.settled.head;

    while (entry != NULL) {
        struct lx_job_entry *next = entry->next;
        struct lx_actor_entry *actor = entry->actor;

        if (actor != NULL && lx_actor_of(actor)->stage == LX_ACTOR_REMOVED)
            lx_actor_maybe_gone(ex, lx_actor_of(actor));
        /* Links of its queue are where the response goes; only a refusal has one already, or a
         * build, whose data lanex-reap destroys. */
        if (!lx_job_has_mark(entry, LX_JOB_MARK_ANSWERED) &&
            entry->status != LANEX_STATUS_MAINTENANCE_BACKPRESSURE &&
            entry->status != LANEX_STATUS_EXECUTOR_BACKPRESSURE) {
            entry->response[0] = 0;
            entry->response[1] = 0;
        }
        push_to_reaper(ex, (struct lx_inbox_node *)(void *)entry, LX_REAP_JOB);
        result->tell_reaper = true;
        entry = next;
    }
    ex->admission.settled = (struct lx_job_list){NULL, NULL, 0};
}

/* Last of a turn: nothing of it looks at these actors any more. */
static void hand_over_gone(struct lanex_executor *ex, struct turn_result *result)
{
    while (ex->gone != NULL) {
        struct lanex_actor *actor = lx_actor_of(ex->gone);
        ex->gone = ex->gone->detached_next;
        push_to_reaper(ex, lx_actor_node(actor),
                       actor->stage == LX_ACTOR_UNUSED ? LX_REAP_ACTOR : LX_REAP_CONTEXT);
        result->tell_reaper = true;
    }
}

static inline void publish_counter(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* For words that mostly stay as they are: only turns write them, so that a load tells. */
static inline void publish_change(_Atomic uint64_t *word, uint64_t value)
{
    if (LX_UNLIKELY(atomic_load_explicit(word, memory_order_relaxed) != value))
        atomic_store_explicit(word, value, memory_order_relaxed);
}

static void publish_phantoms(struct lanex_executor *ex)
{
    struct lx_published *out = &ex->published;
    struct lx_phantoms phantoms;

    lx_view_phantoms(&ex->admission, &phantoms);
    publish_change(&out->phantom_workers, (uint64_t)phantoms.workers);
    publish_change(&out->phantom_permits, (uint64_t)phantoms.permits);
    for (unsigned c = 0; c < LX_CLASSES; c++)
        publish_change(&out->phantom_slots[c], (uint64_t)phantoms.slots[c]);
}

/* True if the age of the oldest is not exact yet, and another turn would bring it closer. */
static bool publish(struct lanex_executor *ex)
{
    struct lx_admission *adm = &ex->admission;
    struct lx_published *out = &ex->published;
    bool exact = true;

    for (unsigned c = 0; c < LX_CLASSES; c++) {
        uint64_t since_ns;
        exact &= lx_oldest_since(adm, c, &since_ns);
        publish_counter(&out->of[c].oldest_ns, since_ns);
        publish_counter(&out->of[c].queued, adm->queued[c]);
        publish_counter(&out->of[c].begun, adm->running[c] + ex->ends_seen[c]);
        publish_counter(&out->of[c].completed, adm->completed[c]);
        publish_counter(&out->of[c].refused, adm->refused[c]);
    }
    publish_counter(&out->taken, adm->config.pool_size - adm->idle_workers + ex->frees_seen);
    publish_change(&out->free_permits, adm->free_permits);
    publish_change(&out->panicked, adm->panicked);
    publish_change(&out->non_runnable, adm->non_runnable_dispatches);
    publish_change(&out->actors, adm->actors);
    if (lx_view_at_rest(adm) || adm->visits % LX_RECOUNT_VISITS == 0)
        publish_phantoms(ex);
    return !exact;
}

static void count_turn(struct lx_published *out, enum lx_seat_user user)
{
    publish_counter(&out->turns, atomic_load_explicit(&out->turns, memory_order_relaxed) + 1);
    if (user == LX_SEAT_SCHEDULER)
        publish_counter(&out->turns_by_scheduler,
                        atomic_load_explicit(&out->turns_by_scheduler, memory_order_relaxed) + 1);
}

static bool is_quiet(const struct lx_admission *adm)
{
    /* A heavy_init that waits for its install step holds a permit and no worker. */
    return adm->queued[0] + adm->queued[1] == 0 && adm->idle_workers == adm->config.pool_size &&
           adm->free_permits == adm->config.heavy_permits && adm->detached == NULL &&
           adm->closing == NULL;
}

/*
 * Coarse time is enough for ages; deadlines and promotions want the exact one, but only when one
 * may be due. Timers alone are no reason: each actor that waits for a permit has one.
 */
static inline void tell_time(struct lx_admission *adm)
{
    uint64_t now = lx_seams.now_coarse_ns(), next = lx_admission_next_timer(adm);

    if (next <= now || next - now <= LX_COARSE_STEP_NS)
        now = lx_now_ns();
    /* The two clocks may disagree by a tick; time never runs backwards for the rules. */
    lx_admission_begin(adm, now > adm->now_ns ? now : adm->now_ns);
}

/* Requests that want to see what the turn has made of what came before them. */
static void apply_at_end(struct lanex_executor *ex)
{
    struct lx_request *request = ex->applied;

    for (; request != NULL; request = (struct lx_request *)(void *)request->node.next) {
        if (request->at_end)
            request->apply(ex, request);
    }
}

static enum lx_lying lying_now(const struct lx_admission *adm)
{
    if (adm->config.interactive_queue_cap != 0 || adm->config.interactive_actor_queue_cap != 0 ||
        adm->draining)
        return LX_LYING_NONE;
    return adm->idle_workers == 0 ? LX_LYING_ALL : LX_LYING_BEHIND;
}

static void publish_lying(struct lanex_executor *ex)
{
    uint32_t lying = lying_now(&ex->admission);

    /* relaxed: ordered by the fence after the seat is left; partner in lx_seat_is_full. */
    if (atomic_load_explicit(&ex->lying, memory_order_relaxed) != lying)
        atomic_store_explicit(&ex->lying, lying, memory_order_relaxed);
}

static void run_turn(struct lanex_executor *ex, enum lx_seat_user user, uintptr_t instead,
                     struct turn_result *result)
{
    struct lx_admission *adm = &ex->admission;
    uintptr_t link;
    unsigned handled = 0;

    tell_time(adm);
    if (user == LX_SEAT_WORKER)
        lx_nap_note_pace(lx_self.worker, adm->now_ns);
    while (handled < LX_TURN_EVENTS && (link = next_event(ex, instead)) != LX_INBOX_EMPTY) {
        handle_event(ex, link);
        handled++;
    }
    result->more = ex->pending != LX_INBOX_EMPTY;
    if (adm->timers.earliest != NULL && lx_admission_expire(adm))
        result->more = true;
    if ((adm->detached != NULL || adm->closing != NULL) && lx_admission_answer_detached(adm))
        result->more = true;
    lx_admission_schedule(adm);

    /* First: whoever sees a job of this turn run, or answered, finds it in the views so. */
    if (publish(ex))
        result->more = true;
    count_turn(&ex->published, user);
    if (adm->dispatched.head != NULL)
        hand_out(ex, user == LX_SEAT_WORKER, result);
    if (adm->settled.head != NULL)
        hand_to_reaper(ex, result);
    if (ex->gone != NULL)
        hand_over_gone(ex, result);
    if (ex->applied != NULL)
        apply_at_end(ex);
    result->applied = ex->applied;
    ex->applied = NULL;
    if (ex->quiet_awaited && is_quiet(adm) && ex->pending == LX_INBOX_EMPTY) {
        result->tell_quiet = true;
        ex->quiet_awaited = false;
    }
    /* relaxed: ordered by the fence after the seat is left; partner in lx_scheduler_main. */
    publish_change(&ex->timer_ns, lx_admission_next_timer(adm));
    if (atomic_load_explicit(&ex->leftover, memory_order_relaxed) != result->more)
        atomic_store_explicit(&ex->leftover, result->more, memory_order_relaxed);
    publish_lying(ex);
}

/* ---- the seat ---- */

static bool try_seat(struct lanex_executor *ex)
{
    uint32_t expected = 0;

    /* A look first: a failed compare-exchange would pull the line away from the holder. seq_cst:
     * must not move before the push; partner is the fence in leave_seat. */
    if (atomic_load_explicit(&ex->seat, memory_order_seq_cst) != 0)
        return false;
    /* acquire: partner is the release in leave_seat. */
    return atomic_compare_exchange_strong_explicit(&ex->seat, &expected, 1, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

static void leave_seat(struct lanex_executor *ex)
{
    /* release: all of the turn's state; partner is the acquire in try_seat. */
    atomic_store_explicit(&ex->seat, 0, memory_order_release);
    /* Between leaving and the looks at inbox and armed_ns that follow. Partners: the push, and the
     * fence in lx_scheduler_main. */
    atomic_thread_fence(memory_order_seq_cst);
}

static void answer_requests(const struct turn_result *result)
{
    struct lx_request *request = result->applied;

    while (request != NULL) {
        struct lx_request *next = (struct lx_request *)request->node.next;
        lx_request_answer(request);
        request = next;
    }
}

static inline void after_turn(struct lanex_executor *ex, const struct turn_result *result)
{
    if (result->wake_worker)
        lx_wake_one(ex);
    if (result->applied != NULL)
        answer_requests(result);
    if (result->tell_reaper)
        lx_reaper_tell(ex);
    if (result->tell_quiet) {
        /* release: partner is the acquire in the waits of drain and destroy. */
        atomic_fetch_add_explicit(&ex->quiet_word, 1, memory_order_release);
        lx_futex_wake(&ex->quiet_word, LX_FUTEX_ALL);
        lx_ending_notify(ex);
    }
    if (atomic_load_explicit(&ex->timer_ns, memory_order_relaxed) <
        atomic_load_explicit(&ex->armed_ns, memory_order_relaxed))
        lx_scheduler_tell(ex);
}

static bool work_left(struct lanex_executor *ex)
{
    return lx_inbox_has(&ex->inbox) ||
           atomic_load_explicit(&ex->leftover, memory_order_relaxed) != 0;
}

struct lanex_job *lx_seat_visit(struct lanex_executor *ex, enum lx_seat_user user)
{
    static const unsigned turns[] = {
        [LX_SEAT_SUBMITTER] = LX_SUBMITTER_TURNS,
        [LX_SEAT_WORKER] = LX_WORKER_TURNS,
        [LX_SEAT_SCHEDULER] = LX_SCHEDULER_TURNS,
    };
    struct lanex_job *own = NULL;

    for (unsigned left = turns[user]; left > 0; left--) {
        struct turn_result result = {.own = NULL};

        if (!try_seat(ex))
            return own; /* the holder looks again when it leaves */
        /* One job is enough: further ones go to the others. */
        run_turn(ex, own != NULL ? LX_SEAT_SUBMITTER : user, LX_INBOX_EMPTY, &result);
        leave_seat(ex);
        if (result.own != NULL)
            own = result.own;
        after_turn(ex, &result);
        if (!work_left(ex))
            return own;
    }
    lx_scheduler_tell(ex);
    return own;
}

bool lx_seat_try_enter(struct lanex_executor *ex)
{
    if (!try_seat(ex))
        return false;
    if (ex->pending == LX_INBOX_EMPTY && !lx_inbox_has(&ex->inbox))
        return true;
    lx_seat_leave(ex);
    return false;
}

void lx_seat_leave(struct lanex_executor *ex)
{
    leave_seat(ex);
    /* Whoever came in between relies on this look. */
    if (work_left(ex))
        lx_seat_notify(ex);
}

void lx_seat_notify(struct lanex_executor *ex)
{
    if (ex->config.dispatch == LANEX_DISPATCH_SEAT)
        lx_seat_visit(ex, LX_SEAT_SUBMITTER);
    else
        lx_scheduler_tell(ex);
}

bool lx_seat_leave_lying(struct lanex_executor *ex, const struct lx_actor_entry *actor)
{
    if (lx_seat_is_full(ex, actor) && ++lx_self.left_lying < LX_LEFT_LYING)
        return true;
    lx_self.left_lying = 0;
    return false;
}

int lx_seat_request(struct lanex_executor *ex, struct lx_request *request)
{
    atomic_init(&request->done, 0);
    if (!lx_inbox_push(&ex->inbox, &request->node, LX_EVENT_REQUEST))
        return -ESHUTDOWN;
    lx_seat_notify(ex);
    lx_request_wait(request);
    return request->result;
}

/* What the turns of a call that does not wait have left to be done. */
struct turn_results {
    struct turn_result of[LX_SUBMITTER_TURNS];
    unsigned count;
};

/*
 * In the seat: handles what is in the inbox, at least what was there at first. False if that is too
 * much for a call that does not wait.
 */
static bool catch_up(struct lanex_executor *ex, struct turn_results *results)
{
    if (ex->pending == LX_INBOX_EMPTY && !lx_inbox_has(&ex->inbox))
        return true;
    if (ex->config.dispatch != LANEX_DISPATCH_SEAT)
        return false;
    while (results->count < LX_SUBMITTER_TURNS) {
        bool takes_inbox = ex->pending == LX_INBOX_EMPTY;

        run_turn(ex, LX_SEAT_SUBMITTER, LX_INBOX_EMPTY, &results->of[results->count++]);
        if (takes_inbox && ex->pending == LX_INBOX_EMPTY)
            return true;
    }
    return false;
}

int lx_seat_try_request(struct lanex_executor *ex, struct lx_request *request)
{
    struct turn_results results = {.count = 0};

    if (!try_seat(ex))
        return -EBUSY;
    request->result = -EBUSY;
    if (catch_up(ex, &results)) {
        tell_time(&ex->admission);
        request->apply(ex, request);
    }
    leave_seat(ex);
    for (unsigned i = 0; i < results.count; i++)
        after_turn(ex, &results.of[i]);
    if (work_left(ex))
        lx_seat_notify(ex);
    return request->result;
}

static void apply_is_quiet(struct lanex_executor *ex, struct lx_request *request)
{
    request->result = is_quiet(&ex->admission);
    /* From the end of this very turn on; one that nobody waits for costs no system call. */
    if (!request->result)
        ex->quiet_awaited = true;
}

bool lx_seat_is_quiet(struct lanex_executor *ex)
{
    struct lx_request request = {.apply = apply_is_quiet};

    return lx_seat_request(ex, &request) > 0;
}

int lx_seat_wait_quiet(struct lanex_executor *ex, uint64_t deadline_ns)
{
    for (;;) {
        /* acquire: partner is the release in after_turn. */
        uint32_t word = atomic_load_explicit(&ex->quiet_word, memory_order_acquire);
        struct lx_request request = {.apply = apply_is_quiet};
        int rc = lx_seat_request(ex, &request);

        if (rc != 0)
            return rc < 0 ? rc : 0;
        if (lx_futex_wait(&ex->quiet_word, word, deadline_ns) == -ETIMEDOUT)
            return -ETIMEDOUT;
    }
}

void lx_seat_close(struct lanex_executor *ex)
{
    struct turn_result result;

    /* Workers and scheduler have ended; a submitter may be in a turn, which is short. */
    while (!try_seat(ex))
        sched_yield();
    do {
        result = (struct turn_result){.own = NULL};
        run_turn(ex, LX_SEAT_SCHEDULER, LX_INBOX_CLOSED, &result);
        LX_ASSERT(!result.wake_worker);
        answer_requests(&result);
        /* What earlier turns left behind may fill a turn before the inbox is looked at. */
    } while (result.more ||
             atomic_load_explicit(&ex->inbox.head, memory_order_relaxed) != LX_INBOX_CLOSED);
    lx_reaper_tell(ex);
}

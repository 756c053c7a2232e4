/*
 * lanex-w<N>: takes a job, its gate, runs the body, files the end, delivers the completion, looks
 * for the next.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/actor.h"
#include "runtime/contain.h"
#include "runtime/executor.h"
#include "runtime/nap.h"
#include "runtime/panic.h"
#include "sync/assert.h"
#include "sync/epoch.h"
#include "sync/futex.h"
#include "sync/seams.h"

_Thread_local struct lx_self lx_self;

#define LX_SEAT_LOOKS  100u /* at one taken seat: some microseconds */
#define LX_SEAT_AWAITS 8u   /* turns of others that a worker awaits before it sleeps */

enum gate { GATE_NONE, GATE_READ, GATE_WRITE };

static enum gate gate_of(const struct lanex_job *job, bool installing)
{
    switch (job->entry.lane) {
    case LANEX_LANE_HEAVY_INIT:
        return installing ? GATE_WRITE : GATE_NONE;
    case LANEX_LANE_MUTATING:
        return GATE_WRITE;
    default:
        return GATE_READ;
    }
}

/* 0, or -ECANCELED: the token was cancelled while somebody outside the executor held the epoch. */
static int enter_gate(struct lanex_actor *actor, enum gate gate, lanex_cancellation *token)
{
    switch (gate) {
    case GATE_READ:
        return lx_epoch_read_acquire_until(&actor->epoch, LANEX_TIME_NEVER, token);
    case GATE_WRITE:
        return lx_epoch_write_acquire_until(&actor->epoch, LANEX_TIME_NEVER, token);
    default:
        return 0;
    }
}

static void leave_gate(struct lanex_actor *actor, enum gate gate)
{
    if (gate == GATE_READ)
        lx_epoch_read_release(&actor->epoch);
    else if (gate == GATE_WRITE)
        lx_epoch_write_release(&actor->epoch);
}

/* So that the body is refused what would wait for its own gate. */
static void note_gate(const struct lanex_actor *actor, enum gate gate)
{
    lx_epoch_gate = (struct lx_epoch_gate){.epoch = gate != GATE_NONE ? &actor->epoch : NULL,
                                           .write = gate == GATE_WRITE};
}

/* Hands the event to the turn: from now on the job is the turn's and the delivery's, not the
 * worker's. */
static void file(struct lanex_executor *ex, struct lanex_job *job, enum lx_event_kind kind)
{
    bool open = lx_inbox_push(&ex->inbox, (struct lx_inbox_node *)job, kind);

    LX_ASSERT(open); /* destroy joins the workers before it closes the inbox */
}

static void count_one(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static bool install_is_next(const struct lx_worker *worker, const struct lanex_job *job)
{
    return (job->entry.flags & LX_JOB_FLAG_HAS_INSTALL) != 0 && !worker->installing &&
           job->entry.status == LANEX_STATUS_OK;
}

/* The response is in the job (or was deferred): files the end and delivers. */
static void finish(struct lx_worker *worker, struct lanex_job *job, bool panicked)
{
    struct lanex_executor *ex = worker->executor;
    struct lanex_deferred *deferred = worker->deferred;

    worker->job = NULL;
    worker->deferred = NULL;
    count_one(&worker->freed);
    if (!panicked && deferred == NULL && install_is_next(worker, job)) {
        lx_job_add_mark(&job->entry, LX_JOB_MARK_ANSWERED);
        file(ex, job, LX_EVENT_BUILT);
        return;
    }
    count_one(&worker->ended[job->entry.job_class]);
    file(ex, job, panicked ? LX_EVENT_END_PANICKED : LX_EVENT_END);
    /* Who waits for this answer may ask again at once: that job is best left to us, who have the
     * turn's state at hand. Not before a callback, which may take its time; see also ticket.c. */
    if (ex->spin_ns != 0 && (job->entry.sink_kind & LX_SINK_KIND_MASK) == LANEX_SINK_TICKET)
        (void)lx_watch_begin(worker);
    if (deferred == NULL || lx_deferred_leave(deferred))
        lx_deliver(job);
}

static void cancelled_before_body(struct lx_worker *worker, struct lanex_job *job)
{
    lx_job_clear_response(job);
    job->entry.status = LANEX_STATUS_REQUEST_CANCELLED;
    finish(worker, job, false);
}

/* An install step goes on with the token as its build left it: running, sealed, or cancelled since.
 */
static bool begin(const struct lx_worker *worker, lanex_cancellation *token)
{
    if (token == NULL)
        return true;
    return worker->installing ? !lanex_cancellation_is_cancelled(token)
                              : lx_cancellation_start(token);
}

static void run_job(struct lx_worker *worker, struct lanex_job *job)
{
    struct lanex_actor *actor = lx_actor_of(job->entry.actor);
    lanex_cancellation *token = lx_job_token(job);
    enum gate gate;

    worker->installing =
        atomic_load_explicit(&job->entry.state, memory_order_relaxed) == LX_JOB_INSTALLING;
    gate = gate_of(job, worker->installing);
    worker->job = job;
    if (job->texts != NULL)
        __builtin_prefetch(job->texts, 1); /* freed at the end, perhaps never looked at */
    if (enter_gate(actor, gate, token) < 0) {
        cancelled_before_body(worker, job);
        return;
    }
    if (!begin(worker, token)) {
        leave_gate(actor, gate);
        cancelled_before_body(worker, job);
        return;
    }
    lx_cancellation_set_current(token);
    note_gate(actor, gate);
    lx_job_begin(&job->entry);
    worker->phase = LX_PHASE_BODY;
    (worker->installing ? job->entry.extra->install : job->run)(job, actor->context, job->arg);
    lx_fork_guard_end_child(&worker->executor->fork_guard);
    worker->phase = LX_PHASE_NONE;
    lx_cancellation_set_current(NULL);
    note_gate(NULL, GATE_NONE);
    worker->cleanups = NULL;
    leave_gate(actor, gate);
    finish(worker, job, false);
}

/* After the jump out of a body: the frames of the body are gone, its clean-ups have run. */
static void after_panic(struct lx_worker *worker)
{
    struct lanex_job *job = worker->job;
    struct lanex_actor *actor = lx_actor_of(job->entry.actor);
    enum gate gate = gate_of(job, worker->installing);
    char message[LX_PANIC_MESSAGE];

    worker->phase = LX_PHASE_NONE;
    worker->cleanups = NULL;
    lx_cancellation_set_current(NULL);
    note_gate(NULL, GATE_NONE);
    snprintf(message, sizeof message, "command '%s' panicked: %s", lx_job_label(job),
             worker->panic_text);
    /* An answer that was given through a handle before the panic stays. */
    if (worker->deferred == NULL || lx_deferred_disarm(worker->deferred)) {
        if (gate == GATE_WRITE)
            lx_job_set_error(job, LANEX_STATUS_ACTOR_FATAL, "actor_fatal", message, false);
        else
            lx_job_set_error(job, LANEX_STATUS_JOB_PANICKED, "job_panicked", message, false);
    }
    worker->deferred = NULL;
    leave_gate(actor, gate);
    finish(worker, job, true);
}

/* Sleeps until there is something to take; a job, or NULL when only looking again can tell. */
static struct lanex_job *park(struct lx_worker *worker)
{
    struct lanex_executor *ex = worker->executor;
    struct lanex_job *job;
    bool slept = false;

    lx_sleeper_announce(&ex->run_queue, worker->index);
    if (lx_run_queue_empty(&ex->run_queue) &&
        atomic_load_explicit(&ex->stop, memory_order_seq_cst) == 0) {
        lx_door_wait(&worker->door, LX_TIME_NEVER);
        slept = true;
    }
    lx_sleeper_retract(&ex->run_queue, worker->index);
    atomic_store_explicit(&worker->busy, 1, memory_order_relaxed);
    job = lx_run_queue_pop(&ex->run_queue);
    if (job != NULL)
        lx_wake_one(ex); /* the next one wakes the next */
    else if (slept)
        lx_door_count_noop(&worker->door);
    return job;
}

/*
 * A turn is under way elsewhere, and mostly has a job for a worker that has just become free. Looks
 * for that for the time of a turn or two before going to sleep: a wake would cost both sides a
 * system call. True if it is worth looking for work again.
 */
static bool await_turn(struct lanex_executor *ex)
{
    if (ex->config.usable_cpus < 2)
        return false; /* whoever is in the seat needs this CPU */
    for (unsigned looks = 0; looks < LX_SEAT_LOOKS; looks++) {
        if (atomic_load_explicit(&ex->seat, memory_order_relaxed) == 0)
            return looks > 0;
        if (!lx_run_queue_empty(&ex->run_queue))
            return true;
        lx_spin_pause();
    }
    return false;
}

/* The next job; NULL when the executor has ended. With spin_us the worker may still watch. */
static struct lanex_job *find_job(struct lx_worker *worker)
{
    struct lanex_executor *ex = worker->executor;
    struct lanex_job *job = NULL;
    unsigned awaited = 0;

    for (;;) {
        /*
         * What turns had for nappers; else it would wait until the inbox is empty. The inbox, with
         * what this worker has filed, is left to them meanwhile: seq_cst, after the push; partner
         * is the count out in lx_nap.
         */
        if (atomic_load_explicit(&ex->nappers, memory_order_seq_cst) != 0 &&
            (job = lx_run_queue_pop(&ex->run_queue)) != NULL)
            return job;
        if (ex->config.dispatch == LANEX_DISPATCH_SEAT) {
            if (lx_inbox_has(&ex->inbox))
                job = lx_seat_visit(ex, LX_SEAT_WORKER);
        } else if (lx_inbox_has(&ex->inbox)) {
            lx_scheduler_tell(ex);
        }
        if (job == NULL)
            job = lx_run_queue_pop(&ex->run_queue);
        if (job != NULL)
            return job;
        /* A few times: turns may follow turns that have nothing for us. */
        if (awaited < LX_SEAT_AWAITS && ex->config.dispatch == LANEX_DISPATCH_SEAT) {
            awaited++;
            if (lx_nap(worker)) {
                if ((job = lx_nap_end(ex)) == NULL)
                    continue;
                return job;
            }
            if (await_turn(ex))
                continue;
        }
        /* release: deliveries are done; partner is the acquire in drain. */
        atomic_store_explicit(&worker->busy, 0, memory_order_release);
        if (atomic_load_explicit(&ex->stop, memory_order_acquire) != 0)
            return NULL;
        if (lx_spin_for_work(worker))
            atomic_store_explicit(&worker->busy, 1, memory_order_relaxed);
        else if ((job = park(worker)) != NULL)
            return job;
    }
}

static struct lanex_job *next_job(struct lx_worker *worker)
{
    struct lanex_job *job = find_job(worker);

    if (worker->watches)
        lx_watch_pass_on(worker);
    return job;
}

void *lx_worker_main(void *arg)
{
    struct lx_worker *worker = arg;
    struct lanex_job *job;
    int rc, bound;

    lx_self = (struct lx_self){.executor = worker->executor,
                               .worker = worker,
                               .door = &worker->door,
                               .role = LX_ROLE_WORKER};
    lx_thread_name_worker(worker->index);
    bound = lx_affinity_enter(worker->cpu); /* before it touches memory of its own */
    rc = lx_door_enable(&worker->door);     /* in any case: it is what the thread is stopped by */
    if (rc == 0)
        rc = bound;
    if (rc == 0)
        rc = lx_contain_enter_thread(&worker->executor->config, &worker->signal_stack);
    atomic_store_explicit(&worker->busy, 1, memory_order_relaxed);
    lx_thread_report(worker->executor, rc);
    /* Set once: a panic jumps here, and the loop goes on. No signal mask is saved: none is changed.
     */
    if (sigsetjmp(worker->panic_exit, 0) != 0)
        after_panic(worker);
    while ((job = next_job(worker)) != NULL)
        run_job(worker, job);
    if (worker->spare_deferred != NULL)
        lx_release(worker->spare_deferred);
    if (worker->signal_stack != NULL)
        lx_contain_leave_thread(worker->signal_stack);
    /* release: all that it did; partner is the acquire in lx_ending_go_on. */
    atomic_fetch_add_explicit(&worker->executor->workers_ended, 1, memory_order_release);
    lx_ending_notify(worker->executor);
    return NULL;
}

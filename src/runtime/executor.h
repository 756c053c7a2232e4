/*
 * The executor inside. One way through it, for a job:
 *
 *   submit.c -> sync/inbox.h -> seat.c (a turn: admission/) -> run_queue.h -> worker.c -> gate and
 * body
 *   -> delivery.c -> inbox again, as ended
 */
#ifndef LX_RUNTIME_EXECUTOR_H
#define LX_RUNTIME_EXECUTOR_H

#include <lanex/lanex.h>

#include <pthread.h>
#include <setjmp.h>

#include "admission/admission.h"
#include "ring/door.h"
#include "runtime/affinity.h"
#include "runtime/fork_guard.h"
#include "runtime/job.h"
#include "runtime/run_queue.h"
#include "runtime/spin.h"
#include "runtime/text.h"
#include "sync/inbox.h"
#include "sync/slab.h"

#define LX_LINE                                                                                    \
    64u /* bytes of a cache line: what different threads write lies on different ones              \
         */
#define LX_PANIC_TEXT 512u /* bytes kept of a panic's text, with the NUL */

/* What the calling thread is to lanex; zero on threads that are not ours. */
enum lx_thread_role { LX_ROLE_NONE, LX_ROLE_WORKER, LX_ROLE_SCHEDULER, LX_ROLE_REAPER };

/* Where a worker is with its job: what a panic has to undo. */
enum lx_job_phase {
    LX_PHASE_NONE,     /* not in a body: a panic aborts the process */
    LX_PHASE_BODY,     /* in run() or install() */
    LX_PHASE_CLEANUPS, /* a panic is running clean-ups */
};

struct lx_worker {
    struct lanex_executor *executor;
    uint32_t index;
    uint32_t cpu; /* LX_CPU_ANY: not bound */
    bool started;
    pthread_t thread;
    struct lx_door door;

    /* The job at hand; written by the worker alone. */
    struct lanex_job *job;
    enum lx_job_phase phase;
    bool installing;
    struct lanex_deferred *deferred;       /* the body has taken its completion as a handle */
    struct lanex_deferred *spare_deferred; /* memory for the next one, or NULL */
    lanex_cleanup *cleanups;
    void *signal_stack;    /* for contained signals; NULL without */
    sigjmp_buf panic_exit; /* set once, at the top of the worker's loop */
    char panic_text[LX_PANIC_TEXT];

    /* 1 from before a job is taken until its completion was delivered; read by drain. */
    _Atomic uint32_t busy;
    /*
     * Counted by the worker alone, before it files the end and thus before anybody can see the
     * completion: jobs of each class that it has ended, and jobs (or builds) that it is free of.
     * What the views take off from lx_published.begun and .taken.
     */
    _Atomic uint64_t ended[LX_CLASSES];
    _Atomic uint64_t freed;
    /* With spin_us alone; the worker's own. See spin.h. */
    struct lx_spin_history spins;
    bool watches; /* it is counted in `watchers` */
    /* nap.h: when its pace was looked at last, with how many jobs, and whether it was brisk. */
    bool brisk;
    uint64_t pace_ns, pace_freed;
    char pad[LX_LINE];
};

/* A request to the turn: made on the caller's stack, applied in the seat, answered through `done`.
 */
struct lx_request {
    struct lx_inbox_node node; /* first: LX_EVENT_REQUEST */
    /* Runs in the seat. */
    void (*apply)(struct lanex_executor *ex, struct lx_request *request);
    bool at_end; /* of the turn, after its dispatches; else in order with the other events */
    struct lanex_actor *actor;
    struct lx_actor_space *space;
    uint64_t number;
    int result;
    /* 0: pending; 1: pending, the caller sleeps; 2: applied. */
    _Atomic uint32_t done;
};

/* The executor's life. Only grows. */
enum lx_life {
    LX_LIFE_RUNNING,
    LX_LIFE_STOPPING, /* destroy has begun: calls give -ESHUTDOWN */
    LX_LIFE_STOPPED,  /* threads are joined, descriptors closed; memory stays for references */
};

/*
 * What liveness shows: each word written by the turn, relaxed, read by anybody. First what changes
 * with most turns; the others are only written when they change, so that their cache line need not
 * come along.
 */
struct lx_published {
    _Atomic uint64_t turns;
    _Atomic uint64_t taken; /* workers in use as the turn knows, plus all that it has got back */
    struct lx_published_class {
        _Atomic uint64_t queued;
        /* In flight as the turn knows, plus all ends that it has seen: less what workers have
         * ended. */
        _Atomic uint64_t begun;
        _Atomic uint64_t oldest_ns; /* when it was queued; LANEX_TIME_NEVER: none is */
        _Atomic uint64_t completed;
        _Atomic uint64_t refused;
    } of[LX_CLASSES];
    _Atomic uint64_t panicked;
    _Atomic uint64_t non_runnable;
    _Atomic uint64_t free_permits;
    _Atomic uint64_t actors;
    _Atomic uint64_t turns_by_scheduler;
    /* In flight minus owned, as two's complement. */
    _Atomic uint64_t phantom_workers, phantom_slots[LX_CLASSES], phantom_permits;
};

struct lx_registry; /* actor.c: keys to actors */
struct lx_deferred_list;

struct lanex_executor {
    /* Constant after create. */
    lanex_config config;
    struct lx_backend backend;
    struct lx_worker *workers;
    struct lx_fork_guard fork_guard;
    uint64_t spin_ns;    /* 0: nobody spins */
    uint32_t spin_limit; /* watchers at most; likewise threads that spin for a ticket */
    void (*context_phase)(void *context, char *text, size_t size); /* NULL: none */
    char backend_text[LX_BACKEND_WHY_SIZE + 64];

    char pad_inbox[LX_LINE];
    /* Written by everybody who has an event. */
    struct lx_inbox inbox;
    /* Workers that will look at the inbox and the run queue before they sleep or run a job; see
     * spin.h. On the inbox's line, which a pusher and a watcher have at hand anyway. */
    _Atomic uint32_t watchers;

    char pad_seat[LX_LINE];
    /*
     * The seat: 0 free, 1 taken. Whoever changes it from 0 to 1 owns everything down to `published`
     * until they store 0. See seat.c for the protocol.
     */
    _Atomic uint32_t seat;

    char pad_lying[LX_LINE];
    /* enum lx_lying. Written by turns, only when it changes: submitters read it each time. */
    _Atomic uint32_t lying;
    _Atomic uint32_t nappers; /* workers that nap: see nap.h */

    char pad_turn[LX_LINE];
    /* Owned by the seat's holder. */
    struct lx_admission admission;
    uintptr_t pending,
        pending_last;            /* events taken from the inbox and not handled yet: tagged links */
    struct lx_actor_entry *gone; /* handed to the reaper at the end of the turn */
    struct lx_request *applied;  /* answered once the seat is left and the views show it */
    uint64_t ends_seen[LX_CLASSES], frees_seen;
    /* The turn that leaves nothing queued, in flight or to be answered tells of it: somebody has
     * asked since the last one that did. */
    bool quiet_awaited;
    /* 1: a turn left events or due work behind although the inbox may be empty. */
    _Atomic uint32_t leftover;

    char pad_published[LX_LINE];
    struct lx_published published;

    char pad_queue[LX_LINE];
    struct lx_run_queue run_queue;

    /* lanex-sched. */
    struct lx_door scheduler_door;
    pthread_t scheduler_thread;
    bool scheduler_started;
    char pad_told[LX_LINE];
    _Atomic uint32_t scheduler_told; /* 1: it was rung and has not looked yet */
    _Atomic uint64_t timer_ns;       /* when a turn is due by time alone; written by turns */
    _Atomic uint64_t armed_ns;       /* until when lanex-sched sleeps; 0 while it is awake */

    /* lanex-reap. */
    char pad_reaper[LX_LINE];
    struct lx_inbox reaper_inbox; /* links: enum lx_reap_kind */
    _Atomic uint32_t reaper_told;
    struct lx_door reaper_door;
    pthread_t reaper_thread;
    bool reaper_started;

    /* Sleepers in drain and destroy. */
    _Atomic uint32_t quiet_word; /* grows when a turn ends quiet and that is awaited */

    char pad_spinners[LX_LINE];
    _Atomic uint32_t ticket_spinners;
    char pad_slabs[LX_LINE];

    struct lx_slab jobs;
    struct lx_texts texts;
    struct lx_slab extras; /* struct lx_job_extra */

    struct lx_registry *registry;
    /* Both change only under the registry's write lock. */
    struct lx_context_calls *context_calls;
    lanex_actor_hooks hooks; /* set once, before the first actor that has notices; size 0: none */
    struct lx_deferred_list *deferred;
    struct lx_job_entry **running_jobs;

    _Atomic uint32_t life; /* enum lx_life; a futex: destroyers wait for STOPPED */
    _Atomic uint32_t stop; /* 1: workers end when they find nothing to do */
    _Atomic uint32_t scheduler_stop;
    _Atomic uint32_t reap_stop;
    _Atomic uint32_t ends_by_itself; /* 1: lanex-reap shuts it down; see ending.c */
    _Atomic uint32_t workers_ended;  /* that have left their loops */
    _Atomic uint32_t
        threads_ready; /* that have made their rings, or failed to; create waits for all */
    _Atomic int32_t thread_error; /* the first one's -errno */
    _Atomic uint64_t refs;        /* of users */
    _Atomic uint64_t memory;      /* 1 for all users, 1 an actor, port or ring, 1 for all orphans */
    _Atomic uint64_t
        orphans; /* jobs held outside when it ended, plus 1 while destroy counts them */
    _Atomic uint64_t orphans_ending; /* of them, those whose memory is going back or has gone */
    _Atomic uint64_t jobs_left_out;  /* objects whose numbers are used up */
    /*
     * Threads that are not ours and are ringing one of our doors. Destroy sets doors_closing, then
     * waits for 0: who counts itself later does not ring. Both words are sequentially consistent,
     * since each side stores one and loads the other.
     */
    _Atomic uint32_t ringers;
    _Atomic uint32_t doors_closing;
    _Atomic uint64_t foreign_messages; /* ring messages sent by threads without a door */
};

/* enum of links in the reaper's inbox */
enum lx_reap_kind {
    LX_REAP_JOB,         /* a settled job: deliver it, give back both holds */
    LX_REAP_CONTEXT,     /* a lanex_actor: the registry and the jobs no longer use its context */
    LX_REAP_CONTEXT_END, /* a lanex_actor: nobody uses its context */
    LX_REAP_NOTICE,      /* of an actor: call a hook */
    LX_REAP_ACTOR,       /* a lanex_actor: free it */
    LX_REAP_FLUSH,       /* a struct lx_request: everything before it was handled */
    LX_REAP_POST,        /* a struct lx_post_retry: a ring message that could not be sent yet */
};

/* The calling thread, if it is one of ours. initial-exec: one load off the thread pointer. */
struct lx_self {
    struct lanex_executor *executor;
    struct lx_worker *worker;
    struct lx_door *door;
    enum lx_thread_role role;
    uint32_t left_lying;            /* jobs since this thread last told a seat of one */
    struct lx_spin_history spins;   /* of its waits for tickets */
    struct lanex_executor *answers; /* whose deferred job or end runs user code here */
};
extern _Thread_local struct lx_self lx_self
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* The calling thread's own door if it belongs to any executor, else NULL: what it sends messages
 * with. */
static inline struct lx_door *lx_own_door(void)
{
    return lx_self.door;
}

/* ---- executor.c ---- */
bool lx_executor_forked(const struct lanex_executor *ex);
/* 0; -EINVAL for NULL, -ECHILD in a forked child, -ESHUTDOWN once destroy has begun. */
int lx_executor_check(const struct lanex_executor *ex);
void lx_executor_hold_memory(struct lanex_executor *ex);
void lx_executor_drop_memory(struct lanex_executor *ex);
/* An object that was marked as orphan goes back to the slab; has gone back. */
void lx_executor_orphan_ending(struct lanex_executor *ex);
void lx_executor_orphan_gone(struct lanex_executor *ex);

void lx_executor_close_doors(struct lanex_executor *ex, uint32_t workers, bool scheduler,
                             bool reaper);

/* ---- ending.c ---- */
/* How far lanex-reap has come with ending the executor: what it waits for. */
enum lx_ending {
    LX_ENDING_NOT,
    LX_ENDING_JOBS,
    LX_ENDING_WORKERS,
    LX_ENDING_ANSWERS, /* through deferred handles, being delivered on users' threads */
    LX_ENDING_REAPER,
};
/* All of it, on a thread that is not the executor's. `life` is LX_LIFE_STOPPING. */
void lx_executor_shut_down(struct lanex_executor *ex);
/* The last reference was dropped on a thread of ours, or in a callback: returns at once. */
void lx_executor_end_by_itself(struct lanex_executor *ex);
/* Something came about that lanex-reap may be waiting for. */
void lx_ending_notify(struct lanex_executor *ex);
/* In each pass of lanex-reap: goes as far as it can without a wait. */
void lx_ending_go_on(struct lanex_executor *ex, enum lx_ending *stage);
/* Last of lanex-reap; the executor may be gone afterwards. */
void lx_ending_finish(struct lanex_executor *ex);

/* ---- inspect.c ---- */
/* Jobs of the class in flight: dispatched, and not filed as ended. */
uint64_t lx_executor_running(const struct lanex_executor *ex, unsigned job_class);

/* ---- threads.c ---- */
int lx_threads_start(struct lanex_executor *ex);
/* A thread names itself: that opens no file, as naming another thread may, and cannot fail. */
void lx_thread_name(const char *name);
void lx_thread_name_worker(uint32_t index);
/* First thing that a thread of ours does: 0, or why it cannot work. It goes on to its loop in both
 * cases. */
void lx_thread_report(struct lanex_executor *ex, int result);
/* Lets the workers end; lx_threads_stop_workers does that and waits for it. */
void lx_threads_release_workers(struct lanex_executor *ex);
void lx_threads_stop_workers(struct lanex_executor *ex);
void lx_threads_stop_scheduler(struct lanex_executor *ex);
void lx_threads_stop_reaper(struct lanex_executor *ex);
/* Wakes the thread behind one of ex's doors; nothing once the doors are closing. */
void lx_threads_ring(struct lanex_executor *ex, struct lx_door *door);
/* Nobody uses a door any more when this returns. Called when our threads have ended. */
void lx_threads_quiet_doors(struct lanex_executor *ex);

/* ---- seat.c ---- */

/* Who runs a turn decides how long it may stay, and whether it takes a job along. */
enum lx_seat_user { LX_SEAT_SUBMITTER, LX_SEAT_WORKER, LX_SEAT_SCHEDULER };
/*
 * Called after a push to the inbox (or by the scheduler, on time): runs turns if the seat is free,
 * else leaves the event to the holder. A worker gets a job to run next, or NULL.
 */
struct lanex_job *lx_seat_visit(struct lanex_executor *ex, enum lx_seat_user user);
/* An event was pushed: visits the seat, or in scheduler mode rings the scheduler. */
void lx_seat_notify(struct lanex_executor *ex);
/* Which jobs need no turn before one comes anyway, as the last turn left it. See seat.c. */
enum lx_lying {
    LX_LYING_NONE,   /* limits or draining: each may have to be answered at once */
    LX_LYING_BEHIND, /* those of an actor that a writer has to itself; all, for a watcher
                      * who may run the turn */
    LX_LYING_ALL,    /* no worker is free */
};
/* Whether jobs of the actor may be left lying: to be asked before the push, and again after it. */
static inline bool lx_seat_is_full(const struct lanex_executor *ex,
                                   const struct lx_actor_entry *actor)
{
    /* seq_cst, both: must not move before the push. Partner: the fence in leave_seat. */
    uint32_t lying = atomic_load_explicit(&ex->lying, memory_order_seq_cst);

    return lying == LX_LYING_ALL ||
           (lying == LX_LYING_BEHIND &&
            ((ex->config.dispatch == LANEX_DISPATCH_SEAT && lx_watched(&ex->watchers)) ||
             atomic_load_explicit(&actor->writers, memory_order_seq_cst) != 0));
}
/* A job was pushed that may be left lying: true if it is. Else lx_seat_notify has to follow. */
bool lx_seat_leave_lying(struct lanex_executor *ex, const struct lx_actor_entry *actor);
void lx_scheduler_tell(struct lanex_executor *ex);
/* Pushes a request and waits until it was applied. -ESHUTDOWN if the inbox is closed. */
int lx_seat_request(struct lanex_executor *ex, struct lx_request *request);
/*
 * Applies a request on this thread, after everything that this thread has pushed before, if that
 * can be done without waiting: -EBUSY if somebody else is in the seat, or too much is queued in
 * front of it; else the request's result.
 */
int lx_seat_try_request(struct lanex_executor *ex, struct lx_request *request);
/* The two ends of a request's `done`. After the answer the request may be gone. */
void lx_request_wait(struct lx_request *request);
void lx_request_answer(struct lx_request *request);
/* Waits until a turn has seen nothing queued, in flight or to be answered. -ETIMEDOUT, -ESHUTDOWN.
 */
int lx_seat_wait_quiet(struct lanex_executor *ex, uint64_t deadline_ns);
/* Whether that is so now. If not, the turn that makes it so calls lx_ending_notify. */
bool lx_seat_is_quiet(struct lanex_executor *ex);
/*
 * For a look at the turn's state that waits for nobody: false if the seat is taken or events are
 * not handled yet, so that the look would miss what the caller did before. Else the caller has the
 * seat, until lx_seat_leave, and may change nothing.
 */
bool lx_seat_try_enter(struct lanex_executor *ex);
void lx_seat_leave(struct lanex_executor *ex);
/* Takes the seat for good and closes the inbox: the last turns, run by destroy. */
void lx_seat_close(struct lanex_executor *ex);

/* ---- request.c ---- */
/* In the seat: the job with this number and its state, if a turn still holds it; else NULL. */
struct lanex_job *lx_job_find(struct lanex_executor *ex, uint64_t number,
                              enum lx_job_state *ret_state);

/* ---- worker.c ---- */
void *lx_worker_main(void *arg); /* a struct lx_worker */
void lx_worker_leave_panicked(struct lx_worker *worker) __attribute__((noreturn));

/* ---- reaper.c ---- */
void *lx_reaper_main(void *arg); /* the executor */
/* Who pushes tells it afterwards. False, and nothing pushed, once the thread has ended. */
bool lx_reaper_push(struct lanex_executor *ex, struct lx_inbox_node *node, enum lx_reap_kind kind);
void lx_reaper_tell(struct lanex_executor *ex);
/* Waits until everything pushed before has been handled. */
void lx_reaper_flush(struct lanex_executor *ex);

/* ---- scheduler.c ---- */
void *lx_scheduler_main(void *arg); /* the executor */

/* ---- delivery.c ---- */
/* Delivers a complete response to the job's sink and gives the delivery's hold back. */
void lx_deliver(struct lanex_job *job);

/* ---- deferred.c ---- */
int lx_deferred_list_create(struct lanex_executor *ex);
void lx_deferred_list_destroy(struct lanex_executor *ex);
/* Answers all outstanding handles `executor_shutdown`. */
void lx_deferred_shutdown(struct lanex_executor *ex);
/* Whether answers that were given are still being delivered; waits until none is. */
bool lx_deferred_answering(const struct lanex_executor *ex);
void lx_deferred_wait(struct lanex_executor *ex);
/* The body panicked: the handle becomes inert. False if it was answered before; the worker delivers
 * in both cases. The handle is no longer the worker's after either of these calls. */
bool lx_deferred_disarm(struct lanex_deferred *deferred);
/* The body's end is filed. True if the answer came while it ran: then the worker delivers it. */
bool lx_deferred_leave(struct lanex_deferred *deferred);

#endif

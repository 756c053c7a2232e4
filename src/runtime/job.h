/*
 * A job as the runtime sees it: the scheduling half (admission/entry.h), and what the worker needs.
 * The same object is the public lanex_job (inside its body), lanex_ticket and lanex_completion:
 * three views of one life.
 *
 * Life: allocated by the submitter, pushed to the inbox, queued and dispatched by turns, run by a
 * worker, pushed to the inbox again as ended, delivered to its sink, freed with its last hold.
 */
#ifndef LX_RUNTIME_JOB_H
#define LX_RUNTIME_JOB_H

#include <lanex/job.h>

#include "admission/entry.h"
#include "sync/cancel.h"
#include "sync/inbox.h"

/*
 * lx_job_entry.word.
 *
 * HOLDS (bits 0-7): who still needs the object. The turn holds it from the push until its end was
 * seen (or it was settled); the delivery holds it until the sink has it, then the consumer of the
 * sink; a ticket holds it until it is dropped. At 0 the object is freed by whoever brought it
 * there. A freed object has HOLDS 0 and no other bit.
 *
 * DONE (bit 8): the response is complete. Set once, together with giving the delivery's hold back,
 * in one read-modify-write with release; a ticket's wait reads it with acquire.
 *
 * WAITER (bit 9): a thread sleeps on the word for DONE. Set by the waiter before it sleeps; whoever
 * sets DONE and finds it wakes. Legal only while DONE is clear at the time it is set.
 *
 * ORPHAN (bit 10): the executor has ended while somebody outside still held the object. Set by
 * destroy on objects with HOLDS > 0; whoever brings HOLDS to 0 and finds it counts the executor's
 * orphans down.
 *
 * HAS_TICKET (bit 11): a lanex_ticket was handed out. Constant from allocation on.
 *
 * DROPPED (bit 12): the ticket was dropped before DONE. Set together with giving the ticket's hold
 * back, only while DONE is clear; whoever sets DONE and finds it destroys the response. Illegal
 * without HAS_TICKET.
 *
 * The response's data is destroyed by the delivery or by the consumer, never by the last hold as
 * such: that may be the turn's, and no user code runs there.
 */
#define LX_WORD_HOLD       (UINT32_C(1) << 0)
#define LX_WORD_HOLDS      (UINT32_C(0xff) << 0)
#define LX_WORD_DONE       (UINT32_C(1) << 8)
#define LX_WORD_WAITER     (UINT32_C(1) << 9)
#define LX_WORD_ORPHAN     (UINT32_C(1) << 10)
#define LX_WORD_HAS_TICKET (UINT32_C(1) << 11)
#define LX_WORD_DROPPED    (UINT32_C(1) << 12)

/* lx_job_entry.sink_kind: enum lanex_sink_kind in the low bits, and what the object owns. Constant.
 */
#define LX_SINK_KIND_MASK   0x07u
#define LX_JOB_TOKEN_OWN    0x08u /* `token.own` is in use */
#define LX_JOB_TOKEN_SHARED 0x10u /* `token.shared` is a reference to the caller's token */
#define LX_JOB_HAS_ID       0x20u /* `texts` has a request id */
#define LX_JOB_HAS_LABEL    0x40u /* `texts` has a label of its own */

/* What a node in the executor's inbox stands for: the low bits of its link. */
enum lx_event_kind {
    LX_EVENT_SUBMIT,       /* a job */
    LX_EVENT_END,          /* a job: its body is over */
    LX_EVENT_END_PANICKED, /* a job: it panicked */
    LX_EVENT_BUILT,        /* a job: its build is over, its install step is to come */
    LX_EVENT_REQUEST,      /* a struct lx_request */
    LX_EVENT_ACTOR_UNUSED, /* a lanex_actor: its last reference is gone */
};

struct lanex_executor;

struct lanex_job {
    struct lx_job_entry entry; /* the first member: the inbox and admission hold pointers to it */

    union {
        lanex_job_fn run;
        struct lanex_job
            *delivery_next; /* once it is over: in a port's list, or waiting for a ring */
    };
    void *arg;
    union {
        lanex_port *port;
        lanex_ring *ring;
        lanex_completion_fn callback;
    } target;
    union {
        void *callback_arg;
        uint64_t user_data;
    } sink;
    const char *texts; /* request id, label, or both (text.h); NULL: neither was given */
    union {
        struct lanex_cancellation own;
        struct lanex_cancellation *shared;
    } token;
    _Atomic uint64_t number; /* generation << 28 | slab index; kept across uses of the object */
};
/* Its slab adds less than a byte: a queued job stays below 128 bytes. */
_Static_assert(sizeof(struct lanex_job) == 120, "a job is less than two cache lines");

#define LX_NUMBER_INDEX_BITS 28u
#define LX_NUMBER_INDEX_MASK ((UINT64_C(1) << LX_NUMBER_INDEX_BITS) - 1)

/* What entry.response[0] points to after an error with a text of its own. */
struct lx_error_text {
    bool retryable;
    char *message; /* in text */
    char text[];   /* code, NUL, message, NUL */
};

static inline struct lanex_job *lx_job_of(struct lx_job_entry *entry)
{
    return (struct lanex_job *)entry;
}

static inline struct lanex_job *lx_job_of_completion(const lanex_completion *completion)
{
    return (struct lanex_job *)(uintptr_t)completion;
}

static inline lanex_completion *lx_completion_of(struct lanex_job *job)
{
    return (lanex_completion *)job;
}

static inline struct lanex_cancellation *lx_job_token(struct lanex_job *job)
{
    if ((job->entry.sink_kind & LX_JOB_TOKEN_OWN) != 0)
        return &job->token.own;
    return (job->entry.sink_kind & LX_JOB_TOKEN_SHARED) != 0 ? job->token.shared : NULL;
}

/* ---- job.c ---- */

/* "" if none was given. */
const char *lx_job_request_id(const struct lanex_job *job);
/* The one that stands for class and lane if none was given. */
const char *lx_job_label(const struct lanex_job *job);

/* A job with `holds` holds and the options' contents; actor may be NULL. Checks nothing but memory.
 */
int lx_job_create(struct lanex_executor *ex, struct lanex_actor *actor,
                  const lanex_job_options *options, bool ticket, struct lanex_job **ret_job);
/* Frees a job that was never pushed. */
void lx_job_discard(struct lanex_job *job);
/* Gives holds back; frees the object with the last. */
void lx_job_release(struct lanex_job *job, uint32_t holds);
/* The executor whose slab the object lies in: valid for every job, also without an actor. */
struct lanex_executor *lx_job_executor(const struct lanex_job *job);

/* Replaces the response by an error. -ENOMEM: replaced by one without text. */
int lx_job_set_error(struct lanex_job *job, enum lanex_status status, const char *code,
                     const char *message, bool retryable);
/* Replaces the response by ok with data. */
void lx_job_set_ok(struct lanex_job *job, void *data, void (*destroy)(void *));
/* Destroys what the response owns. */
void lx_job_clear_response(struct lanex_job *job);
/* Destroys what a build had answered (LX_JOB_MARK_ANSWERED) whose install step cannot come any
 * more. */
void lx_job_drop_build(struct lanex_job *job);

#endif

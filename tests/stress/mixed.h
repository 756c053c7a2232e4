/*
 * The mixed load: everything at once, and the books of it. What its files share with the tests that
 * run it. Jobs are numbered by the test itself, through their
 * arg; the receivers keep the books in arrays of their own, indexed by that number.
 */
#ifndef LX_STRESS_MIXED_H
#define LX_STRESS_MIXED_H

#include "tests/support/lx_executor.h"

#include "sync/inbox.h"

#include <liburing.h>
#include <pthread.h>
#include <semaphore.h>

#define ACTORS 64u

/* What is known of a job beside its completion: bits of mixed.flags. */
#define FLAG_UNCOUNTED (1u << 0) /* nobody is told of it: no sink, or the ticket was dropped */
#define FLAG_EFFECT    (1u << 1) /* its seal won */
#define FLAG_REMOVED   (1u << 2) /* cancel said: queued_removed */
#define FLAG_COMMITTED (1u << 3) /* cancel said: running_committed */
#define FLAG_INSTALLED (1u << 4)

/* The context of an actor: two plain words that writers keep equal. */
struct context {
    struct mixed *mixed;
    uint64_t a, b;
};

struct slot {
    pthread_mutex_t mutex; /* guards `actor` and `free` */
    lanex_actor *actor;
    bool free;         /* nothing is registered: there was no memory to register it anew */
    atomic_bool fatal; /* seen in a completion: to be registered anew */
};

struct mixed_options {
    uint64_t jobs;
    uint64_t seed;
    unsigned submitters;
    bool memory_may_lack; /* -ENOMEM is an answer */
    lanex_executor_options executor;
    /* Called by the submitters between jobs, with the number of the next; may be NULL. */
    void (*before_job)(void *arg, uint64_t number);
    void *arg;
};

struct mixed_submitter;

struct mixed {
    struct mixed_options options;
    lanex_executor *executor;
    struct slot slots[ACTORS];

    /* One entry a job. */
    _Atomic uint8_t *seen;   /* completions */
    _Atomic uint8_t *status; /* of the completion */
    _Atomic uint8_t *ran;    /* times its body ran */
    _Atomic uint8_t *flags;

    struct mixed_submitter *submitters;
    atomic_uint submitting; /* submitters that are not done */

    _Atomic uint64_t next;        /* number of the next job */
    _Atomic uint64_t outstanding; /* counted jobs without a completion */
    _Atomic int64_t live_data;    /* response data that was not destroyed */
    _Atomic int64_t live_contexts;
    _Atomic uint64_t panics;
    _Atomic uint64_t refusals; /* times that submit had no memory */
    uint64_t own_jobs;         /* jobs of the test's own in the executor's counters */

    /* Deferred answers on their way to the thread that gives them. */
    struct lx_inbox deferred;
    sem_t deferred_count;
    pthread_t answerer;

    /* Receivers. */
    atomic_bool stop;
    lanex_port *port;
    pthread_t port_thread;
    bool has_ring;
    struct io_uring uring;
    lanex_ring *ring;
    lanex_port *ring_port;
    pthread_t ring_thread;
};

/*
 * ---- mixed_load.c ----
 * begin makes the executor and starts the load; end waits for the last answer, checks everything
 * and ends the executor. Between them the test does to the process what it is about. All failures
 * abort: these may be used in a forked child.
 */
void mixed_begin(struct mixed *mixed, const struct mixed_options *options);
/* False once every submitter is done. */
bool mixed_goes_on(struct mixed *mixed);
void mixed_end(struct mixed *mixed);

/* ---- mixed_books.c ---- */
void mixed_open_books(struct mixed *mixed);
void mixed_close_books(struct mixed *mixed);
void mixed_check_books(const struct mixed *mixed);
void mixed_check_counters(const struct mixed *mixed);

/* ---- mixed_bodies.c ---- */
void mixed_run(lanex_job *job, void *context, void *arg);
void mixed_install(lanex_job *job, void *context, void *arg);
/* The bodies find the test through this. */
extern struct mixed *mixed_now;
void mixed_start_answerer(struct mixed *mixed);
void mixed_stop_answerer(struct mixed *mixed);

/* ---- mixed_receive.c ---- */
void mixed_start_receivers(struct mixed *mixed);
void mixed_stop_receivers(struct mixed *mixed);
/* Files a completion in the books. */
void mixed_book(struct mixed *mixed, uint64_t number, int status);
void mixed_book_completion(struct mixed *mixed, lanex_completion *completion);
void mixed_callback(lanex_completion *completion, void *mixed);

#endif

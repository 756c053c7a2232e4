/*
 * The server: who owns what.
 *
 * One network thread (the process's first) owns sockets, connections and an io_uring, in which
 * sockets and the executor's completions arrive alike. Each of the databases is an actor of the
 * executor, and its store is touched by that actor's jobs alone.
 *
 *     options.c          the command line
 *     main.c             start, load, run, leave
 *     net.c              the ring: accept, receive, send, timer, signals
 *     conn.c, output.c   a connection: bytes to requests to groups, answers to bytes
 *     conn_limits.c      how long and how much a client may make the server wait
 *     connection_commands.c, client_command.c   commands that touch no database
 *     exec.c             groups as jobs: submission, bodies, completions
 *     chores.c           expiry, and freeing of flushed memory, as maintenance
 *     save.c             SAVE and the load at start, as heavy_init
 *     info.c             INFO, as serial_status
 */
#ifndef KV_SERVER_H
#define KV_SERVER_H

#include <lanex/lanex.h>
#include <liburing.h>
#include <stdatomic.h>

#include "command.h"
#include "options.h"
#include "stats.h"

struct kv_server;
struct kv_conn;

/* A job as the network thread sees it; part of what the job works on. */
struct kv_task {
    /* On the network thread, once per submission. No completion: it could not be submitted. */
    void (*done)(struct kv_server *server, struct kv_task *task, lanex_completion *completion);
    enum kv_stat stat;
    uint32_t commands;
    uint64_t job; /* its number; 0 before the batch was submitted and after it is over */
    uint64_t submitted_ns;
    bool in_flight; /* from kv_submit to done */
    struct kv_task *next_refused;
};

/* Work on a database that comes round by itself. */
struct kv_chore {
    struct kv_task task;
    struct kv_db *db;
    bool more; /* written by the body: the rest wants another job */
};

struct kv_db {
    struct kv_server *server;
    unsigned index;
    lanex_actor *actor;
    struct kv_store *store; /* under the actor's gates */
    /*
     * Facts about the store for those outside its gates. Stored (relaxed) by jobs that hold the
     * write gate, loaded (relaxed) by anybody: each is a hint by itself, none guards anything.
     */
    _Atomic uint64_t keys;
    _Atomic uint64_t expires;
    _Atomic uint64_t bytes;
    _Atomic int64_t next_expiry_ms;
    atomic_bool has_trash;
    struct kv_chore expiry;
    struct kv_chore freeing;
};

/* Jobs gathered while the ring's events are handled, then submitted at once. */
#define KV_BATCH_MAX 256u

struct kv_net; /* net.c */

/* Clients that the server sent away, ever, by reason. */
struct kv_closed {
    uint64_t too_many; /* over --max-clients */
    uint64_t output;   /* did not fetch their answers */
    uint64_t memory;   /* had most of what was held when that was too much */
    uint64_t idle;
};

struct kv_server {
    struct kv_options options;
    lanex_executor *executor;
    lanex_ring *ring_target;
    lanex_port *port;
    struct kv_db databases[KV_DATABASES];
    struct kv_net *net;

    struct kv_conn *conns; /* a list */
    uint32_t conns_count;
    uint64_t conns_ever;
    uint64_t commands_ever;
    struct kv_closed closed;
    uint64_t held_bytes;   /* what is held for all connections (conn_limits.c) */
    uint64_t conns_due_ns; /* no connection's time is over before; KV_NEVER_NS: none has any */

    uint32_t batch_count;
    lanex_submission batch[KV_BATCH_MAX];
    lanex_job_options batch_options[KV_BATCH_MAX];
    struct kv_task *batch_tasks[KV_BATCH_MAX];
    struct kv_task *refused; /* could not be submitted; `done` is called by the loop */

    struct kv_lane_stats stats[KV_STATS];
    struct kv_running running[KV_STATS];
    int64_t started_ms;
    _Atomic int64_t saved_ms; /* of the last snapshot; stored by SAVE's install, loaded by INFO */

    /*
     * Bytes of answers that jobs have made and the network thread has not taken yet. Raised
     * (relaxed) by jobs, lowered (relaxed) by the network thread: it guards nothing, and whoever
     * finds it high only puts work off.
     */
    _Atomic uint64_t untaken;

    struct kv_reply scratch; /* answers of the network thread itself */
    bool stopping;
    bool stopped; /* the loop ends */
    uint64_t stop_by_ns;
};

/* ---- time ---- */
uint64_t kv_now_ns(void); /* CLOCK_MONOTONIC */
#define KV_NEVER_NS UINT64_MAX
int64_t kv_now_ms(void); /* Unix time */

/* ---- exec.c ---- */
/* Queues a job for the batch; `done` will be called for it. options: lane, class, run, install. */
void kv_submit(struct kv_server *server, struct kv_task *task, struct kv_db *db,
               const lanex_job_options *options);
void kv_batch_flush(struct kv_server *server);
/* Calls `done` for what flush could not submit: not from flush, whose callers are in mid-work. */
void kv_refused_finish(struct kv_server *server);
/* Takes what the port holds and calls `done` for each. */
void kv_completions_drain(struct kv_server *server);
/* For bodies: marks the lane's job as running; and publishes facts after a write. */
void kv_body_begin(struct kv_db *db, enum kv_stat stat);
void kv_body_end(struct kv_db *db, enum kv_stat stat);
void kv_db_publish(struct kv_db *db);

/* ---- chores.c ---- */
void kv_chores_init(struct kv_db *db);
/* Submits what is due; on each tick of the timer. */
void kv_chores_tick(struct kv_server *server);
/* Looks whether the database wants ticks; after each write. */
void kv_chores_note(struct kv_db *db);

/* ---- save.c ---- */
/* 0, or -1 after it said why on stderr. */
int kv_load(struct kv_server *server);

/* ---- net.c ---- */
int kv_net_create(struct kv_server *server);
int kv_net_ring_fd(const struct kv_server *server);
#define KV_DOORBELL_DATA UINT64_C(1) /* user_data of the executor's message */
/* Polls the port's eventfd, for a port without ring messages. */
void kv_net_watch_port(struct kv_server *server);
int kv_net_listen(struct kv_server *server, uint16_t *ret_port);
void kv_net_run(struct kv_server *server);
void kv_net_destroy(struct kv_server *server);
/* Looks out for the end of the connection; once in its life. */
void kv_net_watch(struct kv_server *server, struct kv_conn *conn);
void kv_net_receive(struct kv_server *server, struct kv_conn *conn);
void kv_net_cancel_receive(struct kv_server *server, struct kv_conn *conn);
void kv_net_send(struct kv_server *server, struct kv_conn *conn, const void *bytes, size_t length);
/* Makes sure that the timer ticks at least once more. */
void kv_net_want_tick(struct kv_server *server);
/* Begins an orderly end. */
void kv_server_stop(struct kv_server *server);

#endif

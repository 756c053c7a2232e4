/*
 * A connection. Network thread only, but for the group while its job runs.
 *
 * Order: a connection has at most one job under way. Requests that follow one another, act on one
 * database and are of one lane form a group, which is one job; the next group is submitted when
 * the completion of the one before was seen. So answers come in order, and so do effects, whatever
 * the admission policy lets overtake elsewhere.
 *
 * Memory: input is read only while the requests before it are being worked off, or until
 * KV_INPUT_HIGH bytes wait; a single request is bounded by its own limits. While KV_OUTPUT_HIGH
 * bytes of answers wait for the client, none of its further requests is begun. One that does not
 * fetch them is closed after a while (conn_limits.c).
 */
#ifndef KV_CONN_H
#define KV_CONN_H

#include "pace.h"
#include "server.h"

#define KV_INPUT_HIGH  (256u * 1024u)
#define KV_OUTPUT_HIGH (1024u * 1024u)
/* Requests in one group. */
#define KV_GROUP_MAX 64u
/* Bytes of a connection's name. */
#define KV_CONN_NAME_MAX 64u

struct kv_group_command {
    const struct kv_command *command;
    size_t request_at; /* in the region */
    size_t args_from;
    uint32_t argc;
};

/* What INFO tells that only the network thread knows; copied when the job is made. */
struct kv_info {
    int64_t now_ms;
    uint32_t clients;
    uint64_t connections_ever, commands_ever;
    struct kv_closed closed;
    uint64_t held_bytes;
    struct kv_lane_figures lanes[KV_STATS];
};

/* Requests that are worked off by one job. The job's while that is in flight. */
struct kv_group {
    struct kv_task task;
    struct kv_db *db;
    enum kv_lane lane;
    uint32_t count; /* 0: there is no group */
    uint32_t next;  /* the first request without an answer */
    struct kv_group_command commands[KV_GROUP_MAX];
    struct kv_args args;
    const char *region; /* what request_at counts from */
    char *own_region;   /* the region, if the connection's input has left it */
    size_t own_bytes;   /* of it */
    struct kv_reply reply;
    size_t reply_sure; /* bytes of `reply` that are whole answers */
    size_t untaken;    /* bytes by which the job has raised the server's count of the same name */
    /* KEYS, which goes in slices: its place, and the keys found so far. */
    uint64_t cursor;
    uint64_t found;
    struct kv_info *info; /* INFO */
    struct kv_save *save; /* SAVE */
};

enum kv_conn_state {
    KV_CONN_OPEN,
    KV_CONN_FINISHING, /* no request is begun; ends once answers under way are sent */
    KV_CONN_LINGERING, /* told that no more comes; what arrives is thrown away, for a while */
    KV_CONN_CLOSED,    /* shut down; freed once nothing refers to it */
};

struct kv_chunk {
    struct kv_chunk *next;
    char *data;
    size_t length;
    size_t capacity;
    size_t sent;
};

struct kv_conn {
    struct kv_server *server;
    struct kv_conn *next, *previous;
    uint64_t id;
    int fd;
    enum kv_conn_state state;
    struct kv_db *db; /* SELECTed */
    char name[KV_CONN_NAME_MAX + 1];

    /* input[begin..length) is not worked off; the request under parse begins at `begin`. */
    char *input;
    size_t input_begin, input_length, input_capacity;
    struct kv_parser parser;
    struct kv_args args; /* of the request under parse, or held */
    bool held;           /* a request is parsed and waits for the group before it */
    struct kv_request request;
    const struct kv_command *command; /* of the held request; NULL: answer `problem` */
    bool parse_failed;                /* likewise waits */

    struct kv_group group;

    struct kv_chunk *out_first, *out_last, *out_spare;
    size_t out_bytes;
    size_t out_held;   /* bytes of the memory that they are in */
    size_t held_bytes; /* all that the client makes the server hold, as last counted */

    uint32_t operations; /* ring operations that still name it */
    bool receiving;      /* the multishot receive is armed */
    bool cancelling;     /* and is being cancelled */
    bool sending;
    bool input_ended; /* the client ended its side; it may still wait for answers */
    bool close_after; /* QUIT, a protocol error: finish behind the answers so far */
    size_t lingered;  /* bytes thrown away */
    uint64_t linger_by_ns;

    uint64_t moved_ns; /* when a byte last came or went; kept if there is an idle time-out */
    struct kv_pace pace;
};

/* Takes over the descriptor, also on failure. */
void kv_conn_open(struct kv_server *server, int fd);
/* Bytes arrived. */
void kv_conn_received(struct kv_conn *conn, const char *bytes, size_t length);
/* The client ended its side: what it has asked for so far is still answered. */
void kv_conn_end_of_input(struct kv_conn *conn);
/* The connection broke: what it has queued is cancelled. */
void kv_conn_broken(struct kv_conn *conn);
/* Sent bytes, or -errno. */
void kv_conn_sent(struct kv_conn *conn, int result);
/* Goes as far as it can: parses, answers, submits, reads on, or ends. May free the connection. */
void kv_conn_advance(struct kv_conn *conn);
/* No more requests: for the server's end. */
void kv_conn_finish(struct kv_conn *conn);
/* At once. */
void kv_conn_close(struct kv_conn *conn);
/* Likewise, and the kernel forgets what it has of it. */
void kv_conn_reset(struct kv_conn *conn);

/* ---- conn_limits.c: how long, and with how much, a client is waited for ---- */
void kv_conn_linger(struct kv_conn *conn);
/* A byte came; also for a new connection. */
void kv_limits_received(struct kv_conn *conn);
/* Answers were added to those that wait: too many of them, and the connection is closed. */
void kv_limits_queued(struct kv_conn *conn);
/* Counts anew what is held for the connection. */
void kv_limits_count(struct kv_conn *conn);
/* So many bytes went. */
void kv_limits_sent(struct kv_conn *conn, size_t length);
/* While too much is held for all together, closes the one for which most is. */
void kv_limits_evict(struct kv_server *server);
/* Closes those whose time is over; with each tick of the timer. */
void kv_limits_tick(struct kv_server *server);

/* ---- output.c ---- */
void kv_out_append(struct kv_conn *conn, const char *bytes, size_t length);
/* Takes the buffer out of the reply where that is cheaper than copying; empties the reply. */
void kv_out_take(struct kv_conn *conn, struct kv_reply *reply);
void kv_out_start(struct kv_conn *conn);
void kv_out_sent(struct kv_conn *conn, size_t length);
void kv_out_free(struct kv_conn *conn);

/* ---- exec.c ---- */
void kv_group_submit(struct kv_conn *conn);
/* Cancels the group's job if it is still queued. */
void kv_group_cancel(struct kv_conn *conn);
void kv_group_end(struct kv_conn *conn); /* forgets the group and its memory */

/* ---- info.c ---- */
void kv_info_fill(const struct kv_server *server, struct kv_info *info);
void kv_info_write(struct kv_db *db, const struct kv_info *info, struct kv_str section,
                   struct kv_reply *reply);

/* ---- save.c ---- */
void kv_save_run(lanex_job *job, void *context, void *arg);
void kv_save_install(lanex_job *job, void *context, void *arg);
void kv_save_free(struct kv_server *server, struct kv_save *save);

/* ---- connection_commands.c ---- */
/* The commands that are no pure functions of a store, by name; those of lane network run here. */
const struct kv_command *kv_connection_command_find(struct kv_str name);
void kv_connection_command_run(struct kv_conn *conn, const struct kv_command *command,
                               const struct kv_call *call);
void kv_client_command(struct kv_conn *conn, const struct kv_call *call); /* client_command.c */

#endif

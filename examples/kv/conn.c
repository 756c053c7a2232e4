/* A connection's life: bytes to requests, requests to groups. */
#include "conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define INPUT_CAPACITY_FIRST (16u * 1024u)
/* An empty input buffer over this size is given back. */
#define INPUT_KEPT_MAX (64u * 1024u)
/* Bytes for which a client is listened to after its last answer: enough for one that is in the
   middle of a request that was refused. */
#define LINGER_BYTES_MAX (128u * 1024u * 1024u)

void kv_conn_open(struct kv_server *server, int fd)
{
    static const char full[] = "-ERR max number of clients reached\r\n";
    struct kv_conn *conn = NULL;
    if (server->conns_count >= server->options.clients_max || server->stopping) {
        (void)send(fd, full, sizeof full - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        server->closed.too_many++;
    } else {
        conn = calloc(1, sizeof *conn);
    }
    if (!conn) {
        close(fd);
        return;
    }
    struct kv_limits limits = {
        .args_max = KV_ARGS_MAX,
        .bulk_max = server->options.bulk_max,
        .request_max = server->options.request_max,
    };
    conn->server = server;
    conn->fd = fd;
    conn->id = ++server->conns_ever;
    conn->db = &server->databases[0];
    kv_parser_init(&conn->parser, &limits);
    kv_reply_init(&conn->group.reply, server->options.output_max);
    conn->next = server->conns;
    if (conn->next)
        conn->next->previous = conn;
    server->conns = conn;
    server->conns_count++;
    kv_limits_received(conn);
    kv_net_watch(server, conn);
    kv_conn_advance(conn);
}

static void destroy(struct kv_conn *conn)
{
    struct kv_server *server = conn->server;
    if (conn->previous)
        conn->previous->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->previous = conn->previous;
    server->conns_count--;
    server->held_bytes -= conn->held_bytes;
    close(conn->fd);
    kv_group_end(conn);
    kv_args_free(&conn->group.args);
    kv_reply_free(&conn->group.reply);
    kv_args_free(&conn->args);
    kv_out_free(conn);
    free(conn->input);
    free(conn);
}

/* ---- input ---- */

/* Room for `more` bytes behind the input; the group's requests stay where they are. */
static bool make_room(struct kv_conn *conn, size_t more)
{
    size_t tail = conn->input_length - conn->input_begin;
    if (conn->input_capacity - conn->input_length >= more)
        return true;
    struct kv_group *group = &conn->group;
    bool pinned = group->count > 0 && !group->own_region;
    if (!pinned && conn->input_capacity - tail >= more) {
        memmove(conn->input, conn->input + conn->input_begin, tail);
    } else {
        /* Doubling by what has come, never by what a header says will come. */
        size_t capacity = INPUT_CAPACITY_FIRST;
        while (capacity < tail + more)
            capacity *= 2;
        char *input = malloc(capacity);
        if (!input)
            return false;
        if (tail > 0)
            memcpy(input, conn->input + conn->input_begin, tail);
        if (pinned) {
            group->own_region = conn->input;
            group->own_bytes = conn->input_capacity;
        } else {
            free(conn->input);
        }
        conn->input = input;
        conn->input_capacity = capacity;
    }
    conn->input_begin = 0;
    conn->input_length = tail;
    return true;
}

/* A plain close would leave a client that goes on sending to wait for a window for a minute. */
void kv_conn_reset(struct kv_conn *conn)
{
    struct linger none = {.l_onoff = 1};
    (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    kv_conn_close(conn);
}

void kv_conn_received(struct kv_conn *conn, const char *bytes, size_t length)
{
    if (conn->state == KV_CONN_LINGERING) {
        conn->lingered += length;
        if (conn->lingered > LINGER_BYTES_MAX)
            kv_conn_reset(conn);
        return;
    }
    if (conn->state != KV_CONN_OPEN)
        return;
    kv_limits_received(conn);
    if (!make_room(conn, length)) {
        kv_conn_close(conn);
        return;
    }
    memcpy(conn->input + conn->input_length, bytes, length);
    conn->input_length += length;
}

static void input_done(struct kv_conn *conn)
{
    bool pinned = conn->group.count > 0 && !conn->group.own_region;
    if (pinned || conn->input_begin < conn->input_length)
        return;
    conn->input_begin = conn->input_length = 0;
    if (conn->input_capacity > INPUT_KEPT_MAX) {
        free(conn->input);
        conn->input = NULL;
        conn->input_capacity = 0;
    }
}

/* ---- requests ---- */

static struct kv_call call_of(struct kv_conn *conn, struct kv_reply *reply)
{
    return (struct kv_call){
        .base = conn->input + conn->input_begin,
        .args = conn->args.items + conn->request.args_from,
        .argc = conn->request.argc,
        .reply = reply,
    };
}

static void consume(struct kv_conn *conn)
{
    conn->input_begin += conn->request.size;
    conn->args.count = 0;
    if (conn->args.capacity > KV_GROUP_MAX)
        kv_args_free(&conn->args);
    conn->held = false;
    conn->server->commands_ever++;
}

/* Parses the next request, if it is whole, and finds its command. */
static bool hold_next(struct kv_conn *conn)
{
    while (!conn->held && !conn->parse_failed) {
        size_t available = conn->input_length - conn->input_begin;
        if (available == 0)
            return false;
        enum kv_parse rc = kv_parser_step(&conn->parser, conn->input + conn->input_begin, available,
                                          &conn->args, &conn->request);
        if (rc == KV_PARSE_MORE)
            return false;
        if (rc == KV_PARSE_ERROR) {
            conn->parse_failed = true;
            break;
        }
        if (conn->request.argc == 0) {
            conn->input_begin += conn->request.size;
            continue;
        }
        struct kv_call call = call_of(conn, NULL);
        struct kv_str name = kv_call_arg(&call, 0);
        conn->command = kv_command_find(kv_store_commands, kv_store_commands_count, name);
        if (!conn->command)
            conn->command = kv_connection_command_find(name);
        conn->held = true;
    }
    return true;
}

/* Whether the held request is answered here, and not by a job. */
static bool answered_here(const struct kv_conn *conn)
{
    return !conn->command || !kv_command_arity_fits(conn->command, conn->request.argc) ||
           conn->command->lane == KV_LANE_NETWORK;
}

static void answer_here(struct kv_conn *conn)
{
    struct kv_reply *reply = &conn->server->scratch;
    kv_reply_cut(reply, 0);
    struct kv_call call = call_of(conn, reply);
    if (!conn->command)
        kv_reply_unknown_command(&call);
    else if (!kv_command_arity_fits(conn->command, conn->request.argc))
        kv_reply_wrong_arity(reply, conn->command->name);
    else
        kv_connection_command_run(conn, conn->command, &call);
    consume(conn);
    kv_out_take(conn, reply);
}

static void fail_parse(struct kv_conn *conn)
{
    struct kv_reply *reply = &conn->server->scratch;
    kv_reply_cut(reply, 0);
    kv_reply_error(reply, "ERR %s", kv_parser_error(&conn->parser));
    kv_out_take(conn, reply);
    conn->parse_failed = false;
    conn->close_after = true;
}

static bool stands_alone(const struct kv_command *command)
{
    return command->lane == KV_LANE_STATUS || command->lane == KV_LANE_HEAVY ||
           command->run == kv_cmd_keys;
}

static bool joins(const struct kv_conn *conn)
{
    const struct kv_group *group = &conn->group;
    return group->count < KV_GROUP_MAX && group->lane == conn->command->lane &&
           !stands_alone(group->commands[0].command) && !stands_alone(conn->command);
}

/* Moves the held request into the group, which it begins or joins. */
static bool add_to_group(struct kv_conn *conn)
{
    struct kv_group *group = &conn->group;
    if (group->count == 0) {
        group->region = conn->input;
        group->lane = conn->command->lane;
        group->db = conn->db;
        if (conn->command->lane == KV_LANE_STATUS) {
            group->info = calloc(1, sizeof *group->info);
            if (!group->info)
                return false;
        }
    }
    struct kv_group_command *command = &group->commands[group->count];
    *command = (struct kv_group_command){
        .command = conn->command,
        .request_at = conn->input_begin,
        .args_from = group->args.count,
        .argc = conn->request.argc,
    };
    for (uint32_t i = 0; i < conn->request.argc; i++) {
        const struct kv_arg *arg = &conn->args.items[conn->request.args_from + i];
        if (kv_args_push(&group->args, arg->offset, arg->length) < 0)
            return false;
    }
    group->count++;
    consume(conn);
    return true;
}

/*
 * Works off requests until they run out, or the next one must wait for a group. Groups that are
 * full or met by a request of another kind are to be submitted.
 */
static void work_off(struct kv_conn *conn)
{
    struct kv_group *group = &conn->group;
    while (conn->state == KV_CONN_OPEN && !conn->close_after && conn->out_bytes < KV_OUTPUT_HIGH) {
        if (!hold_next(conn)) {
            if (conn->input_ended) /* a request that is not whole never will be */
                conn->state = KV_CONN_FINISHING;
            return;
        }
        if (conn->parse_failed || answered_here(conn)) {
            if (group->count > 0)
                return;
            if (conn->parse_failed)
                fail_parse(conn);
            else
                answer_here(conn);
        } else if (group->count > 0 && !joins(conn)) {
            return;
        } else if (!add_to_group(conn)) {
            kv_conn_close(conn);
            return;
        }
    }
}

/* ---- going on, and ending ---- */

static void update_receiving(struct kv_conn *conn)
{
    size_t waiting = conn->input_length - conn->input_begin;
    bool held_up = conn->group.count > 0 || conn->out_bytes >= KV_OUTPUT_HIGH;
    bool wanted = conn->state == KV_CONN_LINGERING ||
                  (conn->state == KV_CONN_OPEN && !conn->close_after && !conn->input_ended &&
                   !(held_up && waiting >= KV_INPUT_HIGH));
    if (wanted && !conn->receiving)
        kv_net_receive(conn->server, conn);
    else if (!wanted && conn->state == KV_CONN_OPEN && conn->receiving && !conn->cancelling)
        kv_net_cancel_receive(conn->server, conn);
}

/* The next state of a connection that is to end, once nothing holds it. */
static void settle(struct kv_conn *conn)
{
    if (conn->state == KV_CONN_OPEN && conn->close_after)
        conn->state = KV_CONN_FINISHING;
    if (conn->state == KV_CONN_FINISHING && conn->group.count == 0 && !conn->out_first) {
        if (conn->close_after && !conn->input_ended)
            kv_conn_linger(conn);
        else
            kv_conn_close(conn);
    }
}

void kv_conn_advance(struct kv_conn *conn)
{
    struct kv_group *group = &conn->group;
    if (!group->task.in_flight) {
        if (group->count == 0)
            work_off(conn);
        bool may_submit = conn->state != KV_CONN_CLOSED;
        if (group->count > 0 && may_submit && conn->out_bytes < KV_OUTPUT_HIGH)
            kv_group_submit(conn);
        else if (group->count > 0 && !may_submit)
            kv_group_end(conn);
    }
    input_done(conn);
    settle(conn);
    if (conn->state == KV_CONN_OPEN || conn->state == KV_CONN_FINISHING)
        kv_out_start(conn);
    update_receiving(conn);
    kv_limits_count(conn);
    if (conn->state == KV_CONN_CLOSED && conn->operations == 0 && !group->task.in_flight)
        destroy(conn);
}

void kv_conn_close(struct kv_conn *conn)
{
    if (conn->state == KV_CONN_CLOSED)
        return;
    conn->state = KV_CONN_CLOSED;
    /* Ends what the ring still does with it. */
    shutdown(conn->fd, SHUT_RDWR);
    kv_group_cancel(conn);
}

void kv_conn_end_of_input(struct kv_conn *conn)
{
    if (conn->state == KV_CONN_LINGERING || conn->state == KV_CONN_CLOSED) {
        kv_conn_close(conn);
        return;
    }
    conn->input_ended = true;
}

void kv_conn_broken(struct kv_conn *conn)
{
    kv_conn_close(conn);
}

void kv_conn_sent(struct kv_conn *conn, int result)
{
    if (result < 0) {
        kv_conn_close(conn);
    } else {
        kv_out_sent(conn, (size_t)result);
        kv_limits_sent(conn, (size_t)result);
    }
}

void kv_conn_finish(struct kv_conn *conn)
{
    if (conn->state == KV_CONN_OPEN)
        conn->state = KV_CONN_FINISHING;
}

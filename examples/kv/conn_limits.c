/*
 * How long, and with how much, a client is waited for: after its last answer (lingering), while it
 * leaves answers unfetched (a hard limit, and a soft one that asks for a pace: pace.h), and while
 * it does nothing at all (idle). And with how much for all clients together: requests that are not
 * whole yet and answers that are not fetched, each within its limits, may come to more than there
 * is.
 *
 * Times are looked at with the timer's ticks, and only when one may be over: the server keeps the
 * earliest, which may be too early (bytes that come and go put theirs off) and is never too late.
 */
#include "conn.h"

#include <sys/socket.h>

#define SECOND_NS UINT64_C(1000000000)
/* How long a client is listened to after its last answer. */
#define LINGER_NS SECOND_NS

static void due(struct kv_server *server, uint64_t at_ns)
{
    if (at_ns < server->conns_due_ns)
        server->conns_due_ns = at_ns;
    kv_net_want_tick(server);
}

static uint64_t soft_ns(const struct kv_server *server)
{
    return server->options.output_soft_s * SECOND_NS;
}

static uint64_t idle_ns(const struct kv_server *server)
{
    return server->options.idle_s * SECOND_NS;
}

void kv_conn_linger(struct kv_conn *conn)
{
    /* A close with bytes unread would make the kernel throw the last answer away. */
    shutdown(conn->fd, SHUT_WR);
    conn->state = KV_CONN_LINGERING;
    conn->linger_by_ns = kv_now_ns() + LINGER_NS;
    due(conn->server, conn->linger_by_ns);
}

void kv_limits_received(struct kv_conn *conn)
{
    if (conn->server->options.idle_s == 0)
        return;
    conn->moved_ns = kv_now_ns();
    due(conn->server, conn->moved_ns + idle_ns(conn->server));
}

void kv_limits_queued(struct kv_conn *conn)
{
    struct kv_server *server = conn->server;
    const struct kv_options *options = &server->options;
    if (options->output_hard > 0 && conn->out_bytes > options->output_hard) {
        server->closed.output++;
        kv_conn_reset(conn);
    } else if (options->output_soft > 0 && conn->out_bytes > options->output_soft &&
               kv_pace_queued(&conn->pace, conn->out_bytes, options->output_soft, kv_now_ns())) {
        due(server, kv_pace_due(&conn->pace, soft_ns(server)));
    }
}

void kv_limits_sent(struct kv_conn *conn, size_t length)
{
    const struct kv_options *options = &conn->server->options;
    if (options->idle_s > 0)
        conn->moved_ns = kv_now_ns();
    if (conn->pace.since_ns > 0)
        kv_pace_fetched(&conn->pace, length, conn->out_bytes, options->output_soft, kv_now_ns());
}

/* Empty buffers that are kept for later do not count: each is small, and there is nothing in it. */
void kv_limits_count(struct kv_conn *conn)
{
    const struct kv_group *group = &conn->group;
    size_t held = 0;
    if (conn->state != KV_CONN_CLOSED) { /* what such a one has is about to go */
        held = group->own_bytes + conn->out_held;
        if (conn->input_begin < conn->input_length || (group->count > 0 && !group->own_region))
            held += conn->input_capacity;
        held += (conn->args.count + group->args.count) * sizeof *conn->args.items;
        if (!group->task.in_flight && group->reply.length > 0) /* else it is the job's */
            held += group->reply.capacity;
    }
    conn->server->held_bytes += held;
    conn->server->held_bytes -= conn->held_bytes;
    conn->held_bytes = held;
}

void kv_limits_evict(struct kv_server *server)
{
    while (server->options.held_max > 0 && server->held_bytes > server->options.held_max) {
        struct kv_conn *most = server->conns;
        for (struct kv_conn *conn = most; conn; conn = conn->next)
            if (conn->held_bytes > most->held_bytes)
                most = conn;
        server->closed.memory++;
        kv_conn_reset(most);
        kv_conn_advance(most);
    }
}

/* When the connection's idleness is too long, or its lingering. */
static uint64_t idle_due(struct kv_conn *conn, uint64_t now_ns)
{
    if (conn->state == KV_CONN_LINGERING)
        return conn->linger_by_ns;
    if (conn->server->options.idle_s == 0)
        return KV_NEVER_NS;
    if (conn->group.task.in_flight) /* it waits for the server, not the other way round */
        conn->moved_ns = now_ns;
    return conn->moved_ns + idle_ns(conn->server);
}

/* Closes the connection if a time of its is over; else notes when the next one is. */
static bool close_if_over(struct kv_conn *conn, uint64_t now_ns)
{
    struct kv_server *server = conn->server;
    if (conn->state == KV_CONN_CLOSED)
        return false;
    uint64_t pace_at_ns = kv_pace_due(&conn->pace, soft_ns(server));
    uint64_t idle_at_ns = idle_due(conn, now_ns);
    if (now_ns < pace_at_ns && now_ns < idle_at_ns) {
        uint64_t at_ns = pace_at_ns < idle_at_ns ? pace_at_ns : idle_at_ns;
        if (at_ns != KV_NEVER_NS)
            due(server, at_ns);
        return false;
    }
    if (now_ns >= pace_at_ns)
        server->closed.output++;
    else if (conn->state != KV_CONN_LINGERING)
        server->closed.idle++;
    kv_conn_reset(conn);
    return true;
}

void kv_limits_tick(struct kv_server *server)
{
    uint64_t now_ns = kv_now_ns();
    if (now_ns >= server->conns_due_ns) {
        struct kv_conn *next;
        server->conns_due_ns = KV_NEVER_NS;
        for (struct kv_conn *conn = server->conns; conn; conn = next) {
            next = conn->next;
            if (close_if_over(conn, now_ns))
                kv_conn_advance(conn);
        }
    }
    if (server->conns_due_ns != KV_NEVER_NS)
        kv_net_want_tick(server);
}

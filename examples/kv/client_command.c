/* CLIENT: what a connection says about itself, and the list of all. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "conn.h"

/* Bytes of a line of CLIENT LIST. */
#define LINE_MAX_BYTES 256u

static void write_line(const struct kv_conn *conn, struct kv_reply *text)
{
    char line[LINE_MAX_BYTES];
    char address[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;
    struct sockaddr_storage peer = {0};
    socklen_t length = sizeof peer;
    if (getpeername(conn->fd, (struct sockaddr *)&peer, &length) == 0) {
        if (peer.ss_family == AF_INET) {
            const struct sockaddr_in *in = (const struct sockaddr_in *)&peer;
            inet_ntop(AF_INET, &in->sin_addr, address, sizeof address);
            port = ntohs(in->sin_port);
        } else if (peer.ss_family == AF_INET6) {
            const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&peer;
            inet_ntop(AF_INET6, &in->sin6_addr, address, sizeof address);
            port = ntohs(in->sin6_port);
        }
    }
    int written =
        snprintf(line, sizeof line,
                 "id=%llu addr=%s:%u fd=%d name=%s db=%u qbuf=%zu "
                 "omem=%zu\n",
                 (unsigned long long)conn->id, address, port, conn->fd, conn->name, conn->db->index,
                 conn->input_length - conn->input_begin, conn->out_bytes);
    kv_reply_bytes(text, line, (size_t)written);
}

static void list(const struct kv_conn *conn, const struct kv_call *call, bool all)
{
    struct kv_reply text;
    kv_reply_init(&text, call->reply->limit);
    if (all)
        for (const struct kv_conn *each = conn->server->conns; each; each = each->next)
            write_line(each, &text);
    else
        write_line(conn, &text);
    kv_reply_bulk(call->reply, text.data, text.length);
    kv_reply_free(&text);
}

static void set_name(struct kv_conn *conn, const struct kv_call *call)
{
    struct kv_str name = kv_call_arg(call, 2);
    bool fits = name.length <= KV_CONN_NAME_MAX;
    for (size_t i = 0; i < name.length; i++)
        fits &= name.bytes[i] > ' ' && name.bytes[i] <= '~';
    if (!fits) {
        kv_reply_error(call->reply, "ERR Client names cannot contain spaces, newlines or special "
                                    "characters, and have up to 64 bytes.");
        return;
    }
    memcpy(conn->name, name.bytes, name.length);
    conn->name[name.length] = '\0';
    kv_reply_status(call->reply, "OK");
}

void kv_client_command(struct kv_conn *conn, const struct kv_call *call)
{
    struct kv_str what = kv_call_arg(call, 1);
    if (kv_str_is(what, "id") && call->argc == 2) {
        kv_reply_int(call->reply, (int64_t)conn->id);
    } else if (kv_str_is(what, "getname") && call->argc == 2) {
        if (conn->name[0])
            kv_reply_bulk_text(call->reply, conn->name);
        else
            kv_reply_null(call->reply);
    } else if (kv_str_is(what, "setname") && call->argc == 3) {
        set_name(conn, call);
    } else if (kv_str_is(what, "setinfo") && call->argc == 4) {
        kv_reply_status(call->reply, "OK"); /* the library's name and version: of no use here */
    } else if (kv_str_is(what, "list") && call->argc == 2) {
        list(conn, call, true);
    } else if (kv_str_is(what, "info") && call->argc == 2) {
        list(conn, call, false);
    } else {
        kv_reply_error(call->reply,
                       "ERR unknown subcommand or wrong number of arguments for '%.*s'",
                       (int)(what.length < 32 ? what.length : 32), what.bytes);
    }
}

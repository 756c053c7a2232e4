/* Answers on their way to the client: a list of chunks, of which the first is being sent. */
#include <stdlib.h>
#include <string.h>

#include "conn.h"

/* Answers up to this size are copied into a chunk; longer ones bring their buffer along. */
#define COPY_MAX  (16u * 1024u)
#define CHUNK_MIN (16u * 1024u)
#define CHUNK_MAX (64u * 1024u)
/* Bytes handed to the kernel at a time, so that one long answer does not hold up the others. */
#define SEND_MAX (256u * 1024u)

static struct kv_chunk *chunk_make(struct kv_conn *conn, size_t room)
{
    struct kv_chunk *chunk = conn->out_spare;
    if (chunk && chunk->capacity >= room) {
        conn->out_spare = NULL;
        return chunk;
    }
    chunk = calloc(1, sizeof *chunk);
    if (!chunk)
        return NULL;
    if (room > 0) {
        chunk->capacity = room > CHUNK_MIN ? room : CHUNK_MIN;
        chunk->data = malloc(chunk->capacity);
        if (!chunk->data) {
            free(chunk);
            return NULL;
        }
    }
    return chunk;
}

static void chunk_free(struct kv_chunk *chunk)
{
    free(chunk->data);
    free(chunk);
}

static void enqueue(struct kv_conn *conn, struct kv_chunk *chunk)
{
    if (conn->out_last)
        conn->out_last->next = chunk;
    else
        conn->out_first = chunk;
    conn->out_last = chunk;
    conn->out_held += chunk->capacity;
}

void kv_out_append(struct kv_conn *conn, const char *bytes, size_t length)
{
    if (length == 0 || conn->state == KV_CONN_CLOSED)
        return;
    struct kv_chunk *last = conn->out_last;
    if (!last || last->capacity - last->length < length) {
        struct kv_chunk *chunk = chunk_make(conn, length);
        if (!chunk) {
            kv_conn_close(conn); /* an answer that is lost would put all later ones out of step */
            return;
        }
        enqueue(conn, chunk);
        last = chunk;
    }
    memcpy(last->data + last->length, bytes, length);
    last->length += length;
    conn->out_bytes += length;
    kv_limits_queued(conn);
}

void kv_out_take(struct kv_conn *conn, struct kv_reply *reply)
{
    if (reply->length <= COPY_MAX) {
        kv_out_append(conn, reply->data, reply->length);
        kv_reply_cut(reply, 0);
        return;
    }
    struct kv_chunk *chunk = conn->state == KV_CONN_CLOSED ? NULL : calloc(1, sizeof *chunk);
    if (!chunk) {
        kv_reply_free(reply);
        kv_conn_close(conn);
        return;
    }
    chunk->data = reply->data;
    chunk->length = chunk->capacity = reply->length;
    conn->out_bytes += reply->length;
    enqueue(conn, chunk);
    kv_reply_init(reply, reply->limit);
    kv_limits_queued(conn);
}

void kv_out_start(struct kv_conn *conn)
{
    struct kv_chunk *first = conn->out_first;
    if (conn->sending || !first)
        return;
    size_t left = first->length - first->sent;
    kv_net_send(conn->server, conn, first->data + first->sent, left < SEND_MAX ? left : SEND_MAX);
}

void kv_out_sent(struct kv_conn *conn, size_t length)
{
    struct kv_chunk *first = conn->out_first;
    first->sent += length;
    conn->out_bytes -= length;
    if (first->sent < first->length)
        return;
    conn->out_held -= first->capacity;
    conn->out_first = first->next;
    if (!conn->out_first)
        conn->out_last = NULL;
    if (conn->out_spare || first->capacity < CHUNK_MIN || first->capacity > CHUNK_MAX) {
        chunk_free(first);
        return;
    }
    first->next = NULL;
    first->length = first->sent = 0;
    conn->out_spare = first;
}

void kv_out_free(struct kv_conn *conn)
{
    while (conn->out_first) {
        struct kv_chunk *chunk = conn->out_first;
        conn->out_first = chunk->next;
        chunk_free(chunk);
    }
    if (conn->out_spare)
        chunk_free(conn->out_spare);
    conn->out_first = conn->out_last = conn->out_spare = NULL;
    conn->out_bytes = conn->out_held = 0;
}

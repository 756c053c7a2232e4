/*
 * The answer side of the protocol: a growable buffer of RESP2 with a limit.
 *
 * A write that would pass the limit, or finds no memory, leaves the buffer as it was and marks it
 * failed; later writes do nothing. Whoever runs a command cuts back to where the command's answer
 * began (kv_reply_cut) and answers an error instead.
 */
#ifndef KV_REPLY_H
#define KV_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_reply {
    char *data;
    size_t length;
    size_t capacity;
    size_t limit; /* bytes */
    bool failed;
};

void kv_reply_init(struct kv_reply *reply, size_t limit);
void kv_reply_free(struct kv_reply *reply);

void kv_reply_bytes(struct kv_reply *reply, const void *bytes, size_t length);
void kv_reply_status(struct kv_reply *reply, const char *text);
/* "-<text>\r\n"; the text begins with its code ("ERR ..."). Line ends in it become blanks. */
void kv_reply_error(struct kv_reply *reply, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void kv_reply_int(struct kv_reply *reply, int64_t value);
void kv_reply_bulk(struct kv_reply *reply, const void *bytes, size_t length);
void kv_reply_bulk_text(struct kv_reply *reply, const char *text);
void kv_reply_null(struct kv_reply *reply);
void kv_reply_array(struct kv_reply *reply, size_t count);

/* Takes back all beyond `length`, and the failure mark. */
void kv_reply_cut(struct kv_reply *reply, size_t length);

#endif

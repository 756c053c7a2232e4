#include "reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 256u
/* Bytes of a mark, a 64-bit number and a line end. */
#define NUMBER_LINE_MAX 24u
/* Bytes of an error's text; longer ones are cut. */
#define ERROR_MAX 512u

void kv_reply_init(struct kv_reply *reply, size_t limit)
{
    *reply = (struct kv_reply){.limit = limit};
}

void kv_reply_free(struct kv_reply *reply)
{
    free(reply->data);
    *reply = (struct kv_reply){.limit = reply->limit};
}

/* Room for `more` bytes, or NULL and the failure mark. */
static char *reserve(struct kv_reply *reply, size_t more)
{
    if (reply->failed)
        return NULL;
    if (more <= reply->capacity - reply->length)
        return reply->data + reply->length;
    if (more > reply->limit - reply->length) {
        reply->failed = true;
        return NULL;
    }
    size_t capacity = reply->capacity ? reply->capacity : CAPACITY_FIRST;
    while (capacity - reply->length < more)
        capacity *= 2;
    if (capacity > reply->limit)
        capacity = reply->limit;
    char *data = realloc(reply->data, capacity);
    if (!data) {
        reply->failed = true;
        return NULL;
    }
    reply->data = data;
    reply->capacity = capacity;
    return data + reply->length;
}

void kv_reply_bytes(struct kv_reply *reply, const void *bytes, size_t length)
{
    char *to = reserve(reply, length);
    if (!to || length == 0)
        return;
    memcpy(to, bytes, length);
    reply->length += length;
}

/* Writes "<mark><value>\r\n" and returns its length. */
static size_t write_number_line(char *to, char mark, int64_t value)
{
    char digits[NUMBER_LINE_MAX];
    size_t count = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[count++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    size_t at = 0;
    to[at++] = mark;
    if (value < 0)
        to[at++] = '-';
    while (count)
        to[at++] = digits[--count];
    to[at++] = '\r';
    to[at++] = '\n';
    return at;
}

static void number_line(struct kv_reply *reply, char mark, int64_t value)
{
    char *to = reserve(reply, NUMBER_LINE_MAX);
    if (to)
        reply->length += write_number_line(to, mark, value);
}

void kv_reply_status(struct kv_reply *reply, const char *text)
{
    size_t length = strlen(text);
    char *to = reserve(reply, length + 3);
    if (!to)
        return;
    to[0] = '+';
    memcpy(to + 1, text, length);
    memcpy(to + 1 + length, "\r\n", 2);
    reply->length += length + 3;
}

void kv_reply_error(struct kv_reply *reply, const char *format, ...)
{
    char line[ERROR_MAX];
    line[0] = '-';
    va_list list;
    va_start(list, format);
    vsnprintf(line + 1, sizeof line - 3, format, list);
    va_end(list);
    size_t length = strlen(line);
    for (size_t i = 1; i < length; i++) {
        if (line[i] == '\r' || line[i] == '\n')
            line[i] = ' ';
    }
    memcpy(line + length, "\r\n", 2);
    kv_reply_bytes(reply, line, length + 2);
}

void kv_reply_int(struct kv_reply *reply, int64_t value)
{
    number_line(reply, ':', value);
}

void kv_reply_bulk(struct kv_reply *reply, const void *bytes, size_t length)
{
    char *to = reserve(reply, NUMBER_LINE_MAX + length + 2);
    if (!to)
        return;
    size_t at = write_number_line(to, '$', (int64_t)length);
    if (length)
        memcpy(to + at, bytes, length);
    memcpy(to + at + length, "\r\n", 2);
    reply->length += at + length + 2;
}

void kv_reply_bulk_text(struct kv_reply *reply, const char *text)
{
    kv_reply_bulk(reply, text, strlen(text));
}

void kv_reply_null(struct kv_reply *reply)
{
    kv_reply_bytes(reply, "$-1\r\n", 5);
}

void kv_reply_array(struct kv_reply *reply, size_t count)
{
    number_line(reply, '*', (int64_t)count);
}

void kv_reply_cut(struct kv_reply *reply, size_t length)
{
    reply->length = length;
    reply->failed = false;
}

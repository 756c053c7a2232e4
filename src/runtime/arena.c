#include "runtime/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "sync/seams.h"

#define CHUNK_BYTES  1024u /* at least, of memory for a root's texts and arrays */
#define LINE_BYTES   256u  /* at first */
#define FORMAT_BYTES 128u  /* lx_line_format is for numbers and short words */
#define ALIGNMENT    16u

struct chunk {
    struct chunk *older;
    size_t used, room; /* of `memory` */
    _Alignas(ALIGNMENT) char memory[];
};

/* Lies in the first chunk, right before the root. */
struct head {
    struct chunk *newest;
    bool failed;
    _Alignas(ALIGNMENT) char root[];
};

static struct head *head_of(const void *root)
{
    return (struct head *)(void *)((char *)(uintptr_t)root - offsetof(struct head, root));
}

static struct chunk *make_chunk(size_t size)
{
    size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
    struct chunk *chunk = lx_allocate_zeroed(sizeof *chunk + room);

    if (chunk != NULL)
        chunk->room = room;
    return chunk;
}

static void *cut(struct chunk *chunk, size_t size)
{
    void *memory = chunk->memory + chunk->used;

    chunk->used += size;
    return memory;
}

static size_t aligned(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void *lx_arena_create(size_t size)
{
    size_t whole = aligned(sizeof(struct head) + size);
    struct chunk *chunk = make_chunk(whole);
    struct head *head;

    if (chunk == NULL)
        return NULL;
    head = cut(chunk, whole);
    head->newest = chunk;
    return head->root;
}

void *lx_arena_alloc(void *root, size_t size)
{
    struct head *head = head_of(root);
    struct chunk *chunk = head->newest;

    size = aligned(size);
    if (chunk->room - chunk->used < size) {
        chunk = make_chunk(size);
        if (chunk == NULL) {
            head->failed = true;
            return NULL;
        }
        chunk->older = head->newest;
        head->newest = chunk;
    }
    return cut(chunk, size);
}

const char *lx_arena_text(void *root, const char *text, size_t length)
{
    char *copy = lx_arena_alloc(root, length + 1);

    if (copy == NULL)
        return "";
    memcpy(copy, text, length);
    return copy;
}

bool lx_arena_failed(const void *root)
{
    return head_of(root)->failed;
}

void lx_arena_free(void *root)
{
    struct chunk *chunk;

    if (root == NULL)
        return;
    chunk = head_of(root)->newest;
    while (chunk != NULL) {
        struct chunk *older = chunk->older;
        lx_release(chunk);
        chunk = older;
    }
}

void lx_line_add(struct lx_line *line, const char *text, size_t length)
{
    if (line->failed)
        return;
    if (line->room - line->length < length) {
        size_t room = line->room < LINE_BYTES ? LINE_BYTES : line->room;
        char *grown;

        while (room - line->length < length)
            room *= 2;
        grown = lx_allocate(room);
        if (grown == NULL) {
            line->failed = true;
            return;
        }
        if (line->length > 0)
            memcpy(grown, line->text, line->length);
        lx_release(line->text);
        line->text = grown;
        line->room = room;
    }
    memcpy(line->text + line->length, text, length);
    line->length += length;
}

void lx_line_add_bytes(struct lx_line *line, const void *bytes, size_t length)
{
    const unsigned char *from = bytes;

    for (size_t i = 0; i < length; i++) {
        if (from[i] < 0x20 || from[i] == 0x7f)
            lx_line_format(line, "\\x%02x", (unsigned)from[i]);
        else
            lx_line_add(line, (const char *)&from[i], 1);
    }
}

void lx_line_format(struct lx_line *line, const char *format, ...)
{
    char text[FORMAT_BYTES];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0)
        lx_line_add(line, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

void lx_line_fini(struct lx_line *line)
{
    lx_release(line->text);
    *line = (struct lx_line){.text = NULL};
}

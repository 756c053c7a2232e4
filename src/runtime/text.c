#include "runtime/text.h"

#include <string.h>

#include "sync/assert.h"
#include "sync/seams.h"

#define MARK_SLAB 's'
#define MARK_HEAP 'h'

/* Room for `size` bytes behind the mark; NULL: out of memory. */
static char *allocate(struct lx_slab *slab, size_t size)
{
    char mark = size < LX_TEXT_SMALL ? MARK_SLAB : MARK_HEAP;
    char *copy = mark == MARK_SLAB ? lx_slab_alloc(slab) : lx_allocate(size + 1);

    if (copy == NULL)
        return NULL;
    copy[0] = mark;
    return copy + 1;
}

static char *put(char *to, const char *text, size_t length)
{
    memcpy(to, text, length);
    to[length] = '\0';
    return to + length + 1;
}

const char *lx_text_copy(struct lx_slab *slab, const char *text, size_t length)
{
    char *copy = allocate(slab, length + 1);

    if (copy != NULL)
        put(copy, text, length);
    return copy;
}

/* In front of the first: its length, since it may have NULs inside. */
const char *lx_text_copy_two(struct lx_slab *slab, const char *first, size_t first_length,
                             const char *second, size_t second_length)
{
    uint16_t length = (uint16_t)first_length;
    char *copy;

    LX_ASSERT(first_length < UINT16_MAX);
    copy = allocate(slab, sizeof length + first_length + second_length + 2);
    if (copy == NULL)
        return NULL;
    memcpy(copy, &length, sizeof length);
    put(put(copy + sizeof length, first, first_length), second, second_length);
    return copy;
}

const char *lx_text_first(const char *two)
{
    return two + sizeof(uint16_t);
}

const char *lx_text_second(const char *two)
{
    uint16_t length;

    memcpy(&length, two, sizeof length);
    return two + sizeof length + length + 1;
}

void lx_text_free(struct lx_slab *slab, const char *text)
{
    char *copy = (char *)(uintptr_t)text - 1;

    LX_ASSERT(copy[0] == MARK_SLAB || copy[0] == MARK_HEAP);
    if (copy[0] == MARK_SLAB)
        lx_slab_free(slab, copy);
    else
        lx_release(copy);
}

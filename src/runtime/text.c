#include "runtime/text.h"

#include <string.h>

#include "sync/assert.h"
#include "sync/seams.h"

#define MARK_SMALL 's'
#define MARK_PAIR  'p'
#define MARK_HEAP  'h'

int lx_texts_init(struct lx_texts *texts)
{
    int rc = lx_slab_init(&texts->small, LX_TEXT_SMALL);

    return rc < 0 ? rc : lx_slab_init(&texts->pairs, LX_TEXT_PAIR);
}

void lx_texts_fini(struct lx_texts *texts)
{
    lx_slab_fini(&texts->small);
    lx_slab_fini(&texts->pairs);
}

/* Room for `size` bytes behind the mark; NULL: out of memory. */
static char *allocate(struct lx_texts *texts, size_t size)
{
    char mark = MARK_HEAP;
    char *copy;

    if (size < LX_TEXT_SMALL) {
        mark = MARK_SMALL;
        copy = lx_slab_alloc(&texts->small);
    } else if (size < LX_TEXT_PAIR) {
        mark = MARK_PAIR;
        copy = lx_slab_alloc(&texts->pairs);
    } else {
        copy = lx_allocate(size + 1);
    }
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

const char *lx_text_copy(struct lx_texts *texts, const char *text, size_t length)
{
    char *copy = allocate(texts, length + 1);

    if (copy != NULL)
        put(copy, text, length);
    return copy;
}

/* In front of the first: its length, since it may have NULs inside. */
const char *lx_text_copy_two(struct lx_texts *texts, const char *first, size_t first_length,
                             const char *second, size_t second_length)
{
    uint16_t length = (uint16_t)first_length;
    char *copy;

    LX_ASSERT(first_length < UINT16_MAX);
    copy = allocate(texts, sizeof length + first_length + second_length + 2);
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

void lx_text_free(struct lx_texts *texts, const char *text)
{
    char *copy = (char *)(uintptr_t)text - 1;

    switch (copy[0]) {
    case MARK_SMALL:
        lx_slab_free(&texts->small, copy);
        break;
    case MARK_PAIR:
        lx_slab_free(&texts->pairs, copy);
        break;
    default:
        LX_ASSERT(copy[0] == MARK_HEAP);
        lx_release(copy);
    }
}

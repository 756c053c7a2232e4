#include "runtime/text.h"

#include <string.h>

#include "sync/assert.h"
#include "sync/seams.h"

#define MARK_SLAB 's'
#define MARK_HEAP 'h'

const char *lx_text_copy(struct lx_slab *slab, const char *text, size_t length)
{
    size_t size = length + 2;
    char mark = size <= LX_TEXT_SMALL ? MARK_SLAB : MARK_HEAP;
    char *copy = mark == MARK_SLAB ? lx_slab_alloc(slab) : lx_allocate(size);

    if (copy == NULL)
        return NULL;
    copy[0] = mark;
    memcpy(copy + 1, text, length);
    copy[1 + length] = '\0';
    return copy + 1;
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

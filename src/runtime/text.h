/*
 * Copied strings of jobs (request ids, labels): short ones from a slab, so that a warm job
 * allocates nothing, long ones from the heap. The byte before the string says which.
 */
#ifndef LX_RUNTIME_TEXT_H
#define LX_RUNTIME_TEXT_H

#include <stddef.h>

#include "sync/slab.h"

#define LX_TEXT_SMALL 32u /* bytes of a slab object: 30 characters, the mark and the NUL */

/* A NUL-terminated copy of length bytes; NULL: out of memory. */
const char *lx_text_copy(struct lx_slab *slab, const char *text, size_t length);
/* Two strings in one copy; each has less than UINT16_MAX bytes. */
const char *lx_text_copy_two(struct lx_slab *slab, const char *first, size_t first_length,
                             const char *second, size_t second_length);
/* The two of such a copy. */
const char *lx_text_first(const char *two);
const char *lx_text_second(const char *two);
void lx_text_free(struct lx_slab *slab, const char *text);

#endif

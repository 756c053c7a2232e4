/*
 * Copied strings of jobs (request ids, labels): short ones from slabs, so that a warm job
 * allocates nothing, long ones from the heap. The byte before the string says which.
 */
#ifndef LX_RUNTIME_TEXT_H
#define LX_RUNTIME_TEXT_H

#include <stddef.h>

#include "sync/slab.h"

/* Bytes of a slab object: of one text of 30 characters, beside the mark and the NUL; and of two of
 * that length together. */
#define LX_TEXT_SMALL 32u
#define LX_TEXT_PAIR  72u

struct lx_texts {
    struct lx_slab small, pairs;
};

/* 0 or -ENOMEM. */
int lx_texts_init(struct lx_texts *texts);
void lx_texts_fini(struct lx_texts *texts);

/* A NUL-terminated copy of length bytes; NULL: out of memory. */
const char *lx_text_copy(struct lx_texts *texts, const char *text, size_t length);
/* Two strings in one copy; each has less than UINT16_MAX bytes. */
const char *lx_text_copy_two(struct lx_texts *texts, const char *first, size_t first_length,
                             const char *second, size_t second_length);
/* The two of such a copy. */
const char *lx_text_first(const char *two);
const char *lx_text_second(const char *two);
void lx_text_free(struct lx_texts *texts, const char *text);

#endif

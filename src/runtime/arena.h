/*
 * Results of views: one object with everything it points to, freed in one call. Built on the
 * calling thread, never in the seat.
 */
#ifndef LX_RUNTIME_ARENA_H
#define LX_RUNTIME_ARENA_H

#include <stdbool.h>
#include <stddef.h>

/* A zeroed object of `size` bytes that more can be allocated for; NULL: no memory. */
void *lx_arena_create(size_t size);
/* Zeroed memory that lives as long as the root; NULL: no memory, which the root remembers. */
void *lx_arena_alloc(void *root, size_t size);
/* A NUL-terminated copy; "" without memory. */
const char *lx_arena_text(void *root, const char *text, size_t length);
/* Some allocation for the root has failed. */
bool lx_arena_failed(const void *root);
/* NULL is fine. */
void lx_arena_free(void *root);

/* A text that grows. All zero is empty; to be given back with lx_line_fini. */
struct lx_line {
    char *text; /* not terminated */
    size_t length, room;
    bool failed;
};
void lx_line_add(struct lx_line *line, const char *text, size_t length);
/* Bytes that would break a line of a log stand as \xNN. */
void lx_line_add_bytes(struct lx_line *line, const void *bytes, size_t length);
void lx_line_format(struct lx_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void lx_line_fini(struct lx_line *line);

#endif

/*
 * Golden traces: JSON Lines, plain or gzip. What is not as it should be ends the program with a
 * sentence that says where; a trace that cannot be read must not pass for one that agrees.
 */
#ifndef LX_REPLAY_TRACE_H
#define LX_REPLAY_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

/* Where the reader is; for error messages. */
struct trace_position {
    const char *file;
    unsigned line;
    const char *scenario;
    size_t step;
};
extern struct trace_position trace_position;

_Noreturn void trace_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct trace_file;
struct trace_file *trace_open(const char *path);
/* The next scenario, to be given back with json_decref; NULL at the end of the file. */
json_t *trace_next(struct trace_file *file);
void trace_close(struct trace_file *file);

/* Members that must be there, with that type. */
json_t *trace_array(const json_t *object, const char *name);
json_t *trace_object(const json_t *object, const char *name);
const char *trace_string(const json_t *object, const char *name);
int64_t trace_integer(const json_t *object, const char *name);
bool trace_bool(const json_t *object, const char *name);
/* An optional array of strings has that one. */
bool trace_has(const json_t *object, const char *name, const char *text);
/* The place of a member's string among `names` (ends with NULL). */
unsigned trace_word(const json_t *object, const char *name, const char *const *names);

#endif

#include "trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#define LINE_MAX_BYTES (256u << 20)

struct trace_position trace_position;

struct trace_file {
    gzFile gz;
    char *line;
    size_t capacity;
};

_Noreturn void trace_bad(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "lanex-replay: %s", trace_position.file);
    if (trace_position.line > 0)
        fprintf(stderr, ":%u", trace_position.line);
    if (trace_position.scenario != NULL)
        fprintf(stderr, ": scenario %s, step %zu", trace_position.scenario, trace_position.step);
    fputs(": ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

struct trace_file *trace_open(const char *path)
{
    struct trace_file *file = calloc(1, sizeof *file);

    trace_position = (struct trace_position){.file = path};
    if (file == NULL)
        trace_bad("out of memory");
    /* Also reads files that are not compressed. */
    file->gz = gzopen(path, "rb");
    if (file->gz == NULL)
        trace_bad("cannot be opened");
    gzbuffer(file->gz, 1u << 17);
    return file;
}

static void grow(struct trace_file *file)
{
    size_t capacity = file->capacity == 0 ? 1u << 16 : file->capacity * 2;
    char *line = capacity <= LINE_MAX_BYTES ? realloc(file->line, capacity) : NULL;

    if (line == NULL)
        trace_bad("a line is too long");
    file->line = line;
    file->capacity = capacity;
}

/* The length of the next line, or -1 at the end. */
static long read_line(struct trace_file *file)
{
    size_t length = 0;
    int error = Z_OK;

    for (;;) {
        if (file->capacity - length < 2)
            grow(file);
        if (gzgets(file->gz, file->line + length, (int)(file->capacity - length)) == NULL) {
            const char *text = gzerror(file->gz, &error);
            if (error != Z_OK)
                trace_bad("cannot be read: %s", text);
            return length > 0 ? (long)length : -1;
        }
        length += strlen(file->line + length);
        if (length > 0 && file->line[length - 1] == '\n')
            return (long)length;
    }
}

json_t *trace_next(struct trace_file *file)
{
    json_error_t error;
    json_t *scenario;
    long length;

    trace_position.scenario = NULL;
    do {
        length = read_line(file);
        if (length < 0)
            return NULL;
        trace_position.line++;
    } while (strspn(file->line, " \t\r\n") == (size_t)length);

    scenario = json_loadb(file->line, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (scenario == NULL)
        trace_bad("no JSON: %s (column %d)", error.text, error.column);
    if (!json_is_object(scenario))
        trace_bad("a scenario is to be an object");
    return scenario;
}

void trace_close(struct trace_file *file)
{
    int result = gzclose(file->gz);

    if (result != Z_OK)
        trace_bad("ends in the middle");
    free(file->line);
    free(file);
}

static json_t *member(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    if (value == NULL)
        trace_bad("\"%s\" is missing", name);
    return value;
}

json_t *trace_array(const json_t *object, const char *name)
{
    json_t *value = member(object, name);

    if (!json_is_array(value))
        trace_bad("\"%s\" is to be an array", name);
    return value;
}

json_t *trace_object(const json_t *object, const char *name)
{
    json_t *value = member(object, name);

    if (!json_is_object(value))
        trace_bad("\"%s\" is to be an object", name);
    return value;
}

const char *trace_string(const json_t *object, const char *name)
{
    json_t *value = member(object, name);

    if (!json_is_string(value))
        trace_bad("\"%s\" is to be a string", name);
    return json_string_value(value);
}

int64_t trace_integer(const json_t *object, const char *name)
{
    json_t *value = member(object, name);

    if (!json_is_integer(value))
        trace_bad("\"%s\" is to be an integer", name);
    return json_integer_value(value);
}

bool trace_bool(const json_t *object, const char *name)
{
    json_t *value = member(object, name);

    if (!json_is_boolean(value))
        trace_bad("\"%s\" is to be true or false", name);
    return json_is_true(value);
}

bool trace_has(const json_t *object, const char *name, const char *text)
{
    json_t *list = json_object_get(object, name), *item;
    size_t i;

    if (list != NULL && !json_is_array(list))
        trace_bad("\"%s\" is to be an array", name);
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            trace_bad("\"%s\" is to hold strings", name);
        if (strcmp(json_string_value(item), text) == 0)
            return true;
    }
    return false;
}

unsigned trace_word(const json_t *object, const char *name, const char *const *names)
{
    const char *word = trace_string(object, name);

    for (unsigned i = 0; names[i] != NULL; i++) {
        if (strcmp(word, names[i]) == 0)
            return i;
    }
    trace_bad("\"%s\" is unknown for \"%s\"", word, name);
}

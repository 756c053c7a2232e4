/*
 * Inline commands: a line of blank-separated words, where "..." knows \n \r \t \b \a \xHH and \c,
 * and '...' knows \' alone, as people type them into a terminal.
 */
#include <errno.h>

#include "resp.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f' || c == '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static char escaped(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return c;
    }
}

/* Reading and writing positions in the line; `out` never passes `in`. */
struct cursor {
    char *line;
    uint32_t length;
    uint32_t in;
    uint32_t out;
};

/* One character inside double quotes, escapes resolved. */
static void take_double_quoted(struct cursor *c)
{
    const char *at = c->line + c->in;
    uint32_t left = c->length - c->in;
    if (at[0] == '\\' && left >= 4 && at[1] == 'x' && hex_value(at[2]) >= 0 &&
        hex_value(at[3]) >= 0) {
        c->line[c->out++] = (char)(hex_value(at[2]) * 16 + hex_value(at[3]));
        c->in += 4;
    } else if (at[0] == '\\' && left >= 2) {
        c->line[c->out++] = escaped(at[1]);
        c->in += 2;
    } else {
        c->line[c->out++] = at[0];
        c->in++;
    }
}

static void take_single_quoted(struct cursor *c)
{
    const char *at = c->line + c->in;
    if (at[0] == '\\' && c->length - c->in >= 2 && at[1] == '\'')
        c->in++;
    c->line[c->out++] = c->line[c->in++];
}

/* The rest of a quoted part, its closing quote included, behind which a blank must follow. */
static int take_quoted(struct cursor *c, char quote)
{
    while (c->in < c->length) {
        if (c->line[c->in] == quote) {
            c->in++;
            return c->in == c->length || is_blank(c->line[c->in]) ? 0 : -EINVAL;
        }
        if (quote == '"')
            take_double_quoted(c);
        else
            take_single_quoted(c);
    }
    return -EINVAL;
}

static int take_word(struct cursor *c)
{
    while (c->in < c->length && !is_blank(c->line[c->in])) {
        char here = c->line[c->in];
        if (here == '"' || here == '\'') {
            c->in++;
            int rc = take_quoted(c, here);
            if (rc < 0)
                return rc;
        } else {
            c->line[c->out++] = here;
            c->in++;
        }
    }
    return 0;
}

int kv_inline_split(char *line, uint32_t length, uint32_t args_max, struct kv_args *args)
{
    struct cursor c = {.line = line, .length = length};
    uint32_t count = 0;
    for (;;) {
        while (c.in < length && is_blank(line[c.in]))
            c.in++;
        if (c.in == length)
            return 0;
        if (count++ == args_max)
            return -EINVAL;
        uint32_t from = c.out = c.in;
        int rc = take_word(&c);
        if (rc < 0)
            return rc;
        rc = kv_args_push(args, from, c.out - from);
        if (rc < 0)
            return rc;
    }
}

#include <stdio.h>
#include <string.h>

#include "command.h"

/* Bytes of the arguments that an unknown command's error repeats. */
#define ECHO_MAX 128u

const struct kv_command kv_store_commands[] = {
    {"dbsize", 1, KV_LANE_READ, kv_cmd_dbsize},     {"decr", 2, KV_LANE_WRITE, kv_cmd_decr},
    {"decrby", 3, KV_LANE_WRITE, kv_cmd_decrby},    {"del", -2, KV_LANE_WRITE, kv_cmd_del},
    {"exists", -2, KV_LANE_READ, kv_cmd_exists},    {"expire", -3, KV_LANE_WRITE, kv_cmd_expire},
    {"flushdb", -1, KV_LANE_WRITE, kv_cmd_flushdb}, {"get", 2, KV_LANE_READ, kv_cmd_get},
    {"incr", 2, KV_LANE_WRITE, kv_cmd_incr},        {"incrby", 3, KV_LANE_WRITE, kv_cmd_incrby},
    {"keys", 2, KV_LANE_READ, kv_cmd_keys},         {"mget", -2, KV_LANE_READ, kv_cmd_mget},
    {"mset", -3, KV_LANE_WRITE, kv_cmd_mset},       {"persist", 2, KV_LANE_WRITE, kv_cmd_persist},
    {"pexpire", -3, KV_LANE_WRITE, kv_cmd_pexpire}, {"pttl", 2, KV_LANE_READ, kv_cmd_pttl},
    {"scan", -2, KV_LANE_READ, kv_cmd_scan},        {"set", -3, KV_LANE_WRITE, kv_cmd_set},
    {"strlen", 2, KV_LANE_READ, kv_cmd_strlen},     {"ttl", 2, KV_LANE_READ, kv_cmd_ttl},
    {"type", 2, KV_LANE_READ, kv_cmd_type},         {"unlink", -2, KV_LANE_WRITE, kv_cmd_del},
};
const size_t kv_store_commands_count = sizeof kv_store_commands / sizeof *kv_store_commands;

static char lower_case(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool kv_str_is(struct kv_str text, const char *lower)
{
    if (strlen(lower) != text.length)
        return false;
    for (size_t i = 0; i < text.length; i++)
        if (lower_case(text.bytes[i]) != lower[i])
            return false;
    return true;
}

const struct kv_command *kv_command_find(const struct kv_command *table, size_t count,
                                         struct kv_str name)
{
    char lower[KV_COMMAND_NAME_MAX + 1];
    if (name.length == 0 || name.length > KV_COMMAND_NAME_MAX)
        return NULL;
    for (size_t i = 0; i < name.length; i++) {
        if (name.bytes[i] == '\0')
            return NULL;
        lower[i] = lower_case(name.bytes[i]);
    }
    lower[name.length] = '\0';
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(lower, table[middle].name);
        if (order == 0)
            return &table[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bool kv_command_arity_fits(const struct kv_command *command, uint32_t argc)
{
    return command->arity >= 0 ? argc == (uint32_t)command->arity
                               : argc >= (uint32_t)-command->arity;
}

void kv_reply_unknown_command(const struct kv_call *call)
{
    char echo[ECHO_MAX + 8];
    size_t at = 0;
    echo[0] = '\0';
    for (uint32_t i = 1; i < call->argc && at < ECHO_MAX; i++) {
        struct kv_str arg = kv_call_arg(call, i);
        size_t room = ECHO_MAX - at;
        int shown = (int)(arg.length < room ? arg.length : room);
        int written = snprintf(echo + at, sizeof echo - at, "'%.*s' ", shown, arg.bytes);
        at += (size_t)written < sizeof echo - at ? (size_t)written : sizeof echo - at - 1;
    }
    struct kv_str name = kv_call_arg(call, 0);
    int shown = (int)(name.length < ECHO_MAX ? name.length : ECHO_MAX);
    kv_reply_error(call->reply, "ERR unknown command '%.*s', with args beginning with: %s", shown,
                   name.bytes, echo);
}

void kv_reply_wrong_arity(struct kv_reply *reply, const char *lower_case_name)
{
    kv_reply_error(reply, "ERR wrong number of arguments for '%s' command", lower_case_name);
}

void kv_reply_not_an_integer(struct kv_reply *reply)
{
    kv_reply_error(reply, "ERR value is not an integer or out of range");
}

void kv_reply_syntax_error(struct kv_reply *reply)
{
    kv_reply_error(reply, "ERR syntax error");
}

void kv_reply_out_of_memory(struct kv_reply *reply)
{
    kv_reply_error(reply, "OOM out of memory: the command changed nothing or only in part");
}

/*
 * The commands that act on a database: pure functions of a store, arguments, and the time.
 */
#ifndef KV_COMMAND_H
#define KV_COMMAND_H

#include "reply.h"
#include "resp.h"
#include "store.h"

/* What a command does, and so where it runs. */
enum kv_lane {
    KV_LANE_NETWORK, /* answered by the network thread: touches no database */
    KV_LANE_READ,    /* pure_read */
    KV_LANE_WRITE,   /* mutating */
    KV_LANE_STATUS,  /* serial_status */
    KV_LANE_HEAVY,   /* heavy_init */
};

/* One call of a command: its arguments, argv[0] being the name, and where the answer goes. */
struct kv_call {
    struct kv_store *store;
    const char *base; /* the request's first byte; what the arguments' offsets count from */
    const struct kv_arg *args;
    uint32_t argc;
    struct kv_reply *reply;
    int64_t now_ms; /* Unix time */
};

static inline struct kv_str kv_call_arg(const struct kv_call *call, uint32_t index)
{
    return (struct kv_str){call->base + call->args[index].offset, call->args[index].length};
}

typedef void kv_handler(const struct kv_call *call);

struct kv_command {
    const char *name; /* lower case */
    int arity;        /* arguments with the name; negative: at least that many */
    enum kv_lane lane;
    kv_handler *run; /* for lanes read and write */
};

/* Bytes of the longest command name. */
#define KV_COMMAND_NAME_MAX 16u

/* The database commands, sorted by name. */
extern const struct kv_command kv_store_commands[];
extern const size_t kv_store_commands_count;

/* By name, in any case, in a table sorted by name; NULL. */
const struct kv_command *kv_command_find(const struct kv_command *table, size_t count,
                                         struct kv_str name);
bool kv_command_arity_fits(const struct kv_command *command, uint32_t argc);

/* The errors that every server of this protocol gives in these words. */
void kv_reply_unknown_command(const struct kv_call *call);
void kv_reply_wrong_arity(struct kv_reply *reply, const char *lower_case_name);
void kv_reply_not_an_integer(struct kv_reply *reply);
void kv_reply_syntax_error(struct kv_reply *reply);
void kv_reply_out_of_memory(struct kv_reply *reply);

/* Whether two strings are equal but for case; `lower` is lower case. */
bool kv_str_is(struct kv_str text, const char *lower);

/*
 * KEYS in slices, for a caller that lets writers in between: appends the matching keys of the next
 * `max_buckets` buckets as bulk strings and adds their number to *count. False at the end.
 */
bool kv_keys_slice(const struct kv_store *store, struct kv_str pattern, uint64_t *cursor,
                   uint32_t max_buckets, int64_t now_ms, struct kv_reply *reply, uint64_t *count);

/* The handlers, by file. */
kv_handler kv_cmd_dbsize, kv_cmd_exists, kv_cmd_get, kv_cmd_keys, kv_cmd_mget, kv_cmd_pttl,
    kv_cmd_scan, kv_cmd_strlen, kv_cmd_ttl, kv_cmd_type; /* commands_read.c */
kv_handler kv_cmd_decr, kv_cmd_decrby, kv_cmd_del, kv_cmd_expire, kv_cmd_flushdb, kv_cmd_incr,
    kv_cmd_incrby, kv_cmd_mset, kv_cmd_persist, kv_cmd_pexpire,
    kv_cmd_set; /* commands_write.c, command_set.c */

#endif

/* Commands of the connection and of the server: answered by the network thread. */
#include <stdio.h>
#include <string.h>

#include "conn.h"
#include "glob.h"

static const struct kv_command commands[] = {
    {"client", -2, KV_LANE_NETWORK, NULL},   {"command", -1, KV_LANE_NETWORK, NULL},
    {"config", -2, KV_LANE_NETWORK, NULL},   {"echo", 2, KV_LANE_NETWORK, NULL},
    {"hello", -1, KV_LANE_NETWORK, NULL},    {"info", -1, KV_LANE_STATUS, NULL},
    {"ping", -1, KV_LANE_NETWORK, NULL},     {"quit", -1, KV_LANE_NETWORK, NULL},
    {"save", 1, KV_LANE_HEAVY, NULL},        {"select", 2, KV_LANE_NETWORK, NULL},
    {"shutdown", -1, KV_LANE_NETWORK, NULL},
};
#define COMMANDS_COUNT (sizeof commands / sizeof *commands)

const struct kv_command *kv_connection_command_find(struct kv_str name)
{
    return kv_command_find(commands, COMMANDS_COUNT, name);
}

static void run_ping(struct kv_conn *conn, const struct kv_call *call)
{
    (void)conn;
    struct kv_str text = {NULL, 0};
    if (call->argc == 1) {
        kv_reply_status(call->reply, "PONG");
    } else if (call->argc == 2) {
        text = kv_call_arg(call, 1);
        kv_reply_bulk(call->reply, text.bytes, text.length);
    } else {
        kv_reply_wrong_arity(call->reply, "ping");
    }
}

static void run_echo(struct kv_conn *conn, const struct kv_call *call)
{
    (void)conn;
    struct kv_str text = kv_call_arg(call, 1);
    kv_reply_bulk(call->reply, text.bytes, text.length);
}

static void run_quit(struct kv_conn *conn, const struct kv_call *call)
{
    kv_reply_status(call->reply, "OK");
    conn->close_after = true;
}

static void run_select(struct kv_conn *conn, const struct kv_call *call)
{
    struct kv_str text = kv_call_arg(call, 1);
    int64_t index = 0;
    if (!kv_parse_int64(text.bytes, text.length, &index)) {
        kv_reply_not_an_integer(call->reply);
    } else if (index < 0 || index >= KV_DATABASES) {
        kv_reply_error(call->reply, "ERR DB index is out of range");
    } else {
        conn->db = &conn->server->databases[index];
        kv_reply_status(call->reply, "OK");
    }
}

/* HELLO [2 [SETNAME name]]: protocol 3 is not spoken here. */
static void run_hello(struct kv_conn *conn, const struct kv_call *call)
{
    struct kv_reply *reply = call->reply;
    if (call->argc > 1) {
        struct kv_str text = kv_call_arg(call, 1);
        int64_t version = 0;
        if (!kv_parse_int64(text.bytes, text.length, &version)) {
            kv_reply_error(reply, "ERR Protocol version is not an integer or out of range");
            return;
        }
        if (version != 2) {
            kv_reply_error(reply, "NOPROTO unsupported protocol version");
            return;
        }
    }
    if (call->argc > 2) {
        struct kv_str option = kv_call_arg(call, 2);
        if (call->argc != 4 || !kv_str_is(option, "setname")) {
            kv_reply_error(reply, "ERR Syntax error in HELLO option '%.*s'",
                           (int)(option.length < 32 ? option.length : 32), option.bytes);
            return;
        }
        struct kv_str name = kv_call_arg(call, 3);
        size_t length = name.length < KV_CONN_NAME_MAX ? name.length : KV_CONN_NAME_MAX;
        memcpy(conn->name, name.bytes, length);
        conn->name[length] = '\0';
    }
    kv_reply_array(reply, 14);
    kv_reply_bulk_text(reply, "server");
    kv_reply_bulk_text(reply, "redis");
    kv_reply_bulk_text(reply, "version");
    kv_reply_bulk_text(reply, "7.0.15");
    kv_reply_bulk_text(reply, "proto");
    kv_reply_int(reply, 2);
    kv_reply_bulk_text(reply, "id");
    kv_reply_int(reply, (int64_t)conn->id);
    kv_reply_bulk_text(reply, "mode");
    kv_reply_bulk_text(reply, "standalone");
    kv_reply_bulk_text(reply, "role");
    kv_reply_bulk_text(reply, "master");
    kv_reply_bulk_text(reply, "modules");
    kv_reply_array(reply, 0);
}

/* Clients ask this for completion and routing; none needs it to go on. */
static void run_command(struct kv_conn *conn, const struct kv_call *call)
{
    (void)conn;
    if (call->argc > 1 && kv_str_is(kv_call_arg(call, 1), "count"))
        kv_reply_int(call->reply, (int64_t)(COMMANDS_COUNT + kv_store_commands_count));
    else
        kv_reply_array(call->reply, 0);
}

static void config_get(const struct kv_conn *conn, const struct kv_call *call)
{
    const struct kv_options *options = &conn->server->options;
    char port[16], clients[16], idle[16], keepalive[16], output[80], held[32];
    snprintf(port, sizeof port, "%u", options->port);
    snprintf(clients, sizeof clients, "%u", options->clients_max);
    snprintf(held, sizeof held, "%zu", options->held_max);
    snprintf(idle, sizeof idle, "%u", options->idle_s);
    snprintf(keepalive, sizeof keepalive, "%u", options->keepalive_s);
    snprintf(output, sizeof output, "normal %zu %zu %u", options->output_hard, options->output_soft,
             options->output_soft_s);
    const char *const parameters[][2] = {
        {"appendonly", "no"},
        {"bind", options->bind},
        {"client-output-buffer-limit", output},
        {"databases", "16"},
        {"maxclients", clients},
        {"maxmemory", "0"},
        {"maxmemory-clients", held},
        {"port", port},
        {"save", ""},
        {"tcp-keepalive", keepalive},
        {"timeout", idle},
    };
    size_t count = sizeof parameters / sizeof *parameters, found = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1)
            kv_reply_array(call->reply, found * 2);
        for (size_t i = 0; i < count; i++) {
            bool matches = false;
            for (uint32_t arg = 2; arg < call->argc; arg++) {
                struct kv_str pattern = kv_call_arg(call, arg);
                matches |= kv_glob_match(pattern.bytes, pattern.length, parameters[i][0],
                                         strlen(parameters[i][0]));
            }
            found += matches && pass == 0;
            if (matches && pass == 1) {
                kv_reply_bulk_text(call->reply, parameters[i][0]);
                kv_reply_bulk_text(call->reply, parameters[i][1]);
            }
        }
    }
}

static void reset_stats(struct kv_server *server)
{
    for (unsigned i = 0; i < KV_STATS; i++)
        memset(&server->stats[i].latency, 0, sizeof server->stats[i].latency);
}

static void run_config(struct kv_conn *conn, const struct kv_call *call)
{
    struct kv_str what = kv_call_arg(call, 1);
    if (kv_str_is(what, "get") && call->argc > 2) {
        config_get(conn, call);
    } else if (kv_str_is(what, "resetstat") && call->argc == 2) {
        reset_stats(conn->server);
        kv_reply_status(call->reply, "OK");
    } else {
        kv_reply_error(call->reply,
                       "ERR unknown subcommand or wrong number of arguments for '%.*s'",
                       (int)(what.length < 32 ? what.length : 32), what.bytes);
    }
}

/* A whole end for the asker: its connection is closed without an answer, as clients expect. */
static void run_shutdown(struct kv_conn *conn, const struct kv_call *call)
{
    bool plain =
        call->argc == 1 || (call->argc == 2 && (kv_str_is(kv_call_arg(call, 1), "nosave") ||
                                                kv_str_is(kv_call_arg(call, 1), "now")));
    if (!plain) {
        kv_reply_error(call->reply, "ERR only SHUTDOWN [NOSAVE] is known here: SAVE comes before");
        return;
    }
    kv_conn_finish(conn);
    kv_server_stop(conn->server);
}

void kv_connection_command_run(struct kv_conn *conn, const struct kv_command *command,
                               const struct kv_call *call)
{
    static const struct {
        const char *name;
        void (*run)(struct kv_conn *conn, const struct kv_call *call);
    } handlers[] = {
        {"client", kv_client_command},
        {"command", run_command},
        {"config", run_config},
        {"echo", run_echo},
        {"hello", run_hello},
        {"ping", run_ping},
        {"quit", run_quit},
        {"select", run_select},
        {"shutdown", run_shutdown},
    };
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        if (strcmp(handlers[i].name, command->name) == 0) {
            handlers[i].run(conn, call);
            return;
        }
    }
}

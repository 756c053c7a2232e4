#include "options.h"

#include <argp.h>
#include <errno.h>
#include <lanex/executor.h>
#include <stdlib.h>
#include <string.h>

#include "resp.h"

/* The most that options take. */
#define BYTES_MAX   (INT64_C(1) << 40)
#define SECONDS_MAX 1000000000

const char *argp_program_version = "lanex-kv 0.1.0";

enum {
    KEY_CLIENTS = 256,
    KEY_BULK,
    KEY_REQUEST,
    KEY_HELD,
    KEY_OUTPUT,
    KEY_OUTPUT_HARD,
    KEY_OUTPUT_SOFT,
    KEY_OUTPUT_SOFT_S,
    KEY_IDLE,
    KEY_KEEPALIVE,
    KEY_POLICY,
    KEY_PROMOTION,
    KEY_DISPATCH,
    KEY_BACKEND,
};

static const struct argp_option option_table[] = {
    {"bind", 'b', "ADDRESS", 0, "address to listen at (127.0.0.1)", 0},
    {"port", 'p', "PORT", 0, "port; 0: any free one, which the ready line tells (6379)", 0},
    {"workers", 'w', "N", 0, "worker threads (the greater of 4 and the usable CPUs)", 0},
    {"snapshot", 's', "FILE", 0, "loaded at start if it exists; written by SAVE", 0},
    {"max-clients", KEY_CLIENTS, "N", 0, "connections at once (4096)", 1},
    {"max-bulk", KEY_BULK, "BYTES", 0, "longest argument, up to 536870912 (67108864)", 1},
    {"max-request", KEY_REQUEST, "BYTES", 0, "longest request, up to 1073741824 (134217728)", 1},
    {"max-output", KEY_OUTPUT, "BYTES", 0, "longest answer (268435456)", 1},
    {"max-held", KEY_HELD, "BYTES", 0,
     "while unfinished requests and unfetched answers of all clients come to more, the client with "
     "most of it is closed; 0: none is (1073741824)",
     1},
    {"output-hard", KEY_OUTPUT_HARD, "BYTES", 0,
     "a client that leaves more than this unfetched is closed at once; 0: none is (536870912)", 1},
    {"output-soft", KEY_OUTPUT_SOFT, "BYTES", 0,
     "a client that leaves more than this unfetched must fetch as much in --output-soft-seconds, "
     "or "
     "is closed; 0: need not (1048576)",
     1},
    {"output-soft-seconds", KEY_OUTPUT_SOFT_S, "S", 0, "time for the soft limit (60)", 1},
    {"idle-timeout", KEY_IDLE, "S", 0,
     "a client that neither sends nor fetches anything for so long is closed; 0: never (0)", 1},
    {"keepalive", KEY_KEEPALIVE, "S", 0,
     "after so long without a byte TCP looks whether the peer is there; 0: never (300)", 1},
    {"policy", KEY_POLICY, "NAME", 0, "reads_first (default) or arrival", 2},
    {"promotion-ms", KEY_PROMOTION, "MS", 0,
     "reads_first: age at which a waiting write stops new reads (2)", 2},
    {"dispatch", KEY_DISPATCH, "NAME", 0, "who runs scheduler turns: seat (default) or scheduler",
     2},
    {"backend", KEY_BACKEND, "NAME", 0, "what the executor's threads sleep on: auto, ring, poll",
     2},
    {0},
};

/* A number in [low, high], or a usage error. */
static uint64_t number(struct argp_state *state, const char *text, int64_t low, int64_t high)
{
    int64_t value = 0;
    if (!kv_parse_int64(text, strlen(text), &value) || value < low || value > high)
        argp_error(state, "%s is not a number from %lld to %lld", text, (long long)low,
                   (long long)high);
    return (uint64_t)value;
}

/* How long and how much is waited for a client. */
static error_t parse_patience(int key, char *text, struct argp_state *state)
{
    struct kv_options *options = state->input;
    switch (key) {
    case KEY_HELD:
        options->held_max = number(state, text, 0, BYTES_MAX);
        return 0;
    case KEY_OUTPUT_HARD:
        options->output_hard = number(state, text, 0, BYTES_MAX);
        return 0;
    case KEY_OUTPUT_SOFT:
        options->output_soft = number(state, text, 0, BYTES_MAX);
        return 0;
    case KEY_OUTPUT_SOFT_S:
        options->output_soft_s = (uint32_t)number(state, text, 1, SECONDS_MAX);
        return 0;
    case KEY_IDLE:
        options->idle_s = (uint32_t)number(state, text, 0, SECONDS_MAX);
        return 0;
    case KEY_KEEPALIVE:
        options->keepalive_s = (uint32_t)number(state, text, 0, KV_KEEPALIVE_S_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_limit(int key, char *text, struct argp_state *state)
{
    struct kv_options *options = state->input;
    switch (key) {
    case KEY_CLIENTS:
        options->clients_max = (uint32_t)number(state, text, 1, 1000000);
        return 0;
    case KEY_BULK:
        options->bulk_max = (uint32_t)number(state, text, 1, KV_BULK_MAX);
        return 0;
    case KEY_REQUEST:
        options->request_max = (uint32_t)number(state, text, 1024, KV_REQUEST_MAX);
        return 0;
    case KEY_OUTPUT:
        options->output_max = number(state, text, 1024, BYTES_MAX);
        return 0;
    default:
        return parse_patience(key, text, state);
    }
}

/* The index of a word in a list, or a usage error. */
static uint32_t word(struct argp_state *state, const char *text, const char *const *words)
{
    for (uint32_t i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    argp_error(state, "%s is not known here", text);
    return 0;
}

static error_t parse_executor(int key, char *text, struct argp_state *state)
{
    /* In the order of the enums of lanex/executor.h. */
    static const char *const policies[] = {"reads_first", "arrival", NULL};
    static const char *const dispatches[] = {"default", "seat", "scheduler", NULL};
    static const char *const backends[] = {"auto", "ring", "poll", NULL};
    struct kv_options *options = state->input;
    switch (key) {
    case KEY_POLICY:
        options->policy = word(state, text, policies);
        return 0;
    case KEY_PROMOTION:
        options->promotion_ms = (uint32_t)number(state, text, 1, 3600000);
        return 0;
    case KEY_DISPATCH:
        options->dispatch = word(state, text, dispatches);
        return 0;
    case KEY_BACKEND:
        options->backend = word(state, text, backends);
        return 0;
    default:
        return parse_limit(key, text, state);
    }
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct kv_options *options = state->input;
    switch (key) {
    case 'b':
        options->bind = text;
        return 0;
    case 'p':
        options->port = (uint16_t)number(state, text, 0, UINT16_MAX);
        return 0;
    case 'w':
        options->workers = (uint32_t)number(state, text, 1, LANEX_POOL_MAX_MANY_CORE);
        return 0;
    case 's':
        options->snapshot = text;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "%s is not an option", text);
        return 0;
    default:
        return parse_executor(key, text, state);
    }
}

void kv_options_parse(int argc, char **argv, struct kv_options *ret_options)
{
    static const struct argp argp = {
        .options = option_table,
        .parser = parse_option,
        .doc = "A server that speaks the Redis protocol, on the lanex executor.",
    };
    *ret_options = (struct kv_options){
        .bind = "127.0.0.1",
        .port = KV_PORT_DEFAULT,
        .clients_max = KV_CLIENTS_MAX_DEFAULT,
        .bulk_max = KV_BULK_MAX_DEFAULT,
        .request_max = KV_REQUEST_MAX_DEFAULT,
        .held_max = KV_HELD_MAX_DEFAULT,
        .output_max = KV_OUTPUT_MAX_DEFAULT,
        .output_hard = KV_OUTPUT_HARD_DEFAULT,
        .output_soft = KV_OUTPUT_SOFT_DEFAULT,
        .output_soft_s = KV_OUTPUT_SOFT_S_DEFAULT,
        .keepalive_s = KV_KEEPALIVE_S_DEFAULT,
        .policy = LANEX_POLICY_READS_FIRST,
        .promotion_ms = KV_PROMOTION_MS_DEFAULT,
    };
    argp_parse(&argp, argc, argv, 0, NULL, ret_options);
}

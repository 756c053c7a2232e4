/* The server's command line. */
#ifndef KV_OPTIONS_H
#define KV_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#define KV_DATABASES 16u

struct kv_options {
    const char *bind;
    uint16_t port;        /* 0: any free one */
    uint32_t workers;     /* 0: max(KV_WORKERS_MIN, usable CPUs) */
    const char *snapshot; /* NULL: none is loaded, SAVE is refused */
    uint32_t clients_max;
    uint32_t bulk_max;    /* bytes of one argument */
    uint32_t request_max; /* bytes of one request */
    size_t held_max;      /* bytes of unfinished requests and unfetched answers in all; 0: any */
    size_t output_max;    /* bytes of one answer */
    /* Answers that a client does not fetch; 0: no such limit (conn_limits.c). */
    size_t output_hard;     /* bytes */
    size_t output_soft;     /* bytes */
    uint32_t output_soft_s; /* seconds in which a client over the soft limit must fetch as much */
    uint32_t idle_s;        /* seconds without a byte after which a client is closed; 0: never */
    uint32_t keepalive_s;   /* seconds without a byte after which TCP asks the peer; 0: never */
    uint32_t policy;        /* enum lanex_policy */
    uint32_t dispatch;      /* enum lanex_dispatch */
    uint32_t backend;       /* enum lanex_backend: of the executor, not of the network thread */
    uint32_t promotion_ms;
};

#define KV_WORKERS_MIN         4u
#define KV_CLIENTS_MAX_DEFAULT 4096u
#define KV_HELD_MAX_DEFAULT    (1024u * 1024u * 1024u)
#define KV_OUTPUT_MAX_DEFAULT  (256u * 1024u * 1024u)
#define KV_PORT_DEFAULT        6379u
/* Beyond what --max-output and the pause at KV_OUTPUT_HIGH let come together: a net below both. */
#define KV_OUTPUT_HARD_DEFAULT   (512u * 1024u * 1024u)
#define KV_OUTPUT_SOFT_DEFAULT   (1024u * 1024u)
#define KV_OUTPUT_SOFT_S_DEFAULT 60u
#define KV_KEEPALIVE_S_DEFAULT   300u
/* Linux takes no longer keep-alive. */
#define KV_KEEPALIVE_S_MAX      32767u
#define KV_PROMOTION_MS_DEFAULT 2u

/* Reads argv; on a mistake or --help it prints and ends the process. */
void kv_options_parse(int argc, char **argv, struct kv_options *ret_options);

#endif

/* INFO: what the server and its executor are doing, as lines of name:value. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conn.h"

void kv_info_fill(const struct kv_server *server, struct kv_info *info)
{
    *info = (struct kv_info){
        .now_ms = kv_now_ms(),
        .clients = server->conns_count,
        .connections_ever = server->conns_ever,
        .commands_ever = server->commands_ever,
        .closed = server->closed,
        .held_bytes = server->held_bytes,
    };
    for (unsigned i = 0; i < KV_STATS; i++) {
        const struct kv_lane_stats *stats = &server->stats[i];
        info->lanes[i] = (struct kv_lane_figures){
            .jobs = stats->jobs,
            .commands = stats->commands,
            .in_flight = stats->in_flight,
            .p50_ns = kv_histogram_quantile(&stats->latency, 0.50),
            .p99_ns = kv_histogram_quantile(&stats->latency, 0.99),
            .max_ns = stats->latency.max_ns,
        };
    }
}

static void line_u64(struct kv_reply *text, const char *name, uint64_t value)
{
    char digits[24];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    kv_reply_bytes(text, name, strlen(name));
    kv_reply_bytes(text, ":", 1);
    kv_reply_bytes(text, digits + at, sizeof digits - at);
    kv_reply_bytes(text, "\r\n", 2);
}

static void line_text(struct kv_reply *text, const char *name, const char *value)
{
    kv_reply_bytes(text, name, strlen(name));
    kv_reply_bytes(text, ":", 1);
    kv_reply_bytes(text, value, strlen(value));
    kv_reply_bytes(text, "\r\n", 2);
}

static void write_server(struct kv_db *db, const struct kv_info *info, struct kv_reply *text)
{
    const struct kv_server *server = db->server;
    line_text(text, "redis_version", "7.0.15"); /* the version whose commands are followed */
    line_text(text, "server_name", "lanex-kv");
    line_text(text, "lanex_version", lanex_version());
    line_u64(text, "process_id", (uint64_t)getpid());
    line_u64(text, "tcp_port", server->options.port);
    line_u64(text, "uptime_in_seconds", (uint64_t)(info->now_ms - server->started_ms) / 1000);
}

static void write_clients(struct kv_db *db, const struct kv_info *info, struct kv_reply *text)
{
    line_u64(text, "connected_clients", info->clients);
    line_u64(text, "maxclients", db->server->options.clients_max);
}

static void write_memory(struct kv_db *db, const struct kv_info *info, struct kv_reply *text)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < KV_DATABASES; i++)
        bytes += atomic_load_explicit(&db->server->databases[i].bytes, memory_order_relaxed);
    line_u64(text, "used_memory_dataset", bytes);
    line_u64(text, "mem_clients_normal", info->held_bytes);
    line_u64(text, "maxmemory", 0);
}

static void write_persistence(struct kv_db *db, const struct kv_info *info, struct kv_reply *text)
{
    (void)info;
    int64_t saved_ms = atomic_load_explicit(&db->server->saved_ms, memory_order_relaxed);
    line_u64(text, "loading", 0);
    line_u64(text, "rdb_last_save_time", (uint64_t)saved_ms / 1000);
}

static void write_stats(struct kv_db *db, const struct kv_info *info, struct kv_reply *text)
{
    (void)db;
    line_u64(text, "total_connections_received", info->connections_ever);
    line_u64(text, "total_commands_processed", info->commands_ever);
    line_u64(text, "rejected_connections", info->closed.too_many);
    line_u64(text, "client_output_buffer_limit_disconnections", info->closed.output);
    line_u64(text, "idle_timeout_disconnections", info->closed.idle);
    line_u64(text, "evicted_clients", info->closed.memory);
}

static void write_lane(struct kv_db *db, unsigned lane, const struct kv_lane_figures *figures,
                       struct kv_reply *text)
{
    static const char *const fields[] = {"jobs",   "commands", "queued", "running",
                                         "p50_ns", "p99_ns",   "max_ns"};
    uint64_t running = atomic_load_explicit(&db->server->running[lane].count, memory_order_relaxed);
    uint64_t queued = figures->in_flight > running ? figures->in_flight - running : 0;
    const uint64_t values[] = {figures->jobs,   figures->commands, queued,         running,
                               figures->p50_ns, figures->p99_ns,   figures->max_ns};
    kv_reply_bytes(text, "lane_", 5);
    kv_reply_bytes(text, kv_stat_names[lane], strlen(kv_stat_names[lane]));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char part[64];
        int length = snprintf(part, sizeof part, "%s%s=%llu", i == 0 ? ":" : ",", fields[i],
                              (unsigned long long)values[i]);
        kv_reply_bytes(text, part, (size_t)length);
    }
    kv_reply_bytes(text, "\r\n", 2);
}

static void write_lanex(struct kv_db *db, const struct kv_info *info, struct kv_reply *text)
{
    const struct kv_server *server = db->server;
    lanex_config config = {.size = sizeof config};
    lanex_liveness liveness = {.size = sizeof liveness};
    lanex_counters counters = {.size = sizeof counters};
    if (lanex_executor_config(server->executor, &config) == 0) {
        line_text(text, "lanex_policy",
                  config.policy == LANEX_POLICY_ARRIVAL ? "arrival" : "reads_first");
        line_text(text, "lanex_dispatch",
                  config.dispatch == LANEX_DISPATCH_SCHEDULER ? "scheduler" : "seat");
        line_u64(text, "lanex_workers", config.pool_size);
        line_u64(text, "lanex_read_cap", config.read_cap);
        line_u64(text, "lanex_promotion_age_ms", config.promotion_age_ms);
    }
    line_text(text, "lanex_backend", lanex_executor_backend_text(server->executor));
    if (lanex_executor_liveness(server->executor, &liveness) == 0) {
        line_u64(text, "lanex_queued_interactive", liveness.queued[LANEX_CLASS_INTERACTIVE]);
        line_u64(text, "lanex_queued_maintenance", liveness.queued[LANEX_CLASS_MAINTENANCE]);
        line_u64(text, "lanex_running_interactive", liveness.running[LANEX_CLASS_INTERACTIVE]);
        line_u64(text, "lanex_running_maintenance", liveness.running[LANEX_CLASS_MAINTENANCE]);
        line_u64(text, "lanex_idle_workers", liveness.idle_workers);
    }
    if (lanex_executor_counters(server->executor, &counters) == 0) {
        line_u64(text, "lanex_refused_interactive", counters.refused[LANEX_CLASS_INTERACTIVE]);
        line_u64(text, "lanex_turns", counters.turns);
        line_u64(text, "lanex_turns_by_scheduler", counters.turns_by_scheduler);
        line_u64(text, "lanex_wakes", counters.wakes);
        line_u64(text, "lanex_wakes_without_work", counters.wakes_without_work);
        line_u64(text, "lanex_ring_messages", counters.ring_messages);
        line_u64(text, "lanex_non_runnable_dispatches", counters.non_runnable_dispatches);
    }
    for (unsigned lane = 0; lane < KV_STATS; lane++)
        write_lane(db, lane, &info->lanes[lane], text);
}

static void write_keyspace(struct kv_db *db, const struct kv_info *info, struct kv_reply *text)
{
    (void)info;
    for (unsigned i = 0; i < KV_DATABASES; i++) {
        const struct kv_db *other = &db->server->databases[i];
        uint64_t keys = atomic_load_explicit(&other->keys, memory_order_relaxed);
        uint64_t expires = atomic_load_explicit(&other->expires, memory_order_relaxed);
        char line[96];
        if (keys == 0)
            continue;
        int length = snprintf(line, sizeof line, "db%u:keys=%llu,expires=%llu,avg_ttl=0\r\n", i,
                              (unsigned long long)keys, (unsigned long long)expires);
        kv_reply_bytes(text, line, (size_t)length);
    }
}

static const struct {
    const char *name;  /* as asked for */
    const char *title; /* as shown */
    void (*write)(struct kv_db *db, const struct kv_info *info, struct kv_reply *text);
} sections[] = {
    {"server", "Server", write_server},       {"clients", "Clients", write_clients},
    {"memory", "Memory", write_memory},       {"persistence", "Persistence", write_persistence},
    {"stats", "Stats", write_stats},          {"lanex", "Lanex", write_lanex},
    {"keyspace", "Keyspace", write_keyspace},
};

void kv_info_write(struct kv_db *db, const struct kv_info *info, struct kv_str section,
                   struct kv_reply *reply)
{
    struct kv_reply text;
    bool all = section.length == 0 || kv_str_is(section, "all") || kv_str_is(section, "default") ||
               kv_str_is(section, "everything");
    kv_reply_init(&text, reply->limit);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (!all && !kv_str_is(section, sections[i].name))
            continue;
        if (text.length > 0)
            kv_reply_bytes(&text, "\r\n", 2);
        kv_reply_bytes(&text, "# ", 2);
        kv_reply_bytes(&text, sections[i].title, strlen(sections[i].title));
        kv_reply_bytes(&text, "\r\n", 2);
        sections[i].write(db, info, &text);
    }
    kv_reply_bulk(reply, text.data, text.length);
    kv_reply_free(&text);
}

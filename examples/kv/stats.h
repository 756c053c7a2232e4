/* What INFO tells about the lanes: numbers of jobs and how long they took. */
#ifndef KV_STATS_H
#define KV_STATS_H

#include <stdatomic.h>
#include <stdint.h>

enum kv_stat {
    KV_STAT_READ,
    KV_STAT_WRITE,
    KV_STAT_STATUS,
    KV_STAT_HEAVY,
    KV_STAT_MAINTENANCE,
    KV_STATS,
};

extern const char *const kv_stat_names[KV_STATS];

/* A histogram of durations: eight buckets per power of two, so that what it tells is within 12 %.
 */
#define KV_HISTOGRAM_SUB_BITS 3u
#define KV_HISTOGRAM_BUCKETS  (64u << KV_HISTOGRAM_SUB_BITS)

struct kv_histogram {
    uint64_t count;
    uint64_t max_ns;
    uint64_t buckets[KV_HISTOGRAM_BUCKETS];
};

void kv_histogram_add(struct kv_histogram *histogram, uint64_t ns);
/* The upper end of the bucket in which the quantile lies; 0 when empty. */
uint64_t kv_histogram_quantile(const struct kv_histogram *histogram, double quantile);

/* One lane, from submission to the completion's arrival. The network thread's alone. */
struct kv_lane_stats {
    uint64_t jobs;
    uint64_t commands;
    uint64_t in_flight;
    struct kv_histogram latency; /* since the last CONFIG RESETSTAT */
};

/* The same, for others to read. */
struct kv_lane_figures {
    uint64_t jobs, commands, in_flight, p50_ns, p99_ns, max_ns;
};

/* Bodies that run now, per lane; a line each, since every worker writes them. */
struct kv_running {
    _Alignas(64) atomic_uint count;
};

#endif

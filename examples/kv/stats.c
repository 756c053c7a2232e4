#include "stats.h"

const char *const kv_stat_names[KV_STATS] = {
    "pure_read", "mutating", "serial_status", "heavy_init", "maintenance",
};

static unsigned bucket_of(uint64_t ns)
{
    if (ns < 1u << KV_HISTOGRAM_SUB_BITS)
        return (unsigned)ns;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(ns);
    unsigned sub =
        (unsigned)(ns >> (exponent - KV_HISTOGRAM_SUB_BITS)) & ((1u << KV_HISTOGRAM_SUB_BITS) - 1);
    return ((exponent - KV_HISTOGRAM_SUB_BITS + 1) << KV_HISTOGRAM_SUB_BITS) + sub;
}

static uint64_t bucket_end(unsigned bucket)
{
    unsigned group = bucket >> KV_HISTOGRAM_SUB_BITS;
    uint64_t sub = bucket & ((1u << KV_HISTOGRAM_SUB_BITS) - 1);
    if (group == 0)
        return sub;
    return (((UINT64_C(1) << KV_HISTOGRAM_SUB_BITS) + sub + 1) << (group - 1)) - 1;
}

void kv_histogram_add(struct kv_histogram *histogram, uint64_t ns)
{
    histogram->count++;
    histogram->buckets[bucket_of(ns)]++;
    if (ns > histogram->max_ns)
        histogram->max_ns = ns;
}

uint64_t kv_histogram_quantile(const struct kv_histogram *histogram, double quantile)
{
    if (histogram->count == 0)
        return 0;
    uint64_t below = (uint64_t)((double)histogram->count * quantile);
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < KV_HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen > below)
            return bucket_end(bucket) < histogram->max_ns ? bucket_end(bucket) : histogram->max_ns;
    }
    return histogram->max_ns;
}

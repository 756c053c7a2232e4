#include "pace.h"

bool kv_pace_queued(struct kv_pace *pace, size_t waiting, size_t soft, uint64_t now_ns)
{
    if (waiting <= soft || pace->since_ns != 0)
        return false;
    *pace = (struct kv_pace){.since_ns = now_ns};
    return true;
}

void kv_pace_fetched(struct kv_pace *pace, size_t length, size_t waiting, size_t soft,
                     uint64_t now_ns)
{
    if (pace->since_ns == 0)
        return;
    pace->fetched += length;
    if (waiting <= soft)
        *pace = (struct kv_pace){0};
    else if (pace->fetched >= soft)
        *pace = (struct kv_pace){.since_ns = now_ns};
}

uint64_t kv_pace_due(const struct kv_pace *pace, uint64_t within_ns)
{
    return pace->since_ns == 0 ? UINT64_MAX : pace->since_ns + within_ns;
}

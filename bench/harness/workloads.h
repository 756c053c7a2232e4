/*
 * bench/harness/workloads.h - the workloads that a program has.
 */
#ifndef BENCH_WORKLOADS_H
#define BENCH_WORKLOADS_H

#include <stdbool.h>

struct bench_workload {
    const char *code; /* W1 .. W10; "-" if it has none */
    const char *name;
    const char *about;
    void (*run)(void);
    bool own_system; /* it needs no system, or sets up its own */
};

/* Ends with one without a name. Of each program: all of them, or those of bench/workloads/ alone.
 */
extern const struct bench_workload bench_workloads[];

void bench_flood(void);
void bench_mixed(void);
void bench_roundtrip(void);
void bench_actors(void);
void bench_deep(void);
void bench_memory(void);
void bench_isolation(void);
void bench_submitters(void);
void bench_semantics(void);

/* What a peer can be asked for; lanex-bench has more. */
#define BENCH_WORKLOADS_COMMON                                                                     \
    {"W1", "flood", "empty reader jobs, round-robin over 64 actors", bench_flood, false},          \
        {"W2", "mixed", "every 10th job writes; bodies of 1 us", bench_mixed, false},              \
        {"W3", "roundtrip", "one job at a time, back to back and with gaps", bench_roundtrip,      \
         false},                                                                                   \
        {"W4", "actors", "W1 with 1 to 100,000 actors", bench_actors, false},                      \
        {"W5", "deep", "1,000 to 1,000,000 jobs queue behind a writer, then drain", bench_deep,    \
         false},                                                                                   \
        {"W6", "memory", "bytes of an idle actor and of a queued job", bench_memory, false},       \
        {"W7", "isolation", "an interactive read each 2 ms beside a flood of background jobs",     \
         bench_isolation, false},                                                                  \
        {"W9", "submitters", "W1 with 1 to 64 submitting threads", bench_submitters, false},       \
    {                                                                                              \
        "-", "semantics", "exclusion, order and overlap, checked", bench_semantics, false          \
    }

#endif

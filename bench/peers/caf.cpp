/*
 * C++ Actor Framework 0.17: one event-based actor per key (exclusive, FIFO: reads never overlap),
 * anon_send of a pointer. Scheduler: work stealing, or with --variant sharing. No class between
 * actors: the interactive actor of W7 is detached (a thread of its own), the nearest idiom.
 */
#include <caf/all.hpp>
#include <cstdio>
#include <cstring>
#include <memory>

#include "bench.h"

struct bench_actor {
    caf::actor handle;
};

static std::unique_ptr<caf::actor_system_config> config;
static std::unique_ptr<caf::actor_system> actors;

static caf::behavior behaviour(caf::event_based_actor *)
{
    return {[](std::uint64_t job) { bench_run(reinterpret_cast<bench_job *>(job)); }};
}

void bench_submit(struct bench_job *job)
{
    caf::anon_send(job->actor->handle,
                   static_cast<std::uint64_t>(reinterpret_cast<uintptr_t>(job)));
}

static void start()
{
    bool sharing = std::strcmp(bench_options.variant, "sharing") == 0;

    config = std::make_unique<caf::actor_system_config>();
    config->set("scheduler.max-threads", static_cast<std::size_t>(bench_options.workers));
    config->set("scheduler.policy", sharing ? caf::atom("sharing") : caf::atom("stealing"));
    actors = std::make_unique<caf::actor_system>(*config);
    if (sharing)
        bench_name = "caf_sharing";
    std::snprintf(bench_idiom, sizeof bench_idiom,
                  "event_based_actor per key + anon_send (exclusive, FIFO: reads never overlap); "
                  "scheduler %s; interactive actor detached",
                  sharing ? "sharing" : "stealing");
}

static void stop()
{
    actors.reset();
    config.reset();
}

static bench_actor *actor_new(enum bench_class job_class)
{
    return new bench_actor{job_class == BENCH_INTERACTIVE ? actors->spawn<caf::detached>(behaviour)
                                                          : actors->spawn(behaviour)};
}

static void actor_free(bench_actor *actor)
{
    delete actor;
}

extern const struct bench_traits bench_traits = {
    "caf",      0,       false,   false,   start,   stop,    actor_new,
    actor_free, nullptr, nullptr, nullptr, nullptr, nullptr,
};

/*
 * Asio without Boost: thread_pool(workers) and a strand per actor. A strand is exclusive and FIFO:
 * reads of one actor never overlap. No priorities: W7 gives interactive actors a second
 * thread_pool, which is what users do (it adds as many threads and leaves the CPU's share to the
 * kernel); with --variant shared there is one pool for all.
 */
#define ASIO_STANDALONE    1
#define ASIO_NO_DEPRECATED 1
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <cstdio>
#include <cstring>
#include <memory>

#include "bench.h"

struct bench_actor {
    asio::strand<asio::thread_pool::executor_type> strand;
};

static std::unique_ptr<asio::thread_pool> pool, fast;

void bench_submit(struct bench_job *job)
{
    asio::post(job->actor->strand, [job] { bench_run(job); });
}

static void start()
{
    bool isolation = std::strcmp(bench_options.workload, "isolation") == 0;
    bool second = isolation && std::strcmp(bench_options.variant, "shared") != 0;

    pool = std::make_unique<asio::thread_pool>(bench_options.workers);
    if (second)
        fast = std::make_unique<asio::thread_pool>(bench_options.workers);
    if (isolation && !second)
        bench_name = "asio_shared_pool";
    std::snprintf(bench_idiom, sizeof bench_idiom,
                  "thread_pool + strand per actor (exclusive, FIFO: reads never overlap)%s",
                  second      ? "; interactive actors on a second thread_pool"
                  : isolation ? "; one pool, no priorities"
                              : "");
}

static void stop()
{
    pool->join();
    if (fast)
        fast->join();
    fast.reset();
    pool.reset();
}

static bench_actor *actor_new(enum bench_class job_class)
{
    asio::thread_pool &own = job_class == BENCH_INTERACTIVE && fast ? *fast : *pool;

    return new bench_actor{asio::make_strand(own.get_executor())};
}

static void actor_free(bench_actor *actor)
{
    delete actor;
}

extern const struct bench_traits bench_traits = {
    "asio",     0,       false,   false,   start,   stop,    actor_new,
    actor_free, nullptr, nullptr, nullptr, nullptr, nullptr,
};

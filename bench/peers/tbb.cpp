/*
 * oneTBB: task_arena(workers)::enqueue (fire and forget, from any thread) and a tbb::rw_mutex per
 * actor that the task takes; TBB has no ordered executor per key, and a worker that meets a held
 * lock waits in it. Classes are three arenas of different priority. global_control raises the limit
 * to workers + 1, as it counts the application's thread. With --variant taskgroup the submitter
 * sits in a reserved slot of an arena and uses task_group::run.
 */
#include <cstdio>
#include <cstring>
#include <memory>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/rw_mutex.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include "bench.h"

struct bench_actor {
    tbb::rw_mutex lock;
};

static std::unique_ptr<tbb::global_control> control;
static std::unique_ptr<tbb::task_arena> arenas[BENCH_CLASSES];
static std::unique_ptr<tbb::task_group> group;

static void run_locked(bench_actor *actor, enum bench_kind kind, bench_job *job)
{
    if (kind == BENCH_WRITE) {
        actor->lock.lock();
        job->body(job);
        actor->lock.unlock();
    } else {
        actor->lock.lock_shared();
        job->body(job);
        actor->lock.unlock_shared();
    }
    job->done(job);
}

void bench_submit(struct bench_job *job)
{
    bench_actor *actor = job->actor;
    auto kind = static_cast<enum bench_kind>(job->kind);
    auto task = [actor, kind, job] { run_locked(actor, kind, job); };

    if (group)
        group->run(task);
    else
        arenas[job->job_class]->enqueue(task);
}

static void start()
{
    static const tbb::task_arena::priority priorities[BENCH_CLASSES] = {
        tbb::task_arena::priority::normal,
        tbb::task_arena::priority::high,
        tbb::task_arena::priority::low,
    };
    int workers = static_cast<int>(bench_options.workers);
    bool grouped = std::strcmp(bench_options.variant, "taskgroup") == 0;

    control = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                    static_cast<std::size_t>(workers) + 1);
    if (grouped) {
        bench_name = "onetbb_taskgroup";
        group = std::make_unique<tbb::task_group>();
    }
    for (int i = 0; i < BENCH_CLASSES && !grouped; i++) {
        arenas[i] = std::make_unique<tbb::task_arena>(workers, 0, priorities[i]);
        arenas[i]->initialize();
    }
    std::snprintf(bench_idiom, sizeof bench_idiom,
                  "%s; tbb::rw_mutex per actor in the task; no order per actor",
                  grouped ? "task_group::run from the submitter's arena"
                          : "task_arena::enqueue, arena priorities");
}

static void stop()
{
    if (group)
        group->wait();
    group.reset();
    for (auto &arena : arenas)
        arena.reset();
    control.reset();
}

static bench_actor *actor_new(enum bench_class)
{
    return new bench_actor;
}

static void actor_free(bench_actor *actor)
{
    delete actor;
}

extern const struct bench_traits bench_traits = {
    "onetbb",   0,       false,   false,   start,   stop,    actor_new,
    actor_free, nullptr, nullptr, nullptr, nullptr, nullptr,
};

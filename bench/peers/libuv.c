/*
 * libuv: uv_queue_work, UV_THREADPOOL_SIZE = workers, a pthread_rwlock per actor in the work
 * function, completions on the loop, which is the submitter's thread (uv_queue_work may be called
 * only there). One FIFO, no priorities, no order per actor.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

#include "bench.h"
#include "ticks.h"

struct bench_actor {
    pthread_rwlock_t lock;
};

static uv_loop_t *loop;
static uv_timer_t timer;

static void on_work(uv_work_t *work)
{
    struct bench_job *job = bench_job_of_extra(work);
    struct bench_actor *actor = job->actor;

    if (job->kind == BENCH_WRITE)
        pthread_rwlock_wrlock(&actor->lock);
    else
        pthread_rwlock_rdlock(&actor->lock);
    job->body(job);
    pthread_rwlock_unlock(&actor->lock);
}

static void on_after(uv_work_t *work, int status)
{
    struct bench_job *job = bench_job_of_extra(work);

    (void)status;
    job->done(job);
}

void bench_submit(struct bench_job *job)
{
    uv_queue_work(loop, bench_job_extra(job), on_work, on_after);
}

static void wait_some(void)
{
    uv_run(loop, UV_RUN_ONCE);
}

static void on_timer(uv_timer_t *handle)
{
    (void)handle;
}

static void sleep_until(uint64_t due)
{
    uint64_t now;

    while ((now = bench_now()) < due) {
        uv_update_time(loop);
        uv_timer_start(&timer, on_timer, (due - now + 999999) / 1000000, 0);
        uv_run(loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&timer);
}

static void start(void)
{
    char workers[16];

    snprintf(workers, sizeof workers, "%u", bench_options.workers);
    setenv("UV_THREADPOOL_SIZE", workers, 1);
    loop = uv_default_loop();
    uv_timer_init(loop, &timer);
    snprintf(bench_idiom, sizeof bench_idiom,
             "uv_queue_work + pthread_rwlock per actor in the work body, completion on the loop = "
             "submitter thread; no order per actor; no priorities (one FIFO)");
}

static void stop(void)
{
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
}

static struct bench_actor *actor_new(enum bench_class job_class)
{
    struct bench_actor *actor = malloc(sizeof *actor);

    (void)job_class;
    pthread_rwlock_init(&actor->lock, NULL);
    return actor;
}

static void actor_free(struct bench_actor *actor)
{
    pthread_rwlock_destroy(&actor->lock);
    free(actor);
}

const struct bench_traits bench_traits = {
    .name = "libuv",
    .job_extra = sizeof(uv_work_t),
    .intrusive = true,
    .one_submitter = true,
    .start = start,
    .stop = stop,
    .actor_new = actor_new,
    .actor_free = actor_free,
    .wait_some = wait_some,
    .sleep_until = sleep_until,
};

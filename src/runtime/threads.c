/*
 * Starting and ending lanex's threads. All are started in create, with every signal blocked but the
 * synchronous ones.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "runtime/executor.h"
#include "runtime/signals.h"
#include "sync/futex.h"
#include "sync/seams.h"

#define THREAD_NAME 24u /* bytes; the kernel keeps 16, and there are at most 1024 workers */

static int start_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
    return -lx_seams.thread_start(thread, run, arg);
}

void lx_thread_name(const char *name)
{
    prctl(PR_SET_NAME, name); /* of the calling thread: cannot fail */
}

void lx_thread_name_worker(uint32_t index)
{
    char name[THREAD_NAME];

    snprintf(name, sizeof name, "lanex-w%u", index);
    lx_thread_name(name);
}

/* The join is a cancellation point, and a destroy that ended here would leave half an executor. */
static void stop_thread(pthread_t thread)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_join(thread, NULL);
    pthread_setcancelstate(before, NULL);
}

static int start_workers(struct lanex_executor *ex)
{
    for (uint32_t i = 0; i < ex->config.pool_size; i++) {
        struct lx_worker *worker = &ex->workers[i];
        int rc = start_thread(&worker->thread, lx_worker_main, worker);

        if (rc < 0)
            return rc;
        worker->started = true;
    }
    return 0;
}

void lx_threads_release_workers(struct lanex_executor *ex)
{
    /* release: partner is the acquire in the workers' loops. */
    atomic_store_explicit(&ex->stop, 1, memory_order_seq_cst);
    for (uint32_t i = 0; i < ex->config.pool_size; i++) {
        if (ex->workers[i].started)
            lx_door_knock(&ex->workers[i].door);
    }
}

void lx_threads_stop_workers(struct lanex_executor *ex)
{
    lx_threads_release_workers(ex);
    for (uint32_t i = 0; i < ex->config.pool_size; i++) {
        if (ex->workers[i].started)
            stop_thread(ex->workers[i].thread);
        ex->workers[i].started = false;
    }
}

/* After the workers: one of their last callbacks may be waiting for a turn. */
void lx_threads_stop_scheduler(struct lanex_executor *ex)
{
    if (!ex->scheduler_started)
        return;
    /* release: partner is the acquire in lx_scheduler_main. */
    atomic_store_explicit(&ex->scheduler_stop, 1, memory_order_seq_cst);
    lx_door_knock(&ex->scheduler_door);
    stop_thread(ex->scheduler_thread);
    ex->scheduler_started = false;
}

void lx_threads_stop_reaper(struct lanex_executor *ex)
{
    if (!ex->reaper_started)
        return;
    atomic_store_explicit(&ex->reap_stop, 1, memory_order_release);
    lx_door_knock(&ex->reaper_door);
    stop_thread(ex->reaper_thread);
    ex->reaper_started = false;
}

void lx_threads_ring(struct lanex_executor *ex, struct lx_door *door)
{
    /* Our own threads have ended before the doors are closed. */
    if (lx_self.executor == ex) {
        lx_door_message(lx_own_door(), door);
        return;
    }
    atomic_fetch_add_explicit(&ex->ringers, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&ex->doors_closing, memory_order_seq_cst) == 0)
        lx_door_message(lx_own_door(), door);
    /* release: done with the door; partner is the acquire in lx_threads_quiet_doors. */
    atomic_fetch_sub_explicit(&ex->ringers, 1, memory_order_release);
}

void lx_threads_quiet_doors(struct lanex_executor *ex)
{
    atomic_store_explicit(&ex->doors_closing, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
    /* A ringer is in one short system call. */
    while (atomic_load_explicit(&ex->ringers, memory_order_acquire) != 0)
        sched_yield();
}

void lx_thread_report(struct lanex_executor *ex, int result)
{
    int32_t none = 0;

    if (result < 0)
        atomic_compare_exchange_strong_explicit(&ex->thread_error, &none, result,
                                                memory_order_relaxed, memory_order_relaxed);
    /* release: partner is the acquire in wait_ready. */
    atomic_fetch_add_explicit(&ex->threads_ready, 1, memory_order_release);
    lx_futex_wake(&ex->threads_ready, LX_FUTEX_ALL);
}

/* A thread makes its own ring, so whether create succeeds is known only when all have tried. */
static int wait_ready(struct lanex_executor *ex)
{
    uint32_t wanted = ex->config.pool_size + 2, ready;

    while ((ready = atomic_load_explicit(&ex->threads_ready, memory_order_acquire)) != wanted)
        lx_futex_wait(&ex->threads_ready, ready, LANEX_TIME_NEVER);
    return atomic_load_explicit(&ex->thread_error, memory_order_relaxed);
}

int lx_threads_start(struct lanex_executor *ex)
{
    sigset_t before;
    int rc;

    lx_signals_block(&before, (ex->config.flags & LANEX_EXECUTOR_ALLOW_SIGPROF) != 0);
    rc = start_thread(&ex->reaper_thread, lx_reaper_main, ex);
    ex->reaper_started = rc == 0;
    if (rc == 0) {
        rc = start_thread(&ex->scheduler_thread, lx_scheduler_main, ex);
        ex->scheduler_started = rc == 0;
    }
    if (rc == 0)
        rc = start_workers(ex);
    if (rc == 0)
        rc = wait_ready(ex);
    lx_signals_restore(&before);
    if (rc < 0) {
        lx_threads_stop_workers(ex);
        lx_threads_stop_scheduler(ex);
        lx_threads_stop_reaper(ex);
    }
    return rc;
}

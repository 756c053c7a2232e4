/*
 * An executor's life: create, references, drain, destroy.
 */
#include "runtime/executor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admission/config.h"
#include "runtime/actor.h"
#include "runtime/contain.h"
#include "runtime/cpus.h"
#include "runtime/spin.h"
#include "runtime/text.h"
#include "sync/assert.h"
#include "sync/futex.h"
#include "sync/seams.h"

#define LX_DRAIN_POLL_NS                                                                           \
    UINT64_C(100000) /* drain looks this often for the last deliveries of workers */

#define STRING(x)  #x
#define VERSION(x) STRING(x)

const char *lanex_version(void)
{
    return VERSION(LANEX_VERSION_MAJOR) "." VERSION(LANEX_VERSION_MINOR) "." VERSION(
        LANEX_VERSION_PATCH);
}

/* ---- references ---- */

bool lx_executor_forked(const struct lanex_executor *ex)
{
    return lx_fork_guard_is_child(&ex->fork_guard);
}

int lx_executor_check(const struct lanex_executor *ex)
{
    if (ex == NULL)
        return -EINVAL;
    if (LX_UNLIKELY(lx_executor_forked(ex)))
        return -ECHILD;
    if (LX_UNLIKELY(atomic_load_explicit(&ex->life, memory_order_relaxed) != LX_LIFE_RUNNING))
        return -ESHUTDOWN;
    return 0;
}

void lx_executor_hold_memory(struct lanex_executor *ex)
{
    atomic_fetch_add_explicit(&ex->memory, 1, memory_order_relaxed);
}

static void free_executor(struct lanex_executor *ex)
{
    lx_registry_destroy(ex->registry);
    lx_context_calls_free(ex);
    lx_slab_fini(&ex->jobs);
    lx_texts_fini(&ex->texts);
    lx_slab_fini(&ex->extras);
    lx_deferred_list_destroy(ex);
    lx_run_queue_fini(&ex->run_queue);
    lx_actor_space_destroy(&ex->admission.space);
    lx_release((void *)ex->running_jobs);
    lx_release(ex->workers);
    lx_fork_guard_destroy(&ex->fork_guard);
    lx_release(ex);
}

void lx_executor_drop_memory(struct lanex_executor *ex)
{
    if (atomic_fetch_sub_explicit(&ex->memory, 1, memory_order_acq_rel) == 1)
        free_executor(ex);
}

void lx_executor_orphan_ending(struct lanex_executor *ex)
{
    atomic_fetch_add_explicit(&ex->orphans_ending, 1, memory_order_seq_cst);
}

void lx_executor_orphan_gone(struct lanex_executor *ex)
{
    if (atomic_fetch_sub_explicit(&ex->orphans, 1, memory_order_acq_rel) == 1)
        lx_executor_drop_memory(ex);
}

/* ---- create ---- */

/* What the options come to on this system. */
static int resolve_here(const lanex_executor_options *options, lanex_config *ret_config)
{
    struct lx_cpus cpus;
    int rc;

    lx_cpus_read(NULL, &cpus);
    rc = lx_config_resolve(options, cpus.usable, ret_config);
    if (rc == 0 && !lx_cpus_may_spin(&cpus))
        ret_config->spin_us = 0;
    return rc;
}

int lanex_config_resolve(const lanex_executor_options *options, uint32_t usable_cpus,
                         lanex_config *ret_config)
{
    lanex_config config;
    int rc;

    if (options == NULL || ret_config == NULL || ret_config->size != sizeof *ret_config)
        return -EINVAL;
    rc = usable_cpus != 0 ? lx_config_resolve(options, usable_cpus, &config)
                          : resolve_here(options, &config);
    if (rc == 0)
        *ret_config = config;
    return rc;
}

static int make_memory(struct lanex_executor *ex)
{
    uint32_t pool = ex->config.pool_size;
    int rc = lx_fork_guard_create(&ex->fork_guard);

    if (rc == 0)
        rc = lx_slab_init(&ex->jobs, sizeof(struct lanex_job));
    if (rc == 0)
        rc = lx_texts_init(&ex->texts);
    if (rc == 0)
        rc = lx_slab_init(&ex->extras, (sizeof(struct lx_job_extra) + 15) / 16 * 16);
    if (rc == 0)
        rc = lx_run_queue_init(&ex->run_queue, pool);
    if (rc == 0)
        rc = lx_deferred_list_create(ex);
    if (rc == 0)
        rc = lx_registry_create(&ex->registry);
    if (rc < 0)
        return rc;
    /* Twice: what runs, and what that waits for. */
    ex->running_jobs = lx_allocate_zeroed(2 * (size_t)pool * sizeof(struct lx_job_entry *));
    ex->workers = lx_allocate_zeroed(pool * sizeof *ex->workers);
    if (ex->running_jobs == NULL || ex->workers == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < pool; i++) {
        ex->workers[i].executor = ex;
        ex->workers[i].index = i;
    }
    lx_admission_init(&ex->admission, &ex->config, ex->running_jobs);
    ex->admission.waits_for = (const struct lx_job_entry **)(void *)(ex->running_jobs + pool);
    return 0;
}

static int assign_cpus(struct lanex_executor *ex, const lanex_executor_options *options)
{
    uint32_t *cpus = lx_allocate(ex->config.pool_size * sizeof *cpus);
    int rc;

    if (cpus == NULL)
        return -ENOMEM;
    rc = lx_affinity_assign(options, ex->config.pool_size, cpus);
    for (uint32_t i = 0; rc == 0 && i < ex->config.pool_size; i++)
        ex->workers[i].cpu = cpus[i];
    lx_release(cpus);
    return rc;
}

void lx_executor_close_doors(struct lanex_executor *ex, uint32_t workers, bool scheduler,
                             bool reaper)
{
    for (uint32_t i = 0; i < workers; i++)
        lx_door_fini(&ex->workers[i].door);
    if (scheduler)
        lx_door_fini(&ex->scheduler_door);
    if (reaper)
        lx_door_fini(&ex->reaper_door);
}

static int open_doors(struct lanex_executor *ex)
{
    uint32_t i;
    int rc = lx_door_init(&ex->scheduler_door, &ex->backend);

    if (rc < 0)
        return rc;
    rc = lx_door_init(&ex->reaper_door, &ex->backend);
    if (rc < 0) {
        lx_executor_close_doors(ex, 0, true, false);
        return rc;
    }
    for (i = 0; i < ex->config.pool_size; i++) {
        rc = lx_door_init(&ex->workers[i].door, &ex->backend);
        if (rc < 0) {
            lx_executor_close_doors(ex, i, true, true);
            return rc;
        }
    }
    return 0;
}

static enum lx_backend_want backend_wanted(const lanex_config *config)
{
    switch (config->backend) {
    case LANEX_BACKEND_RING:
        return LX_BACKEND_FORCE_RING;
    case LANEX_BACKEND_POLL:
        return LX_BACKEND_FORCE_POLL;
    default:
        return LX_BACKEND_AUTO;
    }
}

static int start(struct lanex_executor *ex)
{
    int rc = lx_backend_probe(backend_wanted(&ex->config), &ex->backend);

    if (rc < 0)
        return rc;
    ex->config.backend =
        ex->backend.kind == LX_BACKEND_RING ? LANEX_BACKEND_RING : LANEX_BACKEND_POLL;
    ex->admission.config.backend = ex->config.backend;
    snprintf(ex->backend_text, sizeof ex->backend_text, "%s%s%s",
             ex->backend.kind == LX_BACKEND_RING ? "io_uring" : "eventfd and poll",
             ex->backend.why[0] != '\0' ? ": " : "", ex->backend.why);
    rc = open_doors(ex);
    if (rc < 0)
        return rc;
    rc = lx_contain_acquire(&ex->config);
    if (rc == 0) {
        rc = lx_threads_start(ex);
        if (rc < 0)
            lx_contain_release(&ex->config);
    }
    if (rc < 0)
        lx_executor_close_doors(ex, ex->config.pool_size, true, true);
    return rc;
}

int lanex_executor_create(const lanex_executor_options *options, lanex_executor **ret_executor)
{
    const lanex_executor_options defaults = {.size = sizeof defaults};
    struct lanex_executor *ex;
    lanex_config config;
    int rc;

    if (ret_executor == NULL)
        return -EINVAL;
    if (options == NULL)
        options = &defaults;
    rc = resolve_here(options, &config);
    if (rc < 0)
        return rc;
    ex = lx_allocate_zeroed(sizeof *ex);
    if (ex == NULL)
        return -ENOMEM;
    ex->config = config;
    ex->context_phase = options->context_phase;
    atomic_init(&ex->refs, 1);
    atomic_init(&ex->memory, 1);
    atomic_init(&ex->timer_ns, LANEX_TIME_NEVER);
    for (unsigned c = 0; c < LX_CLASSES; c++)
        atomic_init(&ex->published.of[c].oldest_ns, LANEX_TIME_NEVER);
    atomic_init(&ex->published.free_permits, config.heavy_permits);
    lx_spin_init(ex);
    rc = make_memory(ex);
    if (rc == 0)
        rc = assign_cpus(ex, options);
    if (rc == 0)
        rc = start(ex);
    if (rc < 0) {
        free_executor(ex);
        return rc;
    }
    *ret_executor = ex;
    return 0;
}

/* ---- drain and destroy ---- */

static void apply_drain(struct lanex_executor *ex, struct lx_request *request)
{
    lx_admission_drain(&ex->admission);
    request->result = 0;
}

/* The ends of all jobs were seen; their deliveries may still be running on the workers. */
static void wait_deliveries(struct lanex_executor *ex)
{
    static _Atomic uint32_t never;

    for (uint32_t i = 0; i < ex->config.pool_size; i++) {
        /* acquire: partner is the release in next_job (worker.c). A callback is short by contract.
         */
        while (atomic_load_explicit(&ex->workers[i].busy, memory_order_acquire) != 0)
            lx_futex_wait(&never, 0, lx_now_ns() + LX_DRAIN_POLL_NS);
    }
    lx_reaper_flush(ex);
}

static bool on_own_thread(const struct lanex_executor *ex)
{
    return lx_self.executor == ex || lx_self.answers == ex;
}

int lanex_executor_drain(lanex_executor *executor, uint64_t timeout_ns, size_t *ret_left)
{
    struct lx_request request = {.apply = apply_drain};
    uint64_t deadline = LANEX_TIME_NEVER;
    int rc = lx_executor_check(executor);

    if (rc < 0)
        return rc;
    if (on_own_thread(executor))
        return -EDEADLK;
    if (timeout_ns != LANEX_TIME_NEVER) {
        uint64_t now = lx_now_ns();
        deadline = timeout_ns < LANEX_TIME_NEVER - now ? now + timeout_ns : LANEX_TIME_NEVER;
    }
    rc = lx_seat_request(executor, &request);
    if (rc == 0)
        rc = lx_seat_wait_quiet(executor, deadline);
    if (rc == 0) {
        wait_deliveries(executor);
    } else if (rc == -ETIMEDOUT && ret_left != NULL) {
        const struct lx_published *in = &executor->published;
        *ret_left = 0;
        for (unsigned c = 0; c < LX_CLASSES; c++)
            /* relaxed: a count for people, as of the last turn. */
            *ret_left += atomic_load_explicit(&in->of[c].queued, memory_order_relaxed) +
                         lx_executor_running(executor, c);
    }
    return rc;
}

static void wait_stopped(struct lanex_executor *ex)
{
    uint32_t life;

    while ((life = atomic_load_explicit(&ex->life, memory_order_acquire)) != LX_LIFE_STOPPED)
        lx_futex_wait(&ex->life, life, LANEX_TIME_NEVER);
}

/* Whoever begins it ends it; others wait. */
static void stop(struct lanex_executor *ex)
{
    uint32_t running = LX_LIFE_RUNNING;

    if (atomic_compare_exchange_strong_explicit(&ex->life, &running, LX_LIFE_STOPPING,
                                                memory_order_acq_rel, memory_order_relaxed))
        lx_executor_shut_down(ex);
    else
        wait_stopped(ex);
}

lanex_executor *lanex_executor_ref(lanex_executor *executor)
{
    if (executor != NULL)
        atomic_fetch_add_explicit(&executor->refs, 1, memory_order_relaxed);
    return executor;
}

void lanex_executor_unref(lanex_executor *executor)
{
    if (executor == NULL || lx_executor_forked(executor) ||
        atomic_fetch_sub_explicit(&executor->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (on_own_thread(executor)) {
        lx_executor_end_by_itself(executor);
        return;
    }
    stop(executor);
    lx_executor_drop_memory(executor);
}

int lanex_executor_destroy(lanex_executor *executor)
{
    if (executor == NULL)
        return 0;
    if (lx_executor_forked(executor))
        return -ECHILD;
    if (on_own_thread(executor))
        return -EDEADLK;
    stop(executor);
    lanex_executor_unref(executor);
    return 0;
}

/* ---- what it tells ---- */

int lanex_executor_config(const lanex_executor *executor, lanex_config *ret_config)
{
    if (executor == NULL || ret_config == NULL || ret_config->size != sizeof *ret_config)
        return -EINVAL;
    if (lx_executor_forked(executor))
        return -ECHILD;
    *ret_config = executor->config;
    return 0;
}

int lanex_executor_worker_cpu(const lanex_executor *executor, uint32_t worker, uint32_t *ret_cpu)
{
    if (executor == NULL || ret_cpu == NULL || worker >= executor->config.pool_size)
        return -EINVAL;
    if (lx_executor_forked(executor))
        return -ECHILD;
    if (executor->workers[worker].cpu == LX_CPU_ANY)
        return -ENOENT;
    *ret_cpu = executor->workers[worker].cpu;
    return 0;
}

const char *lanex_executor_backend_text(const lanex_executor *executor)
{
    return executor->backend_text;
}

/*
 * An executor's end. Two ways, of the same steps: the thread that destroys it waits for each; where
 * the last reference was dropped on one of its own threads, which cannot join itself, lanex-reap
 * goes through them while it goes on with its work. That way needs no thread, no memory and no
 * descriptor, so that it cannot fail.
 *
 * In this order: no new jobs, and those that are there end; the workers; outstanding deferred
 * answers; the scheduler, since a callback of one of those may be waiting for a turn; the seat;
 * lanex-reap, which delivers until then; what only the descriptors and threads needed; actors.
 */
#include <errno.h>
#include <sched.h>

#include "runtime/actor.h"
#include "runtime/contain.h"
#include "runtime/executor.h"
#include "sync/assert.h"
#include "sync/futex.h"

/*
 * A job that somebody outside let go of just before it was to be marked is on its way back to the
 * slab, and one that is just being submitted will go there: waits until all that is in use is
 * marked. The order of the looks makes it err on the side of waiting: an orphan counts as ending
 * before the slab has it.
 */
static void wait_unmarked(struct lanex_executor *ex, uint64_t marked)
{
    for (;;) {
        uint64_t in_use = lx_slab_in_use(&ex->jobs);
        uint64_t ending = atomic_load_explicit(&ex->orphans_ending, memory_order_seq_cst);
        uint64_t left_out = atomic_load_explicit(&ex->jobs_left_out, memory_order_relaxed);

        if (in_use + ending <= marked + left_out)
            return;
        sched_yield();
    }
}

/*
 * Marks every job that somebody outside still holds (a ticket, a completion in a port): the memory
 * goes when the last of them is given back. Nothing of the executor's own holds jobs any more.
 */
static void adopt_orphans(struct lanex_executor *ex)
{
    uint32_t limit = lx_slab_limit(&ex->jobs);
    uint64_t marked = 0;

    atomic_store_explicit(&ex->orphans, 1, memory_order_relaxed);
    lx_executor_hold_memory(ex);
    for (uint32_t index = 0; index < limit; index++) {
        struct lanex_job *job = lx_slab_at(&ex->jobs, index);
        uint32_t word;

        if (job == NULL)
            continue;
        word = atomic_load_explicit(&job->entry.word, memory_order_relaxed);
        while ((word & LX_WORD_HOLDS) != 0) {
            /* Counted before the mark can be seen, so that the count cannot reach 0 early. */
            atomic_fetch_add_explicit(&ex->orphans, 1, memory_order_relaxed);
            if (atomic_compare_exchange_strong_explicit(&job->entry.word, &word,
                                                        word | LX_WORD_ORPHAN, memory_order_acq_rel,
                                                        memory_order_relaxed)) {
                marked++;
                break;
            }
            atomic_fetch_sub_explicit(&ex->orphans, 1, memory_order_relaxed);
        }
    }
    wait_unmarked(ex, marked);
    lx_executor_orphan_gone(ex);
}

static void apply_close(struct lanex_executor *ex, struct lx_request *request)
{
    lx_admission_close(&ex->admission);
    request->result = 0;
}

/* Those that are still registered. Runs user code. */
static void end_actors(struct lanex_executor *ex)
{
    struct lanex_executor *outer = lx_self.answers;

    lx_self.answers = ex; /* a destroy from there would wait for itself */
    lx_actor_announce_end(ex);
    lx_registry_close(ex->registry);
    lx_self.answers = outer;
}

/* Our threads have ended, but perhaps the calling one. */
static void finish(struct lanex_executor *ex)
{
    lx_contain_release(&ex->config);
    lx_threads_quiet_doors(ex);
    lx_executor_close_doors(ex, ex->config.pool_size, true, true);
    end_actors(ex);
    adopt_orphans(ex);
    /* release: partner is the acquire in wait_stopped (executor.c). */
    atomic_store_explicit(&ex->life, LX_LIFE_STOPPED, memory_order_release);
    lx_futex_wake(&ex->life, LX_FUTEX_ALL);
}

static void close_admission(struct lanex_executor *ex)
{
    struct lx_request request = {.apply = apply_close};
    int rc = lx_seat_request(ex, &request);

    LX_ASSERT(rc == 0); /* the inbox is closed later */
}

void lx_executor_shut_down(struct lanex_executor *ex)
{
    int rc;

    close_admission(ex);
    rc = lx_seat_wait_quiet(ex, LANEX_TIME_NEVER);
    LX_ASSERT(rc == 0);
    lx_threads_stop_workers(ex);
    lx_deferred_shutdown(ex);
    lx_deferred_wait(ex);
    lx_threads_stop_scheduler(ex);
    lx_seat_close(ex);
    lx_threads_stop_reaper(ex);
    finish(ex);
}

/* ---- by itself ---- */

void lx_executor_end_by_itself(struct lanex_executor *ex)
{
    uint32_t life = LX_LIFE_RUNNING;
    bool first = atomic_compare_exchange_strong_explicit(
        &ex->life, &life, LX_LIFE_STOPPING, memory_order_acq_rel, memory_order_relaxed);

    LX_ASSERT(first); /* whoever destroys it holds a reference meanwhile */
    /* seq_cst: before lanex-reap looks at what it waits for; partners are the loads below. */
    atomic_store_explicit(&ex->ends_by_itself, 1, memory_order_seq_cst);
    lx_reaper_tell(ex);
}

void lx_ending_notify(struct lanex_executor *ex)
{
    /* seq_cst: after what the caller did, partner is the store above. Who comes too early to see it
     * is seen by lanex-reap. */
    if (atomic_load_explicit(&ex->ends_by_itself, memory_order_seq_cst) != 0)
        lx_reaper_tell(ex);
}

void lx_ending_go_on(struct lanex_executor *ex, enum lx_ending *stage)
{
    switch (*stage) {
    case LX_ENDING_NOT:
        if (atomic_load_explicit(&ex->ends_by_itself, memory_order_seq_cst) == 0)
            return;
        close_admission(ex);
        *stage = LX_ENDING_JOBS;
        /* fall through */
    case LX_ENDING_JOBS:
        if (!lx_seat_is_quiet(ex)) /* else the turn that makes it so tells */
            return;
        lx_threads_release_workers(ex);
        *stage = LX_ENDING_WORKERS;
        /* fall through */
    case LX_ENDING_WORKERS:
        /* acquire: partner is the release in lx_worker_main. A callback on a worker may be waiting
         * for lanex-reap, so they are not joined before they have ended. */
        if (atomic_load_explicit(&ex->workers_ended, memory_order_acquire) != ex->config.pool_size)
            return;
        lx_threads_stop_workers(ex);
        lx_deferred_shutdown(ex);
        *stage = LX_ENDING_ANSWERS;
        /* fall through */
    case LX_ENDING_ANSWERS:
        if (lx_deferred_answering(ex)) /* likewise */
            return;
        lx_threads_stop_scheduler(ex);
        lx_seat_close(ex);
        atomic_store_explicit(&ex->reap_stop, 1, memory_order_relaxed); /* for this thread */
        *stage = LX_ENDING_REAPER;
        /* fall through */
    case LX_ENDING_REAPER:
        return;
    }
}

void lx_ending_finish(struct lanex_executor *ex)
{
    pthread_detach(ex->reaper_thread); /* this one; nobody is there to join it */
    lx_self = (struct lx_self){.executor = NULL};
    finish(ex);
    lx_executor_drop_memory(ex);
}

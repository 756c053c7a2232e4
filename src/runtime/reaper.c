/*
 * lanex-reap: answers jobs that never ran, calls hooks, gives contexts back and frees actors, so
 * that none of it happens in the seat, in a submit, or under a lock. In order of arrival.
 */
#include "runtime/actor.h"
#include "runtime/executor.h"
#include "runtime/ring_sink.h"
#include "sync/assert.h"
#include "sync/seams.h"

#define LX_RETRY_FIRST_NS UINT64_C(1000000)   /* after a ring message that could not be sent */
#define LX_RETRY_MOST_NS  UINT64_C(100000000) /* the pause doubles up to this */

/*
 * How long a ring may go on refusing messages once the executor ends. Many refusals pass within
 * microseconds, and a CQE that is given up is lost for ever; but a ring that nobody reaps any more
 * must not hold up destroy.
 */
#define LX_RETRY_LAST_NS UINT64_C(200000000)

/* Ring messages that wait to be tried again. The reaper's own. */
struct retries {
    struct lx_post_retry *first;
    uint64_t pause_ns;
    uint64_t give_up_ns; /* once the executor ends: until when they are tried; 0: it has not */
};

bool lx_reaper_push(struct lanex_executor *ex, struct lx_inbox_node *node, enum lx_reap_kind kind)
{
    return lx_inbox_push(&ex->reaper_inbox, node, kind);
}

void lx_reaper_tell(struct lanex_executor *ex)
{
    /* Partner: the exchange in lx_reaper_main. */
    if (atomic_exchange_explicit(&ex->reaper_told, 1, memory_order_seq_cst) == 0)
        lx_threads_ring(ex, &ex->reaper_door);
}

static void try_post(struct retries *retries, struct lx_post_retry *retry)
{
    if (lx_ring_retry(retry))
        return;
    retry->next = retries->first;
    retries->first = retry;
}

static void try_all(struct retries *retries)
{
    struct lx_post_retry *retry = retries->first;

    retries->first = NULL;
    while (retry != NULL) {
        struct lx_post_retry *next = retry->next;
        try_post(retries, retry);
        retry = next;
    }
    retries->pause_ns = retries->pause_ns == 0 ? LX_RETRY_FIRST_NS : 2 * retries->pause_ns;
    if (retries->pause_ns > LX_RETRY_MOST_NS)
        retries->pause_ns = LX_RETRY_MOST_NS;
}

/* The executor ends: is there nothing left to be sent, or no time left for it? */
static bool is_last_pass(struct retries *retries, bool took_nothing)
{
    uint64_t now = lx_now_ns();

    if (retries->give_up_ns == 0)
        retries->give_up_ns = now + LX_RETRY_LAST_NS;
    return now >= retries->give_up_ns || (took_nothing && retries->first == NULL);
}

static void give_up(struct retries *retries)
{
    while (retries->first != NULL) {
        struct lx_post_retry *retry = retries->first;
        retries->first = retry->next;
        retry->done(retry, true);
    }
}

static void reap(struct retries *retries, uintptr_t link)
{
    struct lx_inbox_node *node = lx_inbox_node_of(link);
    struct lanex_job *job;

    switch (lx_inbox_kind_of(link)) {
    case LX_REAP_JOB:
        job = (struct lanex_job *)node;
        /* The turn's hold first: the delivery's may be the last. */
        lx_job_release(job, LX_WORD_HOLD);
        if (lx_job_has_mark(&job->entry, LX_JOB_MARK_ANSWERED))
            lx_job_drop_build(job);
        lx_deliver(job);
        break;
    case LX_REAP_ACTOR:
        lx_actor_free(lx_actor_of_node(node));
        break;
    case LX_REAP_CONTEXT:
        lx_actor_context_done(lx_actor_of_node(node));
        break;
    case LX_REAP_CONTEXT_END:
        lx_actor_context_end(lx_actor_of_node(node));
        break;
    case LX_REAP_NOTICE:
        lx_actor_run_notice(node);
        break;
    case LX_REAP_POST:
        try_post(retries, (struct lx_post_retry *)(void *)node);
        break;
    default:
        LX_ASSERT(lx_inbox_kind_of(link) == LX_REAP_FLUSH);
        lx_request_answer((struct lx_request *)(void *)node);
        break;
    }
}

void lx_reaper_flush(struct lanex_executor *ex)
{
    struct lx_request request = {.apply = NULL};

    atomic_init(&request.done, 0);
    /* A destroy that overtook a drain has flushed for it. */
    if (!lx_reaper_push(ex, &request.node, LX_REAP_FLUSH))
        return;
    lx_reaper_tell(ex);
    lx_request_wait(&request);
}

void *lx_reaper_main(void *arg)
{
    struct lanex_executor *ex = arg;
    struct retries retries = {.first = NULL};
    enum lx_ending ending = LX_ENDING_NOT;

    lx_self = (struct lx_self){.executor = ex, .door = &ex->reaper_door, .role = LX_ROLE_REAPER};
    lx_thread_name("lanex-reap");
    lx_thread_report(ex, lx_door_enable(&ex->reaper_door));
    for (bool last = false;;) {
        uint64_t until = LX_TIME_NEVER;
        uintptr_t link;
        uint32_t stop;
        bool took_nothing;

        atomic_exchange_explicit(&ex->reaper_told, 0, memory_order_seq_cst);
        lx_ending_go_on(ex, &ending);
        stop = atomic_load_explicit(&ex->reap_stop, memory_order_acquire);
        /* What was pushed before reap_stop was set is taken; what comes later must fail. */
        link = lx_inbox_take(&ex->reaper_inbox, last ? LX_INBOX_CLOSED : LX_INBOX_EMPTY);
        took_nothing = link == LX_INBOX_EMPTY;
        while (link != LX_INBOX_EMPTY) {
            uintptr_t next = lx_inbox_node_of(link)->next;
            reap(&retries, link);
            lx_fork_guard_end_child(&ex->fork_guard);
            link = next;
        }
        if (last) {
            give_up(&retries);
            if (ending != LX_ENDING_NOT)
                lx_ending_finish(ex);
            return NULL;
        }
        if (retries.first != NULL) {
            try_all(&retries);
            until = lx_now_ns() + retries.pause_ns;
        } else {
            retries.pause_ns = 0;
        }
        if (stop != 0) {
            last = is_last_pass(&retries, took_nothing);
            if (last || retries.first == NULL)
                continue; /* what this pass itself pushed is taken by the next */
        }
        if (atomic_load_explicit(&ex->reaper_told, memory_order_seq_cst) == 0)
            lx_door_wait(&ex->reaper_door, until);
    }
}

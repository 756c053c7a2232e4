/*
 * An actor's context: who uses it, and its end.
 *
 * Users are counted in context_uses: the registry and the jobs together are one (until lanex-reap
 * has been told that the actor is removed and its last job over), and each list of actors and each
 * acquire under way is one. Whoever drops the last use has the context torn down and released by
 * lanex-reap: user code that may take its time must not run in whatever call dropped it.
 */
#include <errno.h>

#include "runtime/actor.h"
#include "runtime/executor.h"
#include "sync/seams.h"

/* ---- what the user gave to work with contexts ---- */

const struct lx_context_calls *lx_context_calls_of(struct lanex_executor *ex,
                                                   const lanex_actor_options *options)
{
    static const struct lx_context_calls none;
    struct lx_context_calls *calls;

    if (options == NULL || (options->context_retain == NULL && options->context_teardown == NULL &&
                            options->context_release == NULL))
        return &none;
    for (calls = ex->context_calls; calls != NULL; calls = calls->next) {
        if (calls->retain == options->context_retain &&
            calls->teardown == options->context_teardown &&
            calls->release == options->context_release)
            return calls;
    }
    calls = lx_allocate_zeroed(sizeof *calls);
    if (calls == NULL)
        return NULL;
    calls->retain = options->context_retain;
    calls->teardown = options->context_teardown;
    calls->release = options->context_release;
    calls->next = ex->context_calls;
    ex->context_calls = calls;
    return calls;
}

void lx_context_calls_free(struct lanex_executor *ex)
{
    while (ex->context_calls != NULL) {
        struct lx_context_calls *calls = ex->context_calls;
        ex->context_calls = calls->next;
        lx_release(calls);
    }
}

/* ---- uses ---- */

void lx_actor_context_hold(struct lanex_actor *actor)
{
    atomic_fetch_add_explicit(&actor->context_uses, 1, memory_order_relaxed);
}

/* False: it has been given back. */
static bool try_hold(struct lanex_actor *actor)
{
    uint32_t uses = atomic_load_explicit(&actor->context_uses, memory_order_relaxed);

    while (uses != 0) {
        if (atomic_compare_exchange_weak_explicit(&actor->context_uses, &uses, uses + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return true;
    }
    return false;
}

/* acq_rel: the last one sees what the other users did with the context. */
static bool drop_is_last(struct lanex_actor *actor)
{
    return atomic_fetch_sub_explicit(&actor->context_uses, 1, memory_order_acq_rel) == 1;
}

void lx_actor_context_end(struct lanex_actor *actor)
{
    const struct lx_context_calls *calls = actor->context_calls;

    if (actor->retired && calls->teardown != NULL)
        calls->teardown(actor->context);
    if (calls->release != NULL)
        calls->release(actor->context);
    lanex_actor_unref(actor); /* the registry's */
}

void lx_actor_context_done(struct lanex_actor *actor)
{
    if (drop_is_last(actor))
        lx_actor_context_end(actor);
}

void lx_actor_context_drop(struct lanex_actor *actor)
{
    struct lanex_executor *ex = actor->executor;

    if (!drop_is_last(actor))
        return;
    /* The actor may be gone once it is pushed, and with it the executor's memory. */
    lx_executor_hold_memory(ex);
    if (lx_reaper_push(ex, lx_actor_node(actor), LX_REAP_CONTEXT_END))
        lx_reaper_tell(ex);
    else
        lx_actor_context_end(actor); /* the executor has ended */
    lx_executor_drop_memory(ex);
}

int lanex_actor_context_acquire(lanex_actor *actor, void **ret_context)
{
    int rc = actor == NULL || ret_context == NULL ? -EINVAL : lx_executor_check(actor->executor);

    if (rc < 0)
        return rc;
    if (actor->context_calls->retain == NULL)
        return -ENOTSUP;
    if (!try_hold(actor))
        return -ENOENT;
    actor->context_calls->retain(actor->context);
    *ret_context = actor->context;
    lx_actor_context_drop(actor);
    return 0;
}

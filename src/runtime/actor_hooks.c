/*
 * Hooks: the embedding program follows what is registered and removed.
 *
 * The turn that registers or removes an actor pushes a notice to lanex-reap: so the notices stand
 * there in the order in which things happened, and before everything else that follows from them.
 * Both notices of an actor lie behind its key, so that neither event can fail for lack of memory.
 */
#include <errno.h>

#include "runtime/actor.h"
#include "runtime/executor.h"
#include "sync/assert.h"

struct notice {
    struct lx_inbox_node node;
    struct lanex_actor *actor;
};

static struct notice *notices_of(struct lanex_actor *actor)
{
    size_t end = offsetof(struct lanex_actor, key) + actor->key_length;

    end = (end + _Alignof(struct notice) - 1) / _Alignof(struct notice) * _Alignof(struct notice);
    return (struct notice *)(void *)((char *)actor + end);
}

size_t lx_actor_notices_size(const struct lanex_executor *ex)
{
    return ex->hooks.size == 0 ? 0 : LX_NOTICES * sizeof(struct notice) + _Alignof(struct notice);
}

void lx_actor_notices_init(struct lanex_actor *actor)
{
    actor->announced = actor->executor->hooks.size != 0;
    for (unsigned i = 0; actor->announced && i < LX_NOTICES; i++)
        notices_of(actor)[i].actor = actor;
}

void lx_actor_announce(struct lanex_executor *ex, struct lanex_actor *actor, enum lx_notice which)
{
    bool open;

    if (!actor->announced)
        return;
    open = lx_reaper_push(ex, &notices_of(actor)[which].node, LX_REAP_NOTICE);
    LX_ASSERT(open); /* the thread outlives the seat */
}

static void call_hook(struct lanex_actor *actor, enum lx_notice which)
{
    const lanex_actor_hooks *hooks = &actor->executor->hooks;

    if (which == LX_NOTICE_REGISTERED && hooks->on_register != NULL)
        hooks->on_register(actor, actor->key, actor->key_length, actor->context, hooks->arg);
    if (which == LX_NOTICE_REMOVED && hooks->on_unregister != NULL)
        hooks->on_unregister(actor, actor->key, actor->key_length, actor->context, hooks->arg);
}

void lx_actor_run_notice(struct lx_inbox_node *node)
{
    struct notice *notice = (struct notice *)(void *)node;

    call_hook(notice->actor, (enum lx_notice)(notice - notices_of(notice->actor)));
}

void lx_actor_announce_end(struct lanex_executor *ex)
{
    struct lx_actor_entry *entry = NULL;

    while ((entry = lx_actor_after(&ex->admission, entry)) != NULL) {
        if (lx_actor_of(entry)->announced)
            call_hook(lx_actor_of(entry), LX_NOTICE_REMOVED);
    }
}

int lanex_actor_set_hooks(lanex_executor *executor, const lanex_actor_hooks *hooks)
{
    int rc = lx_executor_check(executor);

    if (rc == 0 && (hooks == NULL || hooks->size != sizeof *hooks))
        rc = -EINVAL;
    if (rc == 0)
        rc = lx_registry_lock(executor, LX_REGISTRY_CHANGE);
    if (rc < 0)
        return rc;
    if (executor->hooks.size != 0 || executor->admission.actors != 0)
        rc = -EBUSY;
    else
        executor->hooks = *hooks;
    lx_registry_unlock(executor, LX_REGISTRY_CHANGE);
    return rc;
}

int lanex_actor_hooks_wait(lanex_executor *executor)
{
    int rc = lx_executor_check(executor);

    if (rc < 0)
        return rc;
    if (lx_self.executor == executor && lx_self.role == LX_ROLE_REAPER)
        return -EDEADLK;
    lx_reaper_flush(executor);
    return 0;
}

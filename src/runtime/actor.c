/*
 * Actors and their registry: keys to actors, behind an epoch lock: submissions by key read it,
 * registering and removing write it. The lock is held over the request to the turn, so that the
 * table and the rotation change in the same order; the turn itself never takes it.
 */
#include "runtime/actor.h"

#include <errno.h>
#include <string.h>

#include "runtime/actor_table.h"
#include "runtime/executor.h"
#include "runtime/probe.h"
#include "sync/assert.h"
#include "sync/epoch.h"
#include "sync/seams.h"

struct lx_registry {
    lanex_epoch epoch;
    struct lx_actor_table table;
    bool closed; /* calls that began before destroy may come here after it */
};

int lx_registry_create(struct lx_registry **ret_registry)
{
    struct lx_registry *registry = lx_allocate_zeroed(sizeof *registry);

    if (registry == NULL)
        return -ENOMEM;
    lanex_epoch_init(&registry->epoch);
    lx_actor_table_init(&registry->table);
    *ret_registry = registry;
    return 0;
}

_Static_assert(LANEX_KEY_MAX <= LX_PROBE_MAX, "a key is probed by its ends");

int lx_check_key(const void *key, size_t key_length)
{
    if (key == NULL || key_length == 0 || key_length > LANEX_KEY_MAX)
        return -EINVAL;
    lx_probe(key, key_length); /* the registry's lock is taken next */
    return 0;
}

int lx_registry_lock(struct lanex_executor *ex, enum lx_registry_access access)
{
    struct lx_registry *registry = ex->registry;

    if (access == LX_REGISTRY_CHANGE)
        lx_epoch_write_acquire(&registry->epoch);
    else if (access == LX_REGISTRY_READ)
        lx_epoch_read_acquire(&registry->epoch);
    else if (lx_epoch_read_try_acquire(&registry->epoch) < 0)
        return -EBUSY;
    if (!registry->closed)
        return 0;
    lx_registry_unlock(ex, access);
    return -ESHUTDOWN;
}

void lx_registry_unlock(struct lanex_executor *ex, enum lx_registry_access access)
{
    if (access == LX_REGISTRY_CHANGE)
        lx_epoch_write_release(&ex->registry->epoch);
    else
        lx_epoch_read_release(&ex->registry->epoch);
}

struct lanex_actor *lx_registry_find(struct lanex_executor *ex, const void *key, size_t key_length)
{
    return lx_actor_table_find(&ex->registry->table, key, key_length);
}

/* ---- life of the memory ---- */

void lx_actor_free(struct lanex_actor *actor)
{
    struct lanex_executor *ex = actor->executor;

    lx_release(actor);
    lx_executor_drop_memory(ex);
}

bool lx_actor_is_idle(const struct lx_actor_entry *entry)
{
    return lx_actor_entry_idle(entry) && entry->built == NULL &&
           (entry->flags & LX_ACTOR_DETACHED) == 0;
}

/* To the reaper, at the end of the turn. */
static void hand_over(struct lanex_executor *ex, struct lanex_actor *actor)
{
    actor->entry.detached_next = ex->gone;
    ex->gone = &actor->entry;
}

void lx_actor_maybe_gone(struct lanex_executor *ex, struct lanex_actor *actor)
{
    if (actor->stage != LX_ACTOR_REMOVED || !lx_actor_is_idle(&actor->entry))
        return;
    actor->stage = LX_ACTOR_RELEASED;
    hand_over(ex, actor);
}

void lx_actor_unused(struct lanex_executor *ex, struct lanex_actor *actor)
{
    LX_ASSERT(actor->stage == LX_ACTOR_RELEASED && lx_actor_is_idle(&actor->entry));
    actor->stage = LX_ACTOR_UNUSED;
    hand_over(ex, actor);
}

lanex_actor *lanex_actor_ref(lanex_actor *actor)
{
    if (actor != NULL)
        atomic_fetch_add_explicit(&actor->refs, 1, memory_order_relaxed);
    return actor;
}

void lanex_actor_unref(lanex_actor *actor)
{
    struct lanex_executor *ex;

    if (actor == NULL || lx_executor_forked(actor->executor))
        return;
    /* acq_rel: the last one sees what the others did through their handles. */
    if (atomic_fetch_sub_explicit(&actor->refs, 1, memory_order_acq_rel) != 1)
        return;
    ex = actor->executor;
    /* The actor may be gone once it is pushed, and with it the executor's memory. */
    lx_executor_hold_memory(ex);
    if (lx_inbox_push(&ex->inbox, lx_actor_node(actor), LX_EVENT_ACTOR_UNUSED))
        lx_seat_notify(ex);
    else
        lx_actor_free(actor); /* the executor has ended: nobody else knows the actor */
    lx_executor_drop_memory(ex);
}

/* ---- registering and removing ---- */

static void apply_register(struct lanex_executor *ex, struct lx_request *request)
{
    struct lx_admission *adm = &ex->admission;
    uint32_t wanted;

    if (request->space != NULL && lx_admission_wants_space(adm, &wanted) &&
        request->space->capacity > adm->space.capacity)
        lx_admission_adopt_space(adm, request->space);
    if (lx_admission_wants_space(adm, &wanted)) {
        request->number = wanted;
        request->result = -EAGAIN;
        return;
    }
    request->result = lx_admission_register(adm, &request->actor->entry);
    if (request->result >= 0)
        lx_actor_announce(ex, request->actor, LX_NOTICE_REGISTERED);
}

/* Puts the actor into the rotation, with room for it made outside the turn. */
static int enter_rotation(struct lanex_executor *ex, lanex_actor *actor)
{
    struct lx_actor_space space = {.capacity = 0};
    int rc;

    for (;;) {
        struct lx_request request = {
            .apply = apply_register,
            .actor = actor,
            .space = space.capacity > 0 ? &space : NULL,
        };
        rc = lx_seat_request(ex, &request);
        lx_actor_space_destroy(&space); /* what was not taken, or what it replaced */
        if (rc != -EAGAIN)
            return rc == -ENOSPC ? -ENOMEM : rc;
        rc = lx_actor_space_create(&space, (uint32_t)request.number);
        if (rc < 0)
            return rc;
    }
}

static int check_actor_options(const lanex_actor_options *options)
{
    if (options == NULL)
        return 0;
    return options->size != sizeof *options || options->weight > LANEX_WEIGHT_MAX ||
                   options->reserved != 0
               ? -EINVAL
               : 0;
}

static lanex_actor *make_actor(lanex_executor *ex, const void *key, size_t key_length,
                               const lanex_actor_options *options)
{
    const struct lx_context_calls *calls = lx_context_calls_of(ex, options);
    lanex_actor *actor =
        calls == NULL ? NULL
                      : lx_allocate_zeroed(sizeof *actor + key_length + lx_actor_notices_size(ex));

    if (actor == NULL)
        return NULL;
    lx_actor_entry_init(&actor->entry,
                        options != NULL && options->weight != 0 ? options->weight : 1);
    lanex_epoch_init(&actor->epoch);
    actor->executor = ex;
    actor->context = options != NULL ? options->context : NULL;
    actor->context_calls = calls;
    atomic_init(&actor->context_uses, 1);
    atomic_init(&actor->refs, 1);
    actor->key_length = (uint16_t)key_length;
    memcpy(actor->key, key, key_length);
    lx_actor_notices_init(actor);
    return actor;
}

/* Under the registry's write lock. 0 or -errno; the actor then is the table's. */
static int insert(lanex_executor *ex, lanex_actor *actor)
{
    int rc = lx_actor_table_add(&ex->registry->table, actor);

    if (rc < 0)
        return rc;
    rc = enter_rotation(ex, actor);
    if (rc < 0)
        lx_actor_table_remove(&ex->registry->table, actor);
    return rc;
}

int lanex_actor_register(lanex_executor *executor, const void *key, size_t key_length,
                         const lanex_actor_options *options, lanex_actor **ret_actor)
{
    lanex_actor *actor;
    bool announced;
    int rc = lx_executor_check(executor);

    if (rc == 0)
        rc = lx_check_key(key, key_length);
    if (rc == 0)
        rc = check_actor_options(options);
    if (rc < 0)
        return rc;
    lx_epoch_write_acquire(&executor->registry->epoch);
    actor = lx_actor_table_find(&executor->registry->table, key, key_length);
    if (executor->registry->closed) {
        rc = -ESHUTDOWN;
    } else if (actor != NULL) {
        rc = 0;
    } else if ((actor = make_actor(executor, key, key_length, options)) == NULL) {
        rc = -ENOMEM;
    } else {
        rc = insert(executor, actor);
        if (rc < 0) {
            lx_release(actor);
        } else {
            lx_executor_hold_memory(executor);
            rc = 1;
        }
    }
    announced = rc == 1 && actor->announced;
    if (rc >= 0 && ret_actor != NULL)
        *ret_actor = lanex_actor_ref(actor);
    lx_epoch_write_release(&executor->registry->epoch);
    if (announced)
        lx_reaper_tell(executor);
    return rc;
}

int lanex_actor_lookup(lanex_executor *executor, const void *key, size_t key_length,
                       lanex_actor **ret_actor)
{
    lanex_actor *found;
    int rc = lx_executor_check(executor);

    if (rc == 0)
        rc = ret_actor == NULL ? -EINVAL : lx_check_key(key, key_length);
    if (rc < 0)
        return rc;
    lx_epoch_read_acquire(&executor->registry->epoch);
    found = lx_actor_table_find(&executor->registry->table, key, key_length);
    if (found != NULL)
        *ret_actor = lanex_actor_ref(found);
    else
        rc = executor->registry->closed ? -ESHUTDOWN : -ENOENT;
    lx_epoch_read_release(&executor->registry->epoch);
    return rc;
}

static void apply_remove(struct lanex_executor *ex, struct lx_request *request)
{
    lx_admission_remove(&ex->admission, &request->actor->entry);
    request->actor->stage = LX_ACTOR_REMOVED;
    lx_actor_refuses(request->actor);
    lx_actor_announce(ex, request->actor, LX_NOTICE_REMOVED);
    lx_actor_maybe_gone(ex, request->actor);
    request->result = 0;
}

static void apply_retire(struct lanex_executor *ex, struct lx_request *request)
{
    if (!lx_actor_is_idle(&request->actor->entry)) {
        request->result = -EBUSY;
        return;
    }
    request->actor->retired = true;
    apply_remove(ex, request);
}

static int take_out(lanex_executor *executor, const void *key, size_t key_length,
                    void (*apply)(struct lanex_executor *, struct lx_request *))
{
    struct lx_request request = {.apply = apply};
    int rc = lx_executor_check(executor);

    if (rc == 0)
        rc = lx_check_key(key, key_length);
    if (rc < 0)
        return rc;
    lx_epoch_write_acquire(&executor->registry->epoch);
    request.actor = lx_actor_table_find(&executor->registry->table, key, key_length);
    if (request.actor == NULL) {
        rc = executor->registry->closed ? -ESHUTDOWN : -ENOENT;
    } else {
        /* The registry's reference goes with the context, at any moment from the turn on. */
        lanex_actor_ref(request.actor);
        rc = lx_seat_request(executor, &request);
        if (rc == 0)
            lx_actor_table_remove(&executor->registry->table, request.actor);
    }
    lx_epoch_write_release(&executor->registry->epoch);
    if (rc == 0 && request.actor->announced)
        lx_reaper_tell(executor);
    lanex_actor_unref(request.actor);
    return rc;
}

int lanex_actor_remove(lanex_executor *executor, const void *key, size_t key_length)
{
    return take_out(executor, key, key_length, apply_remove);
}

int lanex_actor_retire(lanex_executor *executor, const void *key, size_t key_length)
{
    return take_out(executor, key, key_length, apply_retire);
}

static void apply_cancel_maintenance(struct lanex_executor *ex, struct lx_request *request)
{
    request->result = (int)lx_admission_cancel_maintenance(&ex->admission, &request->actor->entry);
}

int lanex_actor_cancel_queued_maintenance(lanex_executor *executor, const void *key,
                                          size_t key_length)
{
    struct lx_request request = {.apply = apply_cancel_maintenance};
    int rc = lanex_actor_lookup(executor, key, key_length, &request.actor);

    if (rc < 0)
        return rc;
    rc = lx_seat_request(executor, &request);
    lanex_actor_unref(request.actor);
    return rc;
}

void lx_registry_close(struct lx_registry *registry)
{
    struct lx_actor_table table;
    lanex_actor *actor, *next;

    lx_epoch_write_acquire(&registry->epoch);
    table = registry->table;
    memset(&registry->table, 0, sizeof registry->table);
    registry->closed = true;
    lx_epoch_write_release(&registry->epoch);
    for (actor = lx_actor_table_next(&table, NULL); actor != NULL; actor = next) {
        next = lx_actor_table_next(&table, actor);
        lx_actor_table_remove(&table, actor);
        lx_actor_context_done(actor);
    }
    lx_actor_table_fini(&table);
}

void lx_registry_destroy(struct lx_registry *registry)
{
    if (registry == NULL)
        return;
    lx_actor_table_fini(&registry->table);
    lx_release(registry);
}

/* ---- what a handle tells ---- */

const void *lanex_actor_key(const lanex_actor *actor, size_t *ret_length)
{
    *ret_length = actor->key_length;
    return actor->key;
}

void *lanex_actor_context(const lanex_actor *actor)
{
    return actor->context;
}

lanex_epoch *lanex_actor_epoch(lanex_actor *actor)
{
    return &actor->epoch;
}

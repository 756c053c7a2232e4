/*
 * Questions about the registered actors. Which there are, and in which order, changes only under
 * the registry's write lock: whoever reads under the lock may walk the rotation beside a turn. What
 * an actor is doing belongs to the turn and is asked there.
 */
#include <lanex/registry.h>

#include <errno.h>

#include "runtime/actor.h"
#include "runtime/executor.h"
#include "sync/seams.h"

#define TRIES 2u /* of a try_ form: the first may have cleared what was in the way */

static int check(lanex_executor *executor, const void *key, size_t key_length)
{
    int rc = lx_executor_check(executor);

    return rc == 0 ? lx_check_key(key, key_length) : rc;
}

/* ---- one actor ---- */

int lanex_actor_registered(lanex_executor *executor, const void *key, size_t key_length)
{
    int rc = check(executor, key, key_length);

    if (rc == 0)
        rc = lx_registry_lock(executor, LX_REGISTRY_READ);
    if (rc < 0)
        return rc;
    rc = lx_registry_find(executor, key, key_length) != NULL;
    lx_registry_unlock(executor, LX_REGISTRY_READ);
    return rc;
}

static void apply_idle(struct lanex_executor *ex, struct lx_request *request)
{
    struct lx_actor_entry *entry = &request->actor->entry;

    (void)ex;
    request->result = (entry->flags & LX_ACTOR_REGISTERED) == 0 ? -ENOENT : lx_actor_is_idle(entry);
}

static void apply_fatal(struct lanex_executor *ex, struct lx_request *request)
{
    struct lx_actor_entry *entry = &request->actor->entry;

    (void)ex;
    request->result =
        (entry->flags & LX_ACTOR_REGISTERED) == 0 ? -ENOENT : (entry->flags & LX_ACTOR_FATAL) != 0;
}

static int ask_turn(lanex_executor *executor, const void *key, size_t key_length,
                    void (*apply)(struct lanex_executor *, struct lx_request *))
{
    struct lx_request request = {.apply = apply};
    int rc = lanex_actor_lookup(executor, key, key_length, &request.actor);

    if (rc < 0)
        return rc;
    rc = lx_seat_request(executor, &request);
    lanex_actor_unref(request.actor);
    return rc;
}

int lanex_actor_idle(lanex_executor *executor, const void *key, size_t key_length)
{
    return ask_turn(executor, key, key_length, apply_idle);
}

int lanex_actor_fatal(lanex_executor *executor, const void *key, size_t key_length)
{
    return ask_turn(executor, key, key_length, apply_fatal);
}

/* Under the registry's read lock. 1, 0 or -EBUSY. */
static int try_idle(lanex_executor *executor, const struct lanex_actor *actor)
{
    for (unsigned left = TRIES; left > 0; left--) {
        bool idle;

        if (!lx_seat_try_enter(executor))
            continue;
        idle = lx_actor_is_idle(&actor->entry);
        lx_seat_leave(executor);
        return idle;
    }
    return -EBUSY;
}

int lanex_actor_try_idle(lanex_executor *executor, const void *key, size_t key_length)
{
    struct lanex_actor *actor;
    int rc = check(executor, key, key_length);

    if (rc == 0)
        rc = lx_registry_lock(executor, LX_REGISTRY_TRY_READ);
    if (rc < 0)
        return rc;
    actor = lx_registry_find(executor, key, key_length);
    rc = actor == NULL ? -ENOENT : try_idle(executor, actor);
    lx_registry_unlock(executor, LX_REGISTRY_TRY_READ);
    return rc;
}

/* ---- all actors ---- */

static int count_actors(lanex_executor *executor, enum lx_registry_access access, size_t *ret_count)
{
    int rc = lx_executor_check(executor);

    if (rc == 0 && ret_count == NULL)
        rc = -EINVAL;
    if (rc == 0)
        rc = lx_registry_lock(executor, access);
    if (rc < 0)
        return rc;
    *ret_count = executor->admission.actors;
    lx_registry_unlock(executor, access);
    return 0;
}

int lanex_actor_count(lanex_executor *executor, size_t *ret_count)
{
    return count_actors(executor, LX_REGISTRY_READ, ret_count);
}

int lanex_actor_try_count(lanex_executor *executor, size_t *ret_count)
{
    return count_actors(executor, LX_REGISTRY_TRY_READ, ret_count);
}

struct list_memory {
    lanex_actor_list list;
    size_t capacity;
    lanex_actor_list_entry entries[];
};

static struct list_memory *make_list(size_t capacity)
{
    struct list_memory *memory =
        lx_allocate_zeroed(sizeof *memory + capacity * sizeof memory->entries[0]);

    if (memory != NULL) {
        memory->capacity = capacity;
        memory->list.entries = memory->entries;
    }
    return memory;
}

/* Under the registry's lock; there is room. */
static void fill(lanex_executor *executor, struct list_memory *memory)
{
    struct lx_actor_entry *entry = NULL;

    while ((entry = lx_actor_after(&executor->admission, entry)) != NULL) {
        struct lanex_actor *actor = lx_actor_of(entry);

        lx_actor_context_hold(actor);
        memory->entries[memory->list.count++] = (lanex_actor_list_entry){
            .actor = actor,
            .key = actor->key,
            .key_length = actor->key_length,
            .context = actor->context,
        };
    }
}

static int list_actors(lanex_executor *executor, enum lx_registry_access access,
                       lanex_actor_list **ret_list)
{
    struct list_memory *memory = NULL;
    unsigned tries = 0;
    size_t count;
    int rc;

    if (ret_list == NULL)
        return -EINVAL;
    rc = count_actors(executor, access, &count);
    /* The memory is made outside the lock, so there may be more actors by the time it is filled. */
    while (rc == 0) {
        lx_release(memory);
        memory = make_list(count);
        rc = memory == NULL ? -ENOMEM : lx_registry_lock(executor, access);
        if (rc < 0)
            break;
        count = executor->admission.actors;
        if (count <= memory->capacity) {
            fill(executor, memory);
            lx_registry_unlock(executor, access);
            *ret_list = &memory->list;
            return 0;
        }
        lx_registry_unlock(executor, access);
        count += count / 8; /* so that a stream of registrations does not outrun this */
        if (access == LX_REGISTRY_TRY_READ && ++tries == TRIES)
            rc = -EBUSY;
    }
    lx_release(memory);
    return rc;
}

int lanex_actor_entries(lanex_executor *executor, lanex_actor_list **ret_list)
{
    return list_actors(executor, LX_REGISTRY_READ, ret_list);
}

int lanex_actor_try_entries(lanex_executor *executor, lanex_actor_list **ret_list)
{
    return list_actors(executor, LX_REGISTRY_TRY_READ, ret_list);
}

void lanex_actor_entries_free(lanex_actor_list *list)
{
    if (list == NULL)
        return;
    if (list->count > 0 && lx_executor_forked(list->entries[0].actor->executor))
        return;
    for (size_t i = 0; i < list->count; i++)
        lx_actor_context_drop(list->entries[i].actor);
    lx_release(list); /* the list is the first member of its memory */
}

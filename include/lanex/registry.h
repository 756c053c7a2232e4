/*
 * lanex/registry.h - looking at the registry of actors, and following its changes.
 *
 * Three ways to look, from the cheapest:
 *
 *     lanex_actor_registered(executor, key, length)      // 1 or 0: one actor
 *     lanex_actor_idle(executor, key, length)            // 1 or 0: would a retire succeed now
 *     lanex_actor_list *list;                            // all of them
 *     int rc = lanex_actor_entries(executor, &list);
 *     for (size_t i = 0; rc == 0 && i < list->count; i++)
 *         use(list->entries[i].key, list->entries[i].key_length, list->entries[i].context);
 *     if (rc == 0)
 *         lanex_actor_entries_free(list);
 *
 * And hooks, for programs that keep a registry of their own beside this one.
 *
 * Waiting: registered, count and entries wait while an actor is being registered or removed, which
 * takes a turn of the scheduler; idle and fatal ask a turn themselves. None waits for a job, and
 * all may be called from a job, a callback or a hook. The try_ forms never wait: where the others
 * would, they give -EBUSY, as all try forms of lanex do. Here it says "somebody is at it" and
 * nothing about the actor (whose being busy is the 0 of lanex_actor_try_idle, and the -EBUSY of
 * lanex_actor_retire). It may come without a visible reason; ask again later, or use the other
 * form.
 *
 * Every answer is that of one moment and may be old when it is read. To act on idleness, do not ask
 * first: lanex_actor_retire asks and acts in one step.
 */
#ifndef LANEX_REGISTRY_H
#define LANEX_REGISTRY_H

#include <lanex/actor.h>
#include <lanex/base.h>
#include <lanex/executor.h>

LANEX_BEGIN_DECLS

/* ---- one actor; key as for lanex_actor_register ---- */

/* 1 if the key is registered, else 0. Errors: -EINVAL, -ESHUTDOWN, -ECHILD. */
LANEX_API int lanex_actor_registered(lanex_executor *executor, const void *key, size_t key_length);

/*
 * 1 if nothing of the actor is queued or in flight, else 0. Ordered after the caller's own
 * submissions, and after the end of every job whose completion the caller has seen. A deferred
 * answer that is still owed does not count: its job is over for the actor.
 * Errors: -ENOENT, -EINVAL, -ESHUTDOWN, -ECHILD; try_ also -EBUSY.
 */
LANEX_API int lanex_actor_idle(lanex_executor *executor, const void *key, size_t key_length);
LANEX_API int lanex_actor_try_idle(lanex_executor *executor, const void *key, size_t key_length);

/*
 * 1 if a mutating job (or an install step) of the actor has panicked, else 0: all its jobs are
 * answered `actor_fatal` until it is removed and registered anew. Errors and order: as
 * lanex_actor_idle.
 */
LANEX_API int lanex_actor_fatal(lanex_executor *executor, const void *key, size_t key_length);

/* ---- all actors ---- */

/* How many are registered. Errors: -EINVAL, -ESHUTDOWN, -ECHILD; try_ also -EBUSY. */
LANEX_API int lanex_actor_count(lanex_executor *executor, size_t *ret_count);
LANEX_API int lanex_actor_try_count(lanex_executor *executor, size_t *ret_count);

typedef struct lanex_actor_list_entry {
    lanex_actor *actor; /* borrowed from the list: lanex_actor_ref keeps it */
    const void *key;
    size_t key_length;
    void *context; /* NULL if it has none */
} lanex_actor_list_entry;

typedef struct lanex_actor_list {
    size_t count;
    const lanex_actor_list_entry *entries;
} lanex_actor_list;

/*
 * The registered actors in the order of registration, as of one moment. One allocation, given back
 * with lanex_actor_entries_free.
 *
 * The list retains what it names: until it is freed all its handles and contexts stay valid, also
 * those of actors that are removed meanwhile; their teardown and release wait for it (so free it
 * soon). context_retain is not called and need not exist. To keep one context for longer, call
 * lanex_actor_context_acquire on its handle, or count it yourself, before the list is freed.
 *
 * Errors: -EINVAL, -ENOMEM, -ESHUTDOWN, -ECHILD; try_ also -EBUSY. Cost: about 50 ns an actor,
 * during which no actor can be registered or removed; jobs are not held up.
 */
LANEX_API int lanex_actor_entries(lanex_executor *executor, lanex_actor_list **ret_list);
LANEX_API int lanex_actor_try_entries(lanex_executor *executor, lanex_actor_list **ret_list);

/*
 * Frees the list. If it was the last user of a context, that is torn down and released on
 * lanex-reap, or on the calling thread once the executor has ended. NULL is fine. No lock of
 * lanex's is held meanwhile.
 */
LANEX_API void lanex_actor_entries_free(lanex_actor_list *list);

/* ---- hooks ---- */

typedef struct lanex_actor_hooks {
    size_t size; /* sizeof(lanex_actor_hooks) */
    /* `actor`, `key` and `context` are borrowed for the call. Either function may be NULL. */
    void (*on_register)(lanex_actor *actor, const void *key, size_t key_length, void *context,
                        void *arg);
    void (*on_unregister)(lanex_actor *actor, const void *key, size_t key_length, void *context,
                          void *arg);
    void *arg;
} lanex_actor_hooks;

/*
 * Has the hooks called for every actor that is registered from now on: on_register once for each
 * new actor, on_unregister once when it is removed or retired, or when the executor ends.
 *
 * Where: on lanex-reap, one at a time, under no lock; so register and remove do not wait for them,
 * and they may call everything but drain and destroy. Only on_unregister of actors that are still
 * registered when the executor ends runs on the thread that ends it, in the order of registration.
 * When: in the order in which registrations and removals happened, over all keys; so for one key
 * they alternate, and on_unregister of the old actor comes before on_register of the next.
 * on_unregister comes before the `actor_fatal` answers of the actor's queued jobs and before its
 * context's teardown and release; jobs of it may still run then. A job submitted right after a
 * registration may run before on_register: where that matters, call lanex_actor_hooks_wait first.
 *
 * Set them once, before the first actor. Errors: -EINVAL, -EBUSY (they are set, or an actor is
 * registered), -ESHUTDOWN, -ECHILD. Cost: 40 bytes an actor.
 */
LANEX_API int lanex_actor_set_hooks(lanex_executor *executor, const lanex_actor_hooks *hooks);

/*
 * Waits until the hooks of all registrations and removals that happened before have run, and with
 * them the teardown and release of those contexts that nobody used any more (of retired actors
 * always, unless a list holds them). Behind all other work of lanex-reap.
 * Errors: -EDEADLK (on lanex-reap: in a hook, a teardown, or the callback of a job that never ran),
 * -EINVAL, -ESHUTDOWN, -ECHILD.
 */
LANEX_API int lanex_actor_hooks_wait(lanex_executor *executor);

LANEX_END_DECLS

#endif

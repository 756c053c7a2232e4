/*
 * lanex/actor.h - actors: the keyed contexts that jobs are submitted to.
 *
 * An actor is a project root, a database, a tenant: one thing whose readers may overlap and whose
 * writers must be alone. It has a key (1 to 4096 bytes, compared bytewise), a user context that its
 * jobs receive, and an epoch (a reader/writer lock that lanex takes around each job).
 *
 *     lanex_actor_options options = {
 *         .size = sizeof options, .context = db, .context_release = db_free,
 *     };
 *     lanex_actor *actor;
 *     int rc = lanex_actor_register(executor, "db0", 3, &options, &actor); // 1: new, 0: was there
 *     ... submit to `actor` (job.h) ...
 *     lanex_actor_remove(executor, "db0", 3);
 *     lanex_actor_unref(actor);
 *
 * A handle (lanex_actor *) names one incarnation: after a remove, submissions through the old
 * handle complete `actor_not_registered` even if the key is registered anew. Handles are reference
 * counted; an unref'd handle must not be used. Handles may outlive the executor's destroy (calls
 * then give -ESHUTDOWN); the executor's memory stays until the last of them is given back.
 */
#ifndef LANEX_ACTOR_H
#define LANEX_ACTOR_H

#include <lanex/base.h>
#include <lanex/epoch.h>
#include <lanex/executor.h>

LANEX_BEGIN_DECLS

typedef struct lanex_actor lanex_actor;

#define LANEX_KEY_MAX    4096u /* bytes of a key */
#define LANEX_WEIGHT_MAX 1024u /* of an actor */

typedef struct lanex_actor_options {
    size_t size; /* sizeof(lanex_actor_options) */
    /*
     * What the jobs receive. Registration hands over one reference if the actor is new (result 1);
     * if the key was there (result 0) the caller keeps its own.
     */
    void *context;
    /* Takes one more reference for lanex_actor_context_acquire; NULL: acquire gives -ENOTSUP. */
    void (*context_retain)(void *context);
    /*
     * The orderly goodbye to what the context uses outside this process or beside it: flush and
     * close files, log out, stop helpers. Called once if the actor is retired, just before
     * context_release and where that is called. Not called for an actor that is removed, or is
     * still registered when the executor ends: to have it, retire first. May be NULL.
     */
    void (*context_teardown)(void *context);
    /*
     * Gives the reference back: called once, when the actor is removed or retired, its last job has
     * ended, and no list (registry.h) holds the context, whether or not handles are left. May be
     * NULL.
     *
     * Where: teardown and release run on lanex-reap, never in the call that removed or retired,
     * under no lock of lanex's. Release of an actor that is still registered when the executor ends
     * runs on the thread that ends it. They may take their time, but answers of jobs that never
     * ran, hooks, and other actors' teardowns wait behind them. They may call everything but drain
     * and destroy, which give -EDEADLK.
     */
    void (*context_release)(void *context);
    uint32_t weight; /* share under saturation, 1 to LANEX_WEIGHT_MAX; 0 = 1 */
    uint32_t reserved;
} lanex_actor_options;

/*
 * Registers an actor, placed last in the rotation. Returns 1 if it is new, 0 if the key was
 * registered (it keeps its context, weight and state). ret_actor (may be NULL) receives a handle in
 * both cases. Errors: -EINVAL (key length 0 or over LANEX_KEY_MAX, NULL key, unknown size, weight
 * out of range), -ENOMEM, -ESHUTDOWN, -ECHILD. Cost: an allocation and a turn of the scheduler;
 * waits if somebody is in the seat.
 */
LANEX_API int lanex_actor_register(lanex_executor *executor, const void *key, size_t key_length,
                                   const lanex_actor_options *options, lanex_actor **ret_actor);

/* A handle for a registered key. Errors: -ENOENT, -EINVAL, -ESHUTDOWN, -ECHILD. */
LANEX_API int lanex_actor_lookup(lanex_executor *executor, const void *key, size_t key_length,
                                 lanex_actor **ret_actor);

LANEX_API lanex_actor *lanex_actor_ref(lanex_actor *actor);
LANEX_API void lanex_actor_unref(lanex_actor *actor);

/*
 * Takes the actor out at once, whatever it is doing. Its queued jobs, and those that only lack
 * their install step, are answered `actor_fatal`, the queued ones in order of arrival across both
 * classes; running ones finish, with their worker and heavy permit, under the old actor's context
 * and epoch. The key is free when this returns: registered again it is another actor, which shares
 * nothing with this one (nor waits for it: a context that must not be open twice has to see to that
 * itself), and whatever becomes of the old one's jobs does not touch it. The removed actor's
 * context is released once its last job has ended.
 *
 * Never waits for a job. Returns 0. Errors: -ENOENT, -EINVAL, -ESHUTDOWN, -ECHILD.
 */
LANEX_API int lanex_actor_remove(lanex_executor *executor, const void *key, size_t key_length);

/*
 * The orderly end: removes the actor only if nothing of it is queued or in flight, then has its
 * context torn down (context_teardown) and released on lanex-reap; returns without waiting for
 * that. Whoever has seen the completion of the actor's last job does not find it busy because of
 * that job. A deferred answer that is still owed does not count. A fatal actor may be retired.
 * Errors: -EBUSY (something is queued or running; nothing was changed), and as remove.
 */
LANEX_API int lanex_actor_retire(lanex_executor *executor, const void *key, size_t key_length);

/*
 * Answers all queued maintenance jobs of the actor `maintenance_cancelled`; running jobs and
 * interactive ones stay. Returns how many. Errors: -ENOENT, -EINVAL, -ESHUTDOWN, -ECHILD.
 */
LANEX_API int lanex_actor_cancel_queued_maintenance(lanex_executor *executor, const void *key,
                                                    size_t key_length);

/* The key of a handle; length through ret_length. Lives as long as the handle. */
LANEX_API const void *lanex_actor_key(const lanex_actor *actor, size_t *ret_length);

/* The context of a handle, borrowed: valid while the actor is registered or a job of it runs. */
LANEX_API void *lanex_actor_context(const lanex_actor *actor);

/*
 * The context of a handle with a reference of the caller's own, taken by context_retain on the
 * calling thread and under no lock; the caller gives it back by its own means. It may outlive the
 * actor, and the teardown by a retire does not wait for it. By key: lanex_actor_lookup first.
 * Errors: -ENOENT (the actor was removed, and its context has been given back), -ENOTSUP (no
 * context_retain), -EINVAL, -ESHUTDOWN, -ECHILD.
 */
LANEX_API int lanex_actor_context_acquire(lanex_actor *actor, void **ret_context);

/*
 * The epoch of the actor, for code outside the executor that must exclude its jobs. While somebody
 * outside holds it, a worker may have to wait in the gate: hold it for microseconds.
 */
LANEX_API lanex_epoch *lanex_actor_epoch(lanex_actor *actor);

LANEX_END_DECLS

#endif

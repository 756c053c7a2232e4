/* The full users and their actors: registering, removing, looking. */
#include "users.h"

#include <errno.h>

static const char *const names[USERS_KEYS] = {"alpha", "beta", "gamma", "delta"};

/* Calls that change a key come one at a time, so that it is known which incarnation they met; all
 * else goes on beside them. */
static void take_key(uint32_t key)
{
    while (users.key_taken[key])
        sim_sleep_ns(1000);
    users.key_taken[key] = true;
}

static void give_key(uint32_t key)
{
    users.key_taken[key] = false;
}

static size_t length_of(uint32_t key)
{
    size_t length = 0;

    while (names[key][length] != '\0')
        length++;
    return length;
}

static void teardown(void *context)
{
    check_context_teardown(&users.check, ((struct users_context *)context)->actor);
}

static void release(void *context)
{
    check_context_release(&users.check, ((struct users_context *)context)->actor);
}

void users_take_handle(struct user *user, uint32_t key)
{
    lanex_actor *handle = NULL;
    uint32_t actor;

    take_key(key);
    actor = users.check.current[key];
    if (actor != CHECK_NO_ACTOR &&
        lanex_actor_lookup(users.executor, names[key], length_of(key), &handle) == 0) {
        lanex_actor_unref(user->handle[key]);
        user->handle[key] = handle;
        user->actor[key] = actor;
        SIM_CHECK(lanex_actor_context(handle) == &users.context[actor]);
    }
    give_key(key);
}

void users_register(struct user *user, uint32_t key, uint32_t weight)
{
    lanex_actor_options options = {.size = sizeof options,
                                   .context_teardown = teardown,
                                   .context_release = release,
                                   .weight = weight};
    lanex_actor *handle = NULL;
    uint32_t actor;
    int rc;

    if (users.contexts == USERS_CONTEXTS)
        return;
    take_key(key);
    actor = users.contexts++;
    users.context[actor].actor = actor;
    options.context = &users.context[actor];
    check_register_begin(&users.check, actor, key, weight);
    rc = lanex_actor_register(users.executor, names[key], length_of(key), &options, &handle);
    check_register_end(&users.check, actor, rc);
    sim_note("register %u as %u: %d", key, actor, rc);
    SIM_CHECK(rc >= 0 || rc == -ENOMEM || (rc == -ESHUTDOWN && users.check.destroy_begun));
    if (rc >= 0) {
        lanex_actor_unref(user->handle[key]);
        user->handle[key] = handle;
        user->actor[key] = rc == 1 ? actor : users.check.current[key];
    }
    give_key(key);
}

void users_remove(uint32_t key, bool retire)
{
    int rc;

    take_key(key);
    check_remove_begin(&users.check, key, retire);
    rc = retire ? lanex_actor_retire(users.executor, names[key], length_of(key))
                : lanex_actor_remove(users.executor, names[key], length_of(key));
    check_remove_end(&users.check, key, retire, rc);
    sim_note("%s %u: %d", retire ? "retire" : "remove", key, rc);
    SIM_CHECK(rc == 0 || rc == -ENOENT || (retire && rc == -EBUSY) || rc == -ENOMEM ||
              (rc == -ESHUTDOWN && users.check.destroy_begun));
    give_key(key);
}

void users_cancel_maintenance(uint32_t key)
{
    int rc;

    check_cancel_maintenance_begin(&users.check, key);
    rc = lanex_actor_cancel_queued_maintenance(users.executor, names[key], length_of(key));
    check_cancel_maintenance_end(&users.check, key);
    SIM_CHECK(rc >= 0 || rc == -ENOENT || rc == -ENOMEM ||
              (rc == -ESHUTDOWN && users.check.destroy_begun));
}

/* ---- looking ---- */

static void look_at_list(bool waits)
{
    lanex_actor_list *list;
    int rc = waits ? lanex_actor_entries(users.executor, &list)
                   : lanex_actor_try_entries(users.executor, &list);

    if (rc < 0)
        return;
    for (size_t i = 0; i < list->count; i++)
        users.check.actors[((struct users_context *)list->entries[i].context)->actor].lists++;
    sim_yield();
    sim_sleep_ns(50000);
    for (size_t i = 0; i < list->count; i++)
        users.check.actors[((struct users_context *)list->entries[i].context)->actor].lists--;
    lanex_actor_entries_free(list);
}

static int look_at_running(uint64_t dice)
{
    lanex_running_jobs *jobs = NULL;
    int rc = dice % 2 == 0 ? lanex_executor_running_mutating_try(users.executor, &jobs)
                           : lanex_executor_census(users.executor, 1, &jobs);

    if (rc >= 0) {
        SIM_CHECK(jobs->count <= users.check.config.pool_size);
        lanex_running_jobs_free(jobs);
    }
    return rc;
}

static int explain(uint32_t key, uint64_t dice)
{
    lanex_explanation *explanation = NULL;
    lanex_blockers *blockers = NULL;
    int rc;

    if (dice % 2 == 0) {
        rc = lanex_explain_actor(users.executor, names[key], length_of(key), &explanation);
        if (rc >= 0)
            lanex_explanation_free(explanation);
        return rc;
    }
    rc = lanex_job_blockers_try(users.executor, names[key], length_of(key), "id", 2, &blockers);
    if (rc >= 0)
        lanex_blockers_free(blockers);
    return rc;
}

void users_query(uint32_t key, uint64_t dice)
{
    lanex_liveness live = {.size = sizeof live};
    size_t count;
    bool ended = check_ended(&users.check);
    int rc;

    switch (dice % 8) {
    case 0:
        SIM_CHECK(lanex_executor_liveness(users.executor, &live) == 0);
        check_liveness(&users.check, &live);
        return;
    case 1:
        rc = lanex_actor_registered(users.executor, names[key], length_of(key));
        break;
    case 2:
        rc = lanex_actor_idle(users.executor, names[key], length_of(key));
        break;
    case 3:
        rc = lanex_actor_fatal(users.executor, names[key], length_of(key));
        break;
    case 4:
        rc = lanex_actor_try_count(users.executor, &count);
        break;
    case 5:
        look_at_list((dice >> 8) % 2 == 0);
        return;
    case 6:
        rc = look_at_running(dice >> 8);
        break;
    default:
        rc = explain(key, dice >> 8);
        break;
    }
    SIM_CHECK(rc >= 0 || rc == -EBUSY || rc == -ENOENT || rc == -ENOMEM || rc == -ESHUTDOWN);
    check_call_result(&users.check, ended && rc != -ENOMEM, rc);
}

/* ---- hooks ---- */

static void on_register(lanex_actor *actor, const void *key, size_t key_length, void *context,
                        void *arg)
{
    (void)actor;
    (void)key;
    (void)key_length;
    (void)arg;
    check_hook(&users.check, ((struct users_context *)context)->actor, true);
}

static void on_unregister(lanex_actor *actor, const void *key, size_t key_length, void *context,
                          void *arg)
{
    (void)actor;
    (void)key;
    (void)key_length;
    (void)arg;
    check_hook(&users.check, ((struct users_context *)context)->actor, false);
}

void users_set_hooks(void)
{
    lanex_actor_hooks hooks = {
        .size = sizeof hooks, .on_register = on_register, .on_unregister = on_unregister};
    int rc = lanex_actor_set_hooks(users.executor, &hooks);

    SIM_CHECK(rc == 0 || rc == -ENOMEM);
}

/* The checker: actors, their contexts and hooks. SPEC 10. */
#include "check_internal.h"

#include <errno.h>

void check_register_begin(struct check *check, uint32_t number, uint32_t key, uint32_t weight)
{
    check_enter(check);
    check->actors[number] = (struct check_actor){
        .used = true, .may_live = true, .key = key, .weight = weight == 0 ? 1 : weight};
    if (check->actor_count <= number)
        check->actor_count = number + 1;
    check->calls++;
    check_leave(check);
}

void check_register_end(struct check *check, uint32_t number, int rc)
{
    struct check_actor *actor;

    check_enter(check);
    actor = check_actor_at(check, number);
    check->calls--;
    if (rc == 1) {
        CHECK_THAT(check, CHECK_INCARNATION, check->current[actor->key] == CHECK_NO_ACTOR,
                   "actor %u is new under a key that actor %u has", number,
                   check->current[actor->key]);
        actor->live = true;
        check->ready_since_ns[actor->key] = UINT64_MAX;
        check->current[actor->key] = number;
    } else {
        actor->may_live = false;
        CHECK_THAT(check, CHECK_INCARNATION,
                   rc != 0 || check->current[actor->key] != CHECK_NO_ACTOR,
                   "actor %u: the key is said to be registered and is not", number);
    }
    check_leave(check);
}

/* Is there a job of the actor of which it is known that it is not over? */
static bool known_busy(const struct check *check, uint32_t number)
{
    for (uint32_t i = 0; i < check->open_count; i++) {
        const struct check_job *job = &check->jobs[check->open[i]];
        if (job->actor == number && job->running)
            return true;
    }
    return false;
}

/* Is there a submission of the actor of which it is not known that it is over? */
static bool perhaps_busy(const struct check *check, uint32_t number)
{
    for (uint32_t i = 0; i < check->open_count; i++) {
        const struct check_job *job = &check->jobs[check->open[i]];
        if ((job->actor == number || job->actor == CHECK_NO_ACTOR) && !job->completed)
            return true;
    }
    return false;
}

void check_remove_begin(struct check *check, uint32_t key, bool retire)
{
    uint32_t number;

    check_enter(check);
    number = check->current[key];
    if (number != CHECK_NO_ACTOR) {
        *(retire ? &check->actors[number].retiring : &check->actors[number].removing) = true;
        check->actors[number].busy_before = perhaps_busy(check, number);
    }
    check->calls++;
    check_leave(check);
}

static void left(struct check *check, struct check_actor *actor, bool retire)
{
    actor->gone = true;
    actor->retired = retire;
    actor->starts_allowed = check->config.pool_size - check->running[0] - check->running[1];
    check->current[actor->key] = CHECK_NO_ACTOR;
}

void check_remove_end(struct check *check, uint32_t key, bool retire, int rc)
{
    uint32_t number;
    struct check_actor *actor;

    check_enter(check);
    number = check->current[key];
    check->calls--;
    if (number == CHECK_NO_ACTOR) {
        CHECK_THAT(check, CHECK_REMOVED, rc != 0, "key %u is not registered and was removed", key);
        check_leave(check);
        return;
    }
    actor = check_actor_at(check, number);
    CHECK_THAT(check, CHECK_REMOVED, rc != -ENOENT, "key %u is registered and was not found", key);
    if (retire && rc == 0)
        CHECK_THAT(check, CHECK_RETIRE, !known_busy(check, number),
                   "actor %u was retired while a job of it runs", number);
    if (retire && rc == -EBUSY)
        CHECK_THAT(check, CHECK_RETIRE, actor->busy_before || perhaps_busy(check, number),
                   "actor %u is idle, and was called busy", number);
    if (rc == 0)
        left(check, actor, retire);
    else if (retire)
        actor->retiring = false;
    else
        actor->removing = check->destroy_begun;
    check_leave(check);
}

void check_cancel_maintenance_begin(struct check *check, uint32_t key)
{
    check_enter(check);
    check->maintenance_cancelling[key]++;
    check_leave(check);
}

void check_cancel_maintenance_end(struct check *check, uint32_t key)
{
    check_enter(check);
    check->maintenance_cancelling[key]--;
    check->maintenance_cancels[key] = check->seq;
    check_leave(check);
}

static void check_unused(struct check *check, uint32_t number, const struct check_actor *actor)
{
    CHECK_THAT(check, CHECK_CONTEXT, actor->running == 0,
               "the context of actor %u was given back while %u jobs use it", number,
               actor->running);
    CHECK_THAT(check, CHECK_CONTEXT, !actor->released,
               "the context of actor %u was given back twice", number);
    CHECK_THAT(check, CHECK_CONTEXT, actor->lists == 0,
               "the context of actor %u was given back while a list holds it", number);
    CHECK_THAT(check, CHECK_CONTEXT, actor->removing || actor->retiring || check->destroy_begun,
               "the context of actor %u was given back while it is registered", number);
}

void check_context_teardown(struct check *check, uint32_t number)
{
    struct check_actor *actor;

    check_enter(check);
    actor = check_actor_at(check, number);
    check_unused(check, number, actor);
    CHECK_THAT(check, CHECK_CONTEXT, !actor->torn_down, "actor %u was torn down twice", number);
    CHECK_THAT(check, CHECK_CONTEXT, actor->retiring, "actor %u was torn down without a retire",
               number);
    actor->torn_down = true;
    check_leave(check);
}

void check_context_release(struct check *check, uint32_t number)
{
    struct check_actor *actor;

    check_enter(check);
    actor = check_actor_at(check, number);
    check_unused(check, number, actor);
    actor->released = true;
    check_leave(check);
}

void check_hook(struct check *check, uint32_t number, bool registered)
{
    struct check_actor *actor;

    check_enter(check);
    actor = check_actor_at(check, number);
    CHECK_THAT(check, CHECK_HOOK, actor->hooked == !registered && !actor->unhooked,
               "actor %u: hook out of turn", number);
    CHECK_THAT(check, CHECK_HOOK, registered || !actor->released,
               "actor %u: its hook comes after its release", number);
    *(registered ? &actor->hooked : &actor->unhooked) = true;
    check_leave(check);
}

/* What the registry tells: queries, their try forms, lists, hooks. */
#include "tests/unit/actors_rig.h"

#include "runtime/executor.h"

TestSuite(actors_registry, .timeout = 60);

/* ---- queries ---- */

Test(actors_registry, tells_what_is_registered_and_idle)
{
    lanex_executor *executor = rig_executor();
    struct rig_block block = {LATCH_INIT, LATCH_INIT};
    lanex_actor *actor = rig_actor(executor, "a");
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, rig_block, &block);
    lanex_ticket *tickets[2];
    size_t count = 99;

    cr_assert_eq(lanex_actor_registered(executor, "a", 1), 1);
    cr_assert_eq(lanex_actor_registered(executor, "ab", 2), 0);
    cr_assert_eq(lanex_actor_registered(executor, "", 0), -EINVAL);
    cr_assert_eq(lanex_actor_registered(NULL, "a", 1), -EINVAL);
    cr_assert_eq(lanex_actor_idle(executor, "b", 1), -ENOENT);
    cr_assert_eq(lanex_actor_try_idle(executor, "b", 1), -ENOENT);
    cr_assert_eq(lanex_actor_fatal(executor, "b", 1), -ENOENT);
    cr_assert_eq(lanex_actor_count(executor, NULL), -EINVAL);
    cr_assert_eq(lanex_actor_count(executor, &count), 0);
    cr_assert_eq(count, 1);
    cr_assert_eq(lanex_actor_idle(executor, "a", 1), 1);
    LX_EVENTUALLY(lanex_actor_try_idle(executor, "a", 1) == 1);
    /* Ordered after one's own submissions, whoever runs the turn: never "idle" from here on. */
    tickets[0] = rig_submit(actor, &job);
    cr_assert_neq(lanex_actor_try_idle(executor, "a", 1), 1);
    cr_assert_eq(lanex_actor_idle(executor, "a", 1), 0);
    LX_EVENTUALLY(lanex_actor_try_idle(executor, "a", 1) == 0);
    job.run = rig_nothing;
    tickets[1] = rig_submit(actor, &job);
    latch_arrive(&block.leave);
    rig_expect(tickets[0], LANEX_STATUS_OK);
    rig_expect(tickets[1], LANEX_STATUS_OK);
    cr_assert_eq(lanex_actor_idle(executor, "a", 1), 1);
    cr_assert_eq(rig_remove(executor, "a"), 0);
    cr_assert_eq(lanex_actor_registered(executor, "a", 1), 0);
    cr_assert_eq(lanex_actor_count(executor, &count), 0);
    cr_assert_eq(count, 0);
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

Test(actors_registry, a_try_does_not_miss_what_its_caller_submitted)
{
    lanex_executor *executor = rig_executor();
    lanex_actor *actor = rig_actor(executor, "a");

    for (unsigned i = 0; i < lx_test_scaled(1000); i++) {
        struct rig_block block = {LATCH_INIT, LATCH_INIT};
        lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, rig_block, &block);
        lanex_ticket *ticket = rig_submit(actor, &job);

        /* Whether or not the scheduler has looked at it yet. */
        cr_assert_neq(lanex_actor_try_idle(executor, "a", 1), 1);
        latch_arrive(&block.leave);
        rig_expect(ticket, LANEX_STATUS_OK);
        cr_assert_neq(lanex_actor_try_idle(executor, "a", 1), 0);
    }
    lanex_actor_unref(actor);
    rig_destroy_executor(executor);
}

static void *register_one_more(void *executor)
{
    lanex_actor_unref(rig_actor(executor, "more"));
    return NULL;
}

Test(actors_registry, try_forms_do_not_wait)
{
    lanex_executor *executor = rig_executor();
    lanex_actor_list *list = (lanex_actor_list *)&list;
    pthread_t other;
    size_t count = 99;

    lanex_actor_unref(rig_actor(executor, "a"));
    LX_EVENTUALLY(lx_seat_try_enter(executor));
    /* We are in the seat; nobody is in the registry. */
    cr_assert_eq(lanex_actor_try_idle(executor, "a", 1), -EBUSY);
    cr_assert_eq(lanex_actor_try_count(executor, &count), 0);
    cr_assert_eq(count, 1);
    /* A registration holds the registry until a turn has answered it: now, for as long as we want.
     */
    cr_assert_eq(pthread_create(&other, NULL, register_one_more, executor), 0);
    LX_EVENTUALLY(lanex_actor_try_count(executor, &count) == -EBUSY);
    cr_assert_eq(count, 1, "the output was touched");
    cr_assert_eq(lanex_actor_try_entries(executor, &list), -EBUSY);
    cr_assert_eq(list, (lanex_actor_list *)&list, "the output was touched");
    cr_assert_eq(lanex_actor_try_idle(executor, "a", 1), -EBUSY);
    lx_seat_leave(executor);
    cr_assert_eq(pthread_join(other, NULL), 0);
    cr_assert_eq(lanex_actor_try_count(executor, &count), 0);
    cr_assert_eq(count, 2);
    cr_assert_eq(lanex_actor_try_entries(executor, &list), 0);
    cr_assert_eq(list->count, 2);
    lanex_actor_entries_free(list);
    rig_destroy_executor(executor);
}

Test(actors_registry, says_so_after_the_end)
{
    lanex_executor *executor = rig_executor();
    lanex_actor_list *list = NULL;
    lanex_actor_hooks hooks = {.size = sizeof hooks};
    size_t count;

    lanex_executor_ref(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    cr_assert_eq(lanex_actor_registered(executor, "a", 1), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_idle(executor, "a", 1), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_try_idle(executor, "a", 1), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_fatal(executor, "a", 1), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_count(executor, &count), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_try_count(executor, &count), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_entries(executor, &list), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_try_entries(executor, &list), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_set_hooks(executor, &hooks), -ESHUTDOWN);
    cr_assert_eq(lanex_actor_hooks_wait(executor), -ESHUTDOWN);
    lanex_executor_unref(executor);
}

/* ---- lists ---- */

static void assert_entry(const lanex_actor_list *list, size_t at, const void *key, size_t length,
                         const void *context)
{
    const lanex_actor_list_entry *entry = &list->entries[at];
    size_t handle_length = 0;

    cr_assert_eq(entry->key_length, length);
    cr_assert_eq(memcmp(entry->key, key, length), 0);
    cr_assert_eq(entry->context, context);
    cr_assert_eq(lanex_actor_key(entry->actor, &handle_length), entry->key);
    cr_assert_eq(handle_length, length);
}

Test(actors_registry, lists_in_order_of_registration)
{
    lanex_executor *executor = rig_executor();
    lanex_actor_list *list = NULL;
    unsigned number;

    cr_assert_eq(lanex_actor_entries(executor, NULL), -EINVAL);
    cr_assert_eq(lanex_actor_entries(executor, &list), 0);
    cr_assert_eq(list->count, 0);
    lanex_actor_entries_free(list);
    lanex_actor_entries_free(NULL);
    /* More than the rotation's first space; every third one goes again, some come back. */
    for (number = 0; number < 300; number++)
        lanex_actor_unref(rig_actor_with(
            executor, (char[]){'k', (char)('a' + number / 26 % 26), (char)('a' + number % 26), 0},
            NULL, NULL));
    for (number = 0; number < 300; number += 3)
        cr_assert_eq(rig_remove(executor, (char[]){'k', (char)('a' + number / 26 % 26),
                                                   (char)('a' + number % 26), 0}),
                     0);
    cr_assert_eq(lanex_actor_register(executor, "kaa", 3, NULL, NULL), 1);
    cr_assert_eq(lanex_actor_register(executor, "a\0b", 3, NULL, NULL), 1);
    cr_assert_eq(lanex_actor_entries(executor, &list), 0);
    cr_assert_eq(list->count, 202);
    for (size_t at = 0; at < 200; at++) {
        number = (unsigned)(at / 2 * 3 + at % 2 + 1);
        assert_entry(list, at,
                     (char[]){'k', (char)('a' + number / 26 % 26), (char)('a' + number % 26)}, 3,
                     NULL);
    }
    assert_entry(list, 200, "kaa", 3, NULL);
    assert_entry(list, 201, "a\0b", 3, NULL);
    lanex_actor_entries_free(list);
    rig_destroy_executor(executor);
}

Test(actors_registry, a_list_keeps_what_it_names)
{
    lanex_executor *executor = rig_executor();
    struct counted removed = COUNTED_INIT, retired = COUNTED_INIT, stays = COUNTED_INIT;
    lanex_actor_list *list = NULL, *second = NULL;
    lanex_job_options job = rig_job(LANEX_LANE_PURE_READ, rig_nothing, NULL);

    lanex_actor_unref(counted_actor(executor, "removed", &removed));
    lanex_actor_unref(counted_actor(executor, "retired", &retired));
    lanex_actor_unref(counted_actor(executor, "stays", &stays));
    cr_assert_eq(lanex_actor_entries(executor, &list), 0);
    cr_assert_eq(lanex_actor_entries(executor, &second), 0);
    cr_assert_eq(rig_remove(executor, "removed"), 0);
    cr_assert_eq(rig_retire(executor, "retired"), 0);
    /* lanex-reap has been at both. */
    cr_assert_eq(lanex_executor_drain(executor, 0, NULL), 0);
    cr_assert_eq(latch_count(&removed.released), 0);
    cr_assert_eq(latch_count(&retired.torn_down), 0);
    assert_entry(list, 0, "removed", 7, &removed);
    assert_entry(list, 1, "retired", 7, &retired);
    rig_run(list->entries[0].actor, &job, LANEX_STATUS_ACTOR_NOT_REGISTERED);
    lanex_actor_entries_free(list);
    cr_assert_eq(lanex_executor_drain(executor, 0, NULL), 0);
    cr_assert_eq(latch_count(&removed.released), 0, "the other list still has it");
    lanex_actor_entries_free(second);
    latch_wait(&removed.released, 1);
    latch_wait(&retired.released, 1);
    cr_assert(retired.in_order);
    cr_assert_str_eq(removed.thread, "lanex-reap");
    cr_assert_eq(latch_count(&stays.released), 0);
    rig_destroy_executor(executor);
    cr_assert_eq(latch_count(&stays.released), 1);
}

Test(actors_registry, a_list_may_outlive_the_executor)
{
    lanex_executor *executor = rig_executor();
    struct counted removed = COUNTED_INIT, stays = COUNTED_INIT;
    lanex_actor_list *list = NULL;

    lanex_actor_unref(counted_actor(executor, "removed", &removed));
    lanex_actor_unref(counted_actor(executor, "stays", &stays));
    cr_assert_eq(lanex_actor_entries(executor, &list), 0);
    cr_assert_eq(rig_remove(executor, "removed"), 0);
    rig_destroy_executor(executor);
    cr_assert_eq(latch_count(&removed.released), 0);
    cr_assert_eq(latch_count(&stays.released), 0);
    assert_entry(list, 1, "stays", 5, &stays);
    lanex_actor_entries_free(list);
    cr_assert_eq(latch_count(&removed.released), 1);
    cr_assert_eq(latch_count(&stays.released), 1);
}

/* ---- hooks ---- */

#define NOTES 64u

struct note {
    bool registered;
    char key[8];
    void *context;
    char thread[16];
};
struct notes {
    lanex_executor *executor;
    struct latch count;
    struct note note[NOTES];
};

static void take_note(struct notes *notes, bool registered, lanex_actor *actor, const void *key,
                      size_t key_length, void *context)
{
    struct note *note = &notes->note[latch_count(&notes->count)];

    LX_REQUIRE(latch_count(&notes->count) < NOTES && key_length < sizeof note->key);
    LX_REQUIRE(lanex_actor_context(actor) == context);
    note->registered = registered;
    memcpy(note->key, key, key_length);
    note->context = context;
    LX_REQUIRE(pthread_getname_np(pthread_self(), note->thread, sizeof note->thread) == 0);
    latch_arrive(&notes->count);
}

static void note_register(lanex_actor *actor, const void *key, size_t key_length, void *context,
                          void *arg)
{
    take_note(arg, true, actor, key, key_length, context);
}

static void note_unregister(lanex_actor *actor, const void *key, size_t key_length, void *context,
                            void *arg)
{
    take_note(arg, false, actor, key, key_length, context);
}

static void assert_note(const struct notes *notes, unsigned at, bool registered, const char *key,
                        const void *context)
{
    cr_assert_eq(notes->note[at].registered, registered, "note %u", at);
    cr_assert_str_eq(notes->note[at].key, key);
    cr_assert_eq(notes->note[at].context, context);
}

static lanex_executor *hooked_executor(struct notes *notes)
{
    lanex_actor_hooks hooks = {
        .size = sizeof hooks,
        .on_register = note_register,
        .on_unregister = note_unregister,
        .arg = notes,
    };

    notes->executor = rig_executor();
    LX_REQUIRE(lanex_actor_set_hooks(notes->executor, &hooks) == 0);
    return notes->executor;
}

Test(actors_registry, hooks_follow_in_order)
{
    static struct notes notes;
    lanex_executor *executor = hooked_executor(&notes);
    struct counted first = COUNTED_INIT, second = COUNTED_INIT, third = COUNTED_INIT;
    lanex_actor *actor = counted_actor(executor, "a", &first), *other;

    other = counted_actor(executor, "bcdefg", &second);
    cr_assert_eq(lanex_actor_register(executor, "a", 1, NULL, NULL), 0);
    cr_assert_eq(lanex_actor_hooks_wait(executor), 0);
    cr_assert_eq(latch_count(&notes.count), 2, "one that was there is no registration");
    cr_assert_eq(rig_remove(executor, "a"), 0);
    lanex_actor_unref(actor);
    actor = counted_actor(executor, "a", &third);
    cr_assert_eq(rig_retire(executor, "a"), 0);
    cr_assert_eq(rig_retire(executor, "a"), -ENOENT);
    cr_assert_eq(lanex_actor_hooks_wait(executor), 0);
    cr_assert_eq(latch_count(&notes.count), 5);
    cr_assert_eq(latch_count(&first.released), 1);
    cr_assert_eq(latch_count(&third.torn_down), 1);
    cr_assert_eq(latch_count(&third.released), 1);
    assert_note(&notes, 0, true, "a", &first);
    assert_note(&notes, 1, true, "bcdefg", &second);
    assert_note(&notes, 2, false, "a", &first);
    assert_note(&notes, 3, true, "a", &third);
    assert_note(&notes, 4, false, "a", &third);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_str_eq(notes.note[i].thread, "lanex-reap");
    lanex_actor_unref(actor);
    lanex_actor_unref(other);
    /* The rest of them, at the executor's end. */
    cr_assert_eq(lanex_actor_register(executor, "x", 1, NULL, NULL), 1);
    rig_destroy_executor(executor);
    cr_assert_eq(latch_count(&notes.count), 8);
    assert_note(&notes, 5, true, "x", NULL);
    assert_note(&notes, 6, false, "bcdefg", &second);
    assert_note(&notes, 7, false, "x", NULL);
    cr_assert_eq(latch_count(&second.released), 1);
}

Test(actors_registry, hooks_are_set_once_and_first)
{
    static struct notes notes;
    lanex_executor *executor = rig_executor();
    lanex_actor_hooks hooks = {.size = sizeof hooks, .arg = &notes};

    cr_assert_eq(lanex_actor_set_hooks(NULL, &hooks), -EINVAL);
    cr_assert_eq(lanex_actor_set_hooks(executor, NULL), -EINVAL);
    hooks.size = 1;
    cr_assert_eq(lanex_actor_set_hooks(executor, &hooks), -EINVAL);
    hooks.size = sizeof hooks;
    lanex_actor_unref(rig_actor(executor, "early"));
    cr_assert_eq(lanex_actor_set_hooks(executor, &hooks), -EBUSY);
    cr_assert_eq(rig_remove(executor, "early"), 0);
    hooks.on_unregister = note_unregister;
    cr_assert_eq(lanex_actor_set_hooks(executor, &hooks), 0);
    cr_assert_eq(lanex_actor_set_hooks(executor, &hooks), -EBUSY);
    lanex_actor_unref(rig_actor(executor, "a"));
    cr_assert_eq(rig_remove(executor, "a"), 0);
    cr_assert_eq(lanex_actor_hooks_wait(executor), 0);
    cr_assert_eq(latch_count(&notes.count), 1);
    assert_note(&notes, 0, false, "a", NULL);
    rig_destroy_executor(executor);
}

/* What an actor's end looks like to its user, event by event. */
enum { SAW_UNREGISTER = 1, SAW_ANSWER, SAW_TEARDOWN, SAW_RELEASE };
struct sequence {
    atomic_uint next;
    unsigned seen[8];
};

static void see(struct sequence *sequence, unsigned what)
{
    sequence->seen[atomic_fetch_add(&sequence->next, 1)] = what;
}
static void see_unregister(lanex_actor *actor, const void *key, size_t key_length, void *context,
                           void *arg)
{
    (void)actor;
    (void)key;
    (void)key_length;
    LX_REQUIRE(context == arg);
    see(context, SAW_UNREGISTER);
}
static void see_teardown(void *context)
{
    see(context, SAW_TEARDOWN);
}
static void see_release(void *context)
{
    see(context, SAW_RELEASE);
}
static void see_answer(lanex_completion *completion, void *arg)
{
    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_ACTOR_FATAL);
    see(arg, SAW_ANSWER);
}

Test(actors_registry, unregister_comes_before_all_that_follows_from_it)
{
    lanex_executor *executor = rig_executor();
    struct sequence sequence = {0, {0}};
    lanex_actor_hooks hooks = {
        .size = sizeof hooks, .on_unregister = see_unregister, .arg = &sequence};
    lanex_actor_options options = {
        .size = sizeof options,
        .context = &sequence,
        .context_teardown = see_teardown,
        .context_release = see_release,
    };
    struct rig_block block = {LATCH_INIT, LATCH_INIT};
    lanex_job_options job = rig_job(LANEX_LANE_MUTATING, rig_block, &block);
    lanex_actor *actor = NULL;
    lanex_ticket *running;

    cr_assert_eq(lanex_actor_set_hooks(executor, &hooks), 0);
    cr_assert_eq(lanex_actor_register(executor, "a", 1, &options, &actor), 1);
    running = rig_submit(actor, &job);
    latch_wait(&block.entered, 1);
    job.run = must_not_run;
    job.sink = (lanex_sink){
        .kind = LANEX_SINK_CALLBACK, .callback = see_answer, .callback_arg = &sequence};
    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    cr_assert_eq(rig_remove(executor, "a"), 0);
    LX_EVENTUALLY(atomic_load(&sequence.next) == 2);
    latch_arrive(&block.leave);
    rig_expect(running, LANEX_STATUS_OK);
    LX_EVENTUALLY(atomic_load(&sequence.next) == 3);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_actor_register(executor, "a", 1, &options, NULL), 1);
    cr_assert_eq(rig_retire(executor, "a"), 0);
    LX_EVENTUALLY(atomic_load(&sequence.next) == 6);
    rig_destroy_executor(executor);
    cr_assert_arr_eq(sequence.seen,
                     ((unsigned[]){SAW_UNREGISTER, SAW_ANSWER, SAW_RELEASE, SAW_UNREGISTER,
                                   SAW_TEARDOWN, SAW_RELEASE}),
                     6 * sizeof(unsigned));
    cr_assert_eq(atomic_load(&sequence.next), 6);
}

/* Answers every registration of "a" by one of "b", and back, until there were enough. */
static void register_another(lanex_actor *actor, const void *key, size_t key_length, void *context,
                             void *arg)
{
    struct notes *notes = arg;
    lanex_executor *executor = notes->executor;
    lanex_actor_list *list = NULL;

    take_note(notes, true, actor, key, key_length, context);
    LX_REQUIRE(lanex_actor_hooks_wait(executor) == -EDEADLK);
    LX_REQUIRE(lanex_executor_destroy(executor) == -EDEADLK);
    LX_REQUIRE(lanex_actor_entries(executor, &list) == 0);
    lanex_actor_entries_free(list);
    if (latch_count(&notes->count) == 10)
        return;
    LX_REQUIRE(lanex_actor_remove(executor, key, key_length) == 0);
    LX_REQUIRE(
        lanex_actor_register(executor, memcmp(key, "a", 1) == 0 ? "b" : "a", 1, NULL, NULL) == 1);
}

static void destroy_inside(lanex_actor *actor, const void *key, size_t key_length, void *context,
                           void *arg)
{
    struct notes *notes = arg;

    (void)actor;
    (void)key;
    (void)key_length;
    (void)context;
    LX_REQUIRE(lanex_executor_destroy(notes->executor) == -EDEADLK);
}

Test(actors_registry, a_hook_may_register_and_remove)
{
    static struct notes notes;
    lanex_executor *executor = rig_executor();
    lanex_actor_hooks hooks = {
        .size = sizeof hooks,
        .on_register = register_another,
        .on_unregister = destroy_inside,
        .arg = &notes,
    };

    notes.executor = executor;
    cr_assert_eq(lanex_actor_set_hooks(executor, &hooks), 0);
    cr_assert_eq(lanex_actor_register(executor, "a", 1, NULL, NULL), 1);
    latch_wait(&notes.count, 10);
    for (unsigned i = 0; i < 10; i++)
        assert_note(&notes, i, true, i % 2 == 0 ? "a" : "b", NULL);
    rig_destroy_executor(executor);
}

/* ---- many threads at it ---- */

#define CHURN_KEYS    3u
#define CHURN_THREADS 3u
#define CHURN_OPS     2000u

struct churn {
    lanex_executor *executor;
    atomic_uint retained; /* contexts that were handed over */
    atomic_uint released; /* and given back */
    atomic_uint torn_down;
    atomic_uint retired;
    atomic_uint answers, submitted;
    int registered[CHURN_KEYS]; /* by the hooks alone */
    uint64_t seed;
};

static void churn_register(lanex_actor *actor, const void *key, size_t key_length, void *context,
                           void *arg)
{
    struct churn *churn = arg;
    unsigned at = *(const unsigned char *)key;

    (void)actor;
    LX_REQUIRE(key_length == 1 && context != NULL);
    LX_REQUIRE(churn->registered[at]++ == 0);
}

static void churn_unregister(lanex_actor *actor, const void *key, size_t key_length, void *context,
                             void *arg)
{
    struct churn *churn = arg;
    unsigned at = *(const unsigned char *)key;

    (void)actor;
    LX_REQUIRE(key_length == 1 && context != NULL);
    LX_REQUIRE(churn->registered[at]-- == 1);
}

/* A context is its own memory, so that a sanitizer sees a use after its end. */
struct churn_context {
    struct churn *churn;
    bool torn_down;
};

static void churn_teardown(void *context)
{
    struct churn_context *its = context;

    LX_REQUIRE(!its->torn_down);
    its->torn_down = true;
    atomic_fetch_add(&its->churn->torn_down, 1);
}

static void churn_release(void *context)
{
    struct churn_context *its = context;

    atomic_fetch_add(&its->churn->released, 1);
    free(its);
}

static void churn_body(lanex_job *job, void *context, void *arg)
{
    struct churn_context *its = context;

    (void)job;
    LX_REQUIRE(its->churn == arg && !its->torn_down);
}

static void churn_answer(lanex_completion *completion, void *arg)
{
    struct churn *churn = arg;

    (void)completion;
    atomic_fetch_add(&churn->answers, 1);
}

static void churn_list(struct churn *churn)
{
    lanex_actor_list *list = NULL;

    LX_REQUIRE(lanex_actor_entries(churn->executor, &list) == 0);
    for (size_t i = 0; i < list->count; i++) {
        struct churn_context *its = list->entries[i].context;
        LX_REQUIRE(its->churn == churn);
    }
    LX_REQUIRE(list->count <= CHURN_KEYS);
    lanex_actor_entries_free(list);
}

static void churn_try_register(struct churn *churn, unsigned char key)
{
    struct churn_context *context = malloc(sizeof *context);
    lanex_actor_options options = {
        .size = sizeof options,
        .context = context,
        .context_teardown = churn_teardown,
        .context_release = churn_release,
    };
    int rc;

    LX_REQUIRE(context != NULL);
    *context = (struct churn_context){churn, false};
    rc = lanex_actor_register(churn->executor, &key, 1, &options, NULL);
    if (rc == 1)
        atomic_fetch_add(&churn->retained, 1);
    else
        free(context);
    LX_REQUIRE(rc == 0 || rc == 1);
}

static void churn_once(struct churn *churn, struct lx_rng *rng)
{
    unsigned char key = (unsigned char)lx_rng_below(rng, CHURN_KEYS);
    lanex_job_options job = rig_job((enum lanex_lane)lx_rng_below(rng, 5), churn_body, churn);
    int rc;

    switch (lx_rng_below(rng, 6)) {
    case 0:
        churn_try_register(churn, key);
        break;
    case 1:
        rc = lanex_actor_remove(churn->executor, &key, 1);
        LX_REQUIRE(rc == 0 || rc == -ENOENT);
        break;
    case 2:
        rc = lanex_actor_retire(churn->executor, &key, 1);
        LX_REQUIRE(rc == 0 || rc == -ENOENT || rc == -EBUSY);
        atomic_fetch_add(&churn->retired, rc == 0);
        break;
    case 3:
        churn_list(churn);
        break;
    default:
        job.sink = (lanex_sink){
            .kind = LANEX_SINK_CALLBACK, .callback = churn_answer, .callback_arg = churn};
        LX_REQUIRE(lanex_submit_by_key(churn->executor, &key, 1, &job, NULL) == 0);
        atomic_fetch_add(&churn->submitted, 1);
        break;
    }
}

static void *churn_thread(void *arg)
{
    struct churn *churn = arg;
    static atomic_uint threads;
    struct lx_rng rng = lx_rng_seeded(churn->seed + atomic_fetch_add(&threads, 1));

    for (uint64_t left = lx_test_scaled(CHURN_OPS); left > 0; left--)
        churn_once(churn, &rng);
    return NULL;
}

Test(actors_registry, every_context_ends_once_under_churn)
{
    static struct churn churn;
    lanex_actor_hooks hooks = {
        .size = sizeof hooks,
        .on_register = churn_register,
        .on_unregister = churn_unregister,
        .arg = &churn,
    };
    pthread_t threads[CHURN_THREADS];

    churn.executor = rig_executor();
    churn.seed = lx_test_seed();
    cr_assert_eq(lanex_actor_set_hooks(churn.executor, &hooks), 0);
    for (unsigned i = 0; i < CHURN_THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, churn_thread, &churn), 0);
    for (unsigned i = 0; i < CHURN_THREADS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    rig_destroy_executor(churn.executor);
    cr_assert_gt(atomic_load(&churn.retained), 0);
    cr_assert_eq(atomic_load(&churn.released), atomic_load(&churn.retained));
    cr_assert_eq(atomic_load(&churn.torn_down), atomic_load(&churn.retired));
    cr_assert_eq(atomic_load(&churn.answers), atomic_load(&churn.submitted));
    for (unsigned i = 0; i < CHURN_KEYS; i++)
        cr_assert_eq(churn.registered[i], 0);
}

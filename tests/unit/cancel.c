/* Cancellation tokens: the race of cancel and seal, and the waits that a token ends. */
#include "tests/support/lx_test.h"

#include "sync/cancel.h"
#include "sync/futex.h"

#include <errno.h>
#include <pthread.h>

TestSuite(cancel, .timeout = 120);

#define ODD_ERRNO 1234

static lanex_cancellation *new_token(void)
{
    lanex_cancellation *t = NULL;
    cr_assert_eq(lanex_cancellation_create(&t), 0);
    cr_assert_not_null(t);
    return t;
}

Test(cancel, a_new_token_is_pending)
{
    lanex_cancellation *t = new_token();
    cr_assert_eq(lanex_cancellation_state(t), LANEX_CANCELLATION_PENDING);
    cr_assert(!lanex_cancellation_is_cancelled(t));
    lanex_cancellation_unref(t);
    cr_assert_eq(lanex_cancellation_create(NULL), -EINVAL);
}

/* Brings a fresh token into a state by the calls that lead there. */
static lanex_cancellation *token_in(int state)
{
    lanex_cancellation *t = new_token();
    if (state == LANEX_CANCELLATION_RUNNING)
        cr_assert(lx_cancellation_start(t));
    else if (state == LANEX_CANCELLATION_COMMITTED)
        cr_assert(lanex_cancellation_seal(t));
    else if (state == LANEX_CANCELLATION_CANCELLED)
        cr_assert_eq(lanex_cancellation_cancel(t), LANEX_CANCELLATION_PENDING);
    cr_assert_eq(lanex_cancellation_state(t), state);
    return t;
}

Test(cancel, every_call_in_every_state)
{
    static const struct {
        int state, after_cancel, after_seal, after_start;
        bool sealed, started;
    } rows[] = {
        {LANEX_CANCELLATION_PENDING, LANEX_CANCELLATION_CANCELLED, LANEX_CANCELLATION_COMMITTED,
         LANEX_CANCELLATION_RUNNING, true, true},
        {LANEX_CANCELLATION_RUNNING, LANEX_CANCELLATION_CANCELLED, LANEX_CANCELLATION_COMMITTED,
         LANEX_CANCELLATION_RUNNING, true, true},
        {LANEX_CANCELLATION_COMMITTED, LANEX_CANCELLATION_COMMITTED, LANEX_CANCELLATION_COMMITTED,
         LANEX_CANCELLATION_COMMITTED, true, true},
        {LANEX_CANCELLATION_CANCELLED, LANEX_CANCELLATION_CANCELLED, LANEX_CANCELLATION_CANCELLED,
         LANEX_CANCELLATION_CANCELLED, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lanex_cancellation *t = token_in(rows[i].state);
        cr_assert_eq(lanex_cancellation_cancel(t), rows[i].state, "cancel says what it met");
        cr_assert_eq(lanex_cancellation_state(t), rows[i].after_cancel);
        lanex_cancellation_unref(t);

        t = token_in(rows[i].state);
        cr_assert_eq(lanex_cancellation_seal(t), rows[i].sealed);
        cr_assert_eq(lanex_cancellation_state(t), rows[i].after_seal);
        cr_assert_eq(lanex_cancellation_seal(t), rows[i].sealed, "sealing again says the same");
        lanex_cancellation_unref(t);

        t = token_in(rows[i].state);
        cr_assert_eq(lx_cancellation_start(t), rows[i].started);
        cr_assert_eq(lanex_cancellation_state(t), rows[i].after_start);
        lanex_cancellation_unref(t);
    }
}

Test(cancel, null_is_no_token)
{
    cr_assert_eq(lanex_cancellation_cancel(NULL), -EINVAL);
    cr_assert_eq(lanex_cancellation_state(NULL), -EINVAL);
    cr_assert(lanex_cancellation_seal(NULL));
    cr_assert(!lanex_cancellation_is_cancelled(NULL));
    cr_assert_null(lanex_cancellation_ref(NULL));
    lanex_cancellation_unref(NULL);
}

Test(cancel, a_token_is_given_to_one_job_only)
{
    lanex_cancellation *t = new_token();
    cr_assert_eq(lx_cancellation_bind(t), 0);
    cr_assert_eq(lx_cancellation_bind(t), -EBUSY);
    cr_assert_eq(lanex_cancellation_state(t), LANEX_CANCELLATION_PENDING);
    cr_assert(lx_cancellation_start(t));
    cr_assert_eq(lx_cancellation_bind(t), -EBUSY, "the mark outlives the changes of state");
    lanex_cancellation_unref(t);
}

Test(cancel, references_keep_it_and_an_embedded_one_has_none)
{
    lanex_cancellation *t = new_token();
    cr_assert_eq(lanex_cancellation_ref(t), t);
    lanex_cancellation_unref(t);
    cr_assert_eq(lanex_cancellation_cancel(t), LANEX_CANCELLATION_PENDING, "still alive");
    lanex_cancellation_unref(t);

    lanex_cancellation embedded;
    lx_cancellation_init_embedded(&embedded);
    cr_assert_null(lanex_cancellation_ref(&embedded));
    cr_assert(lanex_cancellation_seal(&embedded));
}

static void *look_at_current(void *argument)
{
    lanex_cancellation **seen = argument;
    *seen = lanex_current_cancellation();
    return NULL;
}

Test(cancel, the_current_token_belongs_to_the_thread)
{
    cr_assert_null(lanex_current_cancellation());
    cr_assert(lanex_seal(), "no token: nothing can have been cancelled");
    cr_assert(!lanex_cancelled());

    lanex_cancellation *outer = new_token();
    lanex_cancellation *inner = new_token();
    cr_assert_null(lanex_cancellation_install(outer));
    cr_assert_eq(lanex_cancellation_install(inner), outer);
    cr_assert_eq(lanex_current_cancellation(), inner);
    cr_assert_eq(lanex_cancellation_cancel(inner), LANEX_CANCELLATION_PENDING);
    cr_assert(lanex_cancelled());
    cr_assert(!lanex_seal());
    cr_assert_eq(lanex_cancellation_install(outer), inner);
    cr_assert(!lanex_cancelled());
    cr_assert(lanex_seal());
    cr_assert_eq(lanex_cancellation_state(outer), LANEX_CANCELLATION_COMMITTED);

    lanex_cancellation *seen = outer;
    pthread_t other;
    cr_assert_eq(pthread_create(&other, NULL, look_at_current, &seen), 0);
    cr_assert_eq(pthread_join(other, NULL), 0);
    cr_assert_null(seen, "another thread has none");

    lx_cancellation_set_current(NULL);
    cr_assert_null(lanex_current_cancellation());
    lanex_cancellation_unref(inner);
    lanex_cancellation_unref(outer);
}

/* Two threads, many tokens: each token has one winner, and both sides agree who it is. */
struct race {
    lanex_cancellation *tokens;
    bool *sealed;
    unsigned count;
    _Atomic unsigned turn; /* how many tokens the sealer has begun with */
};

static void *seal_all(void *argument)
{
    struct race *race = argument;
    for (unsigned i = 0; i < race->count; i++) {
        atomic_store(&race->turn, i + 1);
        race->sealed[i] = lanex_cancellation_seal(&race->tokens[i]);
    }
    return NULL;
}

Test(cancel, cancel_and_seal_have_one_winner)
{
    struct race race = {.count = (unsigned)lx_test_scaled(200000)};
    race.tokens = calloc(race.count, sizeof *race.tokens);
    race.sealed = calloc(race.count, sizeof *race.sealed);
    for (unsigned i = 0; i < race.count; i++)
        lx_cancellation_init_embedded(&race.tokens[i]);
    int *met = calloc(race.count, sizeof *met);
    pthread_t sealer;
    cr_assert_eq(pthread_create(&sealer, NULL, seal_all, &race), 0);
    for (unsigned i; (i = atomic_load(&race.turn)) < race.count;) {
        if (met[i] == 0)
            met[i] = lanex_cancellation_cancel(&race.tokens[i]);
    }
    cr_assert_eq(pthread_join(sealer, NULL), 0);
    for (unsigned i = 0; i < race.count; i++) {
        bool cancelled = met[i] == LANEX_CANCELLATION_PENDING;
        cr_assert_neq(cancelled, race.sealed[i], "token %u: cancel met %d", i, met[i]);
    }
    free(met);
    free(race.sealed);
    free(race.tokens);
}

struct sleeper {
    lanex_cancellation *token;
    _Atomic uint32_t word;
    uint64_t deadline;
    int result;
    int errno_after;
};

static void *sleep_on_both(void *argument)
{
    struct sleeper *s = argument;
    errno = ODD_ERRNO;
    do
        s->result = lx_cancellation_wait(s->token, &s->word, 0, s->deadline);
    while (s->result == 0);
    s->errno_after = errno;
    return NULL;
}

static bool watched(const lanex_cancellation *t)
{
    return (atomic_load(&t->word) & LX_CANCELLATION_WATCHED) != 0;
}

static void cancel_wakes(bool slices)
{
    lx_cancellation_force_slices(slices);
    for (unsigned round = 0; round < 200; round++) {
        struct sleeper s = {.token = new_token(), .deadline = LANEX_TIME_NEVER};
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, sleep_on_both, &s), 0);
        if (round % 2)
            LX_EVENTUALLY(watched(s.token));
        cr_assert_eq(lanex_cancellation_cancel(s.token), LANEX_CANCELLATION_PENDING);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        cr_assert_eq(s.result, -ECANCELED);
        cr_assert_eq(s.errno_after, ODD_ERRNO);
        lanex_cancellation_unref(s.token);
    }
    lx_cancellation_force_slices(false);
}

Test(cancel, cancelling_wakes_a_sleeper)
{
    cancel_wakes(false);
}

Test(cancel, cancelling_is_noticed_where_waitv_is_refused)
{
    cancel_wakes(true);
}

static void word_wakes(bool with_token, bool slices)
{
    lx_cancellation_force_slices(slices);
    struct sleeper s = {.token = with_token ? new_token() : NULL, .deadline = LANEX_TIME_NEVER};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, sleep_on_both, &s), 0);
    /* The word stays as it is: what must end the sleep is the wake. */
    LX_EVENTUALLY(lx_futex_wake(&s.word, 1) == 1);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(s.result, 1);
    cr_assert_eq(s.errno_after, ODD_ERRNO);
    lanex_cancellation_unref(s.token);
    lx_cancellation_force_slices(false);
}

Test(cancel, a_wake_of_the_word_ends_the_wait)
{
    word_wakes(false, false);
    word_wakes(true, false);
    word_wakes(true, true);
}

static void time_ends(bool with_token, bool slices)
{
    lx_cancellation_force_slices(slices);
    struct sleeper s = {.token = with_token ? new_token() : NULL};
    uint64_t start = lx_test_now_ns();
    s.deadline = start + 5 * LX_CANCELLATION_SLICE_NS / 2;
    sleep_on_both(&s);
    cr_assert_eq(s.result, -ETIMEDOUT);
    cr_assert_eq(s.errno_after, ODD_ERRNO);
    cr_assert_geq(lx_test_now_ns(), s.deadline, "not before its time");
    s.deadline = 0;
    sleep_on_both(&s);
    cr_assert_eq(s.result, -ETIMEDOUT, "a time long past");
    lanex_cancellation_unref(s.token);
    lx_cancellation_force_slices(false);
}

Test(cancel, time_ends_the_wait)
{
    time_ends(false, false);
    time_ends(true, false);
    time_ends(true, true);
}

Test(cancel, a_word_that_differs_is_not_slept_on)
{
    _Atomic uint32_t word = 7;
    lanex_cancellation *t = new_token();
    errno = ODD_ERRNO;
    cr_assert_eq(lx_cancellation_wait(NULL, &word, 6, LANEX_TIME_NEVER), 0);
    cr_assert_eq(lx_cancellation_wait(t, &word, 6, LANEX_TIME_NEVER), 0);
    cr_assert_eq(lx_cancellation_wait(t, &word, 6, 1), -ETIMEDOUT, "but time counts");
    cr_assert_eq(lanex_cancellation_cancel(t), LANEX_CANCELLATION_PENDING);
    cr_assert_eq(lx_cancellation_wait(t, &word, 7, LANEX_TIME_NEVER), -ECANCELED);
    cr_assert_eq(errno, ODD_ERRNO);
    lanex_cancellation_unref(t);
}

#define MUTEX_THREADS 4

struct counted {
    struct lx_mutex mutex;
    unsigned plain;
    unsigned each;
};

static void *count_up(void *argument)
{
    struct counted *c = argument;
    for (unsigned i = 0; i < c->each; i++) {
        if (i % 3 || !lx_mutex_trylock(&c->mutex))
            lx_mutex_lock(&c->mutex);
        c->plain++;
        lx_mutex_unlock(&c->mutex);
    }
    return NULL;
}

Test(cancel, the_cold_mutex_excludes)
{
    struct counted c = {.each = (unsigned)lx_test_scaled(100000)};
    pthread_t threads[MUTEX_THREADS];
    for (unsigned i = 0; i < MUTEX_THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count_up, &c), 0);
    for (unsigned i = 0; i < MUTEX_THREADS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    cr_assert_eq(c.plain, MUTEX_THREADS * c.each);
    cr_assert(lx_mutex_trylock(&c.mutex));
    cr_assert(!lx_mutex_trylock(&c.mutex));
    lx_mutex_unlock(&c.mutex);
}

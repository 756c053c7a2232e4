#include "sync/cancel.h"

#include "sync/assert.h"
#include "sync/futex.h"
#include "sync/seams.h"

#include <errno.h>

/* How lx_cancellation_wait waits. Decided by the first refusal, for the whole process. */
enum { WAITV_UNTRIED_OR_GOOD, WAITV_REFUSED, WAITV_OFF_FOR_TEST };
static _Atomic int waitv_mode = WAITV_UNTRIED_OR_GOOD;

_Thread_local lanex_cancellation *lx_cancellation_current
    __attribute__((tls_model("initial-exec"))) = NULL;

int lanex_cancellation_create(lanex_cancellation **ret_token)
{
    if (!ret_token)
        return -EINVAL;
    lanex_cancellation *t = lx_allocate(sizeof *t);
    if (!t)
        return -ENOMEM;
    atomic_init(&t->word, LX_CANCELLATION_PENDING);
    atomic_init(&t->refs, 1);
    *ret_token = t;
    return 0;
}

lanex_cancellation *lanex_cancellation_ref(lanex_cancellation *token)
{
    if (!token)
        return NULL;
    /* relaxed: a new reference is made from one that already keeps the token alive */
    if (atomic_load_explicit(&token->refs, memory_order_relaxed) == LX_CANCELLATION_EMBEDDED)
        return NULL;
    uint32_t before = atomic_fetch_add_explicit(&token->refs, 1, memory_order_relaxed);
    LX_ASSERT(before != 0 && before != UINT32_MAX);
    return token;
}

void lanex_cancellation_unref(lanex_cancellation *token)
{
    if (!token)
        return;
    /* acq_rel: partners are the other threads' fetch_sub here: the last one frees after all uses */
    uint32_t before = atomic_fetch_sub_explicit(&token->refs, 1, memory_order_acq_rel);
    LX_ASSERT(before != LX_CANCELLATION_EMBEDDED);
    if (before == 1)
        lx_release(token);
}

/* pending|running -> `to`, the marks kept. Returns the whole word that it met. */
static uint32_t move(lanex_cancellation *t, uint32_t to)
{
    uint32_t w = atomic_load_explicit(&t->word, memory_order_acquire);
    for (;;) {
        uint32_t state = w & LX_CANCELLATION_STATE_MASK;
        if (state == LX_CANCELLATION_COMMITTED || state == LX_CANCELLATION_CANCELLED)
            return w;
        if (state == to)
            return w;
        uint32_t next = (w & ~LX_CANCELLATION_STATE_MASK) | to;
        /* acq_rel: partners are the same compare-exchange on other threads and the load in
         * lx_cancellation_load. On failure acquire, for the final states returned above. */
        if (atomic_compare_exchange_weak_explicit(&t->word, &w, next, memory_order_acq_rel,
                                                  memory_order_acquire))
            return w;
    }
}

static int public_state(uint32_t word)
{
    _Static_assert(LANEX_CANCELLATION_PENDING == LX_CANCELLATION_PENDING + 1 &&
                       LANEX_CANCELLATION_RUNNING == LX_CANCELLATION_RUNNING + 1 &&
                       LANEX_CANCELLATION_COMMITTED == LX_CANCELLATION_COMMITTED + 1 &&
                       LANEX_CANCELLATION_CANCELLED == LX_CANCELLATION_CANCELLED + 1,
                   "the public state is the word's, counted from one");
    return (int)(word & LX_CANCELLATION_STATE_MASK) + 1;
}

int lanex_cancellation_cancel(lanex_cancellation *token)
{
    if (!token)
        return -EINVAL;
    uint32_t met = move(token, LX_CANCELLATION_CANCELLED);
    int state = public_state(met);
    bool won = state == LANEX_CANCELLATION_PENDING || state == LANEX_CANCELLATION_RUNNING;
    /* `met` is the word that the compare-exchange replaced. A WATCHED set later was set on a word
     * that already said cancelled, and its setter looks at what it met. */
    if (won && (met & LX_CANCELLATION_WATCHED))
        (void)lx_futex_wake(&token->word, LX_FUTEX_ALL);
    return state;
}

bool lanex_cancellation_seal(lanex_cancellation *token)
{
    if (!token)
        return true;
    uint32_t met = move(token, LX_CANCELLATION_COMMITTED);
    return (met & LX_CANCELLATION_STATE_MASK) != LX_CANCELLATION_CANCELLED;
}

bool lanex_cancellation_is_cancelled(const lanex_cancellation *token)
{
    return token && lx_cancellation_load(token) == LX_CANCELLATION_CANCELLED;
}

int lanex_cancellation_state(const lanex_cancellation *token)
{
    if (!token)
        return -EINVAL;
    return public_state(lx_cancellation_load(token));
}

lanex_cancellation *lanex_current_cancellation(void)
{
    return lx_cancellation_current;
}

lanex_cancellation *lanex_cancellation_install(lanex_cancellation *token)
{
    lanex_cancellation *before = lx_cancellation_current;
    lx_cancellation_current = token;
    return before;
}

bool lanex_seal(void)
{
    return lanex_cancellation_seal(lx_cancellation_current);
}

bool lanex_cancelled(void)
{
    return lanex_cancellation_is_cancelled(lx_cancellation_current);
}

bool lx_cancellation_start(lanex_cancellation *t)
{
    uint32_t met = move(t, LX_CANCELLATION_RUNNING);
    return (met & LX_CANCELLATION_STATE_MASK) != LX_CANCELLATION_CANCELLED;
}

int lx_cancellation_bind(lanex_cancellation *t)
{
    /* relaxed: only the mark itself is decided here */
    uint32_t met = atomic_fetch_or_explicit(&t->word, LX_CANCELLATION_BOUND, memory_order_relaxed);
    return met & LX_CANCELLATION_BOUND ? -EBUSY : 0;
}

void lx_cancellation_unbind(lanex_cancellation *t)
{
    /* relaxed: as above */
    atomic_fetch_and_explicit(&t->word, ~LX_CANCELLATION_BOUND, memory_order_relaxed);
}

void lx_cancellation_force_slices(bool on)
{
    atomic_store_explicit(&waitv_mode, on ? WAITV_OFF_FOR_TEST : WAITV_UNTRIED_OR_GOOD,
                          memory_order_relaxed);
}

/* Turns what a futex call said into what lx_cancellation_wait says, but for cancellation. */
static int wait_result(int r, uint64_t deadline_ns)
{
    if (r == 0)
        return 1;
    if (r == -ETIMEDOUT)
        return -ETIMEDOUT;
    LX_ASSERT(r == -EAGAIN || r == -EINTR);
    /* The kernel looks at the word before the time: a word that never stands still must not keep a
     * waiter beyond its deadline. */
    if (deadline_ns != LANEX_TIME_NEVER && lx_futex_now() >= deadline_ns)
        return -ETIMEDOUT;
    return 0;
}

static int wait_slice(lanex_cancellation *t, const void *word, uint32_t expected,
                      uint64_t deadline_ns)
{
    uint64_t slice_end = lx_futex_now() + LX_CANCELLATION_SLICE_NS;
    uint64_t until = slice_end < deadline_ns ? slice_end : deadline_ns;
    int r = lx_futex_wait(word, expected, until);
    if (lx_cancellation_load(t) == LX_CANCELLATION_CANCELLED)
        return -ECANCELED;
    if (r == -ETIMEDOUT && until < deadline_ns)
        return 0;
    return wait_result(r, deadline_ns);
}

int lx_cancellation_wait(lanex_cancellation *t, const void *word, uint32_t expected,
                         uint64_t deadline_ns)
{
    if (!t)
        return wait_result(lx_futex_wait(word, expected, deadline_ns), deadline_ns);
    /* acq_rel: partner is the compare-exchange of a cancel. Both are read-modify-writes of one
     * word: either this sees cancelled, or the cancel sees WATCHED and wakes. */
    uint32_t w = atomic_fetch_or_explicit(&t->word, LX_CANCELLATION_WATCHED, memory_order_acq_rel);
    w |= LX_CANCELLATION_WATCHED;
    if ((w & LX_CANCELLATION_STATE_MASK) == LX_CANCELLATION_CANCELLED)
        return -ECANCELED;
    if (atomic_load_explicit(&waitv_mode, memory_order_relaxed) != WAITV_UNTRIED_OR_GOOD)
        return wait_slice(t, word, expected, deadline_ns);
    int r = lx_futex_wait_two(word, expected, &t->word, w, deadline_ns);
    if (r != 0 && r != -ETIMEDOUT && r != -EAGAIN && r != -EINTR) {
        /* ENOSYS from an old kernel or valgrind, EPERM and others from seccomp filters. ENOMEM is
         * for this once. */
        if (r != -ENOMEM)
            atomic_store_explicit(&waitv_mode, WAITV_REFUSED, memory_order_relaxed);
        return wait_slice(t, word, expected, deadline_ns);
    }
    if (lx_cancellation_load(t) == LX_CANCELLATION_CANCELLED)
        return -ECANCELED;
    return wait_result(r, deadline_ns);
}

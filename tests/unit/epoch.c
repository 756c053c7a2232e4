/* The epoch lock: what each call does in each state, and who passes whom. */
#include "tests/support/lx_test.h"

#include "sync/cancel.h"
#include "sync/epoch.h"
#include "sync/futex.h"

#include <errno.h>
#include <pthread.h>

TestSuite(epoch, .timeout = 120);

#define ODD_ERRNO 1234
#define MS        UINT64_C(1000000)

/* The counts inside the word: how tests see that a thread has lined up. */
static unsigned readers(const lanex_epoch *e)
{
    return (unsigned)(lx_epoch_peek(e) & LX_EPOCH_READERS);
}
static unsigned blocked(const lanex_epoch *e)
{
    return (unsigned)((lx_epoch_peek(e) & LX_EPOCH_BLOCKED) / LX_EPOCH_BLOCKED_ONE);
}
static unsigned queued(const lanex_epoch *e)
{
    return (unsigned)((lx_epoch_peek(e) & LX_EPOCH_QUEUED) / LX_EPOCH_QUEUED_ONE);
}

/* A thread that acquires once, notes its place in the order of entering, and releases when told. */
struct visitor {
    lanex_epoch *epoch;
    _Atomic unsigned *order; /* shared: how many have entered */
    struct latch *leave;     /* NULL: releases at once */
    lanex_cancellation *token;
    uint64_t deadline;
    bool writer;
    _Atomic bool entered;
    unsigned place;
    int result;
    int errno_after;
    pthread_t thread;
};

static void *visit(void *argument)
{
    struct visitor *v = argument;
    errno = ODD_ERRNO;
    v->result = v->writer ? lanex_epoch_write_acquire_until(v->epoch, v->deadline, v->token)
                          : lanex_epoch_read_acquire_until(v->epoch, v->deadline, v->token);
    if (v->result == 0) {
        int kept = errno;
        v->place = atomic_fetch_add(v->order, 1);
        atomic_store(&v->entered, true);
        if (v->leave)
            latch_wait(v->leave, 1);
        errno = kept; /* what the latch did to it is not the lock's */
        if (v->writer)
            lanex_epoch_write_release(v->epoch);
        else
            lanex_epoch_read_release(v->epoch);
    }
    v->errno_after = errno;
    return NULL;
}

static void start(struct visitor *v)
{
    cr_assert_eq(pthread_create(&v->thread, NULL, visit, v), 0);
}

static void end(struct visitor *v, int result)
{
    cr_assert_eq(pthread_join(v->thread, NULL), 0);
    cr_assert_eq(v->result, result, "result %d", v->result);
    cr_assert_eq(v->errno_after, ODD_ERRNO);
}

static struct visitor visitor(lanex_epoch *e, _Atomic unsigned *order, bool writer)
{
    return (struct visitor){
        .epoch = e, .order = order, .writer = writer, .deadline = LANEX_TIME_NEVER};
}

Test(epoch, is_one_word)
{
    cr_assert_eq(sizeof(lanex_epoch), 8);
    lanex_epoch a = LANEX_EPOCH_INIT;
    lanex_epoch b;
    memset(&b, 0xff, sizeof b);
    lanex_epoch_init(&b);
    cr_assert_eq(a.private_state, b.private_state);
    lanex_epoch_fini(&a);
    lanex_epoch_fini(NULL);
}

Test(epoch, try_forms_in_every_state)
{
    lanex_epoch e = LANEX_EPOCH_INIT;
    errno = ODD_ERRNO;
    cr_assert_eq(lanex_epoch_read_try_acquire(&e), 0);
    cr_assert_eq(lanex_epoch_read_try_acquire(&e), 0, "readers share");
    cr_assert_eq(lanex_epoch_write_try_acquire(&e), -EBUSY);
    lanex_epoch_read_release(&e);
    cr_assert_eq(lanex_epoch_write_try_acquire(&e), -EBUSY);
    lanex_epoch_read_release(&e);
    cr_assert_eq(lanex_epoch_write_try_acquire(&e), 0);
    cr_assert_eq(lanex_epoch_write_try_acquire(&e), -EBUSY);
    cr_assert_eq(lanex_epoch_read_try_acquire(&e), -EBUSY);
    cr_assert(!lanex_epoch_writer_waiting(&e), "one holds, none waits");
    lanex_epoch_write_release(&e);
    cr_assert_eq(errno, ODD_ERRNO);
    lanex_epoch_fini(&e);
}

Test(epoch, a_waiting_writer_closes_the_door_and_a_try_says_so)
{
    lanex_epoch e = LANEX_EPOCH_INIT;
    _Atomic unsigned order = 0;
    struct visitor w = visitor(&e, &order, true);
    lanex_epoch_read_acquire(&e);
    start(&w);
    LX_EVENTUALLY(lanex_epoch_writer_waiting(&e));
    cr_assert_eq(lanex_epoch_read_try_acquire(&e), -EBUSY, "even inside a read");
    cr_assert_eq(lanex_epoch_write_try_acquire(&e), -EBUSY);
    cr_assert(!atomic_load(&w.entered));
    lanex_epoch_read_release(&e);
    end(&w, 0);
    lanex_epoch_fini(&e);
}

Test(epoch, downgrade_leaves_no_gap_and_lets_readers_in)
{
    for (unsigned round = 0; round < 50; round++) {
        lanex_epoch e = LANEX_EPOCH_INIT;
        _Atomic unsigned order = 0;
        struct latch leave = LATCH_INIT;
        struct visitor r = visitor(&e, &order, false);
        struct visitor w = visitor(&e, &order, true);
        r.leave = &leave;
        lanex_epoch_write_acquire(&e);
        start(&r);
        LX_EVENTUALLY(readers(&e) == 1);
        start(&w);
        LX_EVENTUALLY(queued(&e) == 1);
        lanex_epoch_write_downgrade(&e);
        LX_EVENTUALLY(atomic_load(&r.entered));
        cr_assert_eq(readers(&e), 2, "the reader is inside beside the downgraded writer");
        latch_arrive(&leave);
        end(&r, 0);
        cr_assert(!atomic_load(&w.entered), "the downgraded hold keeps writers out");
        lanex_epoch_read_release(&e);
        end(&w, 0);
        cr_assert_eq(w.place, 1);
        lanex_epoch_fini(&e);
    }
}

Test(epoch, a_lone_waiting_writer_is_passed_by_no_later_reader)
{
    for (unsigned round = 0; round < 100; round++) {
        lanex_epoch e = LANEX_EPOCH_INIT;
        _Atomic unsigned order = 0;
        struct visitor w = visitor(&e, &order, true);
        struct visitor r[3];
        bool held_by_writer = round % 2;
        if (held_by_writer)
            lanex_epoch_write_acquire(&e);
        else
            lanex_epoch_read_acquire(&e);
        start(&w);
        LX_EVENTUALLY(queued(&e) == 1);
        for (unsigned i = 0; i < 3; i++) {
            r[i] = visitor(&e, &order, false);
            start(&r[i]);
            LX_EVENTUALLY(blocked(&e) == i + 1);
        }
        if (held_by_writer)
            lanex_epoch_write_release(&e);
        else
            lanex_epoch_read_release(&e);
        end(&w, 0);
        for (unsigned i = 0; i < 3; i++)
            end(&r[i], 0);
        cr_assert_eq(w.place, 0, "%u readers passed the writer", w.place);
        lanex_epoch_fini(&e);
    }
}

Test(epoch, a_waiting_reader_is_passed_by_one_later_writer_at_most)
{
    for (unsigned round = 0; round < 100; round++) {
        lanex_epoch e = LANEX_EPOCH_INIT;
        _Atomic unsigned order = 0;
        struct visitor first = visitor(&e, &order, false);
        struct visitor r = visitor(&e, &order, false);
        struct visitor w[3];
        lanex_epoch_write_acquire(&e);
        start(&first);
        LX_EVENTUALLY(readers(&e) == 1);
        for (unsigned i = 0; i < 2; i++) {
            w[i] = visitor(&e, &order, true);
            start(&w[i]);
            LX_EVENTUALLY(queued(&e) == i + 1);
        }
        start(&r);
        LX_EVENTUALLY(blocked(&e) == 1);
        w[2] = visitor(&e, &order, true);
        start(&w[2]);
        LX_EVENTUALLY(queued(&e) == 3);
        lanex_epoch_write_release(&e);
        end(&first, 0);
        end(&r, 0);
        for (unsigned i = 0; i < 3; i++)
            end(&w[i], 0);
        cr_assert_eq(first.place, 0, "came before any writer waited");
        cr_assert_eq(r.place, 1 + LANEX_EPOCH_BYPASS, "entered as number %u", r.place);
        lanex_epoch_fini(&e);
    }
}

Test(epoch, readers_blocked_behind_a_writer_enter_together)
{
    lanex_epoch e = LANEX_EPOCH_INIT;
    _Atomic unsigned order = 0;
    struct latch leave = LATCH_INIT;
    struct visitor w = visitor(&e, &order, true);
    struct visitor r[4];
    lanex_epoch_read_acquire(&e);
    start(&w);
    LX_EVENTUALLY(queued(&e) == 1);
    for (unsigned i = 0; i < 4; i++) {
        r[i] = visitor(&e, &order, false);
        r[i].leave = &leave;
        start(&r[i]);
    }
    LX_EVENTUALLY(blocked(&e) == 4);
    lanex_epoch_read_release(&e);
    /* Nobody leaves until all four are inside. */
    LX_EVENTUALLY(atomic_load(&order) == 5);
    latch_arrive(&leave);
    end(&w, 0);
    for (unsigned i = 0; i < 4; i++)
        end(&r[i], 0);
    lanex_epoch_fini(&e);
}

Test(epoch, time_ends_a_wait_and_a_free_lock_asks_for_no_time)
{
    lanex_epoch e = LANEX_EPOCH_INIT;
    errno = ODD_ERRNO;
    cr_assert_eq(lanex_epoch_read_acquire_until(&e, 0, NULL), 0);
    uint64_t deadline = lx_test_now_ns() + 3 * MS;
    cr_assert_eq(lanex_epoch_write_acquire_until(&e, deadline, NULL), -ETIMEDOUT);
    cr_assert_geq(lx_test_now_ns(), deadline);
    cr_assert_eq(lanex_epoch_write_acquire_until(&e, 0, NULL), -ETIMEDOUT);
    cr_assert_eq(lanex_epoch_read_try_acquire(&e), 0, "the door is open again");
    lanex_epoch_read_release(&e);
    lanex_epoch_read_release(&e);
    cr_assert_eq(lanex_epoch_write_acquire_until(&e, 0, NULL), 0);
    deadline = lx_test_now_ns() + 3 * MS;
    cr_assert_eq(lanex_epoch_read_acquire_until(&e, deadline, NULL), -ETIMEDOUT);
    cr_assert_geq(lx_test_now_ns(), deadline);
    lanex_epoch_write_release(&e);
    cr_assert_eq(errno, ODD_ERRNO);
    lanex_epoch_fini(&e);
}

/* A writer gives up: readers that were blocked behind it enter beside the reader that holds. */
static void writer_gives_up(bool by_token, bool slices)
{
    lx_cancellation_force_slices(slices);
    lanex_epoch e = LANEX_EPOCH_INIT;
    _Atomic unsigned order = 0;
    struct visitor w = visitor(&e, &order, true);
    struct visitor r[2] = {visitor(&e, &order, false), visitor(&e, &order, false)};
    lanex_epoch_read_acquire(&e);
    if (by_token)
        cr_assert_eq(lanex_cancellation_create(&w.token), 0);
    else
        w.deadline = lx_test_now_ns() + 20 * MS;
    start(&w);
    LX_EVENTUALLY(queued(&e) == 1 || !by_token);
    for (unsigned i = 0; i < 2; i++)
        start(&r[i]);
    if (by_token) {
        LX_EVENTUALLY(blocked(&e) == 2);
        cr_assert_eq(lanex_cancellation_cancel(w.token), LANEX_CANCELLATION_PENDING);
    }
    end(&w, by_token ? -ECANCELED : -ETIMEDOUT);
    for (unsigned i = 0; i < 2; i++)
        end(&r[i], 0);
    lanex_epoch_read_release(&e);
    lanex_cancellation_unref(w.token);
    lanex_epoch_fini(&e);
    lx_cancellation_force_slices(false);
}

Test(epoch, a_writer_that_gives_up_opens_the_door)
{
    for (unsigned round = 0; round < 20; round++) {
        writer_gives_up(false, false);
        writer_gives_up(true, false);
        writer_gives_up(true, true);
    }
}

/* The writers all give up while a writer holds: the readers behind them enter when it leaves. */
Test(epoch, readers_behind_vanished_writers_enter_at_the_release)
{
    for (unsigned round = 0; round < 20; round++) {
        lanex_epoch e = LANEX_EPOCH_INIT;
        _Atomic unsigned order = 0;
        struct visitor w = visitor(&e, &order, true);
        struct visitor r = visitor(&e, &order, false);
        cr_assert_eq(lanex_cancellation_create(&w.token), 0);
        lanex_epoch_write_acquire(&e);
        start(&w);
        LX_EVENTUALLY(queued(&e) == 1);
        start(&r);
        LX_EVENTUALLY(blocked(&e) == 1);
        if (round % 2)
            LX_EVENTUALLY(lx_epoch_peek(&e) & LX_EPOCH_READERS_ASLEEP);
        lanex_cancellation_cancel(w.token);
        end(&w, -ECANCELED);
        cr_assert(!atomic_load(&r.entered));
        lanex_epoch_write_release(&e);
        end(&r, 0);
        lanex_cancellation_unref(w.token);
        lanex_epoch_fini(&e);
    }
}

static void reader_is_cancelled(bool behind_queue, bool slices)
{
    lx_cancellation_force_slices(slices);
    lanex_epoch e = LANEX_EPOCH_INIT;
    _Atomic unsigned order = 0;
    struct visitor w = visitor(&e, &order, true);
    struct visitor r = visitor(&e, &order, false);
    cr_assert_eq(lanex_cancellation_create(&r.token), 0);
    lanex_epoch_write_acquire(&e);
    if (behind_queue) {
        start(&w);
        LX_EVENTUALLY(queued(&e) == 1);
    }
    start(&r);
    LX_EVENTUALLY((behind_queue ? blocked(&e) : readers(&e)) == 1);
    cr_assert_eq(lanex_cancellation_cancel(r.token), LANEX_CANCELLATION_PENDING);
    end(&r, -ECANCELED);
    cr_assert_eq(readers(&e) + blocked(&e), 0, "nothing of it is left");
    cr_assert_eq(lanex_epoch_read_acquire_until(&e, 0, r.token), -ECANCELED);
    lanex_epoch_write_release(&e);
    if (behind_queue)
        end(&w, 0);
    cr_assert_eq(lanex_epoch_read_acquire_until(&e, 0, r.token), -ECANCELED, "free, but cancelled");
    cr_assert_eq(lanex_epoch_write_acquire_until(&e, 0, r.token), -ECANCELED);
    lanex_cancellation_unref(r.token);
    lanex_epoch_fini(&e);
    lx_cancellation_force_slices(false);
}

Test(epoch, a_waiting_reader_can_be_cancelled)
{
    for (unsigned round = 0; round < 20; round++) {
        reader_is_cancelled(false, false);
        reader_is_cancelled(true, false);
        reader_is_cancelled(false, true);
        reader_is_cancelled(true, true);
    }
}

/* A wake for one writer, consumed by one that gives up at that moment, reaches the other. */
Test(epoch, a_writer_that_gives_up_passes_its_wake_on)
{
    const uint64_t rounds = lx_test_scaled(2000);
    for (uint64_t round = 0; round < rounds; round++) {
        lanex_epoch e = LANEX_EPOCH_INIT;
        _Atomic unsigned order = 0;
        struct visitor w[2] = {visitor(&e, &order, true), visitor(&e, &order, true)};
        cr_assert_eq(lanex_cancellation_create(&w[0].token), 0);
        lanex_epoch_read_acquire(&e);
        start(&w[0]);
        LX_EVENTUALLY(queued(&e) == 1);
        start(&w[1]);
        LX_EVENTUALLY(queued(&e) == 2);
        if (round % 2) {
            lanex_cancellation_cancel(w[0].token);
            lanex_epoch_read_release(&e);
        } else {
            lanex_epoch_read_release(&e);
            lanex_cancellation_cancel(w[0].token);
        }
        end(&w[1], 0);
        cr_assert_eq(pthread_join(w[0].thread, NULL), 0);
        cr_assert(w[0].result == 0 || w[0].result == -ECANCELED);
        lanex_cancellation_unref(w[0].token);
        lanex_epoch_fini(&e);
    }
}

Test(epoch, releasing_what_is_not_held_stops_the_program, .signal = SIGABRT)
{
    lanex_epoch e = LANEX_EPOCH_INIT;
    lanex_epoch_read_release(&e);
}

Test(epoch, releasing_a_write_under_readers_stops_the_program, .signal = SIGABRT)
{
    lanex_epoch e = LANEX_EPOCH_INIT;
    lanex_epoch_read_acquire(&e);
    lanex_epoch_write_release(&e);
}

Test(epoch, ending_a_held_lock_stops_the_program, .signal = SIGABRT)
{
    lanex_epoch e = LANEX_EPOCH_INIT;
    lanex_epoch_read_acquire(&e);
    lanex_epoch_fini(&e);
}

/*
 * A worker that spins before it sleeps (runtime/spin.h): jobs are left lying for it.
 *
 *   pusher   push a job to the inbox (read-modify-write); look at the count of watchers; if it is 0,
 *            run the turn: take all from the inbox, put them on the run queue, and wake a sleeper
 *            unless watchers will take them
 *   worker   count itself in; look at inbox and queue as long as it likes; count itself out
 *            (read-modify-write); look at the inbox again; mark itself idle; FENCE; look at the
 *            queue; sleep. With a job in hand: count itself out, and pass on what is left in inbox
 *            and queue as a pusher would.
 *
 * So the spin only delays the worker's mark: park.pml has what follows that. What is new is that
 * pushers and wakers go by the count: of {push; look at the count} and {count out; look at the
 * inbox} one sees the other, and of {put on the queue; FENCE; look at the count} and {count out;
 * FENCE; look at the queue}. With MUT_PLAIN_COUNT the count is changed by a plain store, which a
 * look may pass (there is one watcher at most here, as on two CPUs).
 *
 * The turn is one step here: seat.pml has who runs it. Jobs do not end before all have begun, so
 * that one that nobody comes for is a deadlock, which the search reports.
 */
#ifndef JOBS
#define JOBS 2 /* pushed by as many pushers, or by one */
#endif
#define WORKERS 2
#ifdef ONE_PUSHER
#define PUSHERS 1
#else
#define PUSHERS JOBS
#endif
#define PROCS (WORKERS + PUSHERS)
#define DEPTH 2
#define INBOX 0 /* jobs that lie there: changed by read-modify-write */
#define TAIL  1 /* jobs ever queued: by the holder of the seat alone */
#define HEAD  2 /* jobs ever taken */
#define COUNT 3 /* watchers */
#define MARK  4 /* the idle marks: MARK + w */
#define VARS  (MARK + WORKERS)
#include "tso.pml"

bool bell[WORKERS];
byte begun;

/* Rings a sleeper if more is queued than watchers will take. */
inline wake_one()
{
    load(TAIL, n);
    load(COUNT, x);
    load(HEAD, k);
    n = n - k;
    k = 0;
    if
    :: n > x ->
        x = 0;
        do
        :: k < WORKERS ->
            atomic {
                DRAINED ->
                if
                :: mem[MARK + k] == 1 -> mem[MARK + k] = 0; bell[k] = true; k = WORKERS
                :: else -> k++
                fi
            }
        :: else -> break
        od
    :: else
    fi;
    n = 0;
    k = 0;
    x = 0
}

/* In the seat: all of the inbox goes to the queue. The seat is left with a full fence. */
inline turn()
{
    atomic {
        DRAINED ->
        mem[TAIL] = mem[TAIL] + mem[INBOX];
        mem[INBOX] = 0
    };
    wake_one()
}

proctype pusher(byte me)
{
    byte i, k, n, x;
    do
    :: i < JOBS / PUSHERS ->
        i++;
#ifdef MUT_LOOK_BEFORE_PUSH
        load(COUNT, x);
#endif
        atomic { DRAINED -> mem[INBOX]++ };
#ifndef MUT_LOOK_BEFORE_PUSH
        load(COUNT, x);
#endif
        if
        :: x == 0 -> turn()
        :: else -> x = 0
        fi
    :: else -> break
    od
}

inline count_in()
{
#ifdef MUT_PLAIN_COUNT
    atomic {
        if
        :: mem[COUNT] == 0 -> watches = true
        :: else
        fi
    };
    if
    :: watches -> store(COUNT, 1); fence()
    :: else
    fi
#else
    atomic {
        DRAINED ->
        if
        :: mem[COUNT] == 0 -> mem[COUNT] = 1; watches = true
        :: else
        fi
    }
#endif
}

inline count_out()
{
#ifdef MUT_PLAIN_COUNT
    store(COUNT, 0);
#else
    atomic { DRAINED -> mem[COUNT] = 0 };
#endif
    watches = false
}

inline take()
{
    atomic {
        DRAINED ->
        if
        :: mem[HEAD] < mem[TAIL] -> mem[HEAD]++; took = true
        :: else
        fi
    }
}

inline pass_on()
{
    count_out();
#ifndef MUT_INBOX_NOT_PASSED_ON
    load(INBOX, n);
    if
    :: n > 0 -> n = 0; turn()
    :: else
    fi;
#endif
#ifndef MUT_QUEUE_NOT_PASSED_ON
    wake_one()
#endif
}

proctype worker(byte me)
{
    byte k, n, x;
    bool took, watches, parked;
    do
    :: true ->
        /* its own turn, if there is something in the inbox */
        load(INBOX, n);
        if
        :: n > 0 -> n = 0; turn()
        :: else
        fi;
        take();
        if
        :: took -> break
        :: else
        fi;
        /* spin: as long as it likes, a look at a time */
        if
        :: !watches -> count_in()
        :: else
        fi;
        if
        :: watches ->
            if
            :: true -> parked = false; goto again /* saw something, or thinks so */
            :: true
            fi;
            count_out();
#ifndef MUT_NO_LOOK_AFTER_COUNTING_OUT
            load(INBOX, n);
            if
            :: n > 0 -> n = 0; goto again
            :: else
            fi
#endif
        :: else
        fi;
        /* park */
        store(MARK + me, 1);
        fence();
        load(HEAD, k);
        load(TAIL, n);
        n = n - k;
        k = 0;
        if
        :: n == 0 -> atomic { bell[me] -> bell[me] = false }
        :: else -> n = 0
        fi;
        atomic { DRAINED -> mem[MARK + me] = 0 };
        parked = true;
again:
        skip
    od;
    /* with the job in hand */
    if
    :: watches -> pass_on()
#ifndef MUT_NO_CHAIN
    :: !watches && parked -> wake_one() /* as in park.pml */
#endif
    :: else
    fi;
    begun++;
    (begun == JOBS) /* the job */
}

init
{
    byte i;
    atomic {
        do
        :: i < WORKERS -> run worker(i); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < PUSHERS -> run pusher(WORKERS + i); i++
        :: else -> break
        od
    }
    (begun == JOBS);
    assert(mem[HEAD] == JOBS && mem[INBOX] == 0)
}

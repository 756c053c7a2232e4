/*
 * One wake at a time: src/runtime/run_queue.c as it is. Like park.pml, with a word `waking` beside.
 *
 *   waker    (who has put jobs there, or has taken one and sees more) FENCE; while the queue is not empty and
 *            somebody sleeps: take `waking` from 0 to 1, else leave it to whoever holds it; claim a sleeper's mark
 *            and ring; or, if none could be claimed, waking = 0; FENCE; look again
 *   worker   as in park.pml; clearing its mark on waking tells it whether it was claimed: then waking = 0; FENCE;
 *            and it looks at the queue after that, as everybody may have relied on it
 *
 * Property: as in park.pml, every job of all batches runs at the same time as the others.
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef FIRST
#define FIRST 1 /* jobs in the first batch; the rest, up to WORKERS, in the second */
#endif
#define PROCS    (WORKERS + 1)
#define DEPTH    2
#define PRODUCER WORKERS
#define TAIL     0
#define HEAD     1
#define WAKING   2
#define MARK     3
#define VARS     (MARK + WORKERS)
#include "tso.pml"

bool bell[WORKERS];
byte begun;

inline look_at_queue()
{
    load(HEAD, x);
    load(TAIL, more);
    more = more - x;
    x = 0
}

/* x = 1 if somebody sleeps, by plain loads */
inline anybody_sleeps()
{
    k = 0;
    x = 0;
    do
    :: k < WORKERS && x == 0 -> load(MARK + k, x); k++
    :: else -> break
    od;
    k = 0
}

/* x = 2 if a mark was claimed and its worker rung */
inline claim()
{
    k = 0;
    x = 0;
    do
    :: k < WORKERS && x != 2 ->
        atomic {
            DRAINED ->
            if
            :: mem[MARK + k] == 1 -> mem[MARK + k] = 0; bell[k] = true; x = 2
            :: else
            fi
        }
        k++
    :: else -> break
    od;
    k = 0
}

inline wake_one()
{
#ifndef MUT_NO_FENCE_BEFORE_LOOKING
    fence();
#endif
    do
    :: true ->
        look_at_queue();
        anybody_sleeps();
        if
        :: more == 0 || x == 0 -> break
        :: else
        fi;
        atomic {
            DRAINED ->
            if
            :: mem[WAKING] == 0 -> mem[WAKING] = 1; x = 3
            :: else -> x = 0
            fi
        }
        if
        :: x == 0 -> break
        :: else
        fi;
        claim();
        if
        :: x == 2 -> break
        :: else
        fi;
        store(WAKING, 0);
        fence()
#ifdef MUT_NO_LOOK_AFTER_FAILED_CLAIM
        ; break
#endif
    od;
    more = 0;
    x = 0
}

proctype producer(byte me)
{
    byte k, x, more;
    store(TAIL, FIRST);
    wake_one();
    if
    :: FIRST < WORKERS -> store(TAIL, WORKERS); wake_one()
    :: else
    fi
}

inline pop()
{
    load(TAIL, more);
    atomic {
        DRAINED ->
        if
        :: mem[HEAD] < more -> mem[HEAD]++; took = true
        :: else
        fi;
        more = 0
    }
}

proctype worker(byte me)
{
    byte k, x, more;
    bool took;
    pop();
    do
    :: took -> break
    :: else ->
        atomic { DRAINED -> mem[MARK + me] = 1 }
        fence();
        look_at_queue();
        if
        :: more == 0 -> atomic { bell[me] -> bell[me] = false }
        :: else -> more = 0
        fi;
        atomic {
            DRAINED ->
            if
            :: mem[MARK + me] == 1 -> mem[MARK + me] = 0
            :: else -> x = 1 /* it was claimed */
            fi
        }
        if
        :: x == 1 ->
            x = 0;
#ifndef MUT_WAKING_STAYS
            store(WAKING, 0);
#endif
            fence()
        :: else
        fi;
        pop();
        if
#ifndef MUT_NO_CHAIN
        :: took -> wake_one()
#endif
        :: else
        fi
    od;
    begun++;
    (begun == WORKERS) /* the job */
}

init
{
    byte i;
    atomic {
        do
        :: i < WORKERS -> run worker(i); i++
        :: else -> break
        od;
        run producer(PRODUCER)
    }
    (begun == WORKERS);
    assert(mem[HEAD] == WORKERS)
}

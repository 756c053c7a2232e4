/*
 * Closing the doors that others may be ringing: src/runtime/threads.c (lx_threads_ring,
 * lx_threads_quiet_doors).
 *
 *   ringer  (a thread that is not the executor's) counts itself in `ringers`; looks whether the doors
 *           are closing; if not, rings; counts itself out
 *   closer  doors_closing = 1; FENCE; waits until `ringers` is 0; closes the descriptors
 *
 * Either side stores one word and loads the other. The ringer's store is a read-modify-write, which
 * drains on x86; in C both it and the load are sequentially consistent, as weaker machines need.
 *
 * Property: nobody rings a door that is closed (its descriptor may be a stranger's by then), and
 * the closer does not wait for ever.
 */
#ifndef RINGS
#define RINGS 2 /* per ringer */
#endif
#ifndef RINGERS
#define RINGERS 2
#endif
#define PROCS (RINGERS + 1)
#define DEPTH 2
#define CLOSING 0
#define INSIDE  1 /* how many ringers are */
#define VARS    2
#include "tso.pml"

bool doors_open = true;

proctype ringer(byte me)
{
    byte n, x;
    do
    :: n < RINGS ->
        n++;
#ifdef MUT_LOOK_BEFORE_COUNTING
        load(CLOSING, x);
        atomic { DRAINED -> mem[INSIDE]++ }
#else
#ifdef MUT_COUNTED_BY_LOAD_AND_STORE
        load(INSIDE, x);
        store(INSIDE, x + 1);
        fence();
#else
        atomic { DRAINED -> mem[INSIDE]++ }
#endif
        load(CLOSING, x);
#endif
        if
#ifdef MUT_COUNTED_OUT_BEFORE_RINGING
        :: x == 0 -> atomic { DRAINED -> mem[INSIDE]-- } assert(doors_open)
        :: else -> atomic { DRAINED -> mem[INSIDE]-- }
        fi;
#else
        :: x == 0 -> assert(doors_open) /* the system call */
        :: else
        fi;
        atomic { DRAINED -> mem[INSIDE]-- }
#endif
        x = 0
    :: else -> break
    od
}

proctype closer(byte me)
{
    byte x;
    store(CLOSING, 1);
#ifndef MUT_NO_FENCE
    fence();
#endif
    do
    :: true ->
        load(INSIDE, x);
        if
        :: x == 0 -> break
        :: else -> (mem[INSIDE] == 0)
        fi
    od;
    doors_open = false
}

init
{
    byte i;
    atomic {
        do
        :: i < RINGERS -> run ringer(i); i++
        :: else -> break
        od;
        run closer(RINGERS)
    }
}

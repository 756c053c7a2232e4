/*
 * The seat and the inbox: whoever pushes an event tries to run the turn itself.
 *
 *   pusher   push the event (read-modify-write); look at the seat; if it is free, try to take it
 *   holder   take all events; handle them; seat = free; FENCE; look at the inbox; if it is not
 *            empty, try the seat again
 *
 * The fence is between a store (the seat) and a load (the inbox) of different words, the one order
 * that x86 does not keep. Without it both sides can look too early: the pusher finds the seat taken
 * and goes away, the holder has found the inbox empty and goes away too. On the pusher's side the
 * read-modify-write drains; a push by a plain store needs a fence of its own (-DPUSH_BY_STORE: each
 * pusher stores into a slot that is its own).
 *
 * Property: when all is quiet, every event has been handled, the seat is free; and the handling
 * itself, which uses plain loads and stores, never loses an update (one holder at a time, who sees
 * what the one before him wrote).
 */
#ifndef PUSHERS
#define PUSHERS 3
#endif
#ifndef EVENTS
#define EVENTS 1
#endif
#define PROCS PUSHERS
#define DEPTH 2
#define SEAT  0
#define INBOX 1 /* how many events wait */
#define DONE  2 /* how many were handled: plain data of the holder */
#define SLOT  3 /* SLOT + p: the inbox of pusher p, with PUSH_BY_STORE */
#ifdef PUSH_BY_STORE
#define VARS (SLOT + PUSHERS)
#else
#define VARS 3
#endif
#include "tso.pml"

byte ended;

inline push()
{
#ifdef PUSH_BY_STORE
    store(SLOT + me, 1);
#ifndef MUT_NO_FENCE_IN_PUSHER
    fence()
#endif
#else
    atomic { DRAINED -> mem[INBOX]++ }
#endif
}

inline try_seat()
{
    load(SEAT, x);
#ifdef MUT_SEAT_WITHOUT_CAS
    if
    :: x == 0 -> store(SEAT, 1); got = true
    :: else -> got = false
    fi
#else
    if
    :: x == 0 ->
        atomic {
            DRAINED ->
            if
            :: mem[SEAT] == 0 -> mem[SEAT] = 1; got = true
            :: else -> got = false
            fi
        }
    :: else -> got = false
    fi
#endif
    ;
    x = 0
}

/* n: events waiting, as this process sees them */
inline look()
{
#ifdef PUSH_BY_STORE
    i = 0;
    do
    :: i < PUSHERS -> load(SLOT + i, x); n = n + x; i++
    :: else -> break
    od;
    i = EVENTS;
    x = 0
#else
    load(INBOX, n)
#endif
}

inline turn()
{
#ifdef PUSH_BY_STORE
    i = 0;
    do
    :: i < PUSHERS -> atomic { DRAINED -> n = n + mem[SLOT + i]; mem[SLOT + i] = 0; i++ }
    :: else -> break
    od;
    i = EVENTS;
#else
    atomic { DRAINED -> n = mem[INBOX]; mem[INBOX] = 0 }
#endif
    load(DONE, x);
    store(DONE, x + n);
    n = 0;
    x = 0
}

proctype pusher(byte me)
{
    byte i, n, x;
    bool got, more;
    do
    :: i < EVENTS ->
        i++;
        push();
        try_seat();
        do
        :: got ->
            turn();
#ifdef MUT_LOOK_BEFORE_LEAVING
            look();
            store(SEAT, 0);
            fence();
#else
            store(SEAT, 0);
#ifndef MUT_NO_FENCE
            fence();
#endif
#ifndef MUT_NO_LOOK_AFTER_LEAVING
            look();
#endif
#endif
            more = n > 0;
            n = 0;
            if
            :: more -> more = false; try_seat()
            :: else -> got = false
            fi
        :: else -> break
        od
    :: else -> break
    od;
    ended++
}

init
{
    byte i;
    atomic {
        do
        :: i < PUSHERS -> run pusher(i); i++
        :: else -> break
        od
    }
    (ended == PUSHERS);
    i = 0;
    do
    :: i < PUSHERS -> (buf_len[i] == 0); i++
    :: else -> break
    od;
    assert(mem[INBOX] == 0);
#ifdef PUSH_BY_STORE
    i = 0;
    do
    :: i < PUSHERS -> assert(mem[SLOT + i] == 0); i++
    :: else -> break
    od;
#endif
    assert(mem[SEAT] == 0);
    assert(mem[DONE] == PUSHERS * EVENTS)
}

/*
 * Jobs left lying in the inbox: who pushes a job that could only be queued does not look at the
 * seat (seat.pml), but at a word that turns write before they leave.
 *
 *   pusher   look at FULL; push the job; if FULL was set look at it again; if it is still set go
 *            away, else look at the seat and try to run the turn
 *   worker   run the job; push its end; look at the seat and try to run the turn
 *   holder   take all events; start what can start; FULL = (no worker is free); seat = free; FENCE;
 *            look at the inbox; if it is not empty, try the seat again
 *
 * While FULL is set an end is to come, and a turn follows each end. FULL stands for `lying` and for
 * an actor's `writers` alike: turns alone write them, both count only while an end is to come, and
 * each is enough to go away.
 *
 * How a worker that sleeps is woken is the business of park.pml and wake.pml: here it sees at once
 * what was handed to it. What is the holder's own is no part of the store buffers either: seat.pml
 * shows that the next holder sees it.
 *
 * Property: all jobs run, also where a body waits until each worker has a job or no job is left to
 * begin, as it may: no worker is without a job for ever while one lies in the inbox. When all is
 * quiet the inbox is empty, the seat and all workers are free.
 */
#ifndef SUBMITTERS
#define SUBMITTERS 2
#endif
#ifndef EACH
#define EACH 2 /* jobs of a submitter */
#endif
#ifndef WORKERS
#define WORKERS 1
#endif
#define JOBS    (SUBMITTERS * EACH)
#define PROCS   (SUBMITTERS + WORKERS)
#define DEPTH   2
#define SEAT    0
#define INBOX   1 /* jobs + END * ends that wait in it */
#define FULL    2
#define VARS    3
#define END     16
#include "tso.pml"

/* the holder's */
byte idle, queued;
/* handed out and not taken; bodies that have begun; that have ended */
byte handed, begun, over;
byte ended; /* processes */

#ifdef MUT_FULL_WITH_A_WORKER_IDLE
#define NONE_FREE (idle <= 1)
#else
#define NONE_FREE (idle == 0)
#endif

inline try_seat()
{
    load(SEAT, x);
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
    fi;
    x = 0
}

inline turn()
{
    atomic {
        DRAINED ->
        x = mem[INBOX];
        mem[INBOX] = 0;
        queued = queued + x % END;
        idle = idle + x / END;
        assert(idle <= WORKERS);
        x = (queued < idle -> queued : idle);
        queued = queued - x;
        idle = idle - x;
        /* the inbox is read and the new word known; it is written after this */
        lies = NONE_FREE;
        n = x;
        x = 0
    }
}

/* n: jobs to hand out */
inline visit()
{
    try_seat();
    do
    :: got ->
        turn();
#ifdef MUT_PUBLISHED_AFTER_LEAVING
        atomic { handed = handed + n; n = 0 }
        store(SEAT, 0);
        store(FULL, lies);
#else
        store(FULL, lies);
        atomic { handed = handed + n; n = 0 }
        store(SEAT, 0);
#endif
        lies = false;
#ifndef MUT_NO_FENCE
        fence();
#endif
        load(INBOX, x);
        if
        :: x != 0 -> x = 0; try_seat()
        :: else -> got = false
        fi
    :: else -> break
    od
}

proctype submitter(byte me)
{
    byte i, n, x;
    bool got, lies;
    do
    :: i < EACH ->
        i++;
        load(FULL, x);
        lies = x != 0;
        x = 0;
        atomic { DRAINED -> mem[INBOX]++ }
#ifndef MUT_NO_LOOK_AFTER_THE_PUSH
        if
        :: lies -> load(FULL, x); lies = x != 0; x = 0
        :: else
        fi;
#endif
        if
        :: lies -> lies = false
        :: true -> lies = false; visit() /* also, of what may lie, one in a few */
        fi
    :: else -> break
    od;
    ended++
}

proctype worker(byte me)
{
    byte n, x;
    bool got, lies;
    do
    :: atomic { handed > 0 -> handed--; begun++ }
        if
        :: true
        :: true -> (begun - over == WORKERS || begun == JOBS)
        fi;
        atomic { DRAINED -> over++; mem[INBOX] = mem[INBOX] + END }
#ifndef MUT_NO_TURN_AFTER_AN_END
        visit()
#endif
    :: over == JOBS -> break
    od;
    ended++
}

init
{
    byte i;
    atomic {
        idle = WORKERS;
        do
        :: i < SUBMITTERS -> run submitter(i); i++
        :: else -> break
        od;
        do
        :: i < PROCS -> run worker(i); i++
        :: else -> break
        od
    }
    (ended == PROCS);
    i = 0;
    do
    :: i < PROCS -> (buf_len[i] == 0); i++
    :: else -> break
    od;
    assert(mem[INBOX] == 0);
    assert(mem[SEAT] == 0);
    assert(mem[FULL] == 0);
    assert(queued == 0 && handed == 0);
    assert(idle == WORKERS)
}

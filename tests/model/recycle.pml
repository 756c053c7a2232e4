/*
 * Job objects that are used again: src/runtime/job.c (renumber, fill_entry, lx_job_release),
 * request.c (lx_job_find), sync/inbox.h (links between objects that come back), seat.c.
 *
 *   submitter   takes an object; next number; token new; state NEW; pushes it; later cancels by a
 *               number that may be over, and whose object may be another job by then
 *   turn        takes the inbox whole; in the seat: QUEUED; ADMITTED; OVER, and only then its hold
 *               back; on a cancel: the object with that number, if its state says that a turn still
 *               holds it
 *   worker      runs the job; pushes the same object as ended; gives the delivery's hold back
 *
 * The object goes back with its last hold. The inbox compares links, and a link may come back
 * between a pusher's look and its exchange; that does no harm, since nodes are only ever pushed singly and
 * taken all at once: what a pusher has stored as the next one is what it replaces, whatever happened
 * between.
 *
 * Abstracted: the seat is one process; the slab a set (slab.pml); numbers do not come round (in the
 * code an object whose 2^36 numbers are used up is left out). lx_job_find reads the number twice; in
 * the seat, where alone it is called, once would do, and here it is once.
 *
 * Property: a cancel only ever reaches the job whose number was asked for, whatever the object is
 * meanwhile; each job is queued once and ends once; no event is lost or seen twice; an object is
 * never given out while somebody holds it.
 */
#ifndef SUBMITTERS
#define SUBMITTERS 2
#endif
#ifndef LIVES
#define LIVES 1 /* jobs a submitter submits one after another; it cancels the first */
#endif
#ifndef OBJECTS
#define OBJECTS 1
#endif
#define PROCS (SUBMITTERS + 2)
#define DEPTH 2
#define NUMBER 0 /* NUMBER + o, of object o */
#define STATE  OBJECTS
#define VARS   (2 * OBJECTS)
#include "tso.pml"
#define TURN   SUBMITTERS
#define WORKER (SUBMITTERS + 1)

#define NEW       1
#define QUEUED    2
#define ADMITTED  3
#define OVER      4

/* Nodes are numbered from 1: the objects, then a request of each submitter. */
#define NODE(o)    ((o) + 1)
#define REQ_OF(s)  (OBJECTS + 1 + (s))
#define EMPTY      0
#define SUBMIT     0
#define END        1
#define REQUEST    2
#define LINK(node, kind) ((node) * 4 + (kind))

byte head;
byte next_of[OBJECTS + SUBMITTERS + 1];
byte holds[OBJECTS];
bool cancelled[OBJECTS]; /* the token */
bool used[OBJECTS];
chan run_queue = [OBJECTS] of { byte };
byte asked[SUBMITTERS]; /* the number in the request */
bool told[SUBMITTERS];

byte lives;          /* jobs ever */
byte life[OBJECTS];  /* which of them is in it, 0: none */
byte asked_life[SUBMITTERS];
bool seen[OBJECTS];  /* queued */
byte ended_jobs;

inline push(node, kind)
{
    seen_head = head;
    next_of[node] = seen_head;
    do
    :: true ->
        atomic {
            DRAINED ->
            if
#ifdef MUT_PUSH_WITHOUT_COMPARING
            :: true ->
#else
            :: head == seen_head ->
#endif
                head = LINK(node, kind);
                break
            :: else -> seen_head = head
            fi
        }
#ifndef MUT_NEXT_IS_THAT_OF_THE_FIRST_LOOK
        next_of[node] = seen_head
#endif
    od;
    seen_head = 0
}

inline release(o, n)
{
    atomic {
        DRAINED ->
        assert(holds[o] >= n && life[o] != 0);
        holds[o] = holds[o] - n;
        if
        :: holds[o] == 0 -> used[o] = false; life[o] = 0; ended_jobs++
        :: else
        fi
    }
}

proctype submitter(byte me)
{
    byte i, o, x, seen_head, first;
    do
    :: i < LIVES ->
        i++;
        atomic { /* any free object */
            if
            :: !used[0] -> o = 0
#if OBJECTS > 1
            :: !used[1] -> o = 1
#endif
            fi;
            assert(holds[o] == 0);
            used[o] = true
        }
        load(NUMBER + o, x);
#ifdef MUT_NUMBER_STAYS
        x = (x == 0 -> 1 : x);
#else
        x++;
#endif
        store(NUMBER + o, x);
        cancelled[o] = false;
        store(STATE + o, NEW);
        atomic { holds[o] = 2; seen[o] = false; lives++; life[o] = lives }
        if
        :: i == 1 -> first = x; asked[me] = x * 2 + o; asked_life[me] = life[o]
        :: else
        fi;
        x = 0;
        push(NODE(o), SUBMIT);
        o = 0
    :: i > 0 && !told[me] && first != 0 ->
        first = 0;
        push(REQ_OF(me), REQUEST);
        (told[me])
    :: i == LIVES && first == 0 -> break
    od
}

/* Only the job that was asked for. */
inline check_asked()
{
    assert(life[o] == asked_life[s])
}

inline apply_cancel()
{
    o = asked[s] % 2;
    load(NUMBER + o, x);
    if
#ifdef MUT_NUMBER_NOT_COMPARED
    :: true ->
#else
    :: x == asked[s] / 2 ->
#endif
        load(STATE + o, x);
        if
        :: x == QUEUED ->
            check_asked();
            queued[o] = false;
            store(STATE + o, OVER);
            release(o, 2) /* the reaper's part */
        :: x == ADMITTED -> atomic { check_asked(); cancelled[o] = true }
        :: else
        fi
    :: else
    fi;
    atomic { o = 0; x = 0; told[s] = true; s = 0 }
}

proctype turn(byte me)
{
    byte link, list, o, x, s;
    bool queued[OBJECTS];
end:
    do
    :: head != EMPTY ->
        atomic {
            DRAINED ->
            link = head;
            head = EMPTY;
            do /* oldest first; nobody else has these nodes */
            :: link != EMPTY ->
                x = next_of[link / 4];
                next_of[link / 4] = list;
                list = link;
                link = x
            :: else -> break
            od;
            x = 0
        }
        do
        :: list != EMPTY ->
            atomic { link = list; list = next_of[link / 4] }
            if
            :: link % 4 == SUBMIT ->
                o = link / 4 - 1;
                assert(life[o] != 0 && !seen[o]);
                atomic { seen[o] = true; queued[o] = true }
                store(STATE + o, QUEUED)
            :: link % 4 == END ->
                o = link / 4 - 1;
                assert(life[o] != 0 && seen[o]);
#ifdef MUT_STATE_STAYS_AT_THE_END
                skip;
#else
                store(STATE + o, OVER);
#endif
#ifndef MUT_TURN_HOLDS_NOTHING
                release(o, 1)
#endif
            :: link % 4 == REQUEST ->
                s = link / 4 - OBJECTS - 1;
                apply_cancel()
            fi;
            atomic { link = 0; o = 0 }
        :: else -> break
        od
    :: atomic { queued[0] -> queued[0] = false } store(STATE + 0, ADMITTED); atomic { DRAINED -> run_queue!0 }
#if OBJECTS > 1
    :: atomic { queued[1] -> queued[1] = false } store(STATE + 1, ADMITTED); atomic { DRAINED -> run_queue!1 }
#endif
    od
}

proctype worker(byte me)
{
    byte o, seen_head;
end:
    do
    :: run_queue?o ->
        assert(life[o] != 0);
        push(NODE(o), END);
#ifdef MUT_TURN_HOLDS_NOTHING
        release(o, 2);
#else
        release(o, 1);
#endif
        o = 0
    od
}

init
{
    byte i;
    atomic {
        do
        :: i < SUBMITTERS -> run submitter(i); i++
        :: else -> break
        od;
        run turn(TURN);
        run worker(WORKER)
    }
    (ended_jobs == SUBMITTERS * LIVES)
}

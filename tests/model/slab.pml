/*
 * The slab's free objects: src/sync/slab.c.
 *
 *   alloc    an object from a magazine that could be locked; if it is empty, from the shared stack, or
 *            a new one; with no magazine to be had one from the loose ones under the mutex
 *   free     to a magazine that could be locked, waiting for one; a full one gives a batch to the
 *            shared stack first
 *   count    what is in use: locks all magazines, then the mutex, before it counts anything; lets
 *            each go once it is counted
 *
 * There is no lock-free list and so no ABA: a free object is in one place at a time, and each place
 * has a lock. A magazine's lock is taken by an exchange and let go by a plain store (a release), which
 * the store buffer keeps behind the stores to the magazine.
 *
 * Abstracted: a batch is one object (that of the loose ones all there is), a magazine has room for two; a list is a set; which CPU a thread
 * runs on is arbitrary at each call.
 *
 * Property: no object is given out twice; in the end each is in exactly one place; the count is
 * never less than what was in use all the while, and right when nothing moves.
 */
#ifndef USERS
#define USERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define MAGAZINES 2
#define MOST      6 /* objects that are ever cut: more than are needed */
#ifdef COUNTS
#define PROCS (USERS + 1)
#else
#define PROCS USERS
#endif
#define DEPTH 3
#define LOCK 0 /* LOCK + m */
#define SET  MAGAZINES
#define VARS (2 * MAGAZINES)
#include "tso.pml"

#define BIT(n) (1 << (n))
#define NONE   255

bool mutex;
/* under it */
byte shared, loose; /* sets */
byte cut;           /* objects that exist */

byte held;     /* set: given out, and not yet about to be freed */
byte all_along; /* of those that were held when the count began: those that still are */
bool counting;
byte ended;

/* The lowest of a set that is not empty. */
inline lowest(set, into)
{
    into = 0;
    do
    :: (set & BIT(into)) == 0 -> into++
    :: else -> break
    od
}

inline size_of(set, into)
{
    into = 0;
    i = 0;
    do
    :: i < MOST -> into = into + ((set >> i) & 1); i++
    :: else -> break
    od;
    i = 0
}

/* m = the magazine, or NONE if `none` and all were locked */
inline lock_magazine(none)
{
    do
    :: true ->
        if
        :: m = 0
        :: m = 1
        fi;
#ifdef MUT_LOCK_BY_LOAD_AND_STORE
        load(LOCK + m, x);
        if
        :: x == 0 -> store(LOCK + m, 1); break
        :: else
        fi;
#else
        atomic {
            DRAINED ->
            x = mem[LOCK + m];
            mem[LOCK + m] = 1;
            if
            :: x == 0 -> break
            :: else -> x = 0
            fi
        }
#endif
        if
        :: none -> m = NONE; break
        :: !none -> (mem[LOCK] == 0 || mem[LOCK + 1] == 0)
        fi
    od;
    x = 0
}

inline lock_mutex()
{
#ifdef MUT_SHARED_WITHOUT_THE_MUTEX
    skip
#else
    atomic { DRAINED && !mutex -> mutex = true }
#endif
}

inline unlock_mutex()
{
    atomic { DRAINED -> mutex = false }
}

inline cut_one()
{
    atomic { o = cut; cut++; assert(cut <= MOST) }
}

inline alloc()
{
    lock_magazine(true);
    if
    :: m == NONE ->
        lock_mutex();
        if
        :: loose == 0 -> x = shared; shared = 0; loose = x
        :: else
        fi;
        if
        :: loose != 0 -> atomic { lowest(loose, o); loose = loose & ~BIT(o) }
        :: else -> cut_one()
        fi;
        x = 0;
        unlock_mutex()
    :: else ->
        load(SET + m, x);
        if
        :: x == 0 ->
            lock_mutex();
            x = shared;
            if
            :: x != 0 -> atomic { lowest(x, o); shared = x & ~BIT(o) }
            :: else -> cut_one()
            fi;
            unlock_mutex();
            x = 0
        :: else ->
            atomic { lowest(x, o); x = x & ~BIT(o) }
            store(SET + m, x)
        fi;
        store(LOCK + m, 0)
    fi;
    atomic { assert((held & BIT(o)) == 0); held = held | BIT(o); m = 0; x = 0 }
}

inline free_object()
{
    lock_magazine(false);
    load(SET + m, x);
    atomic { size_of(x, n) }
    if
    :: n >= 2 ->
        n = 0;
        atomic { lowest(x, n); x = x & ~BIT(n) }
#ifdef MUT_SPILLED_STAYS
        x = x | BIT(n);
#endif
        lock_mutex();
        shared = shared | BIT(n);
        unlock_mutex()
    :: else
    fi;
    n = 0;
#ifdef MUT_UNLOCKED_TOO_EARLY
    store(LOCK + m, 0);
    store(SET + m, x | BIT(o));
#else
    store(SET + m, x | BIT(o));
    store(LOCK + m, 0);
#endif
    atomic { m = 0; x = 0; o = 0 }
}

proctype user(byte me)
{
    byte r, o, m, x, n, i;
    do
    :: r < ROUNDS ->
        r++;
        alloc();
        atomic { held = held & ~BIT(o); all_along = all_along & ~BIT(o) }
        free_object()
    :: else -> break
    od;
    fence();
    ended++
}

#ifdef COUNTS
/* n = what is in use */
inline count()
{
#ifdef MUT_COUNTED_ONE_AFTER_THE_OTHER
    m = 0;
    n = 0;
    do
    :: m < MAGAZINES ->
        atomic { DRAINED && mem[LOCK + m] == 0 -> mem[LOCK + m] = 1 }
        load(SET + m, x);
        atomic { size_of(x, k); n = n + k; k = 0; x = 0 }
        store(LOCK + m, 0);
        m++
    :: else -> break
    od;
    lock_mutex();
    atomic { size_of(shared, k); n = n + k; size_of(loose, k); n = cut - (n + k); k = 0 }
    unlock_mutex();
#else
    m = 0;
    do
    :: m < MAGAZINES -> atomic { DRAINED && mem[LOCK + m] == 0 -> mem[LOCK + m] = 1 } m++
    :: else -> break
    od;
    m = 0;
    lock_mutex();
    atomic {
        n = cut;
        size_of(shared, k);
        n = n - k;
#ifndef MUT_LOOSE_NOT_COUNTED
        size_of(loose, k);
        n = n - k;
#endif
        k = 0
    }
    unlock_mutex();
    do
    :: m < MAGAZINES ->
        load(SET + m, x);
        atomic { size_of(x, k); n = n - k; k = 0; x = 0 }
        store(LOCK + m, 0);
        m++
    :: else -> break
    od;
#endif
    m = 0
}

proctype counter(byte me)
{
    byte m, x, n, k, i;
    bool rest;
    atomic { rest = (ended == USERS); all_along = held; counting = true }
    count();
    atomic { size_of(all_along, k); assert(n < 128 && n >= k); assert(!rest || n == 0); all_along = 0; k = 0; n = 0 }
    fence();
    ended++
}
#endif

init
{
    byte i, k, all;
    atomic {
#ifdef WARM
        /* four objects were in use before, and are where frees have left them */
        cut = 4;
        mem[SET] = BIT(0) | BIT(1);
        shared = BIT(2) | BIT(3);
#endif
        do
        :: i < USERS -> run user(i); i++
        :: else -> break
        od;
#ifdef COUNTS
        run counter(USERS);
#endif
        i = 0
    }
    (ended == PROCS);
    /* each is in one place */
    atomic {
        size_of(mem[SET], k);
        all = k;
        size_of(mem[SET + 1], k);
        all = all + k;
        size_of(shared, k);
        all = all + k;
        size_of(loose, k);
        all = all + k;
        assert(all == cut);
        size_of((mem[SET] | mem[SET + 1] | shared | loose), k);
        assert(k == cut)
    }
}

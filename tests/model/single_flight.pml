/*
 * Single flight: callers of one key, who build, wait for one another, overtake, fail and forget.
 *
 *   caller    lock; a ready value that is new enough: take it. A mark that is new enough: note the
 *             event number, unlock, sleep while it is the same, lock, look again. Else take the
 *             mark, unlock, build, lock, and by the rules install, wait for one newer build, or
 *             clear one's own mark; grow the event number; unlock; wake all.
 *   forgetter takes the key's entry out of the table; who is inside goes on with it.
 *
 * Every access is under the flight's mutex, which is modelled as a lock; so store buffers play no
 * part here, and there are none. The futex is what matters: the kernel compares the event number
 * and goes to sleep in one step; a wake reaches who sleeps at that moment and nobody later.
 *
 * Properties: every caller ends (the search reports a sleep for ever as an invalid end state), with
 * a value of the generation asked for or newer, or its own builder's error; an older value is never
 * installed over a newer one; a build begins beside another one of the same entry only by
 * overtaking it, or if that one was overtaken before; who comes after a forget gets nothing that
 * was begun before it; when all is quiet nobody has a mark.
 *
 * Build b is the one of caller b. Caller c asks for generation GEN(c).
 */
#ifndef CALLERS
#define CALLERS 3
#endif
#ifndef FORGETS
#define FORGETS 0
#endif
#if defined(DISTINCT)
#define GEN(c) (1 + (c))
#else
#define GEN(c) (1 + (c) % 2)
#endif
#ifdef ONE_FAILS
#define MAY_FAIL(c) ((c) == 1)
#else
#define MAY_FAIL(c) true
#endif
#define ENTRIES (1 + FORGETS) /* one for each life of the key */
#define NONE    255
#define RUNNING 0
#define DONE    1
#define FAILED  2

byte lock_holder = NONE;
byte table = 0;              /* the entry that is in the table */
byte mark[ENTRIES];          /* the build that has it, or NONE */
byte value[ENTRIES];         /* the build whose value is ready, or NONE */
byte event[ENTRIES];
byte inside[ENTRIES];
byte state[CALLERS];
bool begun[CALLERS];
byte began_in[CALLERS];      /* entry of the build */
bool lost[CALLERS];          /* its mark */
byte forgets;                /* that are over */
byte begun_after[CALLERS];   /* so many forgets were over when the build began */
bool asleep[CALLERS];
byte sleeps_on[CALLERS];
byte ended;

inline lock()
{
    atomic { lock_holder == NONE -> lock_holder = me }
}

inline unlock()
{
    lock_holder = NONE
}

/* One futex: sleep if the number is still `seen`; a wake or a changed number ends it. */
inline sleep()
{
#ifdef MUT_EVENT_READ_AFTER_UNLOCK
    unlock();
    seen = event[e];
#else
    seen = event[e];
    unlock();
#endif
    atomic {
        if
        :: event[e] == seen -> asleep[me] = true; sleeps_on[me] = e
        :: else
        fi
    }
    (!asleep[me]);
    seen = 0;
    lock()
}

inline wake_all(entry)
{
    d_step {
        i = 0;
        do
        :: i < CALLERS ->
            if
            :: asleep[i] && sleeps_on[i] == entry -> asleep[i] = false
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
    }
}

inline enter()
{
    e = table;
    inside[e]++
}

inline leave()
{
    inside[e]--
}

/* Build b has succeeded: its value, that of the one newer build under way, or a newer ready one. */
inline settle(b)
{
    newer = mark[e];
    if
    :: newer != NONE && GEN(newer) > GEN(b) ->
        do
        :: state[newer] == RUNNING && !(value[e] != NONE && GEN(value[e]) > GEN(b)) -> sleep()
        :: else -> break
        od;
        if
        :: value[e] != NONE && GEN(value[e]) > GEN(b) -> got = value[e]
        :: else ->
            if
            :: state[newer] == DONE -> got = newer
            :: else -> got = b
            fi
        fi
    :: else ->
        if
        :: value[e] != NONE && GEN(value[e]) > GEN(b) -> got = value[e]
        :: else -> got = b
        fi
    fi;
    newer = NONE
}

/* A build begins: whoever builds beside it must be older, or have lost the mark before. */
inline beside()
{
    d_step {
        i = 0;
        do
        :: i < CALLERS ->
            if
            :: i != me && begun[i] && state[i] == RUNNING && began_in[i] == e ->
                assert(lost[i] || GEN(i) < GEN(me));
                lost[i] = true
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
    }
}

/* A value is installed: the builds that it is as new as have lost the mark. */
inline overtake_all()
{
    d_step {
        i = 0;
        do
        :: i < CALLERS ->
            if
            :: i != me && begun[i] && began_in[i] == e && GEN(i) <= GEN(me) -> lost[i] = true
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
    }
}

inline build()
{
    assert(!begun[me]);
    /* only an older build or an older value gives way */
    assert(mark[e] == NONE || GEN(mark[e]) < GEN(me));
    assert(value[e] == NONE || GEN(value[e]) < GEN(me));
    begun[me] = true;
    began_in[me] = e;
    begun_after[me] = forgets;
    beside();
    value[e] = NONE;
    mark[e] = me;
    unlock();
    if
    :: MAY_FAIL(me) -> /* the builder fails, or panics */
        lock();
        state[me] = FAILED;
        if
#ifdef MUT_CLEAR_ANY_MARK
        :: true -> mark[e] = NONE
#else
        :: mark[e] == me -> mark[e] = NONE
#endif
        :: else
        fi;
        event[e]++;
        unlock();
#ifndef MUT_NO_WAKE_ON_FAILURE
        wake_all(e);
#endif
        failed = true
    :: true ->
        lock();
        state[me] = DONE;
        if
#ifndef MUT_INSTALL_OVER_NEWER
        :: (mark[e] != NONE && GEN(mark[e]) > GEN(me)) ||
           (value[e] != NONE && GEN(value[e]) > GEN(me)) -> skip
#endif
        :: else ->
            assert(value[e] == NONE || GEN(value[e]) <= GEN(me));
            assert(mark[e] == NONE || GEN(mark[e]) <= GEN(me));
            overtake_all();
            value[e] = me;
            mark[e] = NONE
        fi;
        event[e]++;
        unlock();
        wake_all(e);
        lock();
        settle(me);
        unlock()
    fi
}

/* Waits for the mark's build. */
inline join()
{
    target = mark[e];
    do
    :: state[target] == RUNNING && !(value[e] != NONE && GEN(value[e]) >= GEN(me)) -> sleep()
    :: else -> break
    od;
    if
    :: value[e] != NONE && GEN(value[e]) >= GEN(me) -> got = value[e]
    :: else ->
        if
        :: state[target] == DONE -> settle(target)
        :: else /* it failed: look again, with one's own builder */
        fi
    fi;
    target = NONE;
    unlock()
}

proctype caller(byte me)
{
    byte e, i, seen, born;
    byte target = NONE, newer = NONE, got = NONE;
    bool failed;

    lock();
    enter();
    born = forgets;
    unlock();
    do
    :: got == NONE && !failed ->
        lock();
        if
        :: e != table -> /* forgotten: from here on a later caller */
            leave();
            enter();
            unlock()
        :: else ->
            if
            :: value[e] != NONE && GEN(value[e]) >= GEN(me) -> got = value[e]; unlock()
            :: else ->
                if
#ifdef MUT_WAIT_FOR_OLDER
                :: mark[e] != NONE -> join()
#else
                :: mark[e] != NONE && GEN(mark[e]) >= GEN(me) -> join()
#endif
                :: else -> build()
                fi
            fi
        fi
    :: else -> break
    od;
    assert(failed || GEN(got) >= GEN(me));
    assert(failed || state[got] == DONE);
    assert(failed || begun_after[got] >= born);
    /* somebody else's error reaches nobody */
    assert(!failed || state[me] == FAILED);
    lock();
    leave();
    unlock();
    ended++
}

#if FORGETS > 0
proctype forgetter()
{
    byte me = CALLERS;
    byte n;
    do
    :: n < FORGETS ->
        n++;
        lock();
#ifdef MUT_FORGET_SPARES_ABSENT
        if
        :: mark[table] != NONE || value[table] != NONE -> table++
        :: else
        fi;
#else
        table++;
#endif
        forgets++;
        unlock()
    :: else -> break
    od;
    ended++
}
#endif

init
{
    byte i;
    atomic {
        do
        :: i < ENTRIES -> mark[i] = NONE; value[i] = NONE; i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < CALLERS -> run caller(i); i++
        :: else -> break
        od;
#if FORGETS > 0
        run forgetter()
#endif
    }
    (ended == CALLERS + (FORGETS > 0));
    i = 0;
    do
    :: i < ENTRIES ->
        assert(mark[i] == NONE);
        assert(inside[i] == 0);
        i++
    :: else -> break
    od
}

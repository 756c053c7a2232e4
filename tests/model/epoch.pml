/*
 * The epoch lock, src/sync/epoch.{c,h}: fields, names and steps as there.
 *
 * The lock's word is changed by read-modify-writes only, so each is one atomic step here that
 * decides on the word as it is (a compare-exchange that fails only looks again). What lies between
 * the steps is what is searched: a look and the sleep that follows; a release and its wake call. A
 * sleep is the kernel's: compare the half of the word, and sleep if it has not changed. A wake of
 * one picks any sleeper, so the kernel's order is not relied on. The readers' and writers' waits
 * may end at any time, by time or by cancellation, also after a wake was consumed; but only those of
 * QUIT_R readers and QUIT_W writers, because one that can give up is never stuck: the search finds a
 * lost wake by the others.
 *
 * What the lock guards are two words A and B, written and read by plain stores and loads through
 * store buffers.
 *
 * Properties
 *   - exclusion, and what a writer wrote is seen by all who come after it: A == B inside;
 *   - a waiting reader is passed by one later writer at most (LANEX_EPOCH_BYPASS); a reader that
 *     came while a writer waited enters only after a writer has, or after the waiting writers have
 *     all given up;
 *   - no wake is lost and nobody is stuck: everybody comes to the end, which leaves the word free;
 *   - the illegal combinations of the word never occur.
 *
 * Each process comes ROUNDS times. Starvation by others that never rest is not modelled: the bounds
 * above stand for it.
 */
#ifndef NR
#define NR 2
#endif
#ifndef NW
#define NW 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef QUIT_R
#define QUIT_R 1 /* how many readers may give up */
#endif
#ifndef QUIT_W
#define QUIT_W 1 /* how many writers may */
#endif
#define PROCS (NR + NW)
#define DEPTH 2
#define A     0
#define B     1
#define VARS  2
#include "tso.pml"

#ifdef MUT_PHASE_OF_ONE_BIT
#define PHASES 2
#else
#define PHASES 4
#endif

/* the word, low half */
byte rd;       /* READERS */
bool wr;       /* WRITER */
bool w_asleep; /* WRITERS_ASLEEP */
bool r_asleep; /* READERS_ASLEEP */
bool heir;     /* HEIR */
/* high half */
byte bl; /* BLOCKED */
byte qu; /* QUEUED */
byte ph; /* PHASE */

#define LOW      (rd + 8 * wr + 16 * w_asleep + 32 * r_asleep + 64 * heir)
#define HIGH     (bl + 8 * qu + 64 * ph)
#define LEGAL    ((qu > 0 || (!w_asleep && !heir)) && (!wr || in_w <= 1))
#define OPEN(hr) (rd == 0 && !wr && (hr || !heir))

/* the kernel */
bool asleep[PROCS];

/* ghosts: not part of the lock */
byte in_r;       /* readers inside */
byte in_w;       /* writers inside */
byte passed[NR]; /* writers that entered while this reader waits */
bool may[NR];    /* a reader that met a queue: a writer has entered since, or the queue has emptied */
byte ended;

/* whom a release decided to wake */
#define NOBODY      0
#define READERS     1
#define WRITER_ONE  2
#define WRITERS_ALL 3

#ifdef MUT_HEIR_NOT_WOKEN
#define WRITER_WAKE WRITER_ONE
#else
#define WRITER_WAKE (heir -> WRITERS_ALL : WRITER_ONE)
#endif

/* what wake_next() of the code decides; to be used inside an atomic step */
inline decide()
{
    if
    :: rd > 0 -> wk = (r_asleep -> READERS : NOBODY)
    :: rd == 0 && qu > 0 -> wk = (w_asleep -> WRITER_WAKE : NOBODY)
    :: rd == 0 && qu == 0 && bl > 0 -> wk = (r_asleep -> READERS : NOBODY)
    :: else -> wk = NOBODY
    fi
}

inline wake()
{
    atomic {
        if
        :: wk == READERS ->
            tso_i = 0;
            do
            :: tso_i < NR -> asleep[tso_i] = false; tso_i++
            :: else -> break
            od
        :: wk == WRITERS_ALL ->
            tso_i = NR;
            do
            :: tso_i < PROCS -> asleep[tso_i] = false; tso_i++
            :: else -> break
            od
        :: wk == WRITER_ONE ->
            if
#ifdef MUT_ONE_BED
            :: asleep[0] -> asleep[0] = false
#if NR > 1
            :: asleep[1] -> asleep[1] = false
#endif
#endif
            :: asleep[NR] -> asleep[NR] = false
#if NW > 1
            :: asleep[NR + 1] -> asleep[NR + 1] = false
#endif
#if NW > 2
            :: asleep[NR + 2] -> asleep[NR + 2] = false
#endif
            :: else
            fi
        :: else
        fi;
        wk = NOBODY
    }
}

/* ghosts of a writer's entering: the step itself is the caller's */
inline note_writer()
{
    assert(in_r == 0 && in_w == 0);
    in_w++;
    tso_i = 0;
    do
    :: tso_i < NR -> passed[tso_i]++; may[tso_i] = true; tso_i++
    :: else -> break
    od
}

inline note_queue()
{
    tso_i = 0;
    do
    :: tso_i < NR && qu == 0 -> may[tso_i] = true; tso_i++
    :: else -> break
    od
}

inline unqueue()
{
    assert(qu > 0);
    qu--;
    heir = heir && !mine;
    mine = false;
    w_asleep = w_asleep && qu > 0;
    note_queue();
    assert(LEGAL)
}

/* The steps of a writer's entering from the queue. */
inline enter_from_queue()
{
    unqueue();
    wr = true;
    rd = rd + bl;
#ifdef MUT_MARK_CLEARED_TOO_EARLY
    r_asleep = false;
#else
    r_asleep = r_asleep && bl > 0;
#endif
    bl = 0;
    note_writer()
}

#ifdef MUT_RELEASE_DOES_NOT_DRAIN
#define RELEASE true
#else
#define RELEASE DRAINED
#endif

#ifdef MUT_SLEEP_WITHOUT_COMPARING
#define SAME(x, y) true
#else
#define SAME(x, y) (x == y)
#endif

proctype writer(byte me; bool quits)
{
    byte i, snap, x, y, wk;
    bool mine;  /* this is the heir */
    bool lost;  /* woken in vain */
    bool tired; /* the wait is over: by time or cancellation */
    do
    :: i < ROUNDS ->
        i++;
        atomic {
            if
            :: rd == 0 && !wr && !w_asleep && !heir && bl == 0 && qu == 0 ->
                wr = true;
                r_asleep = false;
                note_writer();
                goto inside
            :: else -> qu++; assert(LEGAL)
            fi
        }
waiting:
        atomic {
            if
            :: OPEN(mine) -> enter_from_queue(); goto inside
            :: else ->
#ifndef MUT_SLEEP_WITHOUT_MARK
                w_asleep = true;
#endif
                if
                :: lost && !mine && !heir -> heir = true; mine = true
                :: else
                fi;
                snap = LOW
            fi
        }
        atomic {
            if
            :: SAME(snap, LOW) -> asleep[me] = true
            :: else
            fi;
            snap = 0
        }
        if
        :: !asleep[me] -> lost = true
        :: quits -> asleep[me] = false; tired = true
        fi;
        if
        :: !tired -> goto waiting
        :: quits -> tired = false
        fi;
        /* give up */
        atomic {
            if
            :: OPEN(mine) -> enter_from_queue(); goto inside /* by time: it is free after all */
            :: true ->
                unqueue();
#ifndef MUT_WAKE_NOT_PASSED_ON
                if
                :: !wr && (rd == 0 || qu == 0) -> decide()
                :: else
                fi
#endif
            fi
        }
        wake();
        lost = false;
        goto next;
inside:
        load(A, x);
        load(B, y);
        assert(x == y);
        store(A, 1 - x);
        store(B, 1 - x);
        x = 0;
        y = 0;
        if
        :: atomic {
            RELEASE ->
            assert(wr && in_w == 1 && in_r == 0);
            decide();
            wr = false;
            in_w--;
            ph = (ph + 1) % PHASES
        }
            wake()
        :: atomic { /* downgrade */
            RELEASE ->
            wr = false;
            in_w--;
            ph = (ph + 1) % PHASES;
            rd++;
            in_r++;
            decide()
        }
            wake();
            atomic {
                assert(in_w == 0 && !wr);
                rd--;
                in_r--;
                wk = (qu > 0 && rd == 0 && w_asleep -> WRITER_WAKE : NOBODY)
            }
            wake()
        fi;
        lost = false;
next:
        skip
    :: else -> break
    od;
    ended++
}

#ifdef MUT_DOOR_NOT_CLOSED
#define MET_QUEUE (qu > 0 && wr)
#else
#define MET_QUEUE (qu > 0)
#endif

proctype reader(byte me; bool quits)
{
    byte i, snap, target, x, y, wk;
    bool tired;
    do
    :: i < ROUNDS ->
        i++;
        atomic {
            rd++;
            passed[me] = 0;
            may[me] = (qu == 0);
            if
            :: !wr && !MET_QUEUE -> in_r++; goto inside
            :: wr && !MET_QUEUE -> target = (ph + 1) % PHASES; goto waiting
            :: else
            fi
        }
        /* line up */
        atomic {
            if
            :: !MET_QUEUE ->
                target = (ph + 1) % PHASES;
                if
                :: !wr -> in_r++; goto inside
                :: else -> goto waiting
                fi
            :: else ->
                rd--;
                bl++;
                target = (ph + (wr -> 2 : 1)) % PHASES;
#ifndef MUT_LINING_UP_WAKES_NOBODY
                wk = (!wr && rd == 0 && w_asleep -> WRITER_WAKE : NOBODY)
#endif
            fi
        }
        wake();
waiting:
        atomic {
            if
            :: ph == target -> assert(!wr && rd > 0); in_r++; goto inside
            :: ph != target && !wr && qu == 0 ->
                assert(bl > 0);
                bl--;
                rd++;
                in_r++;
                goto inside
            :: else ->
                r_asleep = true;
                snap = HIGH
            fi
        }
        atomic {
            if
            :: SAME(snap, HIGH) -> asleep[me] = true
            :: else
            fi;
            snap = 0
        }
        if
        :: !asleep[me]
        :: quits -> asleep[me] = false; tired = true
        fi;
        if
        :: !tired -> goto waiting
        :: quits -> tired = false
        fi;
        /* give up */
        atomic {
            if
            :: ph == target -> in_r++; goto inside /* it has been let in */
            :: ph != target && wr && (ph + 1) % PHASES == target ->
#ifdef MUT_LEAVES_THE_WRONG_COUNT
                assert(bl > 0);
                bl--
#else
                assert(rd > 0);
                rd--
#endif
            :: else -> assert(bl > 0); bl--
            fi
        }
        goto next;
inside:
        /* The bounds, then what the lock guards. */
        assert(in_w == 0 && !wr && passed[me] <= 1 && may[me]);
        load(A, x);
        load(B, y);
        assert(x == y);
        x = 0;
        y = 0;
        atomic {
            assert(rd > 0 && in_w == 0);
            rd--;
            in_r--;
            wk = (qu > 0 && rd == 0 && w_asleep -> WRITER_WAKE : NOBODY)
        }
        wake();
next:
        target = 0
    :: else -> break
    od;
    ended++
}

init
{
    byte i;
    atomic {
        do
        :: i < NR -> run reader(i, i < QUIT_R); i++
        :: else -> break
        od;
        do
        :: i < PROCS -> run writer(i, i - NR < QUIT_W); i++
        :: else -> break
        od
    }
    (ended == PROCS);
    assert(rd == 0 && !wr && bl == 0 && qu == 0 && !w_asleep && !heir && in_r == 0 && in_w == 0)
}

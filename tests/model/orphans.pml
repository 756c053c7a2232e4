/*
 * When the executor's memory goes: src/runtime/ending.c (adopt_orphans, wait_unmarked),
 * job.c (lx_job_release), against tickets and completions that outlive it and against a submission
 * that comes too late.
 *
 *   destroyer  marks each job that is still held (compare-exchange on its word), counting it in
 *              `orphans` beforehand; waits until all that the slab has in use is marked, or counted
 *              as on its way back; gives up its own part of `orphans`; drops its reference
 *   holder     gives its hold back; with the last hold: if the job is marked, counts it as `ending`;
 *              gives the object to the slab; if it was marked, counts `orphans` down, and with the
 *              last one gives `memory` back
 *   submitter  has a reference of its own; takes an object; is refused; gives it back; drops its
 *              reference
 *
 * A holder of an unmarked job has nothing that keeps the slab under its feet but the destroyer's
 * wait. That wait reads what is in use first, what is ending second: a job counts as ending before it is
 * back, so it is rather counted twice than not at all.
 *
 * Abstracted: what the slab has in use is one number, read at one moment (slab.pml); words change by
 * read-modify-write, or by their owner alone, so there are no store buffers.
 *
 * Property: nobody touches the executor's memory once it is freed; it is freed exactly once, when
 * all holds and references are given back; and destroy does not wait for a holder that keeps its hold.
 */
#ifndef HOLDERS
#define HOLDERS 2
#endif
#ifndef SUBMITTERS
#define SUBMITTERS 1
#endif
#ifdef SHARED
#define JOB_OF(holder) 0 /* all hold the same job */
#else
#define JOB_OF(holder) (holder)
#endif
#define OBJECTS (HOLDERS + 1)
#define ORPHAN  16
#define HOLDS(word) ((word) & 15)

byte word[OBJECTS];
bool used[OBJECTS]; /* not in the slab */
byte in_use;
byte orphans, ending;
byte refs = 1 + SUBMITTERS;
byte memory = 1; /* of all users */
bool freed;
bool destroyed; /* destroy has returned */
byte ended;
bool keeps; /* holders wait for destroy to return first */

inline touch()
{
    assert(!freed)
}

inline drop_memory()
{
    touch();
    memory--;
    if
    :: memory == 0 -> freed = true
    :: else
    fi
}

inline orphan_gone()
{
    atomic {
        touch();
        orphans--;
        if
        :: orphans == 0 -> drop_memory()
        :: else
        fi
    }
}

inline slab_free()
{
    atomic {
        touch();
        assert(used[j]);
        used[j] = false;
        in_use--
    }
}

inline release(holds)
{
    atomic {
        touch();
        assert(HOLDS(word[j]) >= holds);
        word[j] = word[j] - holds;
        w = word[j]
    }
    if
    :: HOLDS(w) == 0 ->
        atomic { touch(); word[j] = 0 }
        if
        :: w == ORPHAN ->
#ifdef MUT_ENDING_COUNTED_AFTER_FREEING
            slab_free();
            atomic { touch(); ending++ }
            orphan_gone()
#else
#ifdef MUT_GONE_BEFORE_FREEING
            atomic { touch(); ending++ }
            orphan_gone();
            slab_free()
#else
            atomic { touch(); ending++ }
            slab_free();
            orphan_gone()
#endif
#endif
        :: else -> slab_free()
        fi
    :: else
    fi;
    w = 0
}

inline unref()
{
    atomic {
        touch();
        refs--;
        last = (refs == 0)
    }
    if
    :: last -> atomic { drop_memory() }
    :: else
    fi
}

proctype holder(byte j)
{
    byte w;
    (!keeps || destroyed);
    release(1);
    ended++
}

proctype submitter()
{
    byte j, w;
    bool last;
    atomic {
        touch();
        do
        :: used[j] -> j++
        :: else -> break
        od;
        used[j] = true;
        in_use++
    }
    atomic { touch(); assert(word[j] == 0); word[j] = 2 }
    release(2);
    (destroyed); /* an unref that is the last one waits for the end of shut_down */
    unref();
    ended++
}

inline mark_all()
{
    do
    :: j < OBJECTS ->
        w = word[j];
        do
        :: HOLDS(w) != 0 ->
#ifndef MUT_COUNTED_AFTER_MARKING
            orphans++;
#endif
#ifdef MUT_MARK_WITHOUT_COMPARING
            word[j] = w + ORPHAN;
            w = 0;
            marked++
#else
            atomic {
                if
                :: word[j] == w -> word[j] = w + ORPHAN; w = 0; marked++
                :: else ->
#ifndef MUT_COUNTED_AFTER_MARKING
                    orphans--;
#endif
                    w = word[j] | 128 /* failed */
                fi
            }
#ifdef MUT_COUNTED_AFTER_MARKING
            if
            :: w == 0 -> orphans++
            :: else
            fi;
#endif
            w = w & 127
#endif
        :: else -> break
        od;
        w = 0;
        j++
    :: else -> break
    od;
    j = 0
}

inline wait_unmarked()
{
    do
    :: true ->
#ifdef MUT_ENDING_READ_FIRST
        w = ending;
        j = in_use;
#else
        j = in_use;
        w = ending;
#endif
        if
        :: j + w <= marked -> break
        :: else -> (j != in_use || w != ending) /* it spins */
        fi
    od;
    atomic { j = 0; w = 0 }
}

proctype destroyer()
{
    byte j, w, marked;
    bool last;
#ifndef MUT_OPEN_COUNT_OF_ORPHANS
    orphans = 1;
#endif
    memory++;
    mark_all();
#ifndef MUT_NO_WAIT_FOR_THE_UNMARKED
    wait_unmarked();
#endif
#ifndef MUT_OPEN_COUNT_OF_ORPHANS
    orphan_gone();
#else
    atomic {
        if
        :: orphans == 0 && marked == 0 -> drop_memory()
        :: else
        fi
    }
#endif
    destroyed = true;
    unref();
    ended++
}

init
{
    byte i;
    atomic {
        do
        :: i < HOLDERS ->
            if
            :: !used[JOB_OF(i)] -> used[JOB_OF(i)] = true; in_use++
            :: else
            fi;
            word[JOB_OF(i)]++;
            run holder(JOB_OF(i));
            i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < SUBMITTERS -> run submitter(); i++
        :: else -> break
        od;
        run destroyer();
        if
        :: true
        :: true -> keeps = true
        fi
    }
    (ended == HOLDERS + SUBMITTERS + 1);
    assert(freed && in_use == 0 && orphans == 0)
}

/*
 * The doorbell of a completion port.
 *
 *   producer  push the item on the list (compare-exchange); if the list was empty: ring
 *   consumer  asleep until the bell rings; clear the bell; FENCE; unless enough are left over from
 *             before, look at the list, and if it is not empty take all of it; hand out at most
 *             MAX; if some are left over, or the list is not empty: ring again
 *
 * The bell rings once per "not yet told", not once per item. It must be cleared before the list is
 * taken: an item pushed between the two finds the list not empty and does not ring. The clearing is
 * a store and the look a load, so a fence belongs between them where the bell is a word in memory.
 * (An eventfd is cleared by a system call, which drains.)
 *
 * Property: the consumer gets every item; it never sleeps on a silent bell while there are items.
 */
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef ITEMS
#define ITEMS 2
#endif
#ifndef MAX
#define MAX 1
#endif
#define PROCS (PRODUCERS + 1)
#define DEPTH 2
#define LIST 0 /* items on it */
#define BELL 1
#define VARS 2
#include "tso.pml"

byte got; /* items handed out */

proctype producer(byte me)
{
    byte i, x;
    bool was_empty;
    do
    :: i < ITEMS ->
        i++;
#ifdef MUT_RING_BEFORE_PUSH
        load(LIST, x);
        if
        :: x == 0 -> atomic { DRAINED -> mem[BELL] = 1 }
        :: else
        fi;
        x = 0;
        atomic { DRAINED -> mem[LIST]++ }
#else
        atomic { DRAINED -> was_empty = (mem[LIST] == 0); mem[LIST]++ }
        if
        :: was_empty -> atomic { DRAINED -> mem[BELL] = 1 } /* a system call */
        :: else
        fi;
        was_empty = false
#endif
    :: else -> break
    od
}

inline take()
{
    load(LIST, x);
    if
    :: x > 0 ->
        x = 0;
#ifdef MUT_TAKE_WITHOUT_EXCHANGE
        load(LIST, x);
        left = left + x;
        x = 0;
        store(LIST, 0)
#else
        atomic { DRAINED -> left = left + mem[LIST]; mem[LIST] = 0 }
#endif
    :: else
    fi
}

proctype consumer(byte me)
{
    byte left; /* taken from the list, not yet handed out */
    byte n, x;
    do
    :: got == PRODUCERS * ITEMS -> break
    :: got < PRODUCERS * ITEMS ->
        (mem[BELL] == 1); /* asleep in the kernel, which looks at memory */
#ifdef MUT_CLEAR_AFTER_TAKE
        take();
        store(BELL, 0);
        fence();
#else
        store(BELL, 0);
#ifndef MUT_NO_FENCE
        fence();
#endif
        if
        :: left < MAX -> take()
        :: else
        fi;
#endif
        n = (left < MAX -> left : MAX);
        got = got + n;
        left = left - n;
#ifndef MUT_NO_RING_FOR_WHAT_IS_LISTED
        if
        :: n == MAX -> load(LIST, x) /* its bell may have been cleared although it was not taken */
        :: else                      /* the list was taken after the bell was cleared */
        fi;
#endif
        n = 0;
#ifdef MUT_NO_RING_FOR_THE_REST
        if
        :: x > 0 -> atomic { DRAINED -> mem[BELL] = 1 }
        :: else
        fi;
#else
        if
        :: left > 0 || x > 0 -> atomic { DRAINED -> mem[BELL] = 1 }
        :: else
        fi;
#endif
        x = 0
    od;
    assert(left == 0)
}

init
{
    byte i;
    atomic {
        do
        :: i < PRODUCERS -> run producer(i); i++
        :: else -> break
        od;
        run consumer(PRODUCERS)
    }
}

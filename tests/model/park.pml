/*
 * Workers that park, and the wakes that reach them.
 *
 *   producer  put a batch of jobs on the run queue; FENCE; look at the idle marks; if one is set,
 *             claim it and ring that worker's doorbell: one sleeper at most
 *   worker    set the idle mark; FENCE; look at the run queue again; if it is empty, sleep on the
 *             doorbell; awake: clear the mark, take a job, and if more is left wake the next
 *             sleeper before running the job
 *
 * Both fences lie between a store and a load of different words. Without either, the producer can
 * miss the mark while the worker misses the job. The one wake per batch suffices because each woken
 * worker that sees more in the queue passes it on.
 *
 * Property: every job of a batch runs at the same time as all others: jobs here end only when all
 * have begun, so that one sleeper too many is a deadlock, which the search reports. That is "never
 * is the queue not empty while a worker sleeps and no wake is on its way".
 */
#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef FIRST
#define FIRST 2 /* jobs in the first batch; the rest, up to WORKERS, in the second */
#endif
#define PROCS    (WORKERS + 1)
#define DEPTH    2
#define PRODUCER WORKERS
#define TAIL     0 /* jobs ever queued: stored by the producer, who alone does so */
#define HEAD     1 /* jobs ever taken: moved by compare-exchange */
#define MARK     2 /* the idle marks: MARK + w */
#define VARS     (MARK + WORKERS)
#include "tso.pml"

bool bell[WORKERS]; /* eventfds: in the kernel, every access is a system call */
byte begun;

/* Claims one idle mark, if there is one, and rings. Looks with plain loads first. */
inline wake_one()
{
    k = 0;
    do
    :: k < WORKERS ->
        load(MARK + k, x);
        if
        :: x == 1 ->
            atomic {
                DRAINED ->
                if
                :: mem[MARK + k] == 1 -> mem[MARK + k] = 0; x = 2
                :: else -> x = 0
                fi
            }
        :: else
        fi;
        if
        :: x == 2 -> atomic { DRAINED -> bell[k] = true; break }
        :: else -> k++
        fi
    :: else -> break
    od;
    k = 0;
    x = 0
}

proctype producer(byte me)
{
    byte k, x;
#ifdef MUT_WAKE_BEFORE_QUEUEING
    wake_one();
#endif
    store(TAIL, FIRST);
#ifndef MUT_NO_FENCE_IN_PRODUCER
    fence();
#endif
#ifndef MUT_WAKE_BEFORE_QUEUEING
    wake_one();
#endif
    if
    :: FIRST < WORKERS ->
#ifdef MUT_WAKE_BEFORE_QUEUEING
        wake_one();
#endif
        store(TAIL, WORKERS);
#ifndef MUT_NO_FENCE_IN_PRODUCER
        fence();
#endif
#ifndef MUT_WAKE_BEFORE_QUEUEING
        wake_one()
#endif
    :: else
    fi
}

/* more: jobs in the queue as this process sees them */
inline look_at_queue()
{
    load(HEAD, x);
    load(TAIL, more);
    more = more - x;
    x = 0
}

proctype worker(byte me)
{
    byte k, x, more;
    bool took;
    do
    :: true ->
        /* take a job */
        load(TAIL, more);
        atomic {
            DRAINED ->
            if
            :: mem[HEAD] < more -> mem[HEAD]++; took = true
            :: else
            fi;
            more = 0
        }
        if
        :: took ->
#ifndef MUT_NO_CHAIN
            look_at_queue();
            if
            :: more > 0 -> more = 0; wake_one()
            :: else
            fi;
#endif
            break
        :: else
        fi;
        /* park */
        store(MARK + me, 1);
#ifndef MUT_NO_FENCE_IN_WORKER
        fence();
#endif
#ifndef MUT_NO_SECOND_LOOK
        look_at_queue();
#endif
        if
        :: more == 0 -> atomic { bell[me] -> bell[me] = false }
        :: else -> more = 0
        fi;
        /* Whoever claimed the mark meanwhile has rung or will: a ring that finds this worker awake
         * ends its next sleep at once. */
        atomic { DRAINED -> mem[MARK + me] = 0 }
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

/*
 * One job from submission to its answer, with everybody who may end it: src/sync/cancel.c (the
 * token's word), src/runtime/request.c (apply_cancel), worker.c (run_job, finish),
 * src/admission/events.c (submit, cancel, expire, end).
 *
 *   submitter   marks the token as given to a job; looks whether it is cancelled; pushes the job
 *   turn        queues it, hands it to the worker, removes it on a cancel or at its deadline; who is
 *               queued is the turn's to answer, from then on it is the worker's
 *   worker      waits for the gate, watching the token; token pending -> running, or the job never
 *               runs; body, which may seal (-> committed) and has an effect only then; files the end;
 *               delivers
 *   cancellers  of the token, at any time; and by number, through the turn
 *
 * The token moves by compare-exchange only, so one of cancel, start and seal comes first and all
 * others see that. A wait for the gate marks the token (WATCHED) and then looks; a cancel wakes if
 * the word that it replaced had the mark.
 *
 * Abstracted: one job, one worker; the seat (seat.pml) is one process, the inbox a channel in order
 * of arrival, the gate a word that somebody outside holds. With INSTALL the job has a second step,
 * handed out by a turn of its own. Jobs without a token are not here.
 *
 * Property: exactly one answer, and the right one: `cancelled` or `deadline` if and only if the
 * (last) body never began. A cancel that met `pending` is never followed by a body; one that won is
 * never followed by an effect, and excludes a seal; what a cancel by number says agrees, and is
 * not_found once the answer has been seen. A cancelled wait for a gate that nobody leaves ends. A
 * token serves one submission.
 */
#define PROCS 3
#define DEPTH 2
#define TOKEN  0
#define RESULT 1 /* plain data of the body, for whoever gets the answer */
#define VARS   2
#include "tso.pml"
#define WORKER    0
#define TURN      1
#define CANCELLER 2

#define PENDING   0
#define RUNNING   1
#define COMMITTED 2
#define CANCELLED 3
#define WATCHED   4
#define BOUND     8
#define STATE(w)  ((w) & 3)

/* states of the job */
#define NEW        0
#define QUEUED     1
#define ADMITTED   2
#define BUILT      3
#define INSTALLING 4
#define OVER       5

/* answers, to the submitter */
#define OK              1
#define AS_CANCELLED    2
#define AS_DEADLINE     3

/* answers, to a cancel by number */
#define NOT_FOUND         1
#define QUEUED_REMOVED    2
#define RUNNING_SIGNALLED 3
#define RUNNING_COMMITTED 4

/* events */
#define SUBMIT  1
#define END     2
#define IS_BUILT 3
#define REQUEST 4 /* REQUEST + n: of canceller n */

#ifndef REQUESTS
#define REQUESTS 2
#endif

#ifdef INSTALL
#define LAST_STEP 2
#else
#define LAST_STEP 1
#endif

#ifdef MUT_START_WITHOUT_CAS
#define START_CAS false
#else
#define START_CAS true
#endif
#ifdef MUT_SEAL_WITHOUT_CAS
#define SEAL_CAS false
#else
#define SEAL_CAS true
#endif
#ifdef MUT_CANCEL_WITHOUT_CAS
#define CANCEL_CAS false
#else
#define CANCEL_CAS true
#endif

chan inbox = [5] of { byte };
chan run_queue = [1] of { byte }; /* 1: body or build, 2: install step */
chan reaper_inbox = [1] of { byte };

byte job_state = NEW;
byte status;
bool flag_cancelled;
bool gate_held = true;
bool asleep; /* the worker, on the gate and the token */
byte told[REQUESTS];

/* What happened, for the assertions. */
bool submitted, bound_once, removed;
byte begun;           /* steps of the job */
bool over;            /* its last body has returned, or it was answered without running */
byte delivered;       /* the answer */
bool effect, sealed;
bool never_runs;      /* a cancel met `pending` */
bool won;             /* a cancel met `pending` or `running` */
byte cancels_over;
bool gate_kept_until_cancelled;

/* pending|running -> to; met = the word that it replaced, or the final one that it found */
inline move(to, with_cas)
{
    load(TOKEN, met);
    do
    :: STATE(met) >= COMMITTED || STATE(met) == to -> break
    :: else ->
        if
        :: with_cas ->
            atomic {
                DRAINED ->
                if
                :: mem[TOKEN] == met ->
                    mem[TOKEN] = met - STATE(met) + to;
                    note(to);
                    break
                :: else -> met = mem[TOKEN]
                fi
            }
        :: else ->
            store(TOKEN, met - STATE(met) + to);
            atomic { note(to); break }
        fi
    od
}

inline note(to)
{
    if
    :: to == COMMITTED -> sealed = true; assert(!won)
    :: to == CANCELLED ->
        assert(!sealed && !effect);
        won = true;
        if
        :: STATE(met) == PENDING -> assert(begun == 0); never_runs = true
        :: else
        fi
    :: else
    fi
}

inline cancel()
{
#ifdef MUT_MARK_READ_BEFORE_THE_EXCHANGE
    load(TOKEN, mark);
    mark = mark & WATCHED;
    move(CANCELLED, CANCEL_CAS);
#else
    move(CANCELLED, CANCEL_CAS);
    mark = met & WATCHED;
#endif
#ifndef MUT_CANCEL_WAKES_NOBODY
    if
    :: STATE(met) < COMMITTED && mark != 0 -> asleep = false
    :: else
    fi;
#endif
    mark = 0
}

inline deliver()
{
    atomic {
        assert(delivered == 0);
        assert(status != OK || begun == LAST_STEP);
        assert(status != AS_CANCELLED || begun < LAST_STEP);
        assert(status != AS_DEADLINE || begun == 0);
        assert(status != OK || mem[RESULT] == 1);
        delivered = status
    }
}

proctype submitter()
{
    byte w;
    atomic { w = mem[TOKEN]; mem[TOKEN] = w | BOUND } /* fetch_or */
    if
    :: (w & BOUND) != 0 -> w = 0; goto done /* -EBUSY: the other one's */
    :: else -> assert(!bound_once); bound_once = true
    fi;
    flag_cancelled = STATE(mem[TOKEN]) == CANCELLED;
    w = 0;
    atomic { submitted = true; inbox!SUBMIT };
done:
    skip
}

/* Another submission with the same token; it is the one that counts if it was first. */
proctype other_submitter()
{
    byte w;
#ifdef MUT_BIND_WITHOUT_EXCHANGE
    w = mem[TOKEN];
    mem[TOKEN] = w | BOUND;
#else
    atomic { w = mem[TOKEN]; mem[TOKEN] = w | BOUND }
#endif
    if
    :: (w & BOUND) != 0 -> w = 0; goto done
    :: else -> assert(!bound_once); bound_once = true
    fi;
    flag_cancelled = STATE(mem[TOKEN]) == CANCELLED;
    w = 0;
    atomic { submitted = true; inbox!SUBMIT };
done:
    skip
}

inline settle(as)
{
    job_state = OVER;
    over = true;
    status = as;
    reaper_inbox!1
}

inline apply_cancel()
{
    if
    :: job_state == NEW || job_state == OVER -> told[ev - REQUEST] = NOT_FOUND
#ifdef MUT_ADMITTED_IS_REMOVED_TOO
    :: job_state == QUEUED || (job_state == ADMITTED && begun == 0) ->
#else
    :: job_state == QUEUED ->
#endif
        cancel();
        settle(AS_CANCELLED);
        told[ev - REQUEST] = QUEUED_REMOVED
    :: else ->
        cancel();
        if
        :: STATE(met) == COMMITTED -> told[ev - REQUEST] = RUNNING_COMMITTED
        :: else -> told[ev - REQUEST] = RUNNING_SIGNALLED
        fi
    fi;
    met = 0
}

proctype turn()
{
    byte me = TURN;
    byte ev, met, mark;
    do
    :: inbox?ev ->
        if
        :: ev == SUBMIT ->
            if
            :: flag_cancelled -> atomic { settle(AS_CANCELLED) }
            :: else -> job_state = QUEUED
            fi
        :: ev == END -> job_state = OVER
        :: ev == IS_BUILT -> job_state = BUILT
        :: ev >= REQUEST -> apply_cancel()
        fi;
        ev = 0
    :: atomic { job_state == QUEUED -> job_state = ADMITTED; run_queue!1 }
    :: atomic { job_state == BUILT -> job_state = INSTALLING; run_queue!2 }
#ifdef MUT_DEADLINE_OF_A_STARTED_JOB
    :: atomic { job_state == QUEUED || job_state == ADMITTED -> settle(AS_DEADLINE) }
#else
    :: atomic { job_state == QUEUED -> settle(AS_DEADLINE) }
#endif
    :: delivered != 0 && job_state == OVER && cancels_over == REQUESTS + 1 -> break
    od;
    assert(!removed || delivered == AS_CANCELLED)
}

proctype reaper()
{
    byte x;
end:
    reaper_inbox?x;
    deliver()
}

/* Sets `cancelled` if the wait ended so; else the gate is the worker's. */
inline enter_gate()
{
    do
    :: atomic { !gate_held -> gate_held = true; break }
    :: atomic { gate_held -> skip }
#ifdef MUT_NO_LOOK_AFTER_THE_MARK
        load(TOKEN, w);
        cancelled = STATE(w) == CANCELLED;
        atomic { DRAINED -> mem[TOKEN] = mem[TOKEN] | WATCHED; w = mem[TOKEN] }
#else
        atomic { DRAINED -> mem[TOKEN] = mem[TOKEN] | WATCHED; w = mem[TOKEN] }
        cancelled = STATE(w) == CANCELLED;
#endif
        if
        :: cancelled -> break
        :: else
        fi;
        /* the kernel compares both words */
        atomic { asleep = (mem[TOKEN] == w && gate_held); w = 0 }
        (!asleep);
        load(TOKEN, w);
        cancelled = STATE(w) == CANCELLED;
        w = 0;
        if
        :: cancelled -> break
        :: else
        fi
    od;
    w = 0
}

inline leave_gate()
{
    atomic { gate_held = false; asleep = false }
}

inline start()
{
    if
    :: step == 1 ->
#ifdef MUT_START_ONLY_LOOKS
        load(TOKEN, met);
#else
        move(RUNNING, START_CAS);
#endif
        cancelled = STATE(met) == CANCELLED
    :: else ->
#ifndef MUT_INSTALL_STARTS_CANCELLED
        load(TOKEN, met);
        cancelled = STATE(met) == CANCELLED
#endif
    fi;
    met = 0
}

inline body()
{
    atomic { begun = step; assert(!never_runs); assert(delivered == 0) }
    store(RESULT, 1);
    if
    :: true -> /* it seals */
        move(COMMITTED, SEAL_CAS);
        if
        :: STATE(met) != CANCELLED -> atomic { effect = true; assert(!won) }
        :: else
        fi;
        met = 0
    :: true
    fi
}

inline file_end()
{
    atomic { DRAINED -> over = true; inbox!END }
}

proctype worker()
{
    byte me = WORKER;
    byte step, w, met;
    bool cancelled, won_before;
end:
    do
    :: run_queue?step ->
        won_before = won && step == 2;
        enter_gate();
        if
        :: !cancelled ->
            start();
            if
            :: !cancelled ->
                /* the cancel was over before the second step was taken up */
                assert(!won_before);
                body()
            :: else
            fi;
            leave_gate()
        :: else
        fi;
        won_before = false;
        if
        :: !cancelled && step < LAST_STEP -> atomic { DRAINED -> inbox!IS_BUILT; step = 0 }
        :: else ->
            status = (cancelled -> AS_CANCELLED : OK);
            cancelled = false;
#ifdef MUT_DELIVERED_BEFORE_THE_END_IS_FILED
            deliver();
            file_end();
#else
            file_end();
            deliver();
#endif
            step = 0
        fi
    od
}

proctype token_canceller()
{
    byte me = CANCELLER;
    byte met, mark;
    cancel();
    assert(STATE(met) == COMMITTED || won);
    met = 0;
    cancels_over++
}

proctype canceller_by_number(byte n)
{
    bool late;
    atomic { submitted -> late = delivered != 0; inbox!(REQUEST + n) }
    atomic {
        told[n] != 0 ->
        if
        :: told[n] == NOT_FOUND -> assert(over)
        :: told[n] == QUEUED_REMOVED -> removed = true; assert(begun == 0 && !late)
        :: told[n] == RUNNING_SIGNALLED -> assert(won && !late)
        :: told[n] == RUNNING_COMMITTED -> assert(sealed && !late)
        fi;
        cancels_over++
    }
}

/* Somebody outside who holds the gate: for a while, or until the job is cancelled or answered. */
proctype outsider()
{
    if
    :: true
    :: true -> gate_kept_until_cancelled = true
    fi;
    if
    :: !gate_kept_until_cancelled
    :: gate_kept_until_cancelled ->
        (delivered != 0 || (cancels_over == REQUESTS + 1 && STATE(mem[TOKEN]) != CANCELLED))
    fi;
    leave_gate()
}

init
{
    byte i;
    atomic {
        run submitter();
        run other_submitter();
        run turn();
        run reaper();
        run worker();
        run token_canceller();
        run outsider();
        do
        :: i < REQUESTS -> run canceller_by_number(i); i++
        :: else -> break
        od
    }
}

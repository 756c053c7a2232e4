/*
 * Destroy against submit: src/runtime/ending.c (lx_executor_shut_down), seat.c (lx_seat_close), threads.c,
 * submit.c (push_job), sync/inbox.h (closing), reaper.c (its last passes).
 *
 *   submitter   unless the executor is ending: push to the inbox, which fails once that is closed;
 *               run a turn if the seat is free; tell those whom the turn has something for
 *   destroyer   asks a turn to refuse all that comes; waits until nothing is in flight; ends worker,
 *               then scheduler, for which a callback on a worker may be waiting; takes the seat for
 *               good and closes the inbox in the exchange that takes its last events; ends
 *               lanex-reap, which answers what those turns refused
 *
 * Abstracted: one worker; a turn takes the inbox whole, in one step, and gives out what came of it in
 * another; so does lanex-reap. seat.pml has who runs a turn and wake.pml how workers are woken, both
 * with store buffers; here every store is seen at once. With BY_SCHEDULER turns are lanex-sched's.
 * How the doors are closed is doors.pml, when the memory goes orphans.pml. A job is refused or run,
 * nothing else ends it.
 * An executor that ends by itself, on lanex-reap, goes through the same steps and is not here.
 *
 * Property: each submission that was accepted is answered exactly once, before destroy returns, and
 * each that was refused never; a request is answered or refused; nothing is handed to a thread that
 * has ended.
 */
#ifndef SUBMITTERS
#define SUBMITTERS 2
#endif

/* events: 1 to SUBMITTERS are submissions */
#define END     10
#define CLOSE   11
#define QUIET   12
#define REQUEST 13

chan inbox = [5] of { byte };
bool inbox_closed;
byte run_queue; /* sets of jobs: 1 << job */
byte reaper_inbox;
bool reaper_closed;

bool seat;
/* the turn's */
bool draining;
byte in_flight;

bool life_stopping, stop, scheduler_stop, reap_stop;
bool worker_ended, scheduler_ended, reaper_ended;
bool scheduler_told, reaper_told;

/* answers to requests */
bool close_answered, quiet_answered, quiet, request_answered;

byte accepted, answered; /* sets of jobs */
bool destroyed;

inline deliver(jobs)
{
    assert((answered & jobs) == 0 && !destroyed);
    answered = answered | jobs
}

/* All that is in the inbox. */
inline handle_all()
{
    do
    :: inbox?ev ->
        if
        :: ev == END -> in_flight--
        :: ev == CLOSE ->
#ifndef MUT_CLOSE_DOES_NOT_REFUSE
            draining = true;
#endif
            applied = applied | 1
        :: ev == QUIET -> quiet = (in_flight == 0); applied = applied | 2
        :: ev == REQUEST -> applied = applied | 4
        :: ev <= SUBMITTERS ->
            if
            :: draining -> refused = refused | (1 << ev)
            :: else -> in_flight++; started = started | (1 << ev)
            fi
        fi
    :: empty(inbox) -> break
    od;
    ev = 0
}

/* What came of it, and the answers to requests. */
inline give_out()
{
    run_queue = run_queue | started;
    assert(refused == 0 || !reaper_closed);
    reaper_inbox = reaper_inbox | refused;
    reaper_told = reaper_told || refused != 0;
    close_answered = close_answered || ((applied & 1) != 0);
    quiet_answered = quiet_answered || ((applied & 2) != 0);
    request_answered = request_answered || ((applied & 4) != 0);
    started = 0;
    refused = 0;
    applied = 0
}

/* Turns, as long as the seat is free and there is something to do. */
inline visit()
{
    do
    :: atomic { seat || inbox_closed || empty(inbox) -> break } /* the holder looks again */
    :: atomic { !seat && !inbox_closed && nempty(inbox) -> seat = true; handle_all() }
        atomic { give_out(); seat = false }
    od
}

inline notify()
{
#ifdef BY_SCHEDULER
    scheduler_told = true
#else
    visit()
#endif
}

#define TURN_LOCALS byte ev, applied, refused, started

proctype submitter(byte job)
{
    TURN_LOCALS;
    if
    :: !life_stopping ->
        if
        :: atomic { !inbox_closed -> accepted = accepted | (1 << job); inbox!job }
            notify()
#ifdef MUT_INBOX_STAYS_OPEN
        :: atomic { inbox_closed -> accepted = accepted | (1 << job); inbox!job }
#else
        :: atomic { inbox_closed -> skip } /* -ESHUTDOWN */
#endif
        fi
    :: life_stopping /* -ESHUTDOWN */
    fi
}

#ifdef REQUESTER
/* A call that waits for its answer. */
proctype requester()
{
    TURN_LOCALS;
    if
    :: !life_stopping ->
        if
        :: atomic { !inbox_closed -> inbox!REQUEST }
            notify();
            (request_answered)
        :: atomic { inbox_closed -> skip }
        fi
    :: life_stopping
    fi
}
#endif

proctype worker()
{
    TURN_LOCALS;
    byte j;
    do
    :: atomic {
        run_queue != 0 ->
        j = 1;
        do
        :: (run_queue & (1 << j)) == 0 -> j++
        :: else -> break
        od;
        run_queue = run_queue & ~(1 << j)
    }
        atomic { assert(!inbox_closed); inbox!END }
        atomic { deliver((1 << j)); j = 0 }
#ifdef CALLBACK
        /* which makes a call that waits for its answer */
        atomic { assert(!inbox_closed); inbox!REQUEST; request_answered = false }
        notify();
        (request_answered);
#endif
        notify()
    :: atomic { stop && run_queue == 0 -> break }
    od;
    worker_ended = true
}

#ifdef BY_SCHEDULER
proctype scheduler()
{
    TURN_LOCALS;
    do
    :: atomic { scheduler_told -> scheduler_told = false }
        visit();
        if
#ifdef MUT_SCHEDULER_ENDS_WITH_THE_WORKERS
        :: stop -> break
#else
        :: scheduler_stop -> break
#endif
        :: else
        fi
    od;
    scheduler_ended = true
}
#endif

proctype reaper()
{
    bool last, stopping, took;
    do
    :: true ->
#ifndef MUT_REAPER_LOOKS_FOR_THE_END_LAST
        stopping = reap_stop;
#endif
        reaper_told = false;
        atomic {
            took = reaper_inbox != 0;
            deliver(reaper_inbox);
            reaper_inbox = 0;
            if
            :: last -> reaper_closed = true; break
            :: else
            fi
        }
#ifdef MUT_REAPER_LOOKS_FOR_THE_END_LAST
        stopping = reap_stop;
        if
        :: stopping -> reaper_closed = true; break
        :: else
        fi;
#endif
        if
        :: stopping -> last = !took; took = false
        :: else -> took = false; (reaper_told || reap_stop)
        fi
    od;
    reaper_ended = true
}

inline stop_reaper()
{
    reap_stop = true;
    (reaper_ended)
}

inline close_seat()
{
#ifndef MUT_LAST_TURN_WITHOUT_THE_SEAT
    atomic { !seat -> seat = true }
#endif
#ifdef MUT_CLOSED_AFTER_THE_LAST_TAKE
    atomic { handle_all() }
    inbox_closed = true;
#else
    atomic { handle_all(); inbox_closed = true }
#endif
    atomic { assert(started == 0); give_out() }
}

proctype destroyer()
{
    TURN_LOCALS;
    life_stopping = true;
    inbox!CLOSE;
    notify();
    (close_answered);
    do
    :: true ->
        inbox!QUIET;
        notify();
        atomic {
            quiet_answered -> quiet_answered = false;
            if
            :: quiet -> quiet = false; break
            :: else
            fi
        }
        (in_flight == 0)
    od;
    stop = true;
#ifdef MUT_SCHEDULER_ENDS_WITH_THE_WORKERS
    scheduler_told = true;
#endif
    (worker_ended);
    scheduler_stop = true;
    scheduler_told = true;
#ifdef BY_SCHEDULER
    (scheduler_ended);
#endif
#ifdef MUT_REAPER_ENDED_FIRST
    stop_reaper();
    close_seat();
#else
    close_seat();
    stop_reaper();
#endif
    atomic { destroyed = true; assert(answered == accepted) }
}

init
{
    byte i;
    atomic {
        do
        :: i < SUBMITTERS -> run submitter(i + 1); i++
        :: else -> break
        od;
#ifdef REQUESTER
        run requester();
#endif
#ifdef BY_SCHEDULER
        run scheduler();
#endif
        run destroyer();
        run worker();
        run reaper()
    }
}

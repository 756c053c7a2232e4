/*
 * Ring messages that could not be sent at once: src/runtime/ring_sink.c (keep_for_later,
 * lx_ring_ask_retry, lx_ring_retry, waiting_posted) and reaper.c.
 *
 *   delivery    sends the message; if it must be tried again: files the job in `waiting`; flag 0 -> 1,
 *               and who did that hands the ring's one request to lanex-reap, with a reference to the
 *               ring; where lanex-reap has ended it takes the flag back and drops what waits
 *   lanex-reap  flag = 0; takes `waiting` behind what it has; sends in order; if it is refused again:
 *               flag 0 -> 1, and the request stays with it for later, unless somebody has asked
 *               meanwhile: then that second request is the one that goes on
 *   its end     drops what it has; flag = 0; drops what waits
 *
 * The flag is cleared before each look and set after each filing, so that what is filed is either
 * seen by that look or asks anew. Each request that was handed over holds one reference to the ring,
 * each job another.
 *
 * Deliveries on other threads are over before lanex-reap is told to end (destroy joins the workers and
 * waits for deferred answers first); its own, of jobs that never ran, go on to its last pass. That order
 * matters: a delivery between setting the flag and handing the request over is relied upon by a
 * try that is refused just then.
 *
 * Abstracted: all words change by read-modify-write or by sequentially consistent stores that the
 * next read-modify-write follows, so there are no store buffers; what the kernel says to a message
 * is arbitrary. The port's doorbell (port_life.pml) uses the same request.
 *
 * Property: no message is sent twice; none is dropped unless the ring's owner has gone or the executor
 * has ended; each job is over exactly once; the one request is never in two places; the ring is
 * freed exactly once, after everything, and nobody touches it afterwards.
 */
#ifndef JOBS
#define JOBS 3
#endif
#ifndef DELIVERIES
#define DELIVERIES 2
#endif

chan work = [JOBS] of { byte };
byte delivering; /* on other threads */
bool all_submitted, no_more;
chan waiting = [JOBS] of { byte };
chan unposted = [JOBS] of { byte }; /* lanex-reap's own */
bool flag;
bool in_inbox;  /* the request, in lanex-reap's inbox */
bool in_retries; /* or kept for later by lanex-reap */
bool reaper_closed, stop;
byte refs = JOBS + 1;
bool freed;

bool sent[JOBS + 1], over[JOBS + 1];
bool owner_gone;
byte jobs_over;

inline touch()
{
    assert(!freed)
}

inline ref_ring()
{
    atomic { touch(); refs++ }
}

inline unref_ring()
{
    atomic {
        touch();
        refs--;
        if
        :: refs == 0 -> freed = true
        :: else
        fi
    }
}

inline job_over(j)
{
    atomic { assert(!over[j]); over[j] = true; jobs_over++; }
    unref_ring()
}

/* refused = it must be tried again */
inline post(j)
{
    atomic {
        touch();
        if
        :: !owner_gone -> assert(!sent[j]); sent[j] = true; refused = false
        :: !owner_gone -> refused = true
        :: owner_gone -> refused = false
        fi
    }
}

/* Takes what waits and drops it. */
inline drop_waiting()
{
    atomic {
        touch();
        do
        :: nempty(waiting) -> waiting?k; n = n | (1 << k)
        :: empty(waiting) -> break
        od;
        k = 1
    }
    do
    :: k <= JOBS ->
        if
        :: (n & (1 << k)) != 0 -> assert(owner_gone || stop); job_over(k)
        :: else
        fi;
        k++
    :: else -> break
    od;
    atomic { k = 0; n = 0 }
}

inline ask_retry()
{
    atomic { touch(); was = flag; flag = true }
    if
    :: was -> was = false; unref_ring()
    :: else ->
        if
        :: atomic { !reaper_closed -> assert(!in_inbox && !in_retries); in_inbox = true }
        :: atomic { reaper_closed -> skip }
            atomic { touch(); flag = false }
#ifndef MUT_NOTHING_DROPPED_AT_THE_END
            drop_waiting();
#endif
            unref_ring()
        fi
    fi
}

inline keep_for_later()
{
#ifndef MUT_NO_REFERENCE_FOR_THE_REQUEST
    ref_ring();
#endif
#ifdef MUT_ASKED_BEFORE_FILED
    ask_retry();
    atomic { touch(); waiting!j }
#else
    atomic { touch(); waiting!j }
    ask_retry()
#endif
}

inline deliver()
{
    post(j);
    if
    :: refused -> refused = false; keep_for_later()
    :: else -> job_over(j)
    fi
}

proctype delivery()
{
    byte j, k, n;
    bool refused, was;
end:
    do
    :: atomic { !no_more && nempty(work) -> work?j; delivering++ }
        deliver();
        atomic { j = 0; delivering-- }
    od
}

inline take_waiting()
{
#ifdef MUT_TAKEN_WITHOUT_EXCHANGE
    n = len(waiting);
    atomic {
        do
        :: n > 0 -> waiting?k; unposted!k; n--
        :: n == 0 && nempty(waiting) -> waiting?k /* overwritten */
        :: n == 0 && empty(waiting) -> break
        od;
        k = 0
    }
#else
    atomic {
        touch();
#ifdef MUT_WHAT_IT_HAS_IS_FORGOTTEN
        do
        :: nempty(waiting) && nempty(unposted) -> unposted?k
        :: else -> break
        od;
#endif
        do
        :: nempty(waiting) -> waiting?k; unposted!k
        :: empty(waiting) -> break
        od;
        k = 0
    }
#endif
}

inline done()
{
    unref_ring()
}

/* One try; the request is lanex-reap's alone. */
inline retry()
{
#ifndef MUT_FLAG_CLEARED_AFTER_THE_LOOK
    atomic { touch(); flag = false }
#endif
    take_waiting();
#ifdef MUT_FLAG_CLEARED_AFTER_THE_LOOK
    atomic { touch(); flag = false }
#endif
    do
    :: refused || empty(unposted) -> break
    :: !refused && nempty(unposted) ->
        unposted?<k>;
        post(k);
        if
        :: refused
        :: else -> unposted?k; job_over(k)
        fi;
        k = 0
    od;
    if
    :: refused ->
        refused = false;
#ifdef MUT_SECOND_REQUEST_NOT_SEEN
        atomic { touch(); flag = true; in_retries = true }
#else
        atomic { touch(); was = flag; flag = true; in_retries = !was }
        if
        :: was -> was = false; done()
        :: else
        fi
#endif
    :: else -> done()
    fi
}

inline give_up()
{
    do
    :: nempty(unposted) -> unposted?k; job_over(k); k = 0
    :: empty(unposted) -> break
    od;
    atomic { touch(); flag = false }
    drop_waiting();
    done()
}

proctype reaper()
{
    byte j, k, n;
    bool refused, was;
    do
    :: work?j -> deliver(); j = 0 /* a job that never ran */
    :: atomic { in_inbox -> in_inbox = false; assert(!in_retries) }
        retry()
    :: atomic { in_retries -> in_retries = false } /* later */
        retry()
    :: atomic { stop && !in_inbox -> reaper_closed = true; break }
    od;
    do
    :: work?j -> deliver(); j = 0 /* that came with its last look */
    :: atomic { empty(work) && all_submitted -> break }
    od;
    if
    :: in_retries -> in_retries = false; give_up()
    :: else
    fi
}

/* The executor's end: when other threads deliver nothing any more (-DENDS), or when all is over. */
proctype ender()
{
#ifndef ENDS
    (jobs_over == JOBS);
#else
#ifndef MUT_REAPER_ENDS_BEFORE_THE_DELIVERIES
    atomic { delivering == 0 && all_submitted -> no_more = true }
#endif
#endif
    stop = true
}

/* The user's reference; and the ring's owner may go. */
proctype user()
{
    byte j = 1;
    do
    :: j <= JOBS -> work!j; j++
    :: else -> break
    od;
    all_submitted = true;
#ifdef OWNER_GOES
    owner_gone = true;
#endif
    unref_ring()
}

init
{
    byte i;
    atomic {
        run user();
        run reaper();
        run ender();
        do
        :: i < DELIVERIES -> run delivery(); i++
        :: else -> break
        od
    }
    (jobs_over == JOBS && freed && reaper_closed);
#ifndef OWNER_GOES
#ifndef ENDS
    atomic {
        i = 1;
        do
        :: i <= JOBS -> assert(sent[i]); i++
        :: else -> break
        od
    }
#endif
#endif
    assert(refs == 0 && !in_inbox && !in_retries)
}

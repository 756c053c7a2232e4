/*
 * The life of a completion port: deliveries against drain, detach and the last reference;
 * src/runtime/port.c but for when the bell must ring (port.pml).
 *
 *   submitter   counts `expected` up; hands the job in; down again if it was not accepted
 *   delivery    pushes the job on the list, unless the list is detached: then it drops the job and
 *               counts `balance` down; one that found the list empty marks its link, rings, and
 *               counts down after that; any other is through with the port once it has pushed
 *   consumer    takes the list, counting those that do not count themselves; rings for what is left
 *               over, counted up beforehand; detaches by exchanging the list for a mark
 *   last one    detaches; adds expected - taken - OPEN to `balance`, which began at OPEN
 *   lanex-reap  (-DRING) rings where the sender could not, and then counts down in its place
 *
 * Whoever brings `balance` to 0 frees the port.
 *
 * Abstracted: all words change by read-modify-write alone, so there are no store buffers here; a
 * job is its place in the list; what the kernel says to a ring message is arbitrary. A submitter
 * has a reference of its own as long as it submits.
 *
 * Property: nobody touches the port once it is freed; it is freed exactly once, when all is over;
 * each accepted job is handed out or dropped exactly once, by one of consumer, delivery and last
 * reference.
 */
#ifndef JOBS
#define JOBS 3
#endif
#ifndef DELIVERIES
#define DELIVERIES 2
#endif
#ifndef CALLS
#define CALLS 2 /* of drain or detach */
#endif
#define EMPTY    0
#define DETACHED 255
#define OPEN     20 /* more than deliveries can be under way */
/* a link: 2 * job, + 1 if its delivery rings */
#define JOB(link)    ((link) / 2)
#define RINGER(link) ((link) % 2)

byte head = EMPTY;
byte next_of[JOBS + 1]; /* jobs are numbered from 1 */
short expected;
short balance = OPEN;
byte refs = 2; /* the consumer's and the submitter's */
bool retry_flag;
chan retries = [2] of { bit };
chan work = [JOBS] of { byte };

/* the consumer's */
bool ready[JOBS + 1];
byte ready_count;
byte taken;

bool freed;
bool over[JOBS + 1]; /* handed out or dropped */
byte ended;

inline touch()
{
    assert(!freed)
}

inline free_port()
{
    assert(!freed);
    freed = true
}

inline job_over(j)
{
    assert(!over[j]);
    over[j] = true
}

inline count_down()
{
    atomic {
        touch();
        balance--;
        if
        :: balance == 0 -> free_port()
        :: else
        fi
    }
}

/* later = lanex-reap rings, and counts down */
inline ring_bell()
{
    atomic {
        touch();
        later = false;
#ifdef RING
        if
        :: true /* the message went */
        :: true ->
            if
            :: retry_flag
            :: else -> retry_flag = true; retries!1; later = true
            fi
        fi
#endif
    }
}

/* The list that was at `link`, now the consumer's. */
inline keep()
{
    d_step {
        do
        :: link != EMPTY ->
            assert(!over[JOB(link)] && !ready[JOB(link)]);
            ready[JOB(link)] = true;
            ready_count++;
            if
#ifndef MUT_RINGER_COUNTED_BY_CONSUMER
            :: RINGER(link)
#endif
            :: else -> taken++
            fi;
            link = next_of[JOB(link)]
        :: else -> break
        od;
        link = EMPTY
    }
}

inline take_list()
{
    atomic {
        touch();
        if
        :: head == EMPTY || head == DETACHED
        :: else -> link = head; head = EMPTY
        fi
    }
    keep()
}

inline take_and_detach()
{
#ifdef MUT_DETACH_WITHOUT_EXCHANGE
    atomic { touch(); link = head }
    atomic { touch(); head = DETACHED }
#else
    atomic {
        touch();
        link = head;
#ifdef MUT_LAST_ONE_LEAVES_IT_OPEN
        if
        :: refs == 0 -> head = EMPTY
        :: else -> head = DETACHED
        fi
#else
        head = DETACHED
#endif
    }
#endif
    if
    :: link == DETACHED -> link = EMPTY
    :: else
    fi;
    keep()
}

inline hand_out_one()
{
    d_step {
        j = 1;
        do
        :: !ready[j] -> j++
        :: else -> break
        od;
        ready[j] = false;
        ready_count--;
        job_over(j);
        j = 0
    }
}

/* drain(max = 1) */
inline drain()
{
    if
    :: ready_count == 0 -> take_list()
    :: else
    fi;
    if
    :: ready_count == 0 -> take_list()
    :: else
    fi;
    if
    :: ready_count > 0 ->
        hand_out_one();
        atomic { touch(); link = head }
        if
        :: link != DETACHED && (ready_count > 0 || link != EMPTY) ->
            link = 0;
#ifndef MUT_BELL_FOR_THE_REST_NOT_COUNTED
            atomic { touch(); balance++ }
#endif
            ring_bell();
            if
            :: later -> later = false
#ifndef MUT_BELL_FOR_THE_REST_NOT_COUNTED
            :: else -> atomic { touch(); balance-- }
#else
            :: else
#endif
            fi
        :: else -> link = 0
        fi
    :: else
    fi
}

inline unref()
{
#ifdef MUT_EXPECTED_READ_BEFORE_LEAVING
    n = expected;
#endif
    atomic { touch(); refs--; last = (refs == 0) }
    if
    :: last ->
        take_and_detach();
        do
        :: ready_count > 0 -> hand_out_one()
        :: else -> break
        od;
#ifndef MUT_EXPECTED_READ_BEFORE_LEAVING
        atomic { touch(); n = expected }
#endif
        atomic {
            touch();
            balance = balance + n - taken - OPEN;
            if
            :: balance == 0 -> free_port()
            :: else
            fi
        }
    :: else
    fi;
    last = false;
    n = 0
}

proctype submitter()
{
    byte j = 1, link;
    short n;
    bool last;
    do
    :: j <= JOBS ->
        if
        :: true ->
            atomic { touch(); expected++ }
            work!j
        :: j == JOBS -> /* the last one: the executor has ended */
            atomic { touch(); expected++ }
#ifndef MUT_REFUSED_STAYS_EXPECTED
            atomic { touch(); expected-- }
#endif
            over[j] = true
        fi;
        j++
    :: else -> break
    od;
    unref();
    ended++
}

proctype delivery()
{
    byte j, seen, link;
    bool later;
end:
    do
    :: work?j ->
        atomic { touch(); seen = head }
        do
        :: seen == DETACHED ->
            job_over(j);
#ifndef MUT_DROPPED_NOT_COUNTED
            count_down();
#endif
            break
        :: else ->
            next_of[j] = seen;
            link = 2 * j + (seen == EMPTY);
            atomic {
                touch();
                if
#ifdef MUT_PUSH_WITHOUT_COMPARING
                :: true -> head = link
#else
                :: head == seen -> head = link
#endif
                :: else -> seen = head; link = 0
                fi
            }
            if
            :: link == 0
            :: else ->
                if
                :: RINGER(link) ->
#ifdef MUT_COUNT_BEFORE_RINGING
                    count_down();
                    ring_bell();
#else
                    ring_bell();
                    if
#ifdef MUT_BELL_FOR_LATER_COUNTED_TWICE
                    :: true -> count_down()
#else
                    :: !later -> count_down()
#endif
                    :: else
                    fi;
#endif
                    later = false
                :: else
                fi;
                link = 0;
                break
            fi
        od;
        atomic { seen = 0; j = 0 }
    od
}

#ifdef RING
proctype reaper()
{
    bit x;
end:
    do
    :: retries?x ->
        x = 0;
again:
        atomic { touch(); retry_flag = false }
        if
        :: atomic { touch() } /* the message went, or the ring has gone */
        :: atomic {
            touch(); /* refused again; unless somebody has asked anew meanwhile: */
            if
            :: !retry_flag -> retry_flag = true; goto again
            :: else
            fi
        }
        fi;
        count_down()
    od
}
#endif

proctype consumer()
{
    byte i, j, link;
    short n;
    bool last, later;
    do
    :: i < CALLS -> i++; drain()
    :: i < CALLS -> i++; take_and_detach() /* detach */
    :: break
    od;
    i = 0;
    unref();
    ended++
}

init
{
    byte i;
    atomic {
        run submitter();
        run consumer();
#ifdef RING
        run reaper();
#endif
        do
        :: i < DELIVERIES -> run delivery(); i++
        :: else -> break
        od
    }
    (ended == 2 && freed);
    i = 1;
    do
    :: i <= JOBS -> (over[i]); i++
    :: else -> break
    od;
    assert(ready_count == 0 && balance == 0)
}

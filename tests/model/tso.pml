/*
 * Store buffers for the models: total store order, as on x86.
 *
 * Spin alone is sequentially consistent: a store is seen by all at once, and taking a fence out of
 * a model changes nothing. Here a plain store goes into a first-in first-out buffer of its process,
 * and a daemon moves the oldest entry of some buffer to memory at any moment it likes. A load looks
 * into the process's own buffer first, newest entry first, then into memory. A fence, and every
 * read-modify-write, waits until the process's own buffer is empty.
 *
 * What this does not cover: machines that reorder more than store -> load. On ARM and POWER two
 * loads, two stores, or a load and a later store may change places too; there the acquire and
 * release orders of the C code matter, and no model here checks them. Neither is the compiler
 * covered. On ARMv8 and POWER a read-modify-write is no full fence either: where a model relies on
 * one to drain, the code must use a sequentially consistent fence all the same.
 *
 * The includer defines PROCS (processes), VARS (variables in memory) and DEPTH (entries of a
 * buffer; a store waits for room). `me` is the process's number, from 0.
 */
byte mem[VARS];
byte buf_len[PROCS];
byte buf_var[PROCS * DEPTH];
byte buf_val[PROCS * DEPTH];
hidden byte tso_i; /* scratch of d_steps: no part of the state */

#define DRAINED (buf_len[me] == 0)

inline store(variable, value)
{
    d_step {
        buf_len[me] < DEPTH ->
        buf_var[me * DEPTH + buf_len[me]] = variable;
        buf_val[me * DEPTH + buf_len[me]] = value;
        buf_len[me]++
    }
}

inline load(variable, into)
{
    d_step {
        into = mem[variable];
        tso_i = 0;
        do
        :: tso_i < buf_len[me] ->
            if
            :: buf_var[me * DEPTH + tso_i] == variable -> into = buf_val[me * DEPTH + tso_i]
            :: else
            fi;
            tso_i++
        :: else -> break
        od
    }
}

inline fence()
{
    DRAINED
}

inline flush(process)
{
    d_step {
        buf_len[process] > 0 ->
        mem[buf_var[process * DEPTH]] = buf_val[process * DEPTH];
        tso_i = 1;
        do
        :: tso_i < buf_len[process] ->
            buf_var[process * DEPTH + tso_i - 1] = buf_var[process * DEPTH + tso_i];
            buf_val[process * DEPTH + tso_i - 1] = buf_val[process * DEPTH + tso_i];
            tso_i++
        :: else -> break
        od;
        buf_len[process]--;
        /* unused entries are zero, so that equal states look equal */
        buf_var[process * DEPTH + buf_len[process]] = 0;
        buf_val[process * DEPTH + buf_len[process]] = 0
    }
}

active proctype memory()
{
    byte p;
end:
    do
    :: atomic {
        (false
         || buf_len[0] > 0
#if PROCS > 1
         || buf_len[1] > 0
#endif
#if PROCS > 2
         || buf_len[2] > 0
#endif
#if PROCS > 3
         || buf_len[3] > 0
#endif
#if PROCS > 4
         || buf_len[4] > 0
#endif
        ) ->
            if
            :: buf_len[0] > 0 -> p = 0
#if PROCS > 1
            :: buf_len[1] > 0 -> p = 1
#endif
#if PROCS > 2
            :: buf_len[2] > 0 -> p = 2
#endif
#if PROCS > 3
            :: buf_len[3] > 0 -> p = 3
#endif
#if PROCS > 4
            :: buf_len[4] > 0 -> p = 4
#endif
            fi;
            flush(p);
            p = 0
        }
    od
}

/*
 * Signals and lanex's threads: the mask they are born with, and the containment of faults in jobs
 * (LANEX_EXECUTOR_CONTAIN_SIGNALS).
 *
 * Errno is untouched by all of these, in the handler too.
 */
#ifndef LX_RUNTIME_SIGNALS_H
#define LX_RUNTIME_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* ---- The mask ---- */

/*
 * Blocks everything on the calling thread but the synchronous signals (SEGV, BUS, FPE, ILL, ABRT,
 * TRAP, SYS: blocked, they kill past any handler), and SIGPROF if asked; a thread made now is born
 * with that. *ret_old is for lx_signals_restore.
 */
void lx_signals_block(sigset_t *ret_old, bool allow_sigprof);
void lx_signals_restore(const sigset_t *old);

/* ---- Containment ---- */

/*
 * Asked first about each SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, on whatever thread it came
 * to, in the signal handler: only what is async-signal-safe. Three ways out:
 * - it leaves by siglongjmp: the fault was a job's. The signal is not blocked meanwhile
 *   (SA_NODEFER), so a jump that restores no mask is enough;
 * - true: dealt with, the thread goes on where it was;
 * - false: not a job's. The signal goes on to what was there before.
 */
typedef bool (*lx_contained_fn)(int signo, siginfo_t *info, void *ucontext);

/*
 * The first acquire installs the handlers, the last release puts back what was there, unless
 * somebody has put a handler of their own on top: that one is left, and if it passes signals on to
 * lanex's, they go through to what was there before. `contained` is the same in all calls.
 * Returns 0 or what sigaction said; then nothing has changed.
 *
 * "What was there before" gets the signal as it would have without containment: a handler is called
 * with its own mask and arguments (on the thread's alternate stack, if it has one); the default
 * action ends the process with the original siginfo, and its core shows the faulting instruction;
 * an ignored one is dropped if it was sent and fatal if it was raised by the machine.
 */
int lx_containment_acquire(lx_contained_fn contained);
void lx_containment_release(void);

/*
 * Gives the calling thread an alternate stack with a guard page below, so that a job's stack
 * overflow is contained too. *ret_stack goes to lx_containment_leave_thread on the same thread,
 * which puts back the alternate stack that was there before. 0, -ENOMEM, or sigaltstack's error.
 */
int lx_containment_enter_thread(void **ret_stack);
/* NULL: nothing. */
void lx_containment_leave_thread(void *stack);

#endif

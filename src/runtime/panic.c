/*
 * Panics: a job ends at once. Clean-ups run first, on the stack of the body, while its frames are
 * whole; then the worker's loop is jumped to, which releases the gate and answers.
 */
#include "runtime/panic.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sync/assert.h"

void lx_panic_leave(struct lx_worker *worker)
{
    lx_fork_guard_end_child(&worker->executor->fork_guard);
    worker->phase = LX_PHASE_CLEANUPS;
    /* Each is taken off before it runs: if it panics too, the rest still runs, from there. */
    while (worker->cleanups != NULL) {
        lanex_cleanup *cleanup = worker->cleanups;
        worker->cleanups = cleanup->lanex_next;
        cleanup->lanex_fn(cleanup->lanex_arg);
    }
    siglongjmp(worker->panic_exit, 1);
}

void lanex_panic(const char *format, ...)
{
    struct lx_worker *worker = lx_self.worker;
    va_list args;

    if (worker == NULL || worker->phase == LX_PHASE_NONE) {
        static const char outside[] = "lanex: lanex_panic outside a job\n";
        ssize_t ignored = write(STDERR_FILENO, outside, sizeof outside - 1);
        (void)ignored;
        abort();
    }
    /* The first text is what the client needs to see; one from a clean-up does not replace it. */
    if (worker->phase == LX_PHASE_BODY) {
        va_start(args, format);
        vsnprintf(worker->panic_text, sizeof worker->panic_text, format, args);
        va_end(args);
    }
    lx_panic_leave(worker);
}

void lanex_cleanup_push(lanex_cleanup *cleanup, void (*fn)(void *arg), void *arg)
{
    struct lx_worker *worker = lx_self.worker;

    /* Also from a clean-up, which may be an ordinary function of the program's. */
    LX_ASSERT(worker != NULL && worker->phase != LX_PHASE_NONE);
    cleanup->lanex_fn = fn;
    cleanup->lanex_arg = arg;
    cleanup->lanex_next = worker->cleanups;
    worker->cleanups = cleanup;
}

void lanex_cleanup_pop(bool execute)
{
    struct lx_worker *worker = lx_self.worker;
    lanex_cleanup *cleanup;

    LX_ASSERT(worker != NULL && worker->cleanups != NULL);
    cleanup = worker->cleanups;
    worker->cleanups = cleanup->lanex_next;
    if (execute)
        cleanup->lanex_fn(cleanup->lanex_arg);
}

/*
 * Signal containment: a synchronous signal inside a body counts as a panic of its job. For
 * answering the client and leaving in order; locks that the body held stay held.
 */
#include "runtime/contain.h"

#include <stdio.h>
#include <string.h>

#include "runtime/executor.h"
#include "runtime/panic.h"
#include "runtime/signals.h"

static const char *signal_name(int signo)
{
    const char *name = sigabbrev_np(signo);

    return name != NULL ? name : "?";
}

/* On the alternate stack, so that an overflow of the body's stack is contained too. */
static bool contain(int signo, siginfo_t *info, void *context)
{
    struct lx_worker *worker = lx_self.worker;

    (void)info;
    (void)context;
    /* A child that the body forked has no worker's loop to go on with. */
    if (worker == NULL || worker->phase == LX_PHASE_NONE || lx_executor_forked(worker->executor))
        return false;
    /* One raised by a clean-up ends that clean-up; the first reason stays. */
    if (worker->phase == LX_PHASE_BODY)
        snprintf(worker->panic_text, sizeof worker->panic_text, "SIG%s", signal_name(signo));
    lx_panic_leave(worker);
}

static bool wanted(const lanex_config *config)
{
    return (config->flags & LANEX_EXECUTOR_CONTAIN_SIGNALS) != 0;
}

int lx_contain_acquire(const lanex_config *config)
{
    return wanted(config) ? lx_containment_acquire(contain) : 0;
}

void lx_contain_release(const lanex_config *config)
{
    if (wanted(config))
        lx_containment_release();
}

int lx_contain_enter_thread(const lanex_config *config, void **ret_stack)
{
    return wanted(config) ? lx_containment_enter_thread(ret_stack) : 0;
}

void lx_contain_leave_thread(void *stack)
{
    lx_containment_leave_thread(stack);
}

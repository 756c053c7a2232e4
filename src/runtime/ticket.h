#ifndef LX_RUNTIME_TICKET_H
#define LX_RUNTIME_TICKET_H

#include "runtime/job.h"

/* The response is complete: wakes whoever waits; destroys it if nobody has a ticket. Keeps the
 * caller's hold. */
void lx_ticket_complete(struct lanex_job *job);

/*
 * Before a wait on the calling thread for the end of `job`: 0, or -EDEADLK if the thread may not
 * wait (a callback) or the end is certain not to come (see admission/waits.c). After 0 the wait is
 * to be ended by lx_wait_guard_end with the same job, on the same thread.
 */
int lx_wait_guard_begin(struct lanex_job *job, bool forever);
void lx_wait_guard_end(struct lanex_job *job, bool forever);

#endif

#ifndef LX_RUNTIME_TICKET_H
#define LX_RUNTIME_TICKET_H

#include "runtime/job.h"

/* The response is complete: wakes whoever waits; destroys it if nobody has a ticket. Keeps the
 * caller's hold. */
void lx_ticket_complete(struct lanex_job *job);

#endif

/*
 * Delivery: a complete response goes to its job's sink, and the delivery's hold with it.
 */
#include "runtime/executor.h"
#include "runtime/port.h"
#include "runtime/ring_sink.h"
#include "runtime/ticket.h"

static void run_callback(struct lanex_job *job)
{
    job->target.callback(lx_completion_of(job), job->sink.callback_arg);
    lx_fork_guard_end_child(&lx_job_executor(job)->fork_guard);
}

void lx_deliver(struct lanex_job *job)
{
    switch (job->entry.sink_kind & LX_SINK_KIND_MASK) {
    case LANEX_SINK_PORT:
        lx_port_deliver(job->target.port, job);
        break;
    case LANEX_SINK_RING:
        lx_ring_deliver(job);
        break;
    case LANEX_SINK_CALLBACK:
        run_callback(job);
        lx_job_clear_response(job);
        lx_job_release(job, LX_WORD_HOLD);
        break;
    default: /* ticket or none */
        lx_ticket_complete(job);
        lx_job_release(job, LX_WORD_HOLD);
        break;
    }
}

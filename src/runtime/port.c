#include "runtime/port.h"

#include <errno.h>

#include "ring/kernel.h"
#include "runtime/executor.h"
#include "sync/assert.h"
#include "sync/seams.h"

static struct lanex_job *job_of_link(uintptr_t link)
{
    return (struct lanex_job *)(link & ~LX_PORT_RINGER);
}

static int post_bell(struct lx_post_retry *retry);
static void port_rung(struct lx_post_retry *retry, bool given_up);

/* ---- life ---- */

static int open_bell(lanex_port *port, const lanex_port_options *options)
{
    port->event_fd = -1;
    if (options != NULL && options->doorbell == LANEX_DOORBELL_RING) {
        port->ring = lanex_ring_ref(options->ring);
        port->ring_user_data = options->ring_user_data;
        port->retry.post = post_bell;
        port->retry.done = port_rung;
        return 0;
    }
    port->event_fd = lx_k_eventfd();
    return port->event_fd < 0 ? port->event_fd : 0;
}

int lanex_port_create(lanex_executor *executor, const lanex_port_options *options,
                      lanex_port **ret_port)
{
    lanex_port *port;
    int rc = lx_executor_check(executor);

    if (rc < 0)
        return rc;
    if (ret_port == NULL ||
        (options != NULL && (options->size != sizeof *options ||
                             options->doorbell > LANEX_DOORBELL_RING || options->reserved != 0 ||
                             (options->doorbell == LANEX_DOORBELL_RING && options->ring == NULL))))
        return -EINVAL;
    port = lx_allocate_zeroed(sizeof *port);
    if (port == NULL)
        return -ENOMEM;
    rc = open_bell(port, options);
    if (rc < 0) {
        lx_release(port);
        return rc;
    }
    port->executor = executor;
    atomic_init(&port->refs, 1);
    atomic_init(&port->balance, LX_PORT_OPEN);
    lx_executor_hold_memory(executor);
    *ret_port = port;
    return 0;
}

lanex_port *lanex_port_ref(lanex_port *port)
{
    if (port != NULL)
        atomic_fetch_add_explicit(&port->refs, 1, memory_order_relaxed);
    return port;
}

static void free_port(lanex_port *port)
{
    struct lanex_executor *ex = port->executor;

    if (port->event_fd >= 0)
        lx_k_close(port->event_fd);
    lanex_ring_unref(port->ring);
    lx_release(port);
    lx_executor_drop_memory(ex);
}

/* A delivery that counts itself is through with the port. */
static void count_down(lanex_port *port)
{
    /* acq_rel: the last one sees all that the others did to the port. */
    if (atomic_fetch_sub_explicit(&port->balance, 1, memory_order_acq_rel) == 1)
        free_port(port);
}

void lx_port_expect(lanex_port *port)
{
    atomic_fetch_add_explicit(&port->expected, 1, memory_order_relaxed);
}

void lx_port_unexpect(lanex_port *port)
{
    atomic_fetch_sub_explicit(&port->expected, 1, memory_order_relaxed);
}

/* ---- delivery ---- */

static lanex_port *port_of_retry(struct lx_post_retry *retry)
{
    return (lanex_port *)(void *)((char *)retry - offsetof(lanex_port, retry));
}

static int post_bell(struct lx_post_retry *retry)
{
    lanex_port *port = port_of_retry(retry);

    return lx_ring_post(port->ring, port->ring_user_data, 0);
}

static void port_rung(struct lx_post_retry *retry, bool given_up)
{
    (void)given_up; /* what is not told stays in the port */
    count_down(port_of_retry(retry));
}

/*
 * Rings. True if lanex-reap does it instead, and counts down for the caller. A request of that kind
 * that is on its way and was not tried yet will ring after our push, so that one is enough.
 */
static bool ring_bell(lanex_port *port)
{
    bool ended;
    int rc;

    if (port->event_fd >= 0) {
        /* EAGAIN at the largest count: it is readable, which is all that is wanted. */
        while (lx_k_eventfd_add(port->event_fd) == -EINTR)
            ;
        return false;
    }
    rc = lx_ring_post(port->ring, port->ring_user_data, 0);
    return rc < 0 && lx_ring_can_retry(rc) &&
           lx_ring_ask_retry(port->executor, &port->retry, &ended);
}

void lx_port_deliver(lanex_port *port, struct lanex_job *job)
{
    uintptr_t head = atomic_load_explicit(&port->head, memory_order_relaxed), link;

    do {
        if (head == LX_PORT_DETACHED) {
            lx_job_clear_response(job);
            lx_job_release(job, LX_WORD_HOLD);
            count_down(port);
            return;
        }
        job->delivery_next = (struct lanex_job *)head;
        link = (uintptr_t)job | (head == LX_PORT_EMPTY ? LX_PORT_RINGER : 0);
        /* release: the response; partner is the acquire in take_list. seq_cst: the bell must not be
         * rung before the job is in the list. */
    } while (!atomic_compare_exchange_weak_explicit(&port->head, &head, link, memory_order_seq_cst,
                                                    memory_order_relaxed));
    /* From here on the job is the consumer's; the port is ours only if we ring. */
    if ((link & LX_PORT_RINGER) != 0 && !ring_bell(port))
        count_down(port);
}

/* ---- consumer ---- */

static void silence_bell(lanex_port *port)
{
    /* After an error it stays readable, for a look too many. */
    if (port->event_fd >= 0)
        (void)lx_k_eventfd_take(port->event_fd);
}

/* Takes the list over, oldest first behind what is ready already. */
static void take_list(lanex_port *port, uintptr_t instead)
{
    uintptr_t link, reversed = LX_PORT_EMPTY, *tail = &port->ready;

    if (instead == LX_PORT_EMPTY) {
        link = atomic_load_explicit(&port->head, memory_order_seq_cst);
        do {
            if (link == LX_PORT_EMPTY || link == LX_PORT_DETACHED)
                return;
            /* acquire: partner is the release in lx_port_deliver. */
        } while (!atomic_compare_exchange_weak_explicit(
            &port->head, &link, LX_PORT_EMPTY, memory_order_seq_cst, memory_order_seq_cst));
    } else {
        link = atomic_exchange_explicit(&port->head, instead, memory_order_seq_cst);
        if (link == LX_PORT_DETACHED)
            return;
    }
    while (link != LX_PORT_EMPTY) {
        struct lanex_job *job = job_of_link(link);
        uintptr_t older = (uintptr_t)job->delivery_next;

        if ((link & LX_PORT_RINGER) == 0)
            port->taken++;
        port->ready_count++;
        job->delivery_next = (struct lanex_job *)reversed;
        reversed = (uintptr_t)job;
        link = older;
    }
    while (*tail != LX_PORT_EMPTY)
        tail = (uintptr_t *)(void *)&((struct lanex_job *)*tail)->delivery_next;
    *tail = reversed;
}

int lanex_port_fd(const lanex_port *port)
{
    return port != NULL && port->event_fd >= 0 ? port->event_fd : -EINVAL;
}

int lanex_port_drain(lanex_port *port, lanex_completion **ret_completions, size_t max)
{
    size_t count = 0;

    if (port == NULL || (ret_completions == NULL && max > 0))
        return -EINVAL;
    if (lx_executor_forked(port->executor))
        return -ECHILD;
    if (max > INT32_MAX)
        max = INT32_MAX;
    if (port->ready_count < max || port->ready_count == 0) {
        silence_bell(port);
        if (port->ready == LX_PORT_EMPTY)
            take_list(port, LX_PORT_EMPTY);
    }
    for (;;) {
        while (count < max && port->ready != LX_PORT_EMPTY) {
            struct lanex_job *job = (struct lanex_job *)port->ready;
            port->ready = (uintptr_t)job->delivery_next;
            port->ready_count--;
            ret_completions[count++] = lx_completion_of(job);
        }
        if (count == max)
            break;
        take_list(port, LX_PORT_EMPTY);
        if (port->ready == LX_PORT_EMPTY)
            return (int)count;
    }
    /* What is left here would not be told of by the next delivery. Nor, perhaps, what is in the
     * list: its bell may have been heard before this call, which did not come to look there. Who
     * has detached is not rung any more. */
    uintptr_t head = atomic_load_explicit(&port->head, memory_order_seq_cst);
    if (head != LX_PORT_DETACHED && (port->ready != LX_PORT_EMPTY || head != LX_PORT_EMPTY)) {
        atomic_fetch_add_explicit(&port->balance, 1, memory_order_relaxed);
        if (!ring_bell(port))
            atomic_fetch_sub_explicit(&port->balance, 1, memory_order_relaxed);
    }
    return (int)count;
}

int lanex_port_detach(lanex_port *port)
{
    if (port == NULL)
        return -EINVAL;
    if (lx_executor_forked(port->executor))
        return -ECHILD;
    take_list(port, LX_PORT_DETACHED);
    silence_bell(port);
    return port->ready_count > INT32_MAX ? INT32_MAX : (int)port->ready_count;
}

void lanex_port_unref(lanex_port *port)
{
    int64_t outstanding;

    if (port == NULL || lx_executor_forked(port->executor) ||
        atomic_fetch_sub_explicit(&port->refs, 1, memory_order_acq_rel) != 1)
        return;
    take_list(port, LX_PORT_DETACHED);
    while (port->ready != LX_PORT_EMPTY) {
        struct lanex_job *job = (struct lanex_job *)port->ready;
        port->ready = (uintptr_t)job->delivery_next;
        lanex_completion_release(lx_completion_of(job));
    }
    outstanding =
        (int64_t)(atomic_load_explicit(&port->expected, memory_order_relaxed) - port->taken) -
        LX_PORT_OPEN;
    /* acq_rel: partner is count_down. */
    if (atomic_fetch_add_explicit(&port->balance, outstanding, memory_order_acq_rel) +
            outstanding ==
        0)
        free_port(port);
}

/*
 * The model kernel's io_uring, at the level of ring/kernel.h: rings with real arrays, so that
 * liburing's inline functions and src/ring run unchanged on them.
 *
 * As in Linux: a DEFER_TASKRUN ring gets completions only while its owner is in the kernel, others
 * at any time; a full completion queue sends what follows to an overflow list, which moves only
 * when the owner enters, and a multishot poll that meets it ends (F_MORE clear); polls of eventfds
 * are edge-triggered, and writes that come before the poll's task work has run fire it once; what
 * was posted to a ring whose owner has gone is no error, but for DEFER_TASKRUN (-EOWNERDEAD).
 */
#include "kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RINGS        64u
#define POLLS        4u
#define MESSAGES_RUN 20u /* that one entry of a DEFER_TASKRUN owner takes */
#define US           UINT64_C(1000)

struct poll {
    struct sim_file *file; /* NULL: unused */
    uint64_t user_data;
    bool fired; /* its task work is on the way */
};

/* Something that will be posted. */
struct item {
    uint64_t due_ns;
    int poll; /* index, or -1 for a message */
    uint64_t user_data;
    int32_t res;
};

struct sim_ring {
    struct sim_file *file;
    struct io_uring *user; /* NULL once the owner's mapping is gone, and in users' rings */
    uint32_t owner;
    bool owner_gone, defer, single;
    unsigned entries, mask;
    unsigned head, tail, flags; /* of the completion queue; what user->cq points to */
    struct io_uring_cqe *cqes;
    unsigned sq_head, sq_tail, sq_flags, sq_entries;
    struct io_uring_sqe *sqes;
    struct poll poll[POLLS];
    struct item *item; /* in the order in which they were made */
    size_t items, item_room;
    struct io_uring_cqe *overflow;
    size_t overflows, overflow_room;
    bool waiting;           /* the owner sleeps in enter */
    uint64_t refuses_until; /* messages: ns */
};

static struct sim_ring *rings[RINGS];
static uint64_t next_due;

void sim_kernel_start(void)
{
    next_due = SIM_NEVER;
}

static void *grow(void *array, size_t used, size_t *room, size_t size)
{
    if (used < *room)
        return array;
    *room = *room == 0 ? 16 : *room * 2;
    array = realloc(array, *room * size);
    if (array == NULL)
        sim_fail("no memory for the model");
    return array;
}

/* ---- completions ---- */

static unsigned queued(const struct sim_ring *ring)
{
    return ring->tail - *(const volatile unsigned *)&ring->head;
}

bool sim_ring_readable(const struct sim_ring *ring)
{
    return queued(ring) > 0 || (!ring->defer && ring->overflows > 0);
}

static struct sim_fiber *owner_of(const struct sim_ring *ring)
{
    return ring->owner_gone ? NULL : sim_fiber_numbered(ring->owner);
}

static void wake_owner(struct sim_ring *ring)
{
    struct sim_fiber *owner = owner_of(ring);

    if (ring->waiting && owner != NULL)
        sim_wake(owner, 0);
}

static void put_cqe(struct sim_ring *ring, const struct io_uring_cqe *cqe)
{
    struct io_uring_cqe *at = &ring->cqes[ring->tail & ring->mask];

    at->user_data = cqe->user_data;
    at->res = cqe->res;
    at->flags = cqe->flags;
    ring->tail++;
}

static bool full(const struct sim_ring *ring)
{
    return ring->overflows > 0 || queued(ring) >= ring->entries;
}

static void post(struct sim_ring *ring, uint64_t user_data, int32_t res, unsigned flags)
{
    struct io_uring_cqe cqe = {.user_data = user_data, .res = res, .flags = flags};

    if (full(ring)) {
        ring->overflow = grow(ring->overflow, ring->overflows, &ring->overflow_room, sizeof cqe);
        ring->overflow[ring->overflows++] = cqe;
        ring->sq_flags |= IORING_SQ_CQ_OVERFLOW;
    } else {
        put_cqe(ring, &cqe);
    }
    wake_owner(ring);
    sim_file_notify(ring->file);
}

static void flush_overflow(struct sim_ring *ring)
{
    size_t moved = 0;

    while (moved < ring->overflows && queued(ring) < ring->entries)
        put_cqe(ring, &ring->overflow[moved++]);
    ring->overflows -= moved;
    if (moved > 0)
        memmove(ring->overflow, ring->overflow + moved, ring->overflows * sizeof *ring->overflow);
    if (ring->overflows == 0)
        ring->sq_flags &= ~(unsigned)IORING_SQ_CQ_OVERFLOW;
}

/* ---- what is put off ---- */

static uint64_t some_delay(void)
{
    if ((sim.faults & SIM_FAULT_DELAYS) == 0)
        return 0;
    switch (sim_random() % 8) {
    case 0:
        return sim_random() % (1000 * US);
    case 1:
    case 2:
        return sim_random() % (20 * US);
    case 3:
    case 4:
        return sim_random() % (64 * sim.ns_per_step);
    default:
        return 0;
    }
}

static void put_off(struct sim_ring *ring, struct item item)
{
    item.due_ns = sim_now_ns() + some_delay();
    ring->item = grow(ring->item, ring->items, &ring->item_room, sizeof item);
    ring->item[ring->items++] = item;
    if (item.due_ns < next_due)
        next_due = item.due_ns;
}

static void run_poll(struct sim_ring *ring, unsigned index)
{
    struct poll *poll = &ring->poll[index];

    poll->fired = false;
    if (poll->file == NULL || poll->file->count == 0)
        return; /* somebody has emptied it meanwhile */
    bool ends = full(ring) || sim_fault(SIM_FAULT_OVERFLOW, 2);
    if (ends)
        poll->file = NULL;
    post(ring, poll->user_data, POLLIN, ends ? 0 : IORING_CQE_F_MORE);
}

/* Posts what is due; messages between two threads keep their order. */
static void run_items(struct sim_ring *ring)
{
    uint64_t now = sim_now_ns();
    unsigned messages = 0;
    size_t kept = 0;
    bool message_kept = false;

    for (size_t i = 0; i < ring->items; i++) {
        struct item item = ring->item[i];
        bool is_message = item.poll < 0;
        if (item.due_ns > now || (is_message && (message_kept || messages == MESSAGES_RUN))) {
            message_kept |= is_message;
            ring->item[kept++] = item;
        } else if (is_message) {
            messages++;
            post(ring, item.user_data, item.res, 0);
        } else {
            run_poll(ring, (unsigned)item.poll);
        }
    }
    ring->items = kept;
}

static bool has_due(const struct sim_ring *ring, uint64_t now)
{
    for (size_t i = 0; i < ring->items; i++) {
        if (ring->item[i].due_ns <= now)
            return true;
    }
    return false;
}

uint64_t sim_kernel_tick(void)
{
    uint64_t now = sim_now_ns();

    if (now < next_due)
        return next_due;
    next_due = SIM_NEVER;
    for (unsigned i = 0; i < RINGS; i++) {
        struct sim_ring *ring = rings[i];
        if (ring == NULL || ring->items == 0)
            continue;
        if (!ring->defer)
            run_items(ring);
        else if (has_due(ring, now))
            wake_owner(ring);
        for (size_t k = 0; k < ring->items; k++) {
            uint64_t due = ring->item[k].due_ns;
            if (due <= now && !ring->defer)
                due = now + US; /* behind one that comes later */
            if (due > now && due < next_due)
                next_due = due;
        }
    }
    return next_due;
}

/* ---- polls ---- */

static void fire(struct sim_ring *ring, unsigned index)
{
    if (ring->poll[index].fired)
        return;
    ring->poll[index].fired = true;
    put_off(ring, (struct item){.poll = (int)index});
    if (!ring->defer || ring->waiting)
        sim_kernel_tick();
}

void sim_ring_polls_fire(struct sim_file *file)
{
    for (unsigned i = 0; i < RINGS; i++) {
        for (unsigned k = 0; rings[i] != NULL && k < POLLS; k++) {
            if (rings[i]->poll[k].file == file)
                fire(rings[i], k);
        }
    }
}

void sim_ring_polls_drop(struct sim_file *file)
{
    for (unsigned i = 0; i < RINGS; i++) {
        for (unsigned k = 0; rings[i] != NULL && k < POLLS; k++) {
            if (rings[i]->poll[k].file == file)
                rings[i]->poll[k].file = NULL;
        }
    }
}

/* ---- entries ---- */

static int send_message(int fd, uint64_t user_data, int32_t res)
{
    struct sim_file *file = sim_file_of(fd);

    if (file == NULL)
        return -EBADF;
    if (file->kind != SIM_RING)
        return -EBADFD;
    struct sim_ring *ring = file->ring;
    if (sim_now_ns() < ring->refuses_until)
        return -EOVERFLOW;
    if (sim_fault(SIM_FAULT_ERRORS, 1)) {
        /* Once; or for longer than a sender tries again at once. */
        if (sim_chance(300))
            ring->refuses_until = sim_now_ns() + sim_random() % (300 * US);
        return sim_chance(500) ? -EOVERFLOW : -ENOMEM;
    }
    if (!ring->defer) {
        post(ring, user_data, res, 0);
        return 0;
    }
    if (ring->owner_gone)
        return -EOWNERDEAD;
    put_off(ring, (struct item){.poll = -1, .user_data = user_data, .res = res});
    sim_kernel_tick();
    return 0;
}

static int add_poll(struct sim_ring *ring, const struct io_uring_sqe *sqe)
{
    struct sim_file *file = sim_file_of(sqe->fd);

    if (file == NULL)
        return -EBADF;
    for (unsigned i = 0; i < POLLS; i++) {
        if (ring->poll[i].file != NULL || ring->poll[i].fired)
            continue;
        ring->poll[i] = (struct poll){.file = file, .user_data = sqe->user_data};
        if (sim_file_readable(file))
            fire(ring, i);
        return 0;
    }
    return -ENOMEM;
}

static void run_entry(struct sim_ring *ring, const struct io_uring_sqe *sqe)
{
    int rc;

    switch (sqe->opcode) {
    case IORING_OP_NOP:
        post(ring, sqe->user_data, 0, 0);
        return;
    case IORING_OP_POLL_ADD:
        rc = add_poll(ring, sqe);
        if (rc < 0)
            post(ring, sqe->user_data, rc, 0);
        return;
    case IORING_OP_MSG_RING:
        rc = send_message(sqe->fd, sqe->off, (int32_t)sqe->len);
        if (rc < 0 || (sqe->flags & IOSQE_CQE_SKIP_SUCCESS) == 0)
            post(ring, sqe->user_data, rc, 0);
        return;
    default:
        sim_fail("an operation that the model does not know: %u", (unsigned)sqe->opcode);
    }
}

static struct sim_ring *ring_of(const struct io_uring *user)
{
    struct sim_file *file = sim_file_of(user->ring_fd);

    if (file == NULL || file->kind != SIM_RING)
        sim_fail("a ring is used whose descriptor is not open");
    return file->ring;
}

static int passing_error(void)
{
    static const int errors[] = {-EAGAIN, -EBUSY, -ENOMEM};

    return errors[sim_random() % 3];
}

int lx_k_ring_submit(struct io_uring *user)
{
    struct sim_ring *ring = ring_of(user);
    unsigned count = user->sq.sqe_tail - ring->sq_head, done = 0;

    sim_enter_kernel();
    if (ring->single && sim.self->number != ring->owner)
        return -EEXIST;
    ring->sq_tail = user->sq.sqe_tail;
    user->sq.sqe_head = user->sq.sqe_tail;
    if (sim_fault(SIM_FAULT_SPURIOUS, 1))
        return -EINTR;
    if (sim_fault(SIM_FAULT_ERRORS, 1))
        return sim_chance(500) ? -EAGAIN : -EBUSY;
    if (count > 1 && sim_fault(SIM_FAULT_ERRORS, 5))
        count = 1 + (unsigned)(sim_random() % count);
    for (; done < count; done++) {
        struct io_uring_sqe sqe = ring->sqes[(ring->sq_head) & (ring->sq_entries - 1)];
        ring->sq_head++;
        run_entry(ring, &sqe);
    }
    return (int)done;
}

/* ---- waiting ---- */

static int wait_for_completions(struct sim_ring *ring, unsigned wanted, uint64_t until)
{
    for (;;) {
        flush_overflow(ring);
        run_items(ring);
        if (queued(ring) >= wanted)
            return 0;
        if (sim_fault(SIM_FAULT_SPURIOUS, 1))
            return sim_chance(300) ? 0 : -EINTR;
        if (sim_fault(SIM_FAULT_ERRORS, 1))
            return passing_error();
        ring->waiting = true;
        int rc = sim_sleep(until, "io_uring_enter");
        ring->waiting = false;
        if (rc == -ETIMEDOUT) {
            run_items(ring);
            return queued(ring) >= wanted ? 0 : -ETIME;
        }
    }
}

int lx_k_ring_enter(int ring_fd, unsigned min_complete, unsigned flags, const void *arg,
                    size_t arg_size)
{
    uint64_t until = SIM_NEVER;

    (void)arg_size;
    sim_enter_kernel();
    struct sim_file *file = sim_file_of(ring_fd);
    if (file == NULL)
        return -EBADF;
    if (file->kind != SIM_RING)
        return -EOPNOTSUPP;
    if ((flags & IORING_ENTER_GETEVENTS) == 0)
        return 0;
    struct sim_ring *ring = file->ring;
    if (ring->defer && sim.self->number != ring->owner)
        return -EEXIST;
    if ((flags & IORING_ENTER_EXT_ARG) != 0) {
        const struct io_uring_getevents_arg *events = arg;
        union {
            uint64_t bits;
            const struct __kernel_timespec *at;
        } ts = {.bits = events->ts};
        until = sim_now_ns() + (uint64_t)ts.at->tv_sec * UINT64_C(1000000000) +
                (uint64_t)ts.at->tv_nsec;
    }
    if (min_complete == 0) {
        flush_overflow(ring);
        run_items(ring);
        return 0;
    }
    return wait_for_completions(ring, min_complete, until);
}

int lx_k_ring_send(struct io_uring_sqe *sqe)
{
    sim_enter_kernel();
    if ((sim.faults & SIM_FAULT_OLD_KERNEL) != 0)
        return -EINVAL;
    return send_message(sqe->fd, sqe->off, (int32_t)sqe->len);
}

/* ---- life ---- */

static unsigned power_of_two(unsigned n)
{
    unsigned power = 1;

    while (power < n)
        power *= 2;
    return power;
}

static struct sim_ring *make_ring(unsigned sq_entries, unsigned cq_entries, unsigned flags,
                                  int *ret_fd)
{
    unsigned slot = 0;
    struct sim_ring *ring = calloc(1, sizeof *ring);

    while (slot < RINGS && rings[slot] != NULL)
        slot++;
    *ret_fd = sim_file_open(SIM_RING);
    if (*ret_fd < 0) {
        free(ring);
        return NULL;
    }
    if (slot == RINGS || ring == NULL)
        sim_fail("too many rings");
    ring->entries = power_of_two(cq_entries);
    ring->mask = ring->entries - 1;
    ring->cqes = calloc(ring->entries, sizeof *ring->cqes);
    ring->sq_entries = power_of_two(sq_entries);
    ring->sqes = calloc(ring->sq_entries, sizeof *ring->sqes);
    ring->owner = sim.self->number;
    ring->defer = (flags & IORING_SETUP_DEFER_TASKRUN) != 0;
    ring->single = (flags & IORING_SETUP_SINGLE_ISSUER) != 0;
    ring->file = sim_file_of(*ret_fd);
    ring->file->ring = ring;
    rings[slot] = ring;
    return ring;
}

/* What this kernel says to these flags. */
static int setup_error(unsigned flags)
{
    static const int refusals[] = {-EPERM, -ENOSYS, -ENOMEM};

    if ((sim.faults & SIM_FAULT_NO_RINGS) != 0)
        return refusals[sim.seed % 3];
    if ((sim.faults & SIM_FAULT_OLD_KERNEL) == 0)
        return 0;
    if ((flags & IORING_SETUP_DEFER_TASKRUN) != 0)
        return -EINVAL;
    return (flags & IORING_SETUP_SINGLE_ISSUER) != 0 && sim.seed % 2 == 0 ? -EINVAL : 0;
}

int lx_k_ring_create(struct io_uring *user, unsigned entries, struct io_uring_params *params)
{
    static const unsigned small[] = {1, 2, 4, 8};
    int fd, rc = setup_error(params->flags);

    sim_enter_kernel();
    if (rc < 0)
        return rc;
    bool tiny = (sim.faults & SIM_FAULT_OVERFLOW) != 0;
    struct sim_ring *ring =
        make_ring(entries, tiny ? small[sim_random() % 4] : params->cq_entries, params->flags, &fd);
    if (ring == NULL)
        return fd;
    memset(user, 0, sizeof *user);
    user->sq.khead = &ring->sq_head;
    user->sq.ktail = &ring->sq_tail;
    user->sq.kflags = &ring->sq_flags;
    user->sq.sqes = ring->sqes;
    user->sq.ring_mask = ring->sq_entries - 1;
    user->sq.ring_entries = ring->sq_entries;
    user->cq.khead = &ring->head;
    user->cq.ktail = &ring->tail;
    user->cq.kflags = &ring->flags;
    user->cq.cqes = ring->cqes;
    user->cq.ring_mask = ring->mask;
    user->cq.ring_entries = ring->entries;
    user->flags = params->flags;
    user->ring_fd = user->enter_ring_fd = fd;
    user->features = IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_CQE_SKIP;
    if ((sim.faults & SIM_FAULT_OLD_KERNEL) == 0)
        user->features |= IORING_FEAT_NO_IOWAIT;
    ring->user = user;
    return 0;
}

void lx_k_ring_destroy(struct io_uring *user)
{
    ring_of(user)->user = NULL;
    lx_k_close(user->ring_fd);
}

void sim_ring_destroy(struct sim_ring *ring)
{
    for (unsigned i = 0; i < RINGS; i++) {
        if (rings[i] == ring)
            rings[i] = NULL;
    }
    free(ring->cqes);
    free(ring->sqes);
    free(ring->item);
    free(ring->overflow);
    free(ring);
}

void sim_kernel_fiber_ended(const struct sim_fiber *fiber)
{
    for (unsigned i = 0; i < RINGS; i++) {
        if (rings[i] != NULL && rings[i]->owner == fiber->number)
            rings[i]->owner_gone = true;
    }
}

/* ---- users' own rings (sim.h) ---- */

int sim_ring_open(unsigned entries, bool defer)
{
    int fd;
    unsigned flags = defer ? IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN : 0;

    sim_enter_kernel();
    int rc = setup_error(flags);
    if (rc < 0)
        return rc;
    make_ring(8, entries, flags, &fd);
    return fd;
}

unsigned sim_ring_reap(int fd, struct sim_cqe *ret_cqes, unsigned max, uint64_t timeout_ns)
{
    sim_enter_kernel();
    struct sim_ring *ring = sim_file_of(fd)->ring;
    uint64_t now = sim_now_ns();
    uint64_t until = timeout_ns > SIM_NEVER - now ? SIM_NEVER : now + timeout_ns;
    unsigned taken = 0;

    if (timeout_ns > 0) {
        while (queued(ring) == 0 && wait_for_completions(ring, 1, until) != -ETIME)
            sim_one_step();
    } else {
        flush_overflow(ring);
        run_items(ring);
    }
    while (taken < max && queued(ring) > 0) {
        const struct io_uring_cqe *cqe = &ring->cqes[ring->head & ring->mask];
        ret_cqes[taken++] = (struct sim_cqe){.user_data = cqe->user_data, .res = cqe->res};
        ring->head++;
        if (queued(ring) == 0)
            flush_overflow(ring);
    }
    return taken;
}

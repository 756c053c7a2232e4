/* The model kernel's descriptors, eventfds and poll(2). */
#include "kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_FD  3
#define WORDS_MAX 512u

static struct sim_file *files[SIM_FILES];
static char last_words[WORDS_MAX];

ssize_t sim_write(int fd, const void *buffer, size_t size);

/* ---- the table ---- */

struct sim_file *sim_file_of(int fd)
{
    return fd >= 0 && (unsigned)fd < SIM_FILES ? files[fd] : NULL;
}

static int lowest_free(void)
{
    int fd = FIRST_FD;

    while ((unsigned)fd < SIM_FILES && files[fd] != NULL)
        fd++;
    if ((unsigned)fd == SIM_FILES)
        sim_fail("all descriptors are in use: a leak");
    return fd;
}

static bool table_full(void)
{
    return sim.self->no_memory_faults == 0 && (sim.faults & SIM_FAULT_MEMORY) != 0 &&
           sim_random() % 50 == 0;
}

int sim_file_open(enum sim_file_kind kind)
{
    if (table_full())
        return -EMFILE;
    int fd = lowest_free();
    struct sim_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        sim_fail("no memory for the model");
    file->kind = kind;
    file->refs = 1;
    files[fd] = file;
    return fd;
}

int lx_k_dup_cloexec(int fd)
{
    sim_enter_kernel();
    struct sim_file *file = sim_file_of(fd);
    if (file == NULL)
        return -EBADF;
    if (table_full())
        return -EMFILE;
    int copy = lowest_free();
    files[copy] = file;
    file->refs++;
    return copy;
}

void lx_k_close(int fd)
{
    sim_enter_kernel();
    struct sim_file *file = sim_file_of(fd);
    if (file == NULL)
        sim_fail("close of descriptor %d, which is not open", fd);
    files[fd] = NULL;
    if (--file->refs > 0)
        return;
    if (file->kind == SIM_EVENTFD)
        sim_ring_polls_drop(file);
    else
        sim_ring_destroy(file->ring);
    free(file);
}

void sim_kernel_check_empty(void)
{
    for (unsigned fd = 0; fd < SIM_FILES; fd++) {
        if (files[fd] != NULL)
            sim_fail("descriptor %u was not closed", fd);
    }
}

/* ---- eventfds ---- */

bool sim_file_readable(const struct sim_file *file)
{
    return file->kind == SIM_EVENTFD ? file->count > 0 : sim_ring_readable(file->ring);
}

void sim_file_notify(struct sim_file *file)
{
    for (unsigned i = 0; i < SIM_FIBERS; i++) {
        struct sim_fiber *fiber = &sim.fiber[i];
        for (unsigned k = 0; fiber->state == SIM_ASLEEP && k < fiber->polled_count; k++) {
            if (sim_file_of(fiber->polled[k].fd) == file)
                sim_wake(fiber, 0);
        }
    }
}

int lx_k_eventfd(void)
{
    sim_enter_kernel();
    return sim_file_open(SIM_EVENTFD);
}

int lx_k_eventfd_add(int fd)
{
    sim_enter_kernel();
    struct sim_file *file = sim_file_of(fd);
    if (file == NULL || file->kind != SIM_EVENTFD)
        return -EBADF;
    if (sim_fault(SIM_FAULT_SPURIOUS, 1))
        return -EINTR;
    file->count++;
    sim_ring_polls_fire(file);
    sim_file_notify(file);
    return 0;
}

int lx_k_eventfd_take(int fd)
{
    sim_enter_kernel();
    struct sim_file *file = sim_file_of(fd);
    if (file == NULL || file->kind != SIM_EVENTFD)
        return -EBADF;
    int had = file->count > 0;
    file->count = 0;
    return had;
}

/* ---- poll ---- */

static int count_ready(struct pollfd *fds, unsigned count)
{
    int ready = 0;

    for (unsigned i = 0; i < count; i++) {
        const struct sim_file *file = sim_file_of(fds[i].fd);
        fds[i].revents = 0;
        if (file == NULL)
            fds[i].revents = POLLNVAL;
        else if (sim_file_readable(file))
            fds[i].revents = POLLIN;
        ready += fds[i].revents != 0;
    }
    return ready;
}

int sim_poll(struct pollfd *fds, unsigned count, uint64_t timeout_ns)
{
    sim_enter_kernel();
    uint64_t now = sim_now_ns();
    uint64_t until = timeout_ns > SIM_NEVER - now ? SIM_NEVER : now + timeout_ns;
    if (sim_fault(SIM_FAULT_SPURIOUS, 1))
        return -EINTR;
    for (;;) {
        int ready = count_ready(fds, count);
        if (ready > 0 || timeout_ns == 0)
            return ready;
        sim.self->polled = fds;
        sim.self->polled_count = count;
        if (sim_sleep(until, "poll") == -ETIMEDOUT)
            return count_ready(fds, count);
    }
}

int lx_k_poll(struct pollfd *fds, unsigned count, uint64_t timeout_ns)
{
    return sim_poll(fds, count, timeout_ns);
}

/* ---- the rest of ring/kernel.h that is no ring ---- */

uint64_t lx_k_now_ns(void)
{
    sim_one_step();
    return sim_now_ns();
}

int lx_k_read_file(const char *path, char *buf, size_t size)
{
    (void)path;
    (void)buf;
    (void)size;
    return -ENOENT;
}

int lx_k_release(char *buf, size_t size)
{
    (void)snprintf(buf, size, "0.0.0-model");
    return 0;
}

uint64_t lx_k_memlock_limit(void)
{
    return UINT64_MAX;
}

/* ---- what a failed assertion says ---- */

ssize_t sim_write(int fd, const void *buffer, size_t size)
{
    if (fd != STDERR_FILENO)
        sim_fail("write to descriptor %d", fd);
    snprintf(last_words, sizeof last_words, "%.*s", (int)size, (const char *)buffer);
    return (ssize_t)size;
}

const char *sim_last_words(void)
{
    return last_words;
}

/* ---- for users (sim.h) ---- */

bool sim_fd_readable(int fd)
{
    const struct sim_file *file = sim_file_of(fd);

    return file != NULL && sim_file_readable(file);
}

bool sim_fd_wait(int fd, uint64_t timeout_ns)
{
    uint64_t now = sim_now_ns();
    uint64_t until = timeout_ns > SIM_NEVER - now ? SIM_NEVER : now + timeout_ns;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int rc;

    do {
        now = sim_now_ns();
        rc = sim_poll(&p, 1, until == SIM_NEVER ? SIM_NEVER : until > now ? until - now : 0);
    } while (rc == -EINTR);
    return rc > 0 && (p.revents & POLLIN) != 0;
}

void sim_fd_close(int fd)
{
    lx_k_close(fd);
}

#include "ring/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define LX_NS_PER_S 1000000000ULL

/* syscall() reports through errno, which belongs to the caller of the library. */
#define LX_SYSCALL(...)                                                                            \
    __extension__({                                                                                \
        int lx_saved_ = errno;                                                                     \
        long lx_rc_ = syscall(__VA_ARGS__);                                                        \
        if (lx_rc_ < 0)                                                                            \
            lx_rc_ = -errno;                                                                       \
        errno = lx_saved_;                                                                         \
        lx_rc_;                                                                                    \
    })

uint64_t lx_k_now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts); /* vDSO; cannot fail for this clock */
    return (uint64_t)ts.tv_sec * LX_NS_PER_S + (uint64_t)ts.tv_nsec;
}

int lx_k_eventfd(void)
{
    return (int)LX_SYSCALL(SYS_eventfd2, 0, EFD_NONBLOCK | EFD_CLOEXEC);
}

int lx_k_eventfd_add(int fd)
{
    uint64_t one = 1;
    long rc = LX_SYSCALL(SYS_write, fd, &one, sizeof one);
    return rc < 0 ? (int)rc : 0;
}

int lx_k_eventfd_take(int fd)
{
    uint64_t count;
    long rc = LX_SYSCALL(SYS_read, fd, &count, sizeof count);
    if (rc == -EAGAIN)
        return 0;
    return rc < 0 ? (int)rc : 1;
}

int lx_k_dup_cloexec(int fd)
{
    return (int)LX_SYSCALL(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);
}

void lx_k_close(int fd)
{
    (void)LX_SYSCALL(SYS_close, fd);
}

int lx_k_poll(struct pollfd *fds, unsigned count, uint64_t timeout_ns)
{
    /* The library's struct timespec is the kernel's where long has 64 bits; a build where it has
       not must convert first. */
    _Static_assert(sizeof(struct timespec) == sizeof(struct __kernel_timespec),
                   "ppoll takes a 64-bit timespec");
    struct timespec ts = {
        .tv_sec = (time_t)(timeout_ns / LX_NS_PER_S),
        .tv_nsec = (long)(timeout_ns % LX_NS_PER_S),
    };
    return (int)LX_SYSCALL(SYS_ppoll, fds, count, timeout_ns == UINT64_MAX ? NULL : &ts, NULL, 0);
}

int lx_k_read_file(const char *path, char *buf, size_t size)
{
    int fd = (int)LX_SYSCALL(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fd;
    long n = LX_SYSCALL(SYS_read, fd, buf, size - 1);
    lx_k_close(fd);
    if (n < 0)
        return (int)n;
    while (n > 0 && buf[n - 1] == '\n')
        n--;
    buf[n] = '\0';
    return (int)n;
}

int lx_k_release(char *buf, size_t size)
{
    struct utsname name;
    int saved = errno;
    int rc = uname(&name) < 0 ? -errno : 0;
    errno = saved;
    if (rc == 0)
        (void)snprintf(buf, size, "%s", name.release);
    return rc;
}

uint64_t lx_k_memlock_limit(void)
{
    struct rlimit limit;
    int saved = errno;
    int rc = getrlimit(RLIMIT_MEMLOCK, &limit);
    errno = saved;
    return rc < 0 || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit.rlim_cur;
}

int lx_k_ring_create(struct io_uring *ring, unsigned entries, struct io_uring_params *params)
{
    int saved = errno;
    int rc = io_uring_queue_init_params(entries, ring, params);
    errno = saved;
    return rc;
}

void lx_k_ring_destroy(struct io_uring *ring)
{
    int saved = errno;
    io_uring_queue_exit(ring);
    errno = saved;
}

int lx_k_ring_submit(struct io_uring *ring)
{
    int saved = errno;
    int rc = io_uring_submit(ring);
    errno = saved;
    return rc;
}

int lx_k_ring_enter(int ring_fd, unsigned min_complete, unsigned flags, const void *arg,
                    size_t arg_size)
{
    return (int)LX_SYSCALL(SYS_io_uring_enter, ring_fd, 0U, min_complete, flags, arg, arg_size);
}

int lx_k_ring_send(struct io_uring_sqe *sqe)
{
    long rc = LX_SYSCALL(SYS_io_uring_register, -1, LX_REGISTER_SEND_MSG_RING, sqe, 1U);
    return rc < 0 ? (int)rc : 0;
}

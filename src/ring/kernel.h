/*
 * ring/kernel.h - every system call that src/ring makes, and ports for their doorbells, one small
 * function each.
 *
 * Nothing else in src/ring enters the kernel, so this file is where faults are injected and where a
 * simulated kernel would be put. All functions return 0 or a positive value, or -errno; none
 * touches errno; none is a pthread cancellation point (raw system calls, since a caller's thread
 * must not be cancelled in the middle of a submit).
 */
#ifndef LX_RING_KERNEL_H
#define LX_RING_KERNEL_H

#include <liburing.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Newer than the headers of liburing 2.3. Each is used only after the running kernel has been seen
 * to take it.
 */
#ifndef IORING_FEAT_NO_IOWAIT
#define IORING_FEAT_NO_IOWAIT (1U << 17) /* Linux 6.15 */
#endif
#ifndef IORING_ENTER_NO_IOWAIT
#define IORING_ENTER_NO_IOWAIT (1U << 7) /* Linux 6.15 */
#endif
/* IORING_REGISTER_SEND_MSG_RING, Linux 6.13. An enumerator where the headers have it, hence our own
   name. */
#define LX_REGISTER_SEND_MSG_RING 31U

/* Monotonic nanoseconds. */
uint64_t lx_k_now_ns(void);

int lx_k_eventfd(void);
int lx_k_eventfd_add(int fd);
/* 1 if there was something to take, 0 if the counter was 0. */
int lx_k_eventfd_take(int fd);
int lx_k_dup_cloexec(int fd);
void lx_k_close(int fd);
/* UINT64_MAX waits for ever. The number of ready descriptors, 0 on timeout, -errno. */
int lx_k_poll(struct pollfd *fds, unsigned count, uint64_t timeout_ns);
/* The text of a small file, without its last newline; its length. */
int lx_k_read_file(const char *path, char *buf, size_t size);

/* The kernel's release, as "6.1.0-13-amd64". */
int lx_k_release(char *buf, size_t size);
/* The soft RLIMIT_MEMLOCK in bytes, UINT64_MAX if there is none. */
uint64_t lx_k_memlock_limit(void);

int lx_k_ring_create(struct io_uring *ring, unsigned entries, struct io_uring_params *params);
void lx_k_ring_destroy(struct io_uring *ring);
/* Gives the kernel what was prepared; how many entries it took. */
int lx_k_ring_submit(struct io_uring *ring);
int lx_k_ring_enter(int ring_fd, unsigned min_complete, unsigned flags, const void *arg,
                    size_t arg_size);
/* A message entry without a ring of one's own. */
int lx_k_ring_send(struct io_uring_sqe *sqe);

#endif

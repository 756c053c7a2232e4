/*
 * Comes before everything else in lanex's sources when they are compiled for the simulated world:
 * what they ask of the C library and the system goes to tests/sim instead. See ../sim.h.
 */
#ifndef LX_SIM_SHIM_WORLD_H
#define LX_SIM_SHIM_WORLD_H

/* First, so that its inline functions keep their own atomics: a ring's indices are read plainly by
   the thread that has stored them, which must not meet a store buffer. */
#include <liburing.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <stdatomic.h>

/* Thread-locals are one section, which is exchanged when another fiber goes on. */
#undef _Thread_local
#define _Thread_local __attribute__((section("sim_tls")))

long sim_syscall(long number, ...);
int sim_clock_gettime(clockid_t clock, struct timespec *ret_time);
int sim_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes,
                       void *(*run)(void *), void *arg);
int sim_pthread_join(pthread_t thread, void **ret_value);
int sim_pthread_detach(pthread_t thread);
int sim_name_thread(const char *name);
int sim_sched_yield(void);
int sim_sched_getcpu(void);
long sim_sysconf(int name);
void sim_pause(void);
void *sim_malloc(size_t size);
void *sim_calloc(size_t count, size_t size);
void sim_free(void *memory);
void *sim_mmap(size_t size);
int sim_munmap(void *memory, size_t size);
ssize_t sim_write(int fd, const void *buffer, size_t size);
_Noreturn void sim_abort(void);

#define syscall(...)                     sim_syscall(__VA_ARGS__)
#define clock_gettime(clock, time)       sim_clock_gettime(clock, time)
#define pthread_create(t, a, run, arg)   sim_pthread_create(t, a, run, arg)
#define pthread_join(t, value)           sim_pthread_join(t, value)
#define pthread_detach(t)                sim_pthread_detach(t)
#define prctl(what, name)                sim_name_thread(name)
#define pthread_sigmask(how, set, old)   ((void)(set), (void)(old), 0)
#define pthread_setcancelstate(new, old) ((void)(old), 0)
#define sched_yield()                    sim_sched_yield()
#define sched_getcpu()                   sim_sched_getcpu()
#define sysconf(name)                    sim_sysconf(name)
#define __builtin_ia32_pause()           sim_pause()
#define malloc                           sim_malloc
#define calloc                           sim_calloc
#define free                             sim_free
#define mmap(at, size, ...)              sim_mmap(size)
#define munmap(at, size)                 sim_munmap(at, size)
#define madvise(at, size, what)          ((void)(at), (void)(size), 0)
#define write(fd, buffer, size)          sim_write(fd, buffer, size)
#define abort()                          sim_abort()

#endif

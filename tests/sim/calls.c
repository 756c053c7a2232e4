/* What lanex asks of the C library and of the kernel beside rings: futexes, threads, clocks, CPUs.
 */
#include "world.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SEC  UINT64_C(1000000000)
#define TICK_NS     UINT64_C(4000000) /* the coarse clock's steps */
#define FUTEX_WAITV 449
#define PID         4242

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
_Noreturn void sim_abort(void);

/* ---- clocks and CPUs ---- */

int sim_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    sim_one_step();
    uint64_t now = sim_now_ns();
    if (clock == CLOCK_MONOTONIC_COARSE)
        now -= now % TICK_NS;
    ret_time->tv_sec = (time_t)(now / NS_PER_SEC);
    ret_time->tv_nsec = (long)(now % NS_PER_SEC);
    return 0;
}

int sim_sched_yield(void)
{
    sim_drain_own();
    sim.step++;
    sim_give_way();
    return 0;
}

void sim_pause(void)
{
    sim.step++;
    if (sim_chance(300))
        sim_give_way();
    else if (--sim.countdown <= 0)
        sim_look();
}

int sim_sched_getcpu(void)
{
    return (int)(sim_random() % sim.cpus);
}

long sim_sysconf(int name)
{
    if (name == _SC_PAGESIZE)
        return 4096;
    return (long)sim.cpus; /* the only other questions are about CPUs */
}

void sim_abort(void)
{
    sim_fail("abort: %s", sim_last_words());
}

/* ---- where a turn decides (the linker puts this before the real one) ---- */

struct lx_admission;
void __real_lx_admission_schedule(struct lx_admission *adm);
void __wrap_lx_admission_schedule(struct lx_admission *adm);
/* check_turns.c: what the turn decided, beside what the reference does. */
void check_turn_after(struct lx_admission *adm);

void __wrap_lx_admission_schedule(struct lx_admission *adm)
{
    __real_lx_admission_schedule(adm);
    check_turn_after(adm);
    if (sim_hooks.on_turn != NULL)
        sim_hooks.on_turn();
}

/* Admission keeps readers and writers apart, so a worker of users who hold no epoch themselves
 * finds each gate open. */
bool sim_gates_are_open;
struct lanex_epoch;
struct lanex_cancellation;
int __real_lx_epoch_read_wait(struct lanex_epoch *e, uint64_t met, uint64_t deadline_ns,
                              struct lanex_cancellation *token);
int __wrap_lx_epoch_read_wait(struct lanex_epoch *e, uint64_t met, uint64_t deadline_ns,
                              struct lanex_cancellation *token);
int __real_lx_epoch_write_wait(struct lanex_epoch *e, uint64_t deadline_ns,
                               struct lanex_cancellation *token);
int __wrap_lx_epoch_write_wait(struct lanex_epoch *e, uint64_t deadline_ns,
                               struct lanex_cancellation *token);

static void check_gate(void)
{
    if (sim_gates_are_open && strncmp(sim.self->name, "lanex-w", 7) == 0)
        sim_fail("%s finds the gate of its job closed", sim.self->name);
}

int __wrap_lx_epoch_read_wait(struct lanex_epoch *e, uint64_t met, uint64_t deadline_ns,
                              struct lanex_cancellation *token)
{
    check_gate();
    return __real_lx_epoch_read_wait(e, met, deadline_ns, token);
}

int __wrap_lx_epoch_write_wait(struct lanex_epoch *e, uint64_t deadline_ns,
                               struct lanex_cancellation *token)
{
    check_gate();
    return __real_lx_epoch_write_wait(e, deadline_ns, token);
}

/* ---- futexes ---- */

static uint64_t deadline_of(const struct timespec *time)
{
    if (time == NULL)
        return SIM_NEVER;
    return (uint64_t)time->tv_sec * NS_PER_SEC + (uint64_t)time->tv_nsec;
}

static uint32_t word_at(const void *at)
{
    sim_memory_check(at);
    return *(const volatile uint32_t *)at;
}

static long failed(int error)
{
    errno = error;
    return -1;
}

static long wait_result(int woken)
{
    return woken < 0 ? failed(-woken) : 0;
}

static long futex_wait(const void *word, uint32_t expected, uint64_t deadline)
{
    if (word_at(word) != expected)
        return failed(EAGAIN);
    if (sim_fault(SIM_FAULT_SPURIOUS, 1))
        return sim_chance(500) ? 0 : failed(EINTR);
    sim.self->word[0] = word;
    return wait_result(sim_sleep(deadline, "futex"));
}

static long futex_wake(const void *word, int count)
{
    int woken = 0;

    while (woken < count) {
        struct sim_fiber *longest = NULL;
        for (unsigned i = 0; i < SIM_FIBERS; i++) {
            struct sim_fiber *fiber = &sim.fiber[i];
            if (fiber->state == SIM_ASLEEP && (fiber->word[0] == word || fiber->word[1] == word) &&
                (longest == NULL || fiber->sleep_no < longest->sleep_no))
                longest = fiber;
        }
        if (longest == NULL)
            break;
        sim_wake(longest, 0);
        woken++;
    }
    return woken;
}

/* The kernel's struct futex_waitv. */
struct waitv {
    uint64_t val, uaddr;
    uint32_t flags, reserved;
};

static const void *address_of(uint64_t bits)
{
    union {
        uint64_t bits;
        const void *at;
    } both = {.bits = bits};
    return both.at;
}

static long futex_waitv(const struct waitv *two, uint64_t deadline)
{
    if ((sim.faults & SIM_FAULT_ERRORS) != 0 && sim.seed % 5 == 0)
        return failed(ENOSYS);
    if (sim_fault(SIM_FAULT_ERRORS, 1))
        return failed(ENOMEM);
    for (int i = 0; i < 2; i++) {
        if (word_at(address_of(two[i].uaddr)) != (uint32_t)two[i].val)
            return failed(EAGAIN);
    }
    if (sim_fault(SIM_FAULT_SPURIOUS, 1))
        return sim_chance(500) ? 0 : failed(EINTR);
    for (int i = 0; i < 2; i++)
        sim.self->word[i] = address_of(two[i].uaddr);
    return wait_result(sim_sleep(deadline, "futex_waitv"));
}

/* ---- the other system calls ---- */

static long get_affinity(unsigned char *mask, size_t size)
{
    memset(mask, 0, size);
    for (uint32_t i = 0; i < sim.cpus; i++)
        mask[i / 8] = (unsigned char)(mask[i / 8] | (1u << (i % 8)));
    return 8;
}

static long get_random(unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)sim_random();
    return (long)size;
}

long sim_syscall(long number, ...)
{
    long a[6];
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long); /* whatever stands there, as the kernel reads registers */
    va_end(args);
    union {
        long bits;
        void *at;
    } first = {.bits = a[0]}, second = {.bits = a[1]}, third = {.bits = a[2]},
      fourth = {.bits = a[3]};

    if (number != SYS_getpid)
        sim_enter_kernel();
    switch (number) {
    case SYS_futex:
        if (((int)a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE)
            return futex_wake(first.at, (int)a[2]);
        return futex_wait(first.at, (uint32_t)a[2], deadline_of(fourth.at));
    case FUTEX_WAITV:
        return futex_waitv(first.at, deadline_of(fourth.at));
    case SYS_getpid:
        return PID;
    case SYS_gettid:
        return PID + (long)sim.self->number;
    case SYS_getrandom:
        return get_random(first.at, (size_t)a[1]);
    case SYS_sched_getaffinity:
        return get_affinity(third.at, (size_t)a[1]);
    case SYS_sched_setaffinity:
        return 0;
    case SYS_openat:
        (void)second;
        return failed(ENOENT);
    default:
        return failed(ENOSYS);
    }
}

/* ---- threads ---- */

int sim_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes,
                       void *(*run)(void *), void *arg)
{
    (void)attributes;
    sim_enter_kernel();
    if (sim.self->no_memory_faults == 0 && (sim.faults & SIM_FAULT_MEMORY) != 0 &&
        sim_random() % 50 == 0)
        return EAGAIN;
    struct sim_fiber *fiber = sim_fiber_start(run, arg, "thread");
    if (fiber == NULL)
        return EAGAIN;
    *ret_thread = fiber->number;
    return 0;
}

int sim_pthread_join(pthread_t thread, void **ret_value)
{
    (void)ret_value;
    sim_enter_kernel();
    struct sim_fiber *fiber = sim_fiber_numbered((uint32_t)thread);
    if (fiber == NULL || fiber->detached)
        sim_fail("join of a thread that is not there");
    while (fiber->state != SIM_ENDED) {
        sim.self->object = fiber;
        sim_sleep(SIM_NEVER, "pthread_join");
    }
    fiber->state = SIM_FREE;
    return 0;
}

int sim_pthread_detach(pthread_t thread)
{
    struct sim_fiber *fiber = sim_fiber_numbered((uint32_t)thread);

    if (fiber == NULL)
        sim_fail("detach of a thread that is not there");
    fiber->detached = true;
    if (fiber->state == SIM_ENDED)
        fiber->state = SIM_FREE;
    return 0;
}

int sim_name_thread(const char *name)
{
    snprintf(sim.self->name, sizeof sim.self->name, "%s", name);
    return 0;
}

/* ---- for user threads (sim.h) ---- */

struct start {
    void (*fn)(void *arg);
    void *arg;
};
static struct start starts[SIM_FIBERS];

static void *run_user(void *arg)
{
    struct start *start = arg;

    start->fn(start->arg);
    return NULL;
}

unsigned sim_spawn(void (*fn)(void *arg), void *arg, const char *name)
{
    struct sim_fiber *fiber = sim_fiber_start(run_user, NULL, name);

    if (fiber == NULL)
        sim_fail("too many threads");
    struct start *start = &starts[fiber->slot];
    *start = (struct start){fn, arg};
    fiber->arg = start;
    return fiber->number;
}

void sim_join(unsigned thread)
{
    (void)sim_pthread_join(thread, NULL);
}

void sim_yield(void)
{
    sim_one_step();
}

void sim_sleep_ns(uint64_t ns)
{
    sim_enter_kernel();
    uint64_t until = sim_now_ns() + ns;
    while (sim_now_ns() < until)
        sim_sleep(until, "sleep");
}

void sim_latch_add(struct sim_latch *latch, uint64_t by)
{
    sim_enter_kernel();
    latch->count += by;
    for (unsigned i = 0; i < SIM_FIBERS; i++) {
        if (sim.fiber[i].object == latch)
            sim_wake(&sim.fiber[i], 0);
    }
}

bool sim_latch_wait(struct sim_latch *latch, uint64_t wanted, uint64_t timeout_ns)
{
    sim_enter_kernel();
    uint64_t now = sim_now_ns(),
             until = timeout_ns > SIM_NEVER - now ? SIM_NEVER : now + timeout_ns;
    while (latch->count < wanted) {
        sim.self->object = latch;
        if (sim_sleep(until, "latch") == -ETIMEDOUT) {
            sim.self->object = NULL;
            return latch->count >= wanted;
        }
    }
    return true;
}

unsigned sim_self(void)
{
    return sim.self->number;
}

void sim_no_memory_faults(int change)
{
    sim.self->no_memory_faults += change;
}

/* Threads as fibers: starting, ending, sleeping, and whose turn it is. */
#include "world.h"

#include "sync/seams.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_BYTES      ((size_t)256 << 10)
#define STACK_BASE       ((char *)0x210000000000) /* fixed: addresses are the same each time */
#define STACK_GUARD      ((size_t)4096)
#define ALONE_MAX        400u  /* looks after which a fiber that keeps the turn has to give way */
#define STORE_AGE_MAX    3000u /* steps after which a store has reached memory */
#define START_NS         UINT64_C(1000000000000)
#define PRIORITY_MID     (UINT64_C(1) << 62)
#define BRISK_STEPS      5000u /* of a job that counts as a short one */
#define SPIN_STEPS_LEAST 50u   /* steps that a spin lasts, if there is any: so many, */
#define SPIN_STEPS       2000u /* and up to so many more */
#define SPIN_US_MOST     1000u /* LANEX_SPIN_MAX_US */

struct sim_world sim;
struct sim_hooks sim_hooks;

extern unsigned char __start_sim_tls[] __attribute__((visibility("hidden")));
extern unsigned char __stop_sim_tls[] __attribute__((visibility("hidden")));

static size_t tls_size(void)
{
    /* The linker's names for the two ends of one section. */
    /* cppcheck-suppress comparePointers */
    return (size_t)(__stop_sim_tls - __start_sim_tls);
}

/* ---- randomness: splitmix64 ---- */

uint64_t sim_draw(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t sim_random(void)
{
    return sim_draw(&sim.random);
}

bool sim_chance(unsigned permille)
{
    return sim_random() % 1000 < permille;
}

bool sim_fault(uint32_t kind, unsigned weight)
{
    return (sim.faults & kind) != 0 && sim_random() % 1000 < (uint64_t)sim.fault_permille * weight;
}

void sim_mix(uint64_t value)
{
    sim.hash = (sim.hash ^ value) * UINT64_C(0x9FB21C651E98DF25);
    sim.hash ^= sim.hash >> 29;
}

/* ---- the switch ---- */

/* Callee-saved registers and the stack pointer; the rest is the caller's by the ABI. */
void sim_switch(void **save, void *load);
__asm__(".text\n.globl sim_switch\n.type sim_switch,@function\nsim_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size sim_switch,.-sim_switch\n");

static void switch_to(struct sim_fiber *next)
{
    struct sim_fiber *previous = sim.self;

    if (next == previous)
        return;
    sim.switches++;
    sim.alone = 0;
    sim_mix(sim.step * SIM_FIBERS + next->slot);
    memcpy(previous->tls, __start_sim_tls, tls_size());
    memcpy(__start_sim_tls, next->tls, tls_size());
    previous->saved_errno = errno;
    errno = next->saved_errno;
    sim.self = next;
    sim_switch(&previous->stack_pointer, next->stack_pointer);
}

/* ---- whose turn ---- */

static void set_countdown(void)
{
    uint64_t mean = sim.stretch;

    sim.countdown = 1 + (int64_t)(sim_random() % (2 * mean));
}

static void pass_time(void)
{
    sim.now_ns += (sim.step - sim.time_step) * sim.ns_per_step;
    sim.time_step = sim.step;
}

uint64_t sim_now_ns(void)
{
    return sim.now_ns + (sim.step - sim.time_step) * sim.ns_per_step;
}

uint64_t sim_step_ns(void)
{
    return sim.ns_per_step;
}

/* Not of the run's stream, nor of the scenario's: the seeds without it are what they were. */
uint32_t sim_spin_us(void)
{
    uint64_t state = sim.seed ^ UINT64_C(0x9FB21C651E98DF25);
    uint64_t us;

    if (sim_draw(&state) % 3 != 0)
        return 0;
    us = (SPIN_STEPS_LEAST + sim_draw(&state) % SPIN_STEPS) * sim.ns_per_step / 1000;
    return us > SPIN_US_MOST ? SPIN_US_MOST : us > 0 ? (uint32_t)us : 1;
}

/* Likewise: in one run of three workers soon count as brisk, and nap. */
uint64_t sim_brisk_ns(void)
{
    uint64_t state = sim.seed ^ UINT64_C(0x2545F4914F6CDD1D);

    return sim_draw(&state) % 3 == 0 ? BRISK_STEPS * sim.ns_per_step : LX_BRISK_NS;
}

uint64_t sim_step(void)
{
    return sim.step;
}

static void wake_expired(void)
{
    uint64_t next = SIM_NEVER;

    for (unsigned i = 0; i < SIM_FIBERS; i++) {
        struct sim_fiber *fiber = &sim.fiber[i];
        if (fiber->state != SIM_ASLEEP)
            continue;
        if (fiber->deadline <= sim.now_ns)
            sim_wake(fiber, -ETIMEDOUT);
        else if (fiber->deadline < next)
            next = fiber->deadline;
    }
    sim.next_deadline = next;
}

static void drain_some(void)
{
    for (uint64_t left = sim.buffered; left != 0; left &= left - 1) {
        struct sim_fiber *fiber = &sim.fiber[__builtin_ctzll(left)];
        if (sim.step - fiber->store[0].step > STORE_AGE_MAX)
            sim_drain(fiber, fiber->stores);
        else if (sim_chance(sim.drain_permille))
            sim_drain(fiber, 1 + (uint32_t)(sim_random() % fiber->stores));
    }
}

static struct sim_fiber *nth_ready(unsigned n)
{
    uint64_t left = sim.ready;

    while (n-- > 0)
        left &= left - 1;
    return &sim.fiber[__builtin_ctzll(left)];
}

static struct sim_fiber *highest(void)
{
    struct sim_fiber *best = NULL;

    for (uint64_t left = sim.ready; left != 0; left &= left - 1) {
        struct sim_fiber *fiber = &sim.fiber[__builtin_ctzll(left)];
        if (best == NULL || fiber->priority > best->priority)
            best = fiber;
    }
    return best;
}

static struct sim_fiber *choose(void)
{
    unsigned count = (unsigned)__builtin_popcountll(sim.ready);

    if (count == 1)
        return nth_ready(0);
    if (sim.policy != SIM_POLICY_PRIORITIES)
        return nth_ready((unsigned)(sim_random() % count));
    if (sim.step >= sim.next_change) {
        highest()->priority = sim.low_priority--;
        sim.next_change = sim.step + 1 + sim_random() % 20000;
    }
    return highest();
}

/* Nobody can run: the time of whatever comes next, or the end. */
static void jump(void)
{
    uint64_t next = sim_kernel_tick();

    if (sim.ready != 0)
        return;
    wake_expired();
    if (sim.ready != 0)
        return;
    /* While the kernel has something to post, nothing is lost yet. */
    if (next == SIM_NEVER && sim_hooks.on_quiet != NULL)
        sim_hooks.on_quiet(sim.next_deadline);
    if (sim.next_deadline < next)
        next = sim.next_deadline;
    if (next == SIM_NEVER) {
        sim_fail("every thread sleeps and nothing will wake one: a lost wake");
    }
    if (next > sim.now_ns)
        sim.now_ns = next;
    sim_mix(sim.now_ns);
    sim_kernel_tick();
    wake_expired();
}

static void next_turn(void)
{
    pass_time();
    if (sim.step >= sim.limit) {
        sim_fail("no end after %llu steps", (unsigned long long)sim.limit);
    }
    while (sim.ready == 0)
        jump();
    set_countdown();
    switch_to(choose());
}

void sim_look(void)
{
    pass_time();
    sim_kernel_tick();
    if (sim.now_ns >= sim.next_deadline)
        wake_expired();
    if (sim.buffered != 0)
        drain_some();
    if (++sim.alone > ALONE_MAX)
        sim_give_way();
    else
        next_turn();
}

void sim_give_way(void)
{
    struct sim_fiber *self = sim.self;

    self->priority = sim.low_priority--;
    sim.alone = 0;
    if ((sim.ready & (sim.ready - 1)) != 0 && sim.policy != SIM_POLICY_PRIORITIES) {
        /* Anybody else. */
        sim.ready &= ~(UINT64_C(1) << self->slot);
        pass_time();
        set_countdown();
        struct sim_fiber *next = choose();
        sim.ready |= UINT64_C(1) << self->slot;
        switch_to(next);
        return;
    }
    next_turn();
}

void sim_enter_kernel(void)
{
    sim_drain_own();
    sim_one_step();
    sim_drain_own();
}

/* ---- sleep ---- */

/* What it waited for: else its next sleep, for something else, would take others' wakes. */
static void forget_sleep(struct sim_fiber *self)
{
    self->word[0] = self->word[1] = NULL;
    self->object = NULL;
    self->polled_count = 0;
}

int sim_sleep(uint64_t deadline, const char *why)
{
    struct sim_fiber *self = sim.self;

    sim_drain_own();
    if (deadline <= sim_now_ns()) {
        forget_sleep(self);
        return -ETIMEDOUT;
    }
    self->state = SIM_ASLEEP;
    self->why = why;
    self->deadline = deadline;
    self->sleep_no = ++sim.sleeps;
    sim.ready &= ~(UINT64_C(1) << self->slot);
    if (deadline < sim.next_deadline)
        sim.next_deadline = deadline;
    sim.step++;
    next_turn();
    forget_sleep(self);
    return self->woken;
}

void sim_wake(struct sim_fiber *fiber, int result)
{
    if (fiber->state != SIM_ASLEEP)
        return;
    fiber->state = SIM_READY;
    fiber->woken = result;
    sim.ready |= UINT64_C(1) << fiber->slot;
}

void sim_list_sleepers(void)
{
    for (unsigned i = 0; i < SIM_FIBERS; i++) {
        const struct sim_fiber *fiber = &sim.fiber[i];
        if (fiber->state == SIM_ASLEEP || fiber->state == SIM_READY)
            fprintf(stderr, "  thread %2u %-12s %s %s, until %.3f us\n", fiber->number, fiber->name,
                    fiber->state == SIM_READY ? "can run" : "sleeps in",
                    fiber->state == SIM_READY ? "" : fiber->why,
                    fiber->state == SIM_READY || fiber->deadline == SIM_NEVER
                        ? 0.0
                        : (double)(fiber->deadline % START_NS) / 1000.0);
    }
}

/* ---- birth and death ---- */

static void end_self(void)
{
    struct sim_fiber *self = sim.self;

    sim_drain_own();
    sim_kernel_fiber_ended(self);
    self->state = self->detached ? SIM_FREE : SIM_ENDED;
    sim.ready &= ~(UINT64_C(1) << self->slot);
    for (unsigned i = 0; i < SIM_FIBERS; i++) {
        if (sim.fiber[i].object == self)
            sim_wake(&sim.fiber[i], 0);
    }
    next_turn();
    __builtin_trap(); /* nobody goes on with an ended fiber */
}

static void fiber_main(void)
{
    sim.self->run(sim.self->arg);
    end_self();
}

static char *stack_of(unsigned slot)
{
    char *at = STACK_BASE + slot * (STACK_BYTES + STACK_GUARD);
    char *map = mmap(at, STACK_BYTES + STACK_GUARD, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);

    if (map != at || mprotect(map, STACK_GUARD, PROT_NONE) != 0)
        sim_fail("no stack for a thread");
    return map + STACK_GUARD;
}

struct sim_fiber *sim_fiber_start(void *(*run)(void *), void *arg, const char *name)
{
    unsigned slot = 0;

    while (slot < SIM_FIBERS && sim.fiber[slot].state != SIM_FREE)
        slot++;
    if (slot == SIM_FIBERS)
        return NULL;
    struct sim_fiber *fiber = &sim.fiber[slot];
    char *stack = fiber->stack != NULL ? fiber->stack : stack_of(slot);
    *fiber = (struct sim_fiber){.stack = stack, .slot = slot, .run = run, .arg = arg};
    fiber->number = ++sim.numbers;
    fiber->priority = PRIORITY_MID + sim_random() % PRIORITY_MID;
    snprintf(fiber->name, sizeof fiber->name, "%s", name);
    /* As if it had called sim_switch from where fiber_main is returned to: six registers, and the
       alignment that a called function expects. */
    void **top = (void **)(void *)(stack + STACK_BYTES - 64);
    *--top = NULL;
    union {
        void (*function)(void);
        void *bits;
    } entry = {.function = fiber_main};
    *--top = entry.bits;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    fiber->stack_pointer = top;
    fiber->state = SIM_READY;
    sim.ready |= UINT64_C(1) << slot;
    return fiber;
}

struct sim_fiber *sim_fiber_numbered(uint32_t number)
{
    for (unsigned i = 0; i < SIM_FIBERS; i++) {
        if (sim.fiber[i].state != SIM_FREE && sim.fiber[i].number == number)
            return &sim.fiber[i];
    }
    return NULL;
}

/* ---- the run ---- */

static uint32_t one_of(const uint32_t *values, unsigned count)
{
    return values[sim_random() % count];
}

void sim_world_start(const struct sim_scenario *s, int policy, uint64_t limit)
{
    static const uint32_t often[] = {1, 2, 3, 6}, rarely[] = {20, 60, 250};
    static const uint32_t ns[] = {2, 10, 50, 400, 5000};
    static const uint32_t drains[] = {30, 150, 500};
    static const uint32_t trouble[] = {0, 2, 10, 40};

    if (tls_size() > SIM_TLS_MAX)
        sim_fail("thread-locals of %zu bytes", tls_size());
    sim.seed = s->seed;
    sim.random = s->seed ^ UINT64_C(0x5DEECE66D);
    sim.faults = s->faults;
    sim.limit = limit;
    sim.policy =
        policy >= 0 ? (enum sim_policy)policy : (enum sim_policy)(sim_random() % SIM_POLICIES);
    sim.stretch = sim.policy == SIM_POLICY_STRETCHES ? one_of(rarely, 3) : one_of(often, 4);
    sim.drain_permille = one_of(drains, 3);
    sim.fault_permille = one_of(trouble, 4);
    sim.ns_per_step = one_of(ns, 5);
    lx_seams.brisk_ns = sim_brisk_ns();
    sim.cpus = 1 + (uint32_t)(sim_random() % 8);
    sim.now_ns = START_NS;
    sim.next_deadline = SIM_NEVER;
    sim.low_priority = PRIORITY_MID - 1;
    sim.next_change = 1 + sim_random() % 20000;
    sim.hash = 1;
    sim.countdown = 1;
    sim_memory_start();
    sim_kernel_start();
}

static const struct sim_users *playing;

static void *play(void *scenario)
{
    playing->play(scenario);
    /* Threads that were detached may be on their way out. */
    for (unsigned i = 0; i < SIM_FIBERS; i++) {
        while (sim.fiber[i].state != SIM_FREE && &sim.fiber[i] != sim.self) {
            if (sim.fiber[i].state == SIM_ENDED)
                sim_fail("thread %s has ended and was not joined", sim.fiber[i].name);
            sim_sleep_ns(1000000);
        }
    }
    sim_memory_check_empty();
    sim_kernel_check_empty();
    sim.over = true;
    /* Back to the loop of the operating system's thread, for good. */
    void *nowhere;
    sim_switch(&nowhere, sim.fiber[SIM_FIBERS - 1].stack_pointer);
    return NULL;
}

void sim_world_run(const struct sim_users *users, const struct sim_scenario *s)
{
    struct sim_fiber *outside = &sim.fiber[SIM_FIBERS - 1]; /* where main waits */

    playing = users;
    outside->state = SIM_ENDED;
    union {
        const struct sim_scenario *in;
        void *out;
    } scenario = {.in = s};
    struct sim_fiber *first = sim_fiber_start(play, scenario.out, "user-main");
    outside->state = SIM_FREE;
    outside->number = 0;
    sim.self = first;
    sim_switch(&outside->stack_pointer, first->stack_pointer);
}

/*
 * Atomic accesses: each is a step, then acts on memory through the thread's store buffer (x86-TSO).
 * A store weaker than seq_cst waits in the buffer, where its own thread sees it; buffers drain in
 * order. Read-modify-writes, seq_cst stores and fences, and whatever enters the kernel drain first.
 */
#include "world.h"

#include <stdatomic.h>
#include <string.h>

uint64_t sim_atomic_load(const volatile void *at, size_t size, int order);
void sim_atomic_store(volatile void *at, size_t size, uint64_t value, int order);
void sim_atomic_init(volatile void *at, size_t size, uint64_t value);
uint64_t sim_atomic_exchange(volatile void *at, size_t size, uint64_t value);
uint64_t sim_atomic_add(volatile void *at, size_t size, uint64_t value);
uint64_t sim_atomic_or(volatile void *at, size_t size, uint64_t value);
uint64_t sim_atomic_and(volatile void *at, size_t size, uint64_t value);
_Bool sim_atomic_compare(volatile void *at, size_t size, uint64_t *expected, uint64_t value,
                         _Bool weak);
void sim_atomic_fence(int order);

static uint64_t get(const volatile void *at, size_t size)
{
    switch (size) {
    case 1:
        return *(const volatile uint8_t *)at;
    case 2:
        return *(const volatile uint16_t *)at;
    case 4:
        return *(const volatile uint32_t *)at;
    default:
        return *(const volatile uint64_t *)at;
    }
}

static void put(volatile void *at, size_t size, uint64_t value)
{
    switch (size) {
    case 1:
        *(volatile uint8_t *)at = (uint8_t)value;
        break;
    case 2:
        *(volatile uint16_t *)at = (uint16_t)value;
        break;
    case 4:
        *(volatile uint32_t *)at = (uint32_t)value;
        break;
    default:
        *(volatile uint64_t *)at = value;
        break;
    }
}

static uint64_t masked(uint64_t value, size_t size)
{
    return size == 8 ? value : value & ((UINT64_C(1) << (8 * size)) - 1);
}

void sim_drain(struct sim_fiber *fiber, uint32_t stores)
{
    for (uint32_t i = 0; i < stores; i++) {
        sim_memory_check(fiber->store[i].at);
        put(fiber->store[i].at, fiber->store[i].size, fiber->store[i].value);
    }
    fiber->stores -= stores;
    memmove(fiber->store, fiber->store + stores, fiber->stores * sizeof *fiber->store);
    if (fiber->stores == 0)
        sim.buffered &= ~(UINT64_C(1) << fiber->slot);
}

/* True and the value if the youngest store that touches the place holds all of it. */
static bool forwarded(const unsigned char *at, size_t size, uint64_t *ret_value)
{
    struct sim_fiber *self = sim.self;

    for (uint32_t i = self->stores; i-- > 0;) {
        const struct sim_store *store = &self->store[i];
        if (at + size <= store->at || store->at + store->size <= at)
            continue;
        if (at >= store->at && at + size <= store->at + store->size) {
            *ret_value = masked(store->value >> (8 * (at - store->at)), size);
            return true;
        }
        sim_drain(self, self->stores); /* as a processor does that cannot forward */
        return false;
    }
    return false;
}

uint64_t sim_atomic_load(const volatile void *at, size_t size, int order)
{
    uint64_t value;

    (void)order;
    sim_one_step();
    sim_memory_check(at);
    if (sim.self->stores > 0 && forwarded((const unsigned char *)(uintptr_t)at, size, &value))
        return value;
    return get(at, size);
}

static void buffer(volatile void *at, size_t size, uint64_t value)
{
    struct sim_fiber *self = sim.self;

    if (self->stores == SIM_STORES)
        sim_drain(self, 1);
    self->store[self->stores++] = (struct sim_store){
        .at = (unsigned char *)(uintptr_t)at,
        .value = value,
        .step = sim.step,
        .size = (uint32_t)size,
    };
    sim.buffered |= UINT64_C(1) << self->slot;
}

void sim_atomic_store(volatile void *at, size_t size, uint64_t value, int order)
{
    sim_one_step();
    sim_memory_check(at);
    if (order != memory_order_seq_cst && (sim.faults & SIM_FAULT_BUFFERS) != 0) {
        buffer(at, size, value);
        return;
    }
    sim_drain_own();
    put(at, size, value);
}

void sim_atomic_init(volatile void *at, size_t size, uint64_t value)
{
    sim_drain_own(); /* a store of an earlier life of this memory must not come after */
    put(at, size, value);
}

static void begin_change(volatile void *at)
{
    sim_one_step();
    sim_memory_check(at);
    sim_drain_own();
}

uint64_t sim_atomic_exchange(volatile void *at, size_t size, uint64_t value)
{
    begin_change(at);
    uint64_t old = get(at, size);
    put(at, size, value);
    return old;
}

uint64_t sim_atomic_add(volatile void *at, size_t size, uint64_t value)
{
    begin_change(at);
    uint64_t old = get(at, size);
    put(at, size, old + value);
    return old;
}

uint64_t sim_atomic_or(volatile void *at, size_t size, uint64_t value)
{
    begin_change(at);
    uint64_t old = get(at, size);
    put(at, size, old | value);
    return old;
}

uint64_t sim_atomic_and(volatile void *at, size_t size, uint64_t value)
{
    begin_change(at);
    uint64_t old = get(at, size);
    put(at, size, old & value);
    return old;
}

_Bool sim_atomic_compare(volatile void *at, size_t size, uint64_t *expected, uint64_t value,
                         _Bool weak)
{
    begin_change(at);
    uint64_t old = get(at, size);
    /* The weak form may fail for no reason, on machines other than this. */
    if (old != *expected || (weak && sim_fault(SIM_FAULT_SPURIOUS, 1))) {
        *expected = old;
        return false;
    }
    put(at, size, value);
    return true;
}

void sim_atomic_fence(int order)
{
    sim_one_step();
    if (order == memory_order_seq_cst)
        sim_drain_own();
}

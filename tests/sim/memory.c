/*
 * Memory at addresses that are the same in each run. What is given back is filled with a pattern,
 * kept from use for a while, and atomic accesses to it fail the run.
 */
#include "world.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#define ARENA_BASE  ((unsigned char *)0x220000000000)
#define ARENA_BYTES ((size_t)256 << 20)
#define MAPS_BASE   ((unsigned char *)0x230000000000)
#define UNIT        16u /* bytes: what blocks are cut in, and one byte of the shadow */
#define CLASSES     40u
#define KEPT        32u /* blocks of a class that wait before the oldest is used again */
#define FREE_BYTE   0xDB
#define MAGIC_LIVE  UINT64_C(0x6c6976656c697665)
#define MAGIC_FREE  UINT64_C(0x6672656566726565)
#define PAGE        4096u

struct block {
    uint64_t magic, size, step;
    struct block *next;
};

static struct {
    unsigned char *top;
    unsigned char *shadow; /* 1: given back */
    struct block *first[CLASSES], *last[CLASSES];
    unsigned waiting[CLASSES];
    uint64_t live, allocations;
    unsigned char *map_top;
    int64_t mapped;
} memory;

void *sim_malloc(size_t size);
void *sim_calloc(size_t count, size_t size);
void sim_free(void *memory_);
void *sim_mmap(size_t size);
int sim_munmap(void *at, size_t size);

void sim_memory_start(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *arena =
        mmap(ARENA_BASE, ARENA_BYTES, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    void *shadow = mmap(NULL, ARENA_BYTES / UNIT, PROT_READ | PROT_WRITE, flags, -1, 0);

    if (arena != ARENA_BASE || shadow == MAP_FAILED)
        sim_fail("no memory for the world");
    memory.top = ARENA_BASE;
    memory.shadow = shadow;
    memory.map_top = MAPS_BASE;
}

static unsigned class_of(size_t size)
{
    return 64u - (unsigned)__builtin_clzll((unsigned long long)(size - 1) | 31u);
}

static void shade(const struct block *block, int value)
{
    size_t at = (size_t)((const unsigned char *)(block + 1) - ARENA_BASE) / UNIT;

    memset(memory.shadow + at, value, (block->size + UNIT - 1) / UNIT);
}

void sim_memory_check(const volatile void *at)
{
    size_t offset = (size_t)((uintptr_t)at - (uintptr_t)ARENA_BASE);

    if (offset < ARENA_BYTES && memory.shadow[offset / UNIT] != 0)
        sim_fail("an atomic access to memory that was given back");
}

static bool refused(void)
{
    return sim.self->no_memory_faults == 0 && (sim.faults & SIM_FAULT_MEMORY) != 0 &&
           sim_random() % 50 == 0;
}

static void *allocate(size_t size)
{
    unsigned class = class_of(size);
    struct block *block = memory.first[class];

    if (block != NULL && memory.waiting[class] > KEPT) {
        memory.first[class] = block->next;
        memory.waiting[class]--;
        if (block->magic != MAGIC_FREE)
            sim_fail("memory was written before its beginning");
        const unsigned char *bytes = (const unsigned char *)(block + 1);
        for (size_t i = 0; i < block->size; i++) {
            if (bytes[i] != FREE_BYTE)
                sim_fail("memory was written after it was given back, at byte %zu of %zu", i,
                         (size_t)block->size);
        }
    } else {
        size_t whole = sizeof *block + ((size_t)1 << class);
        if (memory.top + whole > ARENA_BASE + ARENA_BYTES)
            sim_fail("the world's memory is used up: a leak without end");
        block = (struct block *)(void *)memory.top;
        memory.top += whole;
    }
    *block = (struct block){.magic = MAGIC_LIVE, .size = size, .step = sim.step};
    shade(block, 0);
    memory.live++;
    return block + 1;
}

void *sim_malloc(size_t size)
{
    sim_one_step();
    if (refused())
        return NULL;
    void *at = allocate(size);
    memset(at, 0xA5, size); /* nobody may count on zeros */
    return at;
}

void *sim_calloc(size_t count, size_t size)
{
    sim_one_step();
    if (refused())
        return NULL;
    void *at = allocate(count * size);
    memset(at, 0, count * size);
    return at;
}

void sim_free(void *at)
{
    if (at == NULL)
        return;
    sim_one_step();
    sim_drain_own();
    struct block *block = (struct block *)at - 1;
    if (block->magic != MAGIC_LIVE)
        sim_fail(block->magic == MAGIC_FREE ? "memory is given back twice"
                                            : "what is given back was never allocated");
    block->magic = MAGIC_FREE;
    memset(at, FREE_BYTE, block->size);
    shade(block, 1);
    unsigned class = class_of(block->size);
    if (memory.first[class] == NULL)
        memory.first[class] = block;
    else
        memory.last[class]->next = block;
    memory.last[class] = block;
    block->next = NULL;
    memory.waiting[class]++;
    memory.live--;
}

void *sim_mmap(size_t size)
{
    sim_enter_kernel();
    if (refused())
        return MAP_FAILED;
    size_t whole = (size + PAGE - 1) / PAGE * PAGE;
    void *at = mmap(memory.map_top, whole, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != memory.map_top)
        sim_fail("no memory to map");
    memory.map_top += whole + PAGE;
    memory.mapped += (int64_t)whole;
    return at;
}

int sim_munmap(void *at, size_t size)
{
    sim_enter_kernel();
    size_t whole = (size + PAGE - 1) / PAGE * PAGE;
    if (munmap(at, whole) != 0)
        sim_fail("munmap of what is not mapped");
    memory.mapped -= (int64_t)whole;
    return 0;
}

static void list_blocks(FILE *out)
{
    unsigned char *at = ARENA_BASE;

    while (at < memory.top) {
        const struct block *block = (const struct block *)(void *)at;
        if (block->magic == MAGIC_LIVE)
            fprintf(out, "  %zu bytes, allocated at step %llu\n", (size_t)block->size,
                    (unsigned long long)block->step);
        at += sizeof *block + ((size_t)1 << class_of(block->size));
    }
}

void sim_memory_check_empty(void)
{
    if (memory.live != 0 && sim.trace != NULL)
        list_blocks(sim.trace);
    if (memory.live != 0)
        sim_fail("%llu blocks of memory were not given back", (unsigned long long)memory.live);
    if (memory.mapped != 0)
        sim_fail("%lld mapped bytes were not given back", (long long)memory.mapped);
}

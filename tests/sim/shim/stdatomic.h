/* The atomics of lanex's sources as steps of the simulated world: see ../sim.h. */
#ifndef LX_SIM_STDATOMIC_H
#define LX_SIM_STDATOMIC_H

#include_next <stdatomic.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ../atomics.c. Values travel in the low bytes of 64 bits: the machine is little-endian. */
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

/* The type behind an atomic pointer, without qualifiers. */
#define SIM_PLAIN(p) __typeof__((void)0, *(p))

#define SIM_TO_BITS(type, value)                                                                   \
    __extension__({                                                                                \
        type sim_value_ = (value);                                                                 \
        uint64_t sim_bits_ = 0;                                                                    \
        memcpy(&sim_bits_, &sim_value_, sizeof sim_value_);                                        \
        sim_bits_;                                                                                 \
    })
#define SIM_FROM_BITS(type, bits)                                                                  \
    __extension__({                                                                                \
        uint64_t sim_from_ = (bits);                                                               \
        type sim_plain_;                                                                           \
        memcpy(&sim_plain_, &sim_from_, sizeof sim_plain_);                                        \
        sim_plain_;                                                                                \
    })

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_init
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_thread_fence
/* What src/ does not use: here it would escape the world. */
#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_sub
#undef atomic_fetch_or
#undef atomic_fetch_and
#undef atomic_fetch_xor
#undef atomic_fetch_xor_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak

#define atomic_load_explicit(p, order)                                                             \
    SIM_FROM_BITS(SIM_PLAIN(p), sim_atomic_load((p), sizeof *(p), (int)(order)))
#define atomic_store_explicit(p, value, order)                                                     \
    sim_atomic_store((p), sizeof *(p), SIM_TO_BITS(SIM_PLAIN(p), value), (int)(order))
#define atomic_init(p, value) sim_atomic_init((p), sizeof *(p), SIM_TO_BITS(SIM_PLAIN(p), value))
#define atomic_exchange_explicit(p, value, order)                                                  \
    SIM_FROM_BITS(SIM_PLAIN(p),                                                                    \
                  sim_atomic_exchange((p), sizeof *(p), SIM_TO_BITS(SIM_PLAIN(p), value)))
#define atomic_fetch_add_explicit(p, value, order)                                                 \
    SIM_FROM_BITS(SIM_PLAIN(p), sim_atomic_add((p), sizeof *(p), SIM_TO_BITS(SIM_PLAIN(p), value)))
#define atomic_fetch_sub_explicit(p, value, order)                                                 \
    SIM_FROM_BITS(SIM_PLAIN(p),                                                                    \
                  sim_atomic_add((p), sizeof *(p), 0 - SIM_TO_BITS(SIM_PLAIN(p), value)))
#define atomic_fetch_or_explicit(p, value, order)                                                  \
    SIM_FROM_BITS(SIM_PLAIN(p), sim_atomic_or((p), sizeof *(p), SIM_TO_BITS(SIM_PLAIN(p), value)))
#define atomic_fetch_and_explicit(p, value, order)                                                 \
    SIM_FROM_BITS(SIM_PLAIN(p), sim_atomic_and((p), sizeof *(p), SIM_TO_BITS(SIM_PLAIN(p), value)))
#define SIM_COMPARE(p, expected, value, weak)                                                      \
    __extension__({                                                                                \
        uint64_t sim_expected_ = SIM_TO_BITS(SIM_PLAIN(p), *(expected));                           \
        _Bool sim_done_ = sim_atomic_compare((p), sizeof *(p), &sim_expected_,                     \
                                             SIM_TO_BITS(SIM_PLAIN(p), value), weak);              \
        if (!sim_done_)                                                                            \
            *(expected) = SIM_FROM_BITS(SIM_PLAIN(p), sim_expected_);                              \
        sim_done_;                                                                                 \
    })
#define atomic_compare_exchange_strong_explicit(p, expected, value, order, failure)                \
    SIM_COMPARE(p, expected, value, 0)
#define atomic_compare_exchange_weak_explicit(p, expected, value, order, failure)                  \
    SIM_COMPARE(p, expected, value, 1)
#define atomic_load(p)             atomic_load_explicit(p, memory_order_seq_cst)
#define atomic_store(p, value)     atomic_store_explicit(p, value, memory_order_seq_cst)
#define atomic_thread_fence(order) sim_atomic_fence((int)(order))

#endif

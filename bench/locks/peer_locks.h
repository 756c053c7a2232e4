/*
 * bench/locks/peer_locks.h - the lists that bench-locks is made of.
 */
#ifndef BENCH_PEER_LOCKS_H
#define BENCH_PEER_LOCKS_H

#include "loops.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct bench_lock bench_c_locks[];
extern const struct bench_lock bench_cpp_locks[];

#ifdef __cplusplus
}
#endif

#endif

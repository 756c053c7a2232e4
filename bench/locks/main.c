/* bench-locks: W8 alone, over the peers' locks and the floors. */
#include "loops.h"
#include "peer_locks.h"
#include "workloads.h"

const struct bench_workload bench_workloads[] = {
    {"W8", "rwlock", "reader/writer locks; --variant names one", bench_rwlock, true},
    {0},
};

const struct bench_lock *const bench_lock_lists[] = {
    bench_c_locks,
#ifdef HAVE_CPP
    bench_cpp_locks,
#endif
    NULL,
};

const struct bench_traits bench_traits = {.name = "locks"};

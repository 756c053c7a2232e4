/*
 * The locks of C++: the standard library's and oneTBB's.
 */
#include <new>
#include <shared_mutex>

#ifdef HAVE_TBB
#include <oneapi/tbb/queuing_rw_mutex.h>
#include <oneapi/tbb/rw_mutex.h>
#include <oneapi/tbb/spin_rw_mutex.h>
#endif

#include "loops.h"
#include "peer_locks.h"

BENCH_LOCK(std_shared_mutex, std::shared_mutex, new (lock) std::shared_mutex, lock->lock_shared(),
           lock->unlock_shared(), lock->lock(), lock->unlock())
#ifdef HAVE_TBB
BENCH_LOCK(tbb_rw_mutex, tbb::rw_mutex, new (lock) tbb::rw_mutex, lock->lock_shared(),
           lock->unlock_shared(), lock->lock(), lock->unlock())
BENCH_LOCK(tbb_spin_rw_mutex, tbb::spin_rw_mutex, new (lock) tbb::spin_rw_mutex,
           lock->lock_shared(), lock->unlock_shared(), lock->lock(), lock->unlock())

/* A waiter brings its own place in the queue. */
struct queuing {
    tbb::queuing_rw_mutex mutex;
    struct alignas(128) place {
        tbb::queuing_rw_mutex::scoped_lock lock;
    } places[BENCH_CONTENDERS];
};
static_assert(sizeof(queuing) <= BENCH_LOCK_SIZE, "a lock fits its box");
BENCH_LOCK(tbb_queuing_rw_mutex, queuing, new (lock) queuing,
           lock->places[self].lock.acquire(lock->mutex, false), lock->places[self].lock.release(),
           lock->places[self].lock.acquire(lock->mutex, true), lock->places[self].lock.release())
#endif

extern const struct bench_lock bench_cpp_locks[] = {
    BENCH_LOCK_ENTRY(std_shared_mutex, true),
#ifdef HAVE_TBB
    BENCH_LOCK_ENTRY(tbb_rw_mutex, true),
    BENCH_LOCK_ENTRY(tbb_spin_rw_mutex, true),
    BENCH_LOCK_ENTRY(tbb_queuing_rw_mutex, true),
#endif
    {nullptr, false, nullptr, nullptr, nullptr, nullptr},
};

/*
 * The floors of W8 and the locks of C: pthread's and Concurrency Kit's.
 */
#include <pthread.h>
#include <stdatomic.h>

#ifdef HAVE_CK
#include <ck_bytelock.h>
#include <ck_pflock.h>
#include <ck_rwlock.h>
#endif

#include "loops.h"
#include "peer_locks.h"

struct word {
    _Atomic uint64_t value;
};

/* What a lock cannot do without: an atomic in, a store or an atomic out. */
static inline void word_in(struct word *word)
{
    atomic_fetch_add_explicit(&word->value, 1, memory_order_acquire);
}

static inline void word_store(struct word *word)
{
    atomic_store_explicit(&word->value, 0, memory_order_release);
}

static inline void word_out(struct word *word)
{
    atomic_fetch_sub_explicit(&word->value, 1, memory_order_release);
}

static inline void word_cas(struct word *word, uint64_t from, uint64_t to)
{
    atomic_compare_exchange_strong_explicit(&word->value, &from, to, memory_order_acq_rel,
                                            memory_order_relaxed);
}

BENCH_LOCK(floor_xadd_store, struct word, , word_in(lock), word_store(lock), word_in(lock),
           word_store(lock))
BENCH_LOCK(floor_xadd_xadd, struct word, , word_in(lock), word_out(lock), word_in(lock),
           word_out(lock))
BENCH_LOCK(floor_cas_cas, struct word, , word_cas(lock, 0, 1), word_cas(lock, 1, 0),
           word_cas(lock, 0, 1), word_cas(lock, 1, 0))

BENCH_LOCK(pthread_mutex, pthread_mutex_t, pthread_mutex_init(lock, NULL), pthread_mutex_lock(lock),
           pthread_mutex_unlock(lock), pthread_mutex_lock(lock), pthread_mutex_unlock(lock))
BENCH_LOCK(pthread_rwlock, pthread_rwlock_t, pthread_rwlock_init(lock, NULL),
           pthread_rwlock_rdlock(lock), pthread_rwlock_unlock(lock), pthread_rwlock_wrlock(lock),
           pthread_rwlock_unlock(lock))

static void init_writers_first(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attributes;

    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

BENCH_LOCK(pthread_rwlock_writers_first, pthread_rwlock_t, init_writers_first(lock),
           pthread_rwlock_rdlock(lock), pthread_rwlock_unlock(lock), pthread_rwlock_wrlock(lock),
           pthread_rwlock_unlock(lock))

#ifdef HAVE_CK
BENCH_LOCK(ck_rwlock, ck_rwlock_t, ck_rwlock_init(lock), ck_rwlock_read_lock(lock),
           ck_rwlock_read_unlock(lock), ck_rwlock_write_lock(lock), ck_rwlock_write_unlock(lock))
BENCH_LOCK(ck_pflock, ck_pflock_t, ck_pflock_init(lock), ck_pflock_read_lock(lock),
           ck_pflock_read_unlock(lock), ck_pflock_write_lock(lock), ck_pflock_write_unlock(lock))
/* Slots are numbered from 1. */
BENCH_LOCK(ck_bytelock, ck_bytelock_t, ck_bytelock_init(lock),
           ck_bytelock_read_lock(lock, self + 1), ck_bytelock_read_unlock(lock, self + 1),
           ck_bytelock_write_lock(lock, self + 1), ck_bytelock_write_unlock(lock))
#endif

const struct bench_lock bench_c_locks[] = {
    BENCH_LOCK_ENTRY(floor_xadd_store, false),
    BENCH_LOCK_ENTRY(floor_xadd_xadd, false),
    BENCH_LOCK_ENTRY(floor_cas_cas, false),
    BENCH_LOCK_ENTRY(pthread_mutex, true),
    BENCH_LOCK_ENTRY(pthread_rwlock, true),
    BENCH_LOCK_ENTRY(pthread_rwlock_writers_first, true),
#ifdef HAVE_CK
    BENCH_LOCK_ENTRY(ck_rwlock, true),
    BENCH_LOCK_ENTRY(ck_pflock, true),
    BENCH_LOCK_ENTRY(ck_bytelock, true),
#endif
    {0},
};

/* Helpers for tests; see lx_test.h. */
#include "lx_test.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)
/* How long LX_EVENTUALLY leaves the CPU to others between two looks, in nanoseconds. */
#define PAUSE_NS 50000L

uint64_t lx_test_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* A whole number from the environment; anything else is a mistake of the caller's. */
static bool number_from_env(const char *name, uint64_t *ret_value)
{
    const char *text = getenv(name);
    char *end = NULL;

    if (text == NULL || text[0] == '\0') {
        return false;
    }
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0') {
        lx_test_die(__FILE__, __LINE__, "%s=%s is not a number", name, text);
    }
    *ret_value = value;
    return true;
}

unsigned lx_test_liveness_s(void)
{
    uint64_t seconds = LX_TEST_LIVENESS_S;

    (void)number_from_env("LANEX_TEST_LIVENESS_S", &seconds);
    return (unsigned)seconds;
}

void lx_test_pause_or_die(uint64_t start_ns, const char *file, int line, const char *what)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};

    if (lx_test_now_ns() - start_ns > lx_test_liveness_s() * NS_PER_S) {
        lx_test_die(file, line, "still not so after %u s: %s", lx_test_liveness_s(), what);
    }
    (void)nanosleep(&pause, NULL);
}

#ifdef LX_TEST_COVERAGE
void __gcov_dump(void);

static void dump_counts(int signo)
{
    (void)signal(signo, SIG_DFL);
    __gcov_dump();
}
#endif

void lx_test_keep_counts(void)
{
#ifdef LX_TEST_COVERAGE
    /* abort() raises the signal again when the handler has returned. */
    (void)signal(SIGABRT, dump_counts);
#endif
}

uint64_t lx_test_seed(void)
{
    /* 0 is "not chosen yet"; relaxed, since the first call is the test thread's own. */
    static _Atomic uint64_t chosen;
    uint64_t seed = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (seed != 0) {
        return seed;
    }
    if (!number_from_env("LANEX_TEST_SEED", &seed)) {
        if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
            seed = lx_test_now_ns();
        }
        seed &= UINT32_MAX; /* short enough to be typed again */
    }
    seed = seed == 0 ? 1 : seed;
    atomic_store_explicit(&chosen, seed, memory_order_relaxed);
    (void)fprintf(stderr, "[----] seed %llu (again with LANEX_TEST_SEED=%llu)\n",
                  (unsigned long long)seed, (unsigned long long)seed);
    return seed;
}

unsigned lx_test_soak_seconds(void)
{
    uint64_t seconds = 0;

    return number_from_env("LANEX_SOAK_SECONDS", &seconds) ? (unsigned)seconds : 0;
}

uint64_t lx_test_soak_end_ns(unsigned sharing)
{
    return lx_test_now_ns() + lx_test_soak_seconds() * NS_PER_S / sharing;
}

uint64_t lx_test_scaled(uint64_t n)
{
    if (!LX_TEST_SANITIZED) {
        return n;
    }
    return n < 10 ? 1 : n / 10;
}

/* The index of the environment's word in words; 0 where it is unset. */
static unsigned word_from_env(const char *name, const char *const *words, unsigned count)
{
    const char *text = getenv(name);

    if (text == NULL || text[0] == '\0') {
        return 0;
    }
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            return i;
        }
    }
    lx_test_die(__FILE__, __LINE__, "%s=%s is not a known word", name, text);
}

enum lx_test_backend lx_test_env_backend(void)
{
    static const char *const words[] = {"auto", "ring", "poll"};

    return (enum lx_test_backend)word_from_env("LANEX_TEST_BACKEND", words, 3);
}

enum lx_test_dispatch lx_test_env_dispatch(void)
{
    static const char *const words[] = {"seat", "scheduler"};

    return (enum lx_test_dispatch)word_from_env("LANEX_TEST_DISPATCH", words, 2);
}

void latch_init(struct latch *latch)
{
    atomic_init(&latch->arrived, 0);
}

void latch_arrive(struct latch *latch)
{
    /* Release: pairs with the acquire loads in latch_wait_at and latch_count. */
    (void)atomic_fetch_add_explicit(&latch->arrived, 1, memory_order_release);
    (void)syscall(SYS_futex, &latch->arrived, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

unsigned latch_count(const struct latch *latch)
{
    /* Acquire: pairs with the release in latch_arrive. */
    return atomic_load_explicit(&latch->arrived, memory_order_acquire);
}

void latch_wait_at(struct latch *latch, unsigned target, const char *file, int line)
{
    const uint64_t start = lx_test_now_ns();
    const struct timespec second = {.tv_sec = 1};
    unsigned seen = latch_count(latch);

    while (seen < target) {
        if (lx_test_now_ns() - start > lx_test_liveness_s() * NS_PER_S) {
            lx_test_die(file, line, "a latch has %u of %u arrivals after %u s", seen, target,
                        lx_test_liveness_s());
        }
        (void)syscall(SYS_futex, &latch->arrived, FUTEX_WAIT_PRIVATE, seen, &second, NULL, 0);
        seen = latch_count(latch);
    }
}

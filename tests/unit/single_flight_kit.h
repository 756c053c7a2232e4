/* What the tests of single flight share: a flight of counted values, and threads that ask it. */
#ifndef SINGLE_FLIGHT_KIT_H
#define SINGLE_FLIGHT_KIT_H

#include "tests/support/lx_test.h"

#include "lanex/single_flight.h"

#include <pthread.h>

/* What builders make: an integer, and how often it was destroyed. Static storage of the tests. */
struct thing {
    uint64_t generation;
    atomic_int destroyed;
};

/* What one request does in its builder, and what came of it. All zero: succeeds at once. */
struct ask {
    lanex_flight *flight;
    const char *key;
    uint64_t generation;
    uint64_t deadline_ns;
    lanex_cancellation *token;
    int fail;                       /* what the builder returns instead of success */
    struct latch begun;             /* the builder arrives */
    struct latch *hold;             /* the builder waits for one arrival */
    int (*inside)(struct ask *ask); /* runs in the builder; what it returns is returned */
    struct ask *nested;             /* for `inside` */

    struct thing thing;
    atomic_int builds;
    pthread_t thread;
    struct latch done;
    int result;
    lanex_flight_value *value;
};

lanex_flight *kit_flight(void);
lanex_flight_stats kit_stats(const lanex_flight *flight);

/* Asks on this thread; returns and keeps the result. */
int kit_ask(struct ask *ask);
/* Asks on a thread of its own. */
void kit_start(struct ask *ask);
/* Waits for it; returns the result. */
int kit_join(struct ask *ask);
/* Waits until `count` calls sleep in the key's entry, as the library itself counts them. */
void kit_sleepers(lanex_flight *flight, const char *key, uint32_t count);
/* The thing of a successful ask; NULL otherwise. */
struct thing *kit_thing(const struct ask *ask);
/* Gives the ask's value back and makes the ask ready to be used again. */
void kit_drop(struct ask *ask);

#endif

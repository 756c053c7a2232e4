/* The example server's patience with clients that leave answers unfetched. */
#include "tests/support/lx_test.h"

#include "pace.h"

#define SOFT   ((size_t)1000)
#define WITHIN UINT64_C(50)

TestSuite(kv_pace, .timeout = 60);

Test(kv_pace, what_is_within_the_limit_may_wait_for_ever)
{
    struct kv_pace pace = {0};
    cr_assert(!kv_pace_queued(&pace, SOFT, SOFT, 1));
    kv_pace_fetched(&pace, 1, SOFT - 1, SOFT, 2);
    cr_assert_eq(kv_pace_due(&pace, WITHIN), UINT64_MAX);
}

Test(kv_pace, a_byte_now_and_then_is_not_enough)
{
    struct kv_pace pace = {0};
    size_t waiting = 10 * SOFT;
    cr_assert(kv_pace_queued(&pace, waiting, SOFT, 1));
    for (uint64_t now = 2; now < 1 + WITHIN; now++) {
        kv_pace_fetched(&pace, 1, --waiting, SOFT, now);
        cr_assert_eq(kv_pace_due(&pace, WITHIN), 1 + WITHIN);
        /* Nor does asking for more begin the time anew. */
        waiting += SOFT;
        cr_assert(!kv_pace_queued(&pace, waiting, SOFT, now));
        cr_assert_eq(kv_pace_due(&pace, WITHIN), 1 + WITHIN);
    }
}

Test(kv_pace, a_long_answer_over_a_slow_line_arrives)
{
    struct kv_pace pace = {0};
    size_t waiting = 100 * SOFT;
    uint64_t now = 1;
    cr_assert(kv_pace_queued(&pace, waiting, SOFT, now));
    /* Just fast enough: the limit's bytes in the limit's time, in pieces. */
    while (waiting > SOFT) {
        now += WITHIN / 4 - 1;
        cr_assert_lt(now, kv_pace_due(&pace, WITHIN), "%zu bytes are left", waiting);
        waiting -= SOFT / 4;
        kv_pace_fetched(&pace, SOFT / 4, waiting, SOFT, now);
    }
    cr_assert_gt(now, 90 * (WITHIN - 4));
    cr_assert_eq(kv_pace_due(&pace, WITHIN), UINT64_MAX, "the rest may wait");
    cr_assert(kv_pace_queued(&pace, 2 * SOFT, SOFT, now), "and then it begins anew");
    cr_assert_eq(kv_pace_due(&pace, WITHIN), now + WITHIN);
}

/* What idle actors and queued jobs weigh, by the resident memory of the process. */
#include "tests/support/lx_executor.h"

#include <malloc.h>
#include <unistd.h>

#include "runtime/actor.h"
#include "runtime/job.h"
#include "sync/slab.h"

TestSuite(footprint, .timeout = 120);

#define ACTORS          100000u
#define JOBS            200000u
#define ACTOR_BYTES_MAX 224u /* beside key and context */
/* With a callback sink and an id of 24 bytes, and with what the last regions of two slabs leave. */
#define JOB_BYTES_MAX (160u + 2 * LX_SLAB_REGION / JOBS)
#define ID            "0123456789abcdef01234567"

static uint64_t resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    LX_REQUIRE(file != NULL && fscanf(file, "%*u %lu", &pages) == 1);
    fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static lanex_actor *named(lanex_executor *executor, const char *kind, unsigned number,
                          size_t *ret_key_length)
{
    lanex_actor *actor;
    char key[32];
    int length = snprintf(key, sizeof key, "%s-%06u", kind, number);

    *ret_key_length = (size_t)length;
    LX_REQUIRE(lanex_actor_register(executor, key, (size_t)length, NULL, &actor) == 1);
    return actor;
}

Test(footprint, an_idle_actor_is_small)
{
    lanex_executor *executor = lx_test_executor(2);
    unsigned count = LX_TEST_SANITIZED ? 1000 : ACTORS;
    size_t key_length = 0;
    uint64_t before, bytes;

    /* Test runners have malloc fill what is freed, which makes memory resident that nobody uses. */
    mallopt(M_PERTURB, 0);
    for (unsigned i = 0; i < 100; i++)
        lanex_actor_unref(named(executor, "first", i, &key_length));
    before = resident();
    for (unsigned i = 0; i < count; i++)
        lanex_actor_unref(named(executor, "other", i, &key_length));
    bytes = (resident() - before) / count;
    /* A sanitizer's allocator has a measure of its own. */
    if (!LX_TEST_SANITIZED)
        cr_assert_leq(bytes, ACTOR_BYTES_MAX + key_length, "%lu bytes, %zu of them the key",
                      (unsigned long)bytes, key_length);
    cr_assert_leq(sizeof(struct lanex_actor), ACTOR_BYTES_MAX);
    cr_log_info("%lu bytes, %zu of them the key", (unsigned long)bytes, key_length);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

struct held {
    struct latch begun, may_end, ended;
};

static void hold(lanex_job *job, void *context, void *arg)
{
    struct held *held = arg;

    (void)job;
    (void)context;
    latch_arrive(&held->begun);
    latch_wait(&held->may_end, 1);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void count_end(lanex_completion *completion, void *arg)
{
    struct held *held = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    latch_arrive(&held->ended);
}

Test(footprint, a_queued_job_is_small)
{
    static struct held held;
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor *actor = lx_test_actor(executor, 1);
    lanex_job_options job = lx_test_job(LANEX_LANE_MUTATING, hold, &held);
    unsigned count = LX_TEST_SANITIZED ? 1000 : JOBS;
    uint64_t before, bytes;

    cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    latch_wait(&held.begun, 1);
    job = lx_test_callback_job(LANEX_LANE_PURE_READ, nothing, NULL, count_end, &held);
    job.request_id = ID;
    before = resident();
    for (unsigned i = 0; i < count; i++)
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
    bytes = (resident() - before) / count;
    if (!LX_TEST_SANITIZED)
        cr_assert_leq(bytes, JOB_BYTES_MAX, "%lu bytes", (unsigned long)bytes);
    cr_assert_leq(sizeof(struct lanex_job), 128u);
    cr_log_info("%lu bytes", (unsigned long)bytes);
    latch_arrive(&held.may_end);
    latch_wait(&held.ended, count);
    lanex_actor_unref(actor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/*
 * A limit of the process is reached while the load runs: no descriptor is to be had any more, or no
 * memory. What needs one says so and changes nothing; what was accepted is answered; and once the
 * limit is lifted everything works again. (RLIMIT_NPROC matters in create alone:
 * create/without_processes.)
 */
#include "mixed.h"
#include "tests/support/lx_left.h"

#include "sync/seams.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(limits); /* share LANEX_SOAK_SECONDS: no timeout of their own */

#define TESTS       3u     /* that share the time of a soak */
#define JOBS        15000u /* of a round */
#define SUBMITTERS  2u
#define TIMES       12u       /* that a limit is reached, at least */
#define FLOOD_MAX   10000000u /* jobs that no memory would do for */
#define FLOOD_ACTOR (ACTORS + 1)

static struct mixed mixed;

static struct mixed_options options_of(struct lx_rng *rng, bool memory_may_lack)
{
    return (struct mixed_options){
        .jobs = lx_test_scaled(JOBS),
        .seed = lx_rng_next(rng),
        .submitters = SUBMITTERS,
        .memory_may_lack = memory_may_lack,
        .executor = lx_test_executor_options((unsigned)lx_rng_between(rng, 3, 8)),
    };
}

static void limit(int resource, rlim_t value)
{
    struct rlimit now;

    LX_REQUIRE(getrlimit((__rlimit_resource_t)resource, &now) == 0);
    now.rlim_cur = value < now.rlim_max ? value : now.rlim_max;
    LX_REQUIRE(setrlimit((__rlimit_resource_t)resource, &now) == 0);
}

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

/* One more job from beginning to end. */
static void run_one(lanex_actor *actor)
{
    lanex_job_options job = lx_test_job(LANEX_LANE_MUTATING, nothing, NULL);
    lanex_ticket *ticket;

    LX_REQUIRE(lanex_submit_ticket(actor, &job, &ticket) == 0);
    LX_REQUIRE(lanex_ticket_wait(ticket, LANEX_TIME_NEVER) == 0);
    LX_REQUIRE(lanex_completion_status(lanex_ticket_completion(ticket)) == LANEX_STATUS_OK);
    lanex_ticket_drop(ticket);
}

/* ---- descriptors ---- */

static rlim_t lowest_free_descriptor(void)
{
    int fd = dup(STDERR_FILENO);

    LX_REQUIRE(fd >= 0);
    close(fd);
    return (rlim_t)fd;
}

/* What takes a descriptor, with the errno that it gives; 0 where it shall work. */
static void take_descriptors(lanex_actor *actor, int expected)
{
    lanex_executor_options options = lx_test_executor_options(2);
    lanex_executor *executor = (lanex_executor *)&options;
    lanex_ring *ring = (lanex_ring *)&options;
    lanex_port *port = (lanex_port *)&options;

    LX_REQUIRE(lanex_port_create(mixed.executor, NULL, &port) == expected);
    if (mixed.has_ring)
        LX_REQUIRE(lanex_ring_attach(mixed.executor, mixed.uring.ring_fd, &ring) == expected);
    if (expected == 0) {
        lanex_port_unref(port);
        if (mixed.has_ring)
            lanex_ring_unref(ring);
    } else {
        LX_REQUIRE(lanex_executor_create(&options, &executor) == expected);
        LX_REQUIRE((void *)port == &options && (void *)ring == &options &&
                   (void *)executor == &options);
    }
    run_one(actor);
}

static unsigned one_round_without_descriptors(struct lx_rng *rng)
{
    struct mixed_options options = options_of(rng, false);
    unsigned key = FLOOD_ACTOR, times = 0;
    struct rlimit whole;
    lanex_actor *actor;

    LX_REQUIRE(getrlimit(RLIMIT_NOFILE, &whole) == 0);
    mixed_begin(&mixed, &options);
    LX_REQUIRE(lanex_actor_register(mixed.executor, &key, sizeof key, NULL, &actor) == 1);
    do {
        limit(RLIMIT_NOFILE, lowest_free_descriptor());
        take_descriptors(actor, -EMFILE);
        limit(RLIMIT_NOFILE, whole.rlim_cur);
        take_descriptors(actor, 0);
        times++;
    } while (mixed_goes_on(&mixed));
    mixed.own_jobs = 2 * times;
    LX_REQUIRE(lanex_actor_remove(mixed.executor, &key, sizeof key) == 0);
    lanex_actor_unref(actor);
    mixed_end(&mixed);
    return times;
}

Test(limits, without_descriptors_jobs_go_on)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t end = lx_test_soak_end_ns(TESTS);
    struct lx_test_left before;
    uint64_t times = 0;

    one_round_without_descriptors(&rng); /* with what the C library makes once */
    before = lx_test_left();
    while (times < TIMES || lx_test_now_ns() < end)
        times += one_round_without_descriptors(&rng);
    lx_test_nothing_left(before);
    fprintf(stderr, "[----] reached %lu times\n", (unsigned long)times);
}

/* ---- memory ---- */

struct flood {
    lanex_actor *actor;
    struct latch may_end;
    atomic_uint ended;
    unsigned taken;
};

static void wait_for_the_end(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    latch_wait(&((struct flood *)arg)->may_end, 1);
}

static void count_end(lanex_completion *completion, void *arg)
{
    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    atomic_fetch_add(&((struct flood *)arg)->ended, 1);
}

/* Jobs that wait behind a writer, until there is memory for no more. */
static void flood_until_refused(struct flood *flood, struct lx_rng *rng)
{
    lanex_job_options job =
        lx_test_callback_job(LANEX_LANE_MUTATING, wait_for_the_end, flood, count_end, flood);
    uint64_t number;
    int rc;

    if (lx_rng_percent(rng, 50))
        job.request_id = "id-0123456789abcdef01234";
    if (lx_rng_percent(rng, 50))
        job.deadline_ns = LANEX_TIME_NEVER - 1;
    for (;;) {
        number = 0;
        errno = EXDEV;
        rc = lanex_submit(flood->actor, &job, &number);
        LX_REQUIRE(errno == EXDEV);
        if (rc != 0)
            break;
        LX_REQUIRE(number != 0);
        LX_REQUIRE(++flood->taken < FLOOD_MAX);
    }
    LX_REQUIRE(rc == -ENOMEM);
    LX_REQUIRE(number == 0);
}

/* What may or may not find the memory that it needs; it says which, and works or changes nothing.
 */
static void try_to_grow(struct lx_rng *rng)
{
    unsigned key = (unsigned)lx_rng_between(rng, 1000, 2000);
    lanex_executor_options options = lx_test_executor_options(2);
    lanex_executor *executor;
    lanex_actor *actor;
    lanex_port *port;
    int rc = lanex_port_create(mixed.executor, NULL, &port);

    LX_REQUIRE(rc == 0 || rc == -ENOMEM);
    if (rc == 0)
        lanex_port_unref(port);
    rc = lanex_actor_register(mixed.executor, &key, sizeof key, NULL, &actor);
    LX_REQUIRE(rc == 1 || rc == -ENOMEM);
    if (rc == 1) {
        lanex_actor_unref(actor);
        LX_REQUIRE(lanex_actor_remove(mixed.executor, &key, sizeof key) == 0);
    }
    rc = lanex_executor_create(&options, &executor);
    LX_REQUIRE(rc == 0 || rc == -ENOMEM || rc == -EAGAIN); /* EAGAIN: pthread_create's */
    if (rc == 0)
        LX_REQUIRE(lanex_executor_destroy(executor) == 0);
}

/* A way to be without memory. */
struct shortage {
    void (*begin)(void);
    void (*end)(void);
};

static void reach(struct flood *flood, const struct shortage *shortage, struct lx_rng *rng)
{
    shortage->begin();
    flood_until_refused(flood, rng);
    try_to_grow(rng);
    for (uint64_t looks = lx_rng_below(rng, 200); looks > 0; looks--)
        sched_yield(); /* the load meets it too */
    shortage->end();
    latch_arrive(&flood->may_end);
    LX_EVENTUALLY(atomic_load(&flood->ended) == flood->taken);
    run_one(flood->actor);
    mixed.own_jobs += flood->taken + 1;
}

static unsigned one_round_without_memory(struct lx_rng *rng, const struct shortage *shortage)
{
    struct mixed_options options = options_of(rng, true);
    unsigned key = FLOOD_ACTOR, times = 0;
    lanex_actor *actor;

    mixed_begin(&mixed, &options);
    LX_REQUIRE(lanex_actor_register(mixed.executor, &key, sizeof key, NULL, &actor) == 1);
    do {
        struct flood flood = {.actor = actor};
        reach(&flood, shortage, rng);
        times++;
    } while (mixed_goes_on(&mixed));
    LX_REQUIRE(lanex_actor_remove(mixed.executor, &key, sizeof key) == 0);
    lanex_actor_unref(actor);
    mixed_end(&mixed);
    return times;
}

static void without_memory(const struct shortage *shortage)
{
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    uint64_t end = lx_test_soak_end_ns(TESTS);
    struct lx_test_left before;
    uint64_t times = 0;

    one_round_without_memory(&rng, shortage); /* with what the C library makes once */
    before = lx_test_left();
    while (times < TIMES || lx_test_now_ns() < end)
        times += one_round_without_memory(&rng, shortage);
    lx_test_nothing_left(before);
    fprintf(stderr, "[----] reached %lu times\n", (unsigned long)times);
}

/* The whole process gets no page more than it has. */
static void begin_address_limit(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    LX_REQUIRE(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    limit(RLIMIT_AS, (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE));
}

static void end_address_limit(void)
{
    limit(RLIMIT_AS, RLIM_INFINITY);
}

/* A thread whose stack has to grow then is killed: the first one's, which is mapped as it is used.
 */
static void use_stack(void)
{
    volatile char stack[256 << 10];

    for (size_t i = 0; i < sizeof stack; i += 1024)
        stack[i] = 1;
}

Test(limits, without_address_space_submit_says_so_and_nothing_is_lost)
{
    const struct shortage shortage = {begin_address_limit, end_address_limit};

    if (LX_TEST_SANITIZED)
        cr_skip("a sanitizer ends the process where it gets no memory");
    use_stack();
    without_memory(&shortage);
}

static struct lx_seams real;
static atomic_bool no_memory;

static void *allocate_or_not(size_t size, bool zeroed)
{
    return atomic_load(&no_memory) ? NULL : real.allocate(size, zeroed);
}

static void *map_or_not(size_t size)
{
    return atomic_load(&no_memory) ? NULL : real.map(size);
}

static void begin_refusing(void)
{
    atomic_store(&no_memory, true);
}

static void end_refusing(void)
{
    atomic_store(&no_memory, false);
}

/* Only lanex is refused memory, and each time that it asks. */
Test(limits, without_any_allocation_submit_says_so_and_nothing_is_lost)
{
    const struct shortage shortage = {begin_refusing, end_refusing};

    real = lx_seams;
    lx_seams.allocate = allocate_or_not;
    lx_seams.map = map_or_not;
    without_memory(&shortage);
}

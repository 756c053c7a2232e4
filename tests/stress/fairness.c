/*
 * Light work beside heavy work: what may start, and what it waits for, is exact; how long a light
 * job takes is judged against the same jobs on the same machine with nothing else going on.
 */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

TestSuite(fairness); /* honours LANEX_SOAK_SECONDS: no timeout of its own */

#define MS      UINT64_C(1000000)
#define FOREVER LANEX_TIME_NEVER
/* A scheduling quantum of the kernel: what a thread that is ready may wait for a core. */
#define QUANTUM_NS (4 * MS)

static void nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

struct blocker {
    struct latch entered, leave, over;
};

static void block(lanex_job *job, void *context, void *arg)
{
    struct blocker *blocker = arg;

    (void)job;
    (void)context;
    latch_arrive(&blocker->entered);
    latch_wait(&blocker->leave, 1);
}

static void note_over(lanex_completion *completion, void *arg)
{
    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    latch_arrive(arg);
}

static void pause_ns(uint64_t ns)
{
    const struct timespec pause = {.tv_sec = (time_t)(ns / (1000 * MS)),
                                   .tv_nsec = (long)(ns % (1000 * MS))};

    (void)nanosleep(&pause, NULL);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

struct latencies {
    uint64_t half, nine_tenths, worst;
};

/* Reads one after the other, so long apart: from submit to having the answer. */
static struct latencies measure_reads(lanex_actor *actor, unsigned count, uint64_t apart_ns)
{
    uint64_t *taken = calloc(count, sizeof *taken);
    lanex_job_options read = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    struct latencies latencies;

    for (unsigned i = 0; i < count; i++) {
        uint64_t start = lx_test_now_ns();
        lanex_ticket *ticket;
        LX_REQUIRE(lanex_submit_ticket(actor, &read, &ticket) == 0);
        LX_REQUIRE(lanex_ticket_wait(ticket, FOREVER) == 0);
        taken[i] = lx_test_now_ns() - start;
        lanex_ticket_drop(ticket);
        pause_ns(apart_ns);
    }
    qsort(taken, count, sizeof *taken, by_value);
    latencies = (struct latencies){taken[count / 2], taken[count * 9 / 10], taken[count - 1]};
    free(taken);
    return latencies;
}

static void report(const char *what, struct latencies l)
{
    fprintf(stderr, "[----] %s: half within %llu us, nine tenths %llu, the worst %llu\n", what,
            (unsigned long long)l.half / 1000, (unsigned long long)l.nine_tenths / 1000,
            (unsigned long long)l.worst / 1000);
}

static void end(lanex_executor *executor)
{
    cr_assert_eq(lanex_executor_drain(executor, FOREVER, NULL), 0);
    lx_test_at_rest(executor);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* ---- maintenance without end beside people's reads ---- */

#define BUSY_ACTORS 16u

struct background {
    lanex_actor *actors[BUSY_ACTORS];
    atomic_bool stop;
    atomic_uint running, most_running, done, under_way;
    struct latch ended;
};

/* Blocks as disk and network do: it is workers that it takes, not the core. */
static void work(lanex_job *job, void *context, void *arg)
{
    struct background *background = arg;
    unsigned running = atomic_fetch_add(&background->running, 1) + 1;
    unsigned most = atomic_load(&background->most_running);

    (void)job;
    (void)context;
    while (running > most &&
           !atomic_compare_exchange_weak(&background->most_running, &most, running))
        ;
    pause_ns(100 * MS);
    atomic_fetch_sub(&background->running, 1);
}

struct chain {
    struct background *background;
    lanex_actor *actor;
    enum lanex_lane lane;
};

static void work_on(lanex_completion *completion, void *arg);

static void submit_work(struct chain *chain)
{
    lanex_job_options options =
        lx_test_callback_job(chain->lane, work, chain->background, work_on, chain);

    options.job_class = LANEX_CLASS_MAINTENANCE;
    LX_REQUIRE(lanex_submit(chain->actor, &options, NULL) == 0);
}

static void work_on(lanex_completion *completion, void *arg)
{
    struct chain *chain = arg;

    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    atomic_fetch_add(&chain->background->done, 1);
    if (atomic_load(&chain->background->stop))
        latch_arrive(&chain->background->ended);
    else
        submit_work(chain);
}

Test(fairness, a_flood_of_maintenance_leaves_reads_alone)
{
    static struct background background;
    static struct chain chains[2 * BUSY_ACTORS];
    lanex_executor_options options = lx_test_executor_options(4);
    lanex_executor *executor = NULL;
    lanex_config config = {.size = sizeof config};
    lanex_actor *reader;
    struct latencies alone, among;
    unsigned reads = 300 + 400 * lx_test_soak_seconds(), done;
    uint64_t start, seconds;

    options.heavy_permits = 1;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    cr_assert_eq(lanex_executor_config(executor, &config), 0);
    reader = lx_test_actor(executor, 1000);
    alone = measure_reads(reader, 300, 2 * MS);
    for (unsigned i = 0; i < BUSY_ACTORS; i++) {
        background.actors[i] = lx_test_actor(executor, i);
        for (unsigned k = 0; k < 2; k++) {
            chains[2 * i + k] =
                (struct chain){&background, background.actors[i],
                               k == 0 ? LANEX_LANE_MAINTENANCE_COMMIT : LANEX_LANE_HEAVY_INIT};
            submit_work(&chains[2 * i + k]);
        }
    }
    LX_EVENTUALLY(atomic_load(&background.running) > 0);
    start = lx_test_now_ns();
    among = measure_reads(reader, reads, 2 * MS);
    LX_EVENTUALLY(lx_test_now_ns() - start > 1000 * MS);
    done = atomic_load(&background.done);
    seconds = (lx_test_now_ns() - start) / (1000 * MS);
    atomic_store(&background.stop, true);
    latch_wait(&background.ended, 2 * BUSY_ACTORS);
    report("alone", alone);
    report("beside maintenance", among);
    /* Two workers stay free of it, whatever waits; the others are used, and make progress. */
    cr_assert_leq(atomic_load(&background.most_running), config.maintenance_cap);
    cr_assert_geq(done, seconds);
    /* The middle of the many: the tail is what else this machine does. */
    cr_assert_leq(among.half, 2 * alone.nine_tenths + QUANTUM_NS);
    for (unsigned i = 0; i < BUSY_ACTORS; i++)
        lanex_actor_unref(background.actors[i]);
    lanex_actor_unref(reader);
    end(executor);
}

/* ---- a trivial call behind a giant ---- */

Test(fairness, a_trivial_call_does_not_wait_for_a_giant)
{
    lanex_executor_options options = lx_test_executor_options(3);
    lanex_executor *executor = NULL;
    lanex_actor *a, *b;
    struct blocker giant = {.leave = LATCH_INIT};
    struct latch behind = LATCH_INIT;
    lanex_job_options heavy =
        lx_test_callback_job(LANEX_LANE_HEAVY_INIT, block, &giant, note_over, &giant.over);
    struct latencies alone, on_a, on_b;

    options.heavy_permits = 1;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    a = lx_test_actor(executor, 1);
    b = lx_test_actor(executor, 2);
    alone = measure_reads(a, 200, MS);
    cr_assert_eq(lanex_submit(a, &heavy, NULL), 0);
    latch_wait(&giant.entered, 1);
    /* On both actors another one waits for the permit, in front of the reads. */
    heavy = lx_test_callback_job(LANEX_LANE_HEAVY_INIT, nothing, NULL, note_over, &behind);
    cr_assert_eq(lanex_submit(a, &heavy, NULL), 0);
    cr_assert_eq(lanex_submit(b, &heavy, NULL), 0);
    on_a = measure_reads(a, 200, MS);
    on_b = measure_reads(b, 200, MS);
    report("alone", alone);
    report("at the giant's actor", on_a);
    report("at another", on_b);
    cr_assert_eq(latch_count(&giant.over), 0); /* all of them came and went while it ran */
    cr_assert_eq(latch_count(&behind), 0);
    cr_assert_leq(on_a.half, 5 * MS + alone.nine_tenths);
    cr_assert_leq(on_b.half, 5 * MS + alone.nine_tenths);
    latch_arrive(&giant.leave);
    latch_wait(&behind, 2);
    lanex_actor_unref(a);
    lanex_actor_unref(b);
    end(executor);
}

/* ---- a stream of reads against a writer ---- */

#define STREAM_MOST  4096u
#define READ_NS      (50 * MS)
#define APART_NS     (10 * MS)
#define PROMOTION_MS 500u

struct stream {
    lanex_actor *actor;
    atomic_bool stop;
    atomic_uint submitted, begun, over;
    uint64_t begun_ns[STREAM_MOST]; /* in the order of beginning */
    atomic_ullong longest_ns;
    atomic_ullong writer_ns; /* when it began; 0: not yet */
    struct latch writer_over;
};

static void slow_read(lanex_job *job, void *context, void *arg)
{
    struct stream *stream = arg;
    uint64_t start = lx_test_now_ns(), taken;
    unsigned long long longest = atomic_load(&stream->longest_ns);

    (void)job;
    (void)context;
    stream->begun_ns[atomic_fetch_add(&stream->begun, 1)] = start;
    pause_ns(READ_NS);
    taken = lx_test_now_ns() - start;
    while (taken > longest && !atomic_compare_exchange_weak(&stream->longest_ns, &longest, taken))
        ;
}

static void count_read(lanex_completion *completion, void *arg)
{
    LX_REQUIRE(lanex_completion_status(completion) == LANEX_STATUS_OK);
    atomic_fetch_add(&((struct stream *)arg)->over, 1);
}

static void *keep_reading(void *arg)
{
    struct stream *stream = arg;

    while (!atomic_load(&stream->stop) && atomic_load(&stream->submitted) < STREAM_MOST) {
        lanex_job_options read =
            lx_test_callback_job(LANEX_LANE_PURE_READ, slow_read, stream, count_read, stream);
        LX_REQUIRE(lanex_submit(stream->actor, &read, NULL) == 0);
        atomic_fetch_add(&stream->submitted, 1);
        pause_ns(APART_NS);
    }
    return NULL;
}

static void write_once(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    atomic_store(&((struct stream *)arg)->writer_ns, lx_test_now_ns());
}

Test(fairness, a_stream_of_reads_lets_a_writer_in_at_the_promotion_age)
{
    static struct stream stream;
    lanex_executor_options options = lx_test_executor_options(4);
    lanex_config config = {.size = sizeof config};
    lanex_executor *executor = NULL;
    lanex_actor *other;
    lanex_job_options job;
    lanex_ticket *ticket;
    pthread_t thread;
    uint64_t submitted_ns, seen_ns, writer_ns;
    unsigned overtook = 0, late = 0, begun;

    options.promotion_age_ms = PROMOTION_MS;
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    cr_assert_eq(lanex_executor_config(executor, &config), 0);
    stream.actor = lx_test_actor(executor, 1);
    other = lx_test_actor(executor, 2);
    cr_assert_eq(pthread_create(&thread, NULL, keep_reading, &stream), 0);
    LX_EVENTUALLY(atomic_load(&stream.begun) >= 5);
    job = lx_test_callback_job(LANEX_LANE_MUTATING, write_once, &stream, note_over,
                               &stream.writer_over);
    submitted_ns = lx_test_now_ns();
    cr_assert_eq(lanex_submit(stream.actor, &job, NULL), 0);
    /* What is submitted after it is over: so its turn has come, and its age counts from here at the
     * latest. */
    job = lx_test_job(LANEX_LANE_PURE_READ, nothing, NULL);
    cr_assert_eq(lanex_submit_ticket(other, &job, &ticket), 0);
    cr_assert_eq(lanex_ticket_wait(ticket, FOREVER), 0);
    lanex_ticket_drop(ticket);
    seen_ns = lx_test_now_ns();
    latch_wait(&stream.writer_over, 1);
    writer_ns = atomic_load(&stream.writer_ns);
    begun = atomic_load(&stream.begun);
    LX_EVENTUALLY(atomic_load(&stream.begun) >= begun + 5); /* the stream goes on */
    atomic_store(&stream.stop, true);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    LX_EVENTUALLY(atomic_load(&stream.over) == atomic_load(&stream.submitted));
    for (unsigned i = 0; i < atomic_load(&stream.begun); i++) {
        uint64_t at = stream.begun_ns[i];
        overtook += at > submitted_ns && at < writer_ns;
        late += at > seen_ns + PROMOTION_MS * MS && at < writer_ns;
    }
    fprintf(stderr,
            "[----] the writer began after %llu ms; %u reads overtook it; the longest: %llu ms\n",
            (unsigned long long)((writer_ns - submitted_ns) / MS), overtook,
            (unsigned long long)(atomic_load(&stream.longest_ns) / MS));
    cr_assert_gt(overtook, 0);
    /* A read that was handed out before the promotion may begin after it, on a slow machine; those
     * hold the actor's read slots, so there are no more of them. */
    cr_assert_leq(late, config.read_cap);
    /* Such a one may itself begin late, by what its thread waited for a core: the longest read has
     * room for that, and so does a second one. */
    cr_assert_leq(writer_ns - submitted_ns, (seen_ns - submitted_ns) + PROMOTION_MS * MS +
                                                2 * atomic_load(&stream.longest_ns) +
                                                10 * QUANTUM_NS);
    lanex_actor_unref(stream.actor);
    lanex_actor_unref(other);
    end(executor);
}

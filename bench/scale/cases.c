#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scale.h"

/* ---- actors ---- */

#define OUTSTANDING 512u /* jobs in flight while 64 actors are busy */

struct crowd {
    lanex_executor *executor;
    lanex_actor *busy[SCALE_BUSY];
    lanex_actor *holder; /* of the permit */
    struct scale_gate permit;
    struct scale_series series;
};

static void make_crowd(struct crowd *crowd, const struct scale_options *options, unsigned idle,
                       unsigned waiting)
{
    lanex_job_options heavy = {
        .size = sizeof heavy, .lane = LANEX_LANE_HEAVY_INIT, .run = scale_nothing};
    unsigned made = 0;

    crowd->executor = scale_executor(options);
    crowd->holder = scale_actor(crowd->executor, "holder", 0);
    /* In every variant, so that each has the same number of workers left. */
    scale_gate_shut(&crowd->permit, crowd->holder, LANEX_LANE_HEAVY_INIT);
    for (unsigned i = 0; i < idle + waiting; i++) {
        /* The busy ones stand between the others, as they would. */
        if (i % ((idle + waiting) / SCALE_BUSY + 1) == 0 && made < SCALE_BUSY) {
            crowd->busy[made] = scale_actor(crowd->executor, "busy", made);
            made++;
        }
        lanex_actor *actor = scale_actor(crowd->executor, "other", i);
        if (i >= idle)
            scale_check(lanex_submit(actor, &heavy, NULL), "submit");
        lanex_actor_unref(actor);
    }
    for (; made < SCALE_BUSY; made++)
        crowd->busy[made] = scale_actor(crowd->executor, "busy", made);
}

static void run_crowd(struct crowd *crowd, unsigned jobs)
{
    struct scale_count count;
    lanex_job_options job = {
        .size = sizeof job,
        .lane = LANEX_LANE_PURE_READ,
        .run = scale_nothing,
        .sink = {.kind = LANEX_SINK_CALLBACK, .callback = scale_count_one, .callback_arg = &count},
    };

    for (unsigned left = jobs; left > 0;) {
        unsigned now = left < OUTSTANDING ? left : OUTSTANDING;
        scale_count_begin(&count, now);
        for (unsigned i = 0; i < now; i++)
            scale_check(lanex_submit(crowd->busy[i % SCALE_BUSY], &job, NULL), "submit");
        scale_count_wait(&count);
        left -= now;
    }
}

static void end_crowd(struct crowd *crowd)
{
    scale_gate_open(&crowd->permit);
    for (unsigned i = 0; i < SCALE_BUSY; i++)
        lanex_actor_unref(crowd->busy[i]);
    lanex_actor_unref(crowd->holder);
    scale_check(lanex_executor_destroy(crowd->executor), "destroy");
}

void scale_actors(const struct scale_options *options)
{
    static struct crowd crowds[3];
    static const char *const names[] = {"64 alone", "64 of many registered",
                                        "64 beside many that wait for a permit"};

    memset(crowds, 0, sizeof crowds);
    make_crowd(&crowds[0], options, 0, 0);
    make_crowd(&crowds[1], options, options->actors, 0);
    make_crowd(&crowds[2], options, 0, options->actors);
    for (unsigned i = 0; i < 3; i++)
        run_crowd(&crowds[i], options->jobs / 10 + 1);
    for (unsigned r = 0; r < options->repeat; r++) {
        for (unsigned i = 0; i < 3; i++) {
            struct scale_time since = scale_now();
            run_crowd(&crowds[i], options->jobs);
            scale_series_add(&crowds[i].series, since, options->jobs);
        }
    }
    for (unsigned i = 0; i < 3; i++) {
        scale_print("actors", names[i], i == 0 ? SCALE_BUSY : options->actors, &crowds[i].series,
                    &crowds[0].series);
        end_crowd(&crowds[i]);
    }
}

/* ---- queue ---- */

static const enum lanex_lane mixed_lanes[] = {
    LANEX_LANE_PURE_READ, LANEX_LANE_SERIAL_STATUS, LANEX_LANE_HEAVY_INIT,
    LANEX_LANE_MUTATING,  LANEX_LANE_PURE_READ,     LANEX_LANE_MAINTENANCE_COMMIT,
};

/* Submits `depth` jobs of mixed lanes behind the actor's writer. */
static void fill_queue(lanex_actor *actor, unsigned depth, struct scale_count *count,
                       uint64_t *numbers)
{
    lanex_job_options job = {
        .size = sizeof job,
        .run = scale_nothing,
        .request_id = "0123456789abcdef01234567",
        .request_id_length = 24,
        .sink = {.kind = LANEX_SINK_CALLBACK, .callback = scale_count_one, .callback_arg = count},
    };

    for (unsigned i = 0; i < depth; i++) {
        job.lane = mixed_lanes[i % (sizeof mixed_lanes / sizeof mixed_lanes[0])];
        scale_check(lanex_submit(actor, &job, numbers != NULL ? &numbers[i] : NULL), "submit");
    }
}

static void one_queue(lanex_actor *actor, unsigned depth, unsigned jobs,
                      struct scale_series *submitted, struct scale_series *drained)
{
    unsigned times = jobs / depth > 0 ? jobs / depth : 1;
    struct scale_time filling = {0, 0}, draining = {0, 0}, begin, now;

    for (unsigned i = 0; i < times; i++) {
        struct scale_count count;
        struct scale_gate gate;

        scale_count_begin(&count, depth);
        scale_gate_shut(&gate, actor, LANEX_LANE_MUTATING);
        begin = scale_now();
        fill_queue(actor, depth, &count, NULL);
        now = scale_now();
        filling.wall_ns += now.wall_ns - begin.wall_ns;
        filling.cpu_ns += now.cpu_ns - begin.cpu_ns;
        scale_gate_open(&gate);
        scale_count_wait(&count);
        begin = scale_now();
        draining.wall_ns += begin.wall_ns - now.wall_ns;
        draining.cpu_ns += begin.cpu_ns - now.cpu_ns;
    }
    submitted->wall[submitted->count] = (double)filling.wall_ns / times / depth;
    submitted->cpu[submitted->count++] = (double)filling.cpu_ns / times / depth;
    drained->wall[drained->count] = (double)draining.wall_ns / times / depth;
    drained->cpu[drained->count++] = (double)draining.cpu_ns / times / depth;
}

#define DEPTHS 4u

void scale_queue(const struct scale_options *options)
{
    static struct scale_series submitted[DEPTHS], drained[DEPTHS], ignored[2];
    lanex_executor *executor = scale_executor(options);
    lanex_actor *actor = scale_actor(executor, "actor", 0);
    unsigned depths[DEPTHS];

    for (unsigned i = 0; i < DEPTHS; i++) {
        static const unsigned parts[] = {1000, 100, 10, 1};
        depths[i] = options->depth / parts[i] > 0 ? options->depth / parts[i] : 1;
    }
    /* All memory has been touched before anything is measured. */
    one_queue(actor, options->depth, 1, &ignored[0], &ignored[1]);
    for (unsigned r = 0; r < options->repeat; r++) {
        for (unsigned i = 0; i < DEPTHS; i++)
            one_queue(actor, depths[i], options->jobs, &submitted[i], &drained[i]);
    }
    for (unsigned i = 0; i < DEPTHS; i++)
        scale_print("queue", "submit", depths[i], &submitted[i], &submitted[0]);
    for (unsigned i = 0; i < DEPTHS; i++)
        scale_print("queue", "drain", depths[i], &drained[i], &drained[0]);
    lanex_actor_unref(actor);
    scale_check(lanex_executor_destroy(executor), "destroy");
}

/* ---- cancel ---- */

static void one_cancel(lanex_executor *executor, lanex_actor *actor, unsigned depth,
                       unsigned cancels, struct scale_series *series)
{
    uint64_t *numbers = malloc(depth * sizeof *numbers);
    uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);
    struct scale_count count;
    struct scale_gate gate;
    struct scale_time since;

    if (numbers == NULL)
        scale_check(-12, "memory");
    scale_count_begin(&count, depth);
    scale_gate_shut(&gate, actor, LANEX_LANE_MUTATING);
    fill_queue(actor, depth, &count, numbers);
    for (unsigned i = 0; i < cancels; i++) {
        unsigned other = i + (unsigned)(scale_random(&seed) % (depth - i));
        uint64_t swapped = numbers[i];
        numbers[i] = numbers[other];
        numbers[other] = swapped;
    }
    since = scale_now();
    for (unsigned i = 0; i < cancels; i++) {
        if (lanex_cancel(executor, numbers[i]) != LANEX_CANCEL_QUEUED_REMOVED)
            scale_check(-5, "cancel");
    }
    scale_series_add(series, since, cancels);
    scale_gate_open(&gate);
    scale_count_wait(&count);
    free(numbers);
}

void scale_cancel(const struct scale_options *options)
{
    static struct scale_series series[3], ignored;
    lanex_executor *executor = scale_executor(options);
    lanex_actor *actor = scale_actor(executor, "actor", 0);
    unsigned cancels = options->depth / 10 > 0 ? options->depth / 10 : 1;
    unsigned depths[3] = {cancels, cancels * 3, cancels * 10};

    one_cancel(executor, actor, depths[2], cancels, &ignored);
    for (unsigned r = 0; r < options->repeat; r++) {
        for (unsigned i = 0; i < 3; i++)
            one_cancel(executor, actor, depths[i], cancels, &series[i]);
    }
    for (unsigned i = 0; i < 3; i++)
        scale_print("cancel", "random order", depths[i], &series[i], &series[0]);
    lanex_actor_unref(actor);
    scale_check(lanex_executor_destroy(executor), "destroy");
}

/* ---- memory ---- */

static void print_memory(const char *what, unsigned count, uint64_t bytes, uint64_t key_bytes)
{
    printf("{\"case\":\"memory\",\"variant\":\"%s\",\"size\":%u,\"bytes\":%.1f,"
           "\"key_bytes\":%llu}\n",
           what, count, (double)bytes / count - (double)key_bytes, (unsigned long long)key_bytes);
    fflush(stdout);
}

void scale_memory(const struct scale_options *options)
{
    lanex_executor *executor = scale_executor(options);
    lanex_actor *actor = scale_actor(executor, "actor", 0);
    struct scale_count count;
    struct scale_gate gate;
    uint64_t before;
    size_t key_length;

    lanex_actor_key(actor, &key_length);
    /* A few of each first: what is made once does not count. */
    for (unsigned i = 1; i < 100; i++)
        lanex_actor_unref(scale_actor(executor, "actor", i));
    before = scale_resident();
    for (unsigned i = 0; i < options->actors; i++)
        lanex_actor_unref(scale_actor(executor, "other", i));
    print_memory("idle actor", options->actors, scale_resident() - before, key_length);

    scale_count_begin(&count, 1000);
    scale_gate_shut(&gate, actor, LANEX_LANE_MUTATING);
    fill_queue(actor, 1000, &count, NULL);
    scale_gate_open(&gate);
    scale_count_wait(&count);
    scale_count_begin(&count, options->depth);
    scale_gate_shut(&gate, actor, LANEX_LANE_MUTATING);
    before = scale_resident();
    fill_queue(actor, options->depth, &count, NULL);
    print_memory("queued job", options->depth, scale_resident() - before, 0);
    scale_gate_open(&gate);
    scale_count_wait(&count);
    lanex_actor_unref(actor);
    scale_check(lanex_executor_destroy(executor), "destroy");
}

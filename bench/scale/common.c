#include "scale.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int scale_check(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "lanex-scale: %s: %s\n", what, strerror(-rc));
        exit(1);
    }
    return rc;
}

lanex_executor *scale_executor(const struct scale_options *options)
{
    lanex_executor_options asked = {
        .size = sizeof asked,
        .profile = LANEX_PROFILE_MANY_CORE,
        .pool_size = options->workers,
        .dispatch = options->dispatch,
        .backend = options->backend,
        .heavy_permits = 1,
    };
    lanex_executor *executor;

    scale_check(lanex_executor_create(&asked, &executor), "create");
    return executor;
}

lanex_actor *scale_actor(lanex_executor *executor, const char *kind, unsigned number)
{
    lanex_actor *actor;
    char key[32];
    int length = snprintf(key, sizeof key, "%s-%08u", kind, number);

    scale_check(lanex_actor_register(executor, key, (size_t)length, NULL, &actor), "register");
    return actor;
}

void scale_nothing(lanex_job *job, void *context, void *arg)
{
    (void)job;
    (void)context;
    (void)arg;
}

static void sleep_while(atomic_uint *word, unsigned value)
{
    while (atomic_load(word) == value)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_all(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
}

static void wait_in_gate(lanex_job *job, void *context, void *arg)
{
    struct scale_gate *gate = arg;

    (void)job;
    (void)context;
    atomic_store(&gate->begun, 1);
    wake_all(&gate->begun);
    sleep_while(&gate->open, 0);
}

void scale_gate_shut(struct scale_gate *gate, lanex_actor *actor, enum lanex_lane lane)
{
    lanex_job_options job = {.size = sizeof job, .lane = lane, .run = wait_in_gate, .arg = gate};

    atomic_init(&gate->begun, 0);
    atomic_init(&gate->open, 0);
    scale_check(lanex_submit_ticket(actor, &job, &gate->ticket), "submit");
    sleep_while(&gate->begun, 0);
}

void scale_gate_open(struct scale_gate *gate)
{
    atomic_store(&gate->open, 1);
    wake_all(&gate->open);
    /* The job looks at the gate until its end. */
    scale_check(lanex_ticket_wait(gate->ticket, LANEX_TIME_NEVER), "wait");
    lanex_ticket_drop(gate->ticket);
}

void scale_count_begin(struct scale_count *count, unsigned wanted)
{
    atomic_init(&count->done, 0);
    count->wanted = wanted;
}

void scale_count_one(lanex_completion *completion, void *arg)
{
    struct scale_count *count = arg;

    (void)completion;
    if (atomic_fetch_add(&count->done, 1) + 1 == count->wanted)
        wake_all(&count->done);
}

void scale_count_wait(struct scale_count *count)
{
    unsigned done;

    while ((done = atomic_load(&count->done)) < count->wanted)
        syscall(SYS_futex, &count->done, FUTEX_WAIT_PRIVATE, done, NULL, NULL, 0);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct scale_time scale_now(void)
{
    return (struct scale_time){clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_PROCESS_CPUTIME_ID)};
}

void scale_series_add(struct scale_series *series, struct scale_time since, unsigned jobs)
{
    struct scale_time now = scale_now();

    series->wall[series->count] = (double)(now.wall_ns - since.wall_ns) / jobs;
    series->cpu[series->count++] = (double)(now.cpu_ns - since.cpu_ns) / jobs;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double scale_median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, by_value);
    return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void scale_print(const char *name, const char *variant, unsigned size, struct scale_series *series,
                 struct scale_series *first)
{
    double wall = scale_median(series->wall, series->count);
    double cpu = scale_median(series->cpu, series->count);

    printf("{\"case\":\"%s\",\"variant\":\"%s\",\"size\":%u,\"repeat\":%u,\"wall_ns\":%.1f,"
           "\"cpu_ns\":%.1f,\"wall_x\":%.3f,\"cpu_x\":%.3f}\n",
           name, variant, size, series->count, wall, cpu,
           wall / scale_median(first->wall, first->count),
           cpu / scale_median(first->cpu, first->count));
    fflush(stdout);
}

uint64_t scale_resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1) {
        fputs("lanex-scale: /proc/self/statm cannot be read\n", stderr);
        exit(1);
    }
    fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t scale_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#include "report.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"
#include "ticks.h"

static json_t *params;
static const char *workload_name = "";

void bench_die(const char *what, int error)
{
    fprintf(stderr, "%s: %s: %s\n", bench_name, what, strerror(error < 0 ? -error : error));
    exit(1);
}

void bench_report_begin(const char *workload)
{
    json_decref(params);
    params = json_object();
    workload_name = workload;
    bench_param_int("workers", bench_options.workers);
    bench_param_text("idiom", bench_idiom);
    bench_param_bool("quick", bench_options.quick);
}

void bench_param_int(const char *name, long long value)
{
    json_object_set_new(params, name, json_integer(value));
}

void bench_param_real(const char *name, double value)
{
    json_object_set_new(params, name, json_real(value));
}

void bench_param_text(const char *name, const char *value)
{
    json_object_set_new(params, name, json_string(value));
}

void bench_param_bool(const char *name, bool value)
{
    json_object_set_new(params, name, json_boolean(value));
}

void bench_report(const char *metric, double value, const char *unit)
{
    if (bench_options.json) {
        json_t *line =
            json_pack("{s:s,s:s,s:O,s:s,s:f,s:s}", "system", bench_name, "workload", workload_name,
                      "params", params, "metric", metric, "value", value, "unit", unit);
        if (line == NULL)
            bench_die("json", ENOMEM);
        json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7));
        putchar('\n');
        json_decref(line);
    } else {
        const char *name;
        json_t *each;
        printf("%-24s %-12s %-20s %14.6g %-4s", bench_name, workload_name, metric, value, unit);
        json_object_foreach(params, name, each)
        {
            if (strcmp(name, "idiom") == 0 || strcmp(name, "quick") == 0)
                continue;
            printf(" %s=", name);
            json_dumpf(each, stdout, JSON_ENCODE_ANY | JSON_REAL_PRECISION(3));
        }
        putchar('\n');
    }
    fflush(stdout);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

void bench_sort_ticks(uint32_t *ticks, long count)
{
    qsort(ticks, (size_t)count, sizeof *ticks, by_value);
}

double bench_rank_ns(const uint32_t *sorted, long count, double rank)
{
    if (count == 0)
        return 0;
    return (double)sorted[(long)(rank * (double)(count - 1) + 0.5)] / bench_ticks_per_ns;
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* CPU seconds that all processes used (or that were stolen), to tell a disturbed run. */
static double machine_busy(void)
{
    unsigned long long user = 0, nice = 0, system = 0, irq = 0, soft = 0, steal = 0;
    FILE *file = fopen("/proc/stat", "r");

    if (file == NULL)
        return 0;
    if (fscanf(file, "cpu %llu %llu %llu %*u %*u %llu %llu %llu", &user, &nice, &system, &irq,
               &soft, &steal) != 6)
        user = 0;
    fclose(file);
    return (double)(user + nice + system + irq + soft + steal) / (double)sysconf(_SC_CLK_TCK);
}

struct bench_usage bench_usage_begin(void)
{
    struct rusage used;
    struct bench_usage usage;

    getrusage(RUSAGE_SELF, &used);
    usage.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
    usage.busy_s = machine_busy();
    usage.wall_ns = bench_now();
    return usage;
}

void bench_usage_end(struct bench_usage *usage)
{
    uint64_t now = bench_now();
    struct bench_usage end = bench_usage_begin();

    usage->wall_ns = now - usage->wall_ns;
    usage->cpu_s = end.cpu_s - usage->cpu_s;
    usage->busy_s = (end.busy_s - usage->busy_s - usage->cpu_s) / ((double)usage->wall_ns / 1e9);
}

long bench_resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        bench_die("/proc/self/statm", EIO);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

int bench_threads(void)
{
    char line[256];
    int count = 0;
    FILE *file = fopen("/proc/self/status", "r");

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Threads: %d", &count) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return count;
}

/* The CPUs of the process, as they were before anything was bound. */
static const cpu_set_t *usable(void)
{
    static cpu_set_t set;
    static bool known;

    if (!known && sched_getaffinity(0, sizeof set, &set) != 0)
        bench_die("affinity", errno);
    known = true;
    return &set;
}

unsigned bench_cpus(void)
{
    return (unsigned)CPU_COUNT(usable());
}

unsigned bench_cpu(unsigned rank)
{
    const cpu_set_t *all = usable();
    unsigned cpu;

    rank %= bench_cpus();
    for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, all) && rank-- == 0)
            break;
    }
    return cpu;
}

void bench_pin(unsigned rank)
{
    cpu_set_t one;
    int error;

    CPU_ZERO(&one);
    CPU_SET(bench_cpu(rank), &one);
    if ((error = pthread_setaffinity_np(pthread_self(), sizeof one, &one)) != 0)
        bench_die("affinity", error);
}

void bench_unpin(void)
{
    const cpu_set_t *all = usable();
    int error = pthread_setaffinity_np(pthread_self(), sizeof *all, all);

    if (error != 0)
        bench_die("affinity", error);
}

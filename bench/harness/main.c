/*
 * bench/harness/main.c - the command line that lanex-bench and all peers share.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "meter.h"
#include "report.h"
#include "ticks.h"
#include "workloads.h"

#define WORKERS     2u
#define WORKERS_MAX 1024u
#define LIMIT_S     60.0
#define REPS_FULL   3u

struct bench_options bench_options;
char bench_idiom[BENCH_TEXT];
const char *bench_name = "bench";
double bench_ticks_per_ns = 1;

void bench_ticks_calibrate(void)
{
    uint64_t clock = bench_now(), ticks = bench_ticks();

    while (bench_now() - clock < 50000000u)
        ;
    bench_ticks_per_ns = (double)(bench_ticks() - ticks) / (double)(bench_now() - clock);
}

static void usage(FILE *out)
{
    fputs("usage: PROGRAM WORKLOAD [OPTION...]\n"
          "  --workers N          (2)          --quick              fewer jobs, one repetition\n"
          "  --json               JSON lines   --reps N             (3)\n"
          "  --actors N           (64)         --jobs N             by workload\n"
          "  --window N           (4096)       --submitters N       W9: this number alone\n"
          "  --limit SECONDS      (60)         --variant NAME       of a peer\n"
          "  --pin                the submitter on the first CPU, the system on the second\n"
          "lanex alone:\n"
          "  --dispatch seat|scheduler         --backend ring|poll\n"
          "  --sink callback|ticket|port|port-ring|cqe              W10: this sink alone\n"
          "  --id-size BYTES      of each job's request id (0)\n"
          "  --spin US            threads look for work so long before they sleep (0)\n"
          "workloads:\n",
          out);
    for (const struct bench_workload *each = bench_workloads; each->name != NULL; each++)
        fprintf(out, "  %-4s %-12s %s\n", each->code, each->name, each->about);
    fputs("  all\n", out);
}

static __attribute__((noreturn)) void refuse(const char *what, const char *text)
{
    fprintf(stderr, "%s: %s: %s\n", bench_traits.name, what, text);
    exit(2);
}

static long number(const char *text, long low, long high)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value < low || value > high)
        refuse("not a number in range", text);
    return value;
}

static bool set_number(int letter, const char *text)
{
    switch (letter) {
    case 'w':
        bench_options.workers = (unsigned)number(text, 1, WORKERS_MAX);
        return true;
    case 'a':
        bench_options.actors = (unsigned)number(text, 1, 10000000);
        return true;
    case 'r':
        bench_options.reps = (unsigned)number(text, 1, 1000);
        return true;
    case 'o':
        bench_options.window = (unsigned)number(text, 64, 1 << 24);
        return true;
    case 's':
        bench_options.submitters = (unsigned)number(text, 1, BENCH_SUBMITTERS_MAX);
        return true;
    case 'u':
        bench_options.spin_us = (unsigned)number(text, 0, 1000);
        return true;
    case 'i':
        bench_options.id_size = (unsigned)number(text, 0, 4096);
        return true;
    case 'n':
        bench_options.jobs = number(text, 1, 1000000000);
        return true;
    case 'l':
        bench_options.limit_s = (double)number(text, 1, 100000);
        return true;
    default:
        return false;
    }
}

static bool set_text(int letter, const char *text)
{
    switch (letter) {
    case 'v':
        bench_options.variant = text;
        return true;
    case 'd':
        bench_options.dispatch = text;
        return true;
    case 'b':
        bench_options.backend = text;
        return true;
    case 'k':
        bench_options.sink = text;
        return true;
    default:
        return false;
    }
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"workers", required_argument, NULL, 'w'},
        {"actors", required_argument, NULL, 'a'},
        {"reps", required_argument, NULL, 'r'},
        {"window", required_argument, NULL, 'o'},
        {"submitters", required_argument, NULL, 's'},
        {"id-size", required_argument, NULL, 'i'},
        {"spin", required_argument, NULL, 'u'},
        {"jobs", required_argument, NULL, 'n'},
        {"limit", required_argument, NULL, 'l'},
        {"variant", required_argument, NULL, 'v'},
        {"dispatch", required_argument, NULL, 'd'},
        {"backend", required_argument, NULL, 'b'},
        {"sink", required_argument, NULL, 'k'},
        {"quick", no_argument, NULL, 'q'},
        {"json", no_argument, NULL, 'j'},
        {"pin", no_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int letter;

    while ((letter = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (set_number(letter, optarg) || set_text(letter, optarg))
            continue;
        if (letter == 'q') {
            bench_options.quick = true;
        } else if (letter == 'j') {
            bench_options.json = true;
        } else if (letter == 'p') {
            bench_options.pin = true;
        } else {
            usage(letter == 'h' ? stdout : stderr);
            exit(letter == 'h' ? 0 : 2);
        }
    }
    if (optind + 1 != argc) {
        usage(stderr);
        exit(2);
    }
    bench_options.workload = argv[optind];
    if (bench_options.reps == 0)
        bench_options.reps = bench_options.quick ? 1 : REPS_FULL;
}

static bool wanted(const struct bench_workload *workload)
{
    const char *name = bench_options.workload;

    return strcmp(name, "all") == 0 || strcmp(name, workload->name) == 0 ||
           strcasecmp(name, workload->code) == 0;
}

/* A system starts anew for each workload: none inherits another's threads or memory. */
static void run(const struct bench_workload *workload)
{
    bench_options.workload = workload->name;
    if (!workload->own_system) {
        /* Which threads made from here on inherit. A system that is to spin needs to see that there
         * are two CPUs, and binds its threads itself. */
        if (bench_options.pin && bench_options.spin_us == 0)
            bench_pin(1);
        bench_traits.start();
        if (bench_options.pin)
            bench_pin(0);
    }
    workload->run();
    if (!workload->own_system)
        bench_traits.stop();
}

int main(int argc, char **argv)
{
    bool found = false;

    bench_options.workers = WORKERS;
    bench_options.limit_s = LIMIT_S;
    bench_options.variant = "";
    bench_name = bench_traits.name;
    parse(argc, argv);
    bench_cpus();
    bench_ticks_calibrate();
    const char *asked = bench_options.workload;
    for (const struct bench_workload *each = bench_workloads; each->name != NULL; each++) {
        bench_options.workload = asked;
        if (!wanted(each))
            continue;
        found = true;
        run(each);
    }
    if (!found)
        refuse("no such workload", asked);
    return 0;
}

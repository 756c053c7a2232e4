/*
 * lanex-scale: what a job costs as actors and queues grow, and what idle actors and queued jobs
 * weigh. One line of JSON per measurement on stdout.
 *
 *   actors   64 busy actors, alone; among 100,000 registered; and beside 100,000 others that wait
 *            for a heavy permit
 *   queue    one actor, mixed lanes, 1,000 to 1,000,000 jobs queued: submission and drain
 *   cancel   100,000 queued jobs cancelled in random order, at several depths
 *   memory   resident bytes of an idle actor and of a queued job
 *
 * The variants of a case take turns, and each figure is the median of the repetitions: of elapsed
 * time, and of the process's CPU time, which other load on the machine disturbs less. With
 * --repeat 1 --jobs N a case can be run under callgrind, once with N and once with 2 N; the
 * difference is what N jobs cost.
 */
#include "scale.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct scale_case {
    const char *name;
    void (*run)(const struct scale_options *options);
} cases[] = {
    {"actors", scale_actors},
    {"queue", scale_queue},
    {"cancel", scale_cancel},
    {"memory", scale_memory},
};

static void usage(FILE *out)
{
    fputs("usage: lanex-scale [--case NAME] [--repeat N] [--jobs N] [--actors N] [--depth N]\n"
          "                   [--workers N] [--dispatch seat|scheduler] [--backend ring|poll]\n"
          "  --case NAME   actors, queue, cancel or memory (all)\n"
          "  --repeat N    repetitions of each variant (5)\n"
          "  --jobs N      jobs of a repetition (200000)\n"
          "  --actors N    registered actors in the large variants (100000)\n"
          "  --depth N     the deepest queue (1000000)\n"
          "  --workers N   (2)\n",
          out);
}

static unsigned long number(const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value == 0 || value > 100000000) {
        fprintf(stderr, "lanex-scale: not a number from 1 to 100000000: %s\n", text);
        exit(2);
    }
    return value;
}

static uint32_t word(const char *text, const char *first, uint32_t is_first, const char *second,
                     uint32_t is_second)
{
    if (strcmp(text, first) != 0 && strcmp(text, second) != 0) {
        fprintf(stderr, "lanex-scale: neither %s nor %s: %s\n", first, second, text);
        exit(2);
    }
    return strcmp(text, first) == 0 ? is_first : is_second;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"case", required_argument, NULL, 'c'},     {"repeat", required_argument, NULL, 'r'},
        {"jobs", required_argument, NULL, 'j'},     {"actors", required_argument, NULL, 'a'},
        {"depth", required_argument, NULL, 'd'},    {"workers", required_argument, NULL, 'w'},
        {"dispatch", required_argument, NULL, 's'}, {"backend", required_argument, NULL, 'b'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
    };
    struct scale_options options = {
        .repeat = 5, .jobs = 200000, .actors = 100000, .depth = 1000000, .workers = 2};
    const char *only = NULL;
    bool found = false;
    int letter;

    while ((letter = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        switch (letter) {
        case 'c':
            only = optarg;
            break;
        case 'r':
            options.repeat = (unsigned)number(optarg);
            break;
        case 'j':
            options.jobs = (unsigned)number(optarg);
            break;
        case 'a':
            options.actors = (unsigned)number(optarg);
            break;
        case 'd':
            options.depth = (unsigned)number(optarg);
            break;
        case 'w':
            options.workers = (unsigned)number(optarg);
            break;
        case 's':
            options.dispatch =
                word(optarg, "seat", LANEX_DISPATCH_SEAT, "scheduler", LANEX_DISPATCH_SCHEDULER);
            break;
        case 'b':
            options.backend = word(optarg, "ring", LANEX_BACKEND_RING, "poll", LANEX_BACKEND_POLL);
            break;
        default:
            usage(letter == 'h' ? stdout : stderr);
            return letter == 'h' ? 0 : 2;
        }
    }
    if (options.repeat > SCALE_REPEAT_MAX)
        options.repeat = SCALE_REPEAT_MAX;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (only != NULL && strcmp(only, cases[i].name) != 0)
            continue;
        found = true;
        cases[i].run(&options);
    }
    if (!found) {
        fprintf(stderr, "lanex-scale: no such case: %s\n", only);
        return 2;
    }
    return 0;
}

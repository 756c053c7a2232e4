/*
 * lanex-sim: runs scenarios in the simulated world, seed after seed (sim.h).
 *
 *   lanex-sim [--seed FIRST] [--runs N] [--seconds S] [--steps LIMIT] [--policy 0|1|2]
 *             [--users basic|rings|full] [--faults MASK] [--drop U:I[-J],..] [--replay] [--trace]
 *             [--no-shrink] [--fresh] [--list]
 *
 * A failing seed is printed with its step, shrunk, and printed again as a command that replays it.
 */
#include "driver.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIMIT_DEFAULT UINT64_C(20000000)
#define LINE_MAX_     160u

struct command {
    struct sim_settings settings;
    uint64_t seed, runs;
    double seconds;
    uint32_t faults;
    bool faults_given, replay, shrink;
    const char *drop;
};

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* "U:I-J,U:I": operations that are left out. False if it is no such list. */
static bool drop_operations(struct sim_scenario *s, const char *list)
{
    while (list != NULL && *list != '\0') {
        unsigned user, from, to;
        int used = 0, more = 0;
        if (sscanf(list, "%u:%u%n", &user, &from, &used) != 2 || user >= SIM_USERS_MAX)
            return false;
        to = from;
        if (sscanf(list + used, "-%u%n", &to, &more) == 1)
            used += more;
        for (; from <= to && from < SIM_OPS_MAX; from++)
            s->op[user][from].kind = SIM_OP_REMOVED;
        list += used;
        list += *list == ',';
    }
    return true;
}

static void print_drops(const struct sim_scenario *s)
{
    const char *before = " --drop ";

    for (uint32_t u = 0; u < s->users; u++) {
        for (uint32_t i = 0; i < s->count[u]; i++) {
            if (s->op[u][i].kind != SIM_OP_REMOVED)
                continue;
            uint32_t to = i;
            while (to + 1 < s->count[u] && s->op[u][to + 1].kind == SIM_OP_REMOVED)
                to++;
            printf(to > i ? "%s%u:%u-%u" : "%s%u:%u", before, u, i, to);
            before = ",";
            i = to;
        }
    }
}

static void print_scenario(const struct command *c, const struct sim_scenario *s)
{
    for (uint32_t u = 0; u < s->users; u++) {
        for (uint32_t i = 0; i < s->count[u]; i++) {
            char text[LINE_MAX_];
            if (s->op[u][i].kind == SIM_OP_REMOVED)
                continue;
            c->settings.users->describe(&s->op[u][i], text, sizeof text);
            printf("  user %u, operation %2u: %s\n", u, i, text);
        }
    }
    printf("  replay: lanex-sim --users %s --seed %" PRIu64 " --faults 0x%x",
           c->settings.users->name, s->seed, s->faults);
    if (c->settings.policy >= 0)
        printf(" --policy %d", c->settings.policy);
    print_drops(s);
    printf(" --trace\n");
}

static void report_failure(const struct command *c, struct sim_scenario *s,
                           struct sim_outcome *outcome)
{
    printf("lanex-sim: seed %" PRIu64 " FAILED at step %" PRIu64 ": %s\n", s->seed, outcome->steps,
           outcome->text);
    fflush(stdout);
    if (!c->shrink)
        return;
    sim_shrink(&c->settings, s, outcome);
    printf("lanex-sim: seed %" PRIu64 ", smallest found, fails at step %" PRIu64 ": %s\n", s->seed,
           outcome->steps, outcome->text);
    print_scenario(c, s);
    fflush(stdout);
}

static const struct option options[] = {
    {"seed", required_argument, NULL, 's'},    {"runs", required_argument, NULL, 'r'},
    {"seconds", required_argument, NULL, 't'}, {"steps", required_argument, NULL, 'l'},
    {"policy", required_argument, NULL, 'p'},  {"users", required_argument, NULL, 'u'},
    {"faults", required_argument, NULL, 'f'},  {"drop", required_argument, NULL, 'd'},
    {"replay", no_argument, NULL, 'R'},        {"trace", no_argument, NULL, 'T'},
    {"no-shrink", no_argument, NULL, 'N'},     {"fresh", no_argument, NULL, 'F'},
    {"list", no_argument, NULL, 'L'},          {NULL, 0, NULL, 0},
};

static const struct sim_users *const all[] = {
    &sim_users_basic, &sim_users_rings, &sim_users_sync, &sim_users_edges,
#ifdef SIM_HAVE_FULL
    &sim_users_full,
#endif
};

static const struct sim_users *users_named(const char *name)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    }
    fprintf(stderr, "lanex-sim: no users named %s\n", name);
    exit(2);
}

static void parse(int argc, char **argv, struct command *c)
{
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 's':
            c->seed = strtoull(optarg, NULL, 0);
            break;
        case 'r':
            c->runs = strtoull(optarg, NULL, 0);
            break;
        case 't':
            c->seconds = strtod(optarg, NULL);
            break;
        case 'l':
            c->settings.limit = strtoull(optarg, NULL, 0);
            break;
        case 'p':
            c->settings.policy = atoi(optarg);
            break;
        case 'u':
            c->settings.users = users_named(optarg);
            break;
        case 'f':
            c->faults = (uint32_t)strtoul(optarg, NULL, 0);
            c->faults_given = true;
            break;
        case 'd':
            c->drop = optarg;
            break;
        case 'R':
            c->replay = true;
            break;
        case 'T':
            c->settings.trace = true;
            break;
        case 'N':
            c->shrink = false;
            break;
        case 'L': /* the sets of users */
            for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                printf("%s\n", all[i]->name);
            exit(0);
        case 'F': /* new seeds each time; they are printed when they fail */
            c->seed = (uint64_t)time(NULL) * 1000003u;
            break;
        default:
            exit(2);
        }
    }
}

/* One seed; false if it failed. */
static bool run_seed(const struct command *c, uint64_t seed, struct sim_outcome *ret_outcome)
{
    static struct sim_scenario scenario;
    struct sim_outcome again;

    sim_scenario_make(c->settings.users, seed, &scenario);
    if (c->faults_given)
        scenario.faults = c->faults;
    if (!drop_operations(&scenario, c->drop)) {
        fprintf(stderr, "lanex-sim: --drop takes U:I[-J],..\n");
        exit(2);
    }
    sim_run_child(&c->settings, &scenario, ret_outcome);
    if (c->replay) {
        sim_run_child(&c->settings, &scenario, &again);
        if (again.hash != ret_outcome->hash || again.steps != ret_outcome->steps) {
            printf("lanex-sim: seed %" PRIu64 " did not replay: step %" PRIu64 " hash %016" PRIx64
                   ", then step %" PRIu64 " hash %016" PRIx64 "\n",
                   seed, ret_outcome->steps, ret_outcome->hash, again.steps, again.hash);
            return false;
        }
    }
    if (ret_outcome->failed)
        report_failure(c, &scenario, ret_outcome);
    return !ret_outcome->failed;
}

int main(int argc, char **argv)
{
    struct command c = {
        .settings = {.users = &sim_users_basic, .policy = -1, .limit = LIMIT_DEFAULT},
        .seed = 1,
        .runs = 1,
        .shrink = true,
    };
    uint64_t steps = 0, switches = 0, done = 0, mixed = 0, failures = 0;
    double start = now_s();

    parse(argc, argv, &c);
    if (c.seconds > 0 && c.runs == 1)
        c.runs = UINT64_MAX;
    for (; done < c.runs && (c.seconds <= 0 || now_s() - start < c.seconds) && failures == 0;
         done++) {
        struct sim_outcome outcome;
        failures += !run_seed(&c, c.seed + done, &outcome);
        steps += outcome.steps;
        switches += outcome.switches;
        mixed = (mixed ^ outcome.hash) * UINT64_C(0x9FB21C651E98DF25);
    }
    double spent = now_s() - start;
    printf("lanex-sim: users %s, seeds %" PRIu64 " to %" PRIu64 ": %" PRIu64 " steps, %" PRIu64
           " switches, %.1f s, %.2f million steps/s, hash %016" PRIx64 "\n",
           c.settings.users->name, c.seed, c.seed + done - 1, steps, switches, spent,
           (double)steps * (c.replay ? 2 : 1) / spent / 1e6, mixed);
    printf("lanex-result: tested=%" PRIu64 " failed=%" PRIu64 " skipped=0\n", done, failures);
    return failures > 0;
}

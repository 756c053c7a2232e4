#include "driver.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

#define CHILD_SECONDS 60u /* of real time: a loop that makes no steps */
#define SHRINK_TRIES  400u

static struct sim_outcome *shared; /* with the child that runs */

/* ---- in the child ---- */

static void fill_outcome(bool bad)
{
    shared->failed = bad;
    shared->steps = sim.step;
    shared->switches = sim.switches;
    shared->hash = sim.hash;
    shared->virtual_ns = sim.now_ns;
}

void sim_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(shared->text, sizeof shared->text, format, args);
    va_end(args);
    fill_outcome(true);
    if (sim.trace != NULL) {
        fprintf(sim.trace, "%10llu FAILED: %s\n", (unsigned long long)sim.step, shared->text);
        sim_list_sleepers();
    }
    _exit(1);
}

uint64_t sim_note(const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (int i = 0; i < length && i < (int)sizeof text - 1; i++)
        sim_mix((unsigned char)text[i]);
    if (sim.trace != NULL)
        fprintf(sim.trace, "%10llu %12.3f us  %-12s %s\n", (unsigned long long)sim.step,
                (double)(sim_now_ns() % UINT64_C(1000000000000)) / 1000.0,
                sim.self != NULL ? sim.self->name : "", text);
    return sim.step;
}

#ifdef LX_TEST_COVERAGE
void __gcov_dump(void);
#endif

/* What ran here counts for ./dev coverage although the process ends by _exit. */
static void keep_counts(void)
{
#ifdef LX_TEST_COVERAGE
    __gcov_dump();
#endif
}

static void run_here(const struct sim_settings *settings, const struct sim_scenario *scenario)
{
    alarm(CHILD_SECONDS);
    if (!settings->trace && freopen("/dev/null", "w", stderr) == NULL)
        _exit(3);
    sim.trace = settings->trace ? stderr : NULL;
    sim_world_start(scenario, settings->policy, settings->limit);
    sim_world_run(settings->users, scenario);
    fill_outcome(false);
}

/* ---- in the parent ---- */

void sim_run_child(const struct sim_settings *settings, const struct sim_scenario *scenario,
                   struct sim_outcome *ret_outcome)
{
    int status = 0;

    if (shared == NULL) {
        shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
            abort();
    }
    memset(shared, 0, sizeof *shared);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        run_here(settings, scenario);
        keep_counts();
        _exit(0);
    }
    while (waitpid(child, &status, 0) != child)
        continue;
    if (WIFSIGNALED(status)) {
        shared->failed = true;
        if (shared->text[0] == '\0')
            snprintf(shared->text, sizeof shared->text, "the program died of signal %d",
                     WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0 && !shared->failed) {
        shared->failed = true;
        snprintf(shared->text, sizeof shared->text, "the program ended with code %d",
                 WEXITSTATUS(status));
    }
    *ret_outcome = *shared;
}

void sim_scenario_make(const struct sim_users *users, uint64_t seed, struct sim_scenario *ret)
{
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;

    memset(ret, 0, sizeof *ret);
    ret->seed = seed;
    /* Store buffers mostly, refusal of rings and of memory rarely, the rest half the time. */
    uint64_t bits = sim_draw(&state);
    ret->faults = (uint32_t)bits &
                  (SIM_FAULT_DELAYS | SIM_FAULT_SPURIOUS | SIM_FAULT_ERRORS | SIM_FAULT_OVERFLOW);
    if ((bits >> 32) % 8 != 0)
        ret->faults |= SIM_FAULT_BUFFERS;
    if ((bits >> 36) % 5 == 0)
        ret->faults |= SIM_FAULT_NO_RINGS;
    else if ((bits >> 40) % 4 == 0)
        ret->faults |= SIM_FAULT_OLD_KERNEL;
    if ((bits >> 44) % 10 == 0)
        ret->faults |= SIM_FAULT_MEMORY;
    users->generate(ret);
}

/* ---- shrinking ---- */

struct attempt {
    const struct sim_settings *settings;
    struct sim_scenario *best;
    struct sim_outcome *outcome;
    unsigned tries;
};

/* Keeps the candidate if it still fails. */
static bool attempt(struct attempt *a, const struct sim_scenario *candidate)
{
    struct sim_outcome outcome;

    if (a->tries++ >= SHRINK_TRIES)
        return false;
    sim_run_child(a->settings, candidate, &outcome);
    if (!outcome.failed)
        return false;
    *a->best = *candidate;
    *a->outcome = outcome;
    return true;
}

static void shrink_faults(struct attempt *a)
{
    for (uint32_t bit = 1; bit < SIM_FAULTS_ALL; bit <<= 1) {
        if ((a->best->faults & bit) == 0)
            continue;
        struct sim_scenario candidate = *a->best;
        candidate.faults &= ~bit;
        attempt(a, &candidate);
    }
}

/* Leaves out operations [from, from + count) of a user; false if none was there. */
static bool leave_out(struct sim_scenario *s, uint32_t user, uint32_t from, uint32_t count)
{
    bool any = false;

    for (uint32_t i = from; i < from + count && i < s->count[user]; i++) {
        any |= s->op[user][i].kind != SIM_OP_REMOVED;
        s->op[user][i].kind = SIM_OP_REMOVED;
    }
    return any;
}

static void shrink_operations(struct attempt *a, uint32_t piece)
{
    for (uint32_t user = 0; user < a->best->users; user++) {
        for (uint32_t from = 0; from < a->best->count[user]; from += piece) {
            struct sim_scenario candidate = *a->best;
            if (leave_out(&candidate, user, from, piece))
                attempt(a, &candidate);
        }
    }
}

void sim_shrink(const struct sim_settings *settings, struct sim_scenario *scenario,
                struct sim_outcome *outcome)
{
    struct sim_settings quiet = *settings;
    struct attempt a = {.settings = &quiet, .best = scenario, .outcome = outcome};

    quiet.trace = false;
    for (uint32_t piece = SIM_OPS_MAX; piece > 0; piece /= 2)
        shrink_operations(&a, piece);
    shrink_faults(&a);
    shrink_operations(&a, 1);
}

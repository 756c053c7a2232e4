/* Where workers run, and how the process's own mask sizes an executor. */
#include "tests/support/lx_executor.h"

#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(affinity, .timeout = 60);

#define WORKERS     4u
#define CPUS_TESTED 64u

/* The CPUs that this process may use, in order; at most CPUS_TESTED. */
static uint32_t allowed[CPUS_TESTED];
static uint32_t allowed_count;

static void read_allowed(void)
{
    cpu_set_t set;

    allowed_count = 0;
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE && allowed_count < CPUS_TESTED; cpu++) {
        if (CPU_ISSET(cpu, &set))
            allowed[allowed_count++] = cpu;
    }
    cr_assert_gt(allowed_count, 0);
}

/* What each worker sees of itself. All workers are held until each has been seen. */
struct seen {
    struct latch begun, may_end;
    atomic_uint count[WORKERS];
    atomic_uint cpus[WORKERS]; /* in its mask */
    atomic_uint cpu[WORKERS];  /* the lowest of them */
};

static void look(lanex_job *job, void *context, void *arg)
{
    struct seen *seen = arg;
    char name[17] = {0};
    unsigned worker, cpu = 0;
    cpu_set_t set;

    (void)job;
    (void)context;
    LX_REQUIRE(prctl(PR_GET_NAME, name) == 0);
    LX_REQUIRE(sscanf(name, "lanex-w%u", &worker) == 1 && worker < WORKERS);
    LX_REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
    while (!CPU_ISSET(cpu, &set))
        cpu++;
    atomic_store(&seen->cpus[worker], (unsigned)CPU_COUNT(&set));
    atomic_store(&seen->cpu[worker], cpu);
    atomic_fetch_add(&seen->count[worker], 1);
    latch_arrive(&seen->begun);
    latch_wait(&seen->may_end, 1);
}

static struct seen seen;

static lanex_executor_options options_with(uint32_t affinity)
{
    lanex_executor_options options = lx_test_executor_options(WORKERS);

    options.profile = LANEX_PROFILE_MANY_CORE;
    options.affinity = affinity;
    return options;
}

static lanex_executor *create_and_look(const lanex_executor_options *options)
{
    lanex_executor *executor;
    lanex_job_options job = lx_test_job(LANEX_LANE_PURE_READ, look, &seen);
    lanex_config config = {.size = sizeof config};

    cr_assert_eq(lanex_executor_create(options, &executor), 0);
    cr_assert_eq(lanex_executor_config(executor, &config), 0);
    cr_assert_eq(config.pool_size, WORKERS);
    cr_assert_eq(config.affinity, options->affinity);
    for (unsigned i = 0; i < WORKERS; i++) {
        lanex_actor *actor = lx_test_actor(executor, i);
        cr_assert_eq(lanex_submit(actor, &job, NULL), 0);
        lanex_actor_unref(actor);
    }
    latch_wait(&seen.begun, WORKERS);
    latch_arrive(&seen.may_end);
    for (unsigned i = 0; i < WORKERS; i++)
        cr_assert_eq(atomic_load(&seen.count[i]), 1, "worker %u", i);
    return executor;
}

static void expect_bound(lanex_executor *executor, unsigned worker, uint32_t cpu)
{
    uint32_t told = UINT32_MAX;

    cr_assert_eq(atomic_load(&seen.cpus[worker]), 1, "worker %u is not bound", worker);
    cr_assert_eq(atomic_load(&seen.cpu[worker]), cpu, "worker %u", worker);
    cr_assert_eq(lanex_executor_worker_cpu(executor, worker, &told), 0);
    cr_assert_eq(told, cpu);
}

Test(affinity, default_is_the_creators_mask)
{
    lanex_executor_options options = options_with(LANEX_AFFINITY_NONE);
    lanex_executor *executor;
    uint32_t cpu = 4711;

    read_allowed();
    executor = create_and_look(&options);
    for (unsigned i = 0; i < WORKERS; i++) {
        cr_assert_geq(atomic_load(&seen.cpus[i]), allowed_count);
        cr_assert_eq(lanex_executor_worker_cpu(executor, i, &cpu), -ENOENT);
    }
    cr_assert_eq(lanex_executor_worker_cpu(executor, WORKERS, &cpu), -EINVAL);
    cr_assert_eq(lanex_executor_worker_cpu(NULL, 0, &cpu), -EINVAL);
    cr_assert_eq(lanex_executor_worker_cpu(executor, 0, NULL), -EINVAL);
    cr_assert_eq(cpu, 4711, "the output was touched on failure");
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

Test(affinity, one_worker_per_cpu_goes_round)
{
    lanex_executor_options options = options_with(LANEX_AFFINITY_PER_CPU);
    lanex_executor *executor;

    read_allowed();
    executor = create_and_look(&options);
    for (unsigned i = 0; i < WORKERS; i++)
        expect_bound(executor, i, allowed[i % allowed_count]);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

Test(affinity, a_list_goes_round_in_its_order)
{
    lanex_executor_options options = options_with(LANEX_AFFINITY_LIST);
    uint32_t list[3];
    lanex_executor *executor;

    read_allowed();
    list[0] = allowed[allowed_count - 1];
    list[1] = allowed[0];
    list[2] = allowed[0];
    options.affinity_cpus = list;
    options.affinity_count = 3;
    executor = create_and_look(&options);
    expect_bound(executor, 0, allowed[allowed_count - 1]);
    expect_bound(executor, 1, allowed[0]);
    expect_bound(executor, 2, allowed[0]);
    expect_bound(executor, 3, allowed[allowed_count - 1]);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* ---- what is refused, and leaves nothing behind ---- */

static unsigned entries_of(const char *path)
{
    DIR *folder = opendir(path);
    unsigned count = 0;

    LX_REQUIRE(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void refuses(const lanex_executor_options *options, int error)
{
    unsigned threads = entries_of("/proc/self/task"), files = entries_of("/proc/self/fd");
    lanex_executor *executor = (lanex_executor *)(uintptr_t)1;

    errno = 4711;
    cr_assert_eq(lanex_executor_create(options, &executor), error);
    cr_assert_eq(errno, 4711, "errno was touched");
    cr_assert_eq((uintptr_t)executor, 1, "the output was touched on failure");
    /* A joined thread may stand in /proc for a moment longer. */
    LX_EVENTUALLY(entries_of("/proc/self/task") <= threads);
    cr_assert_eq(entries_of("/proc/self/fd"), files);
}

static void allow_only(uint32_t cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    LX_REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
}

Test(affinity, a_cpu_outside_the_mask_is_refused)
{
    lanex_executor_options options = options_with(LANEX_AFFINITY_LIST);
    uint32_t list[LANEX_POOL_MAX_STANDARD];

    read_allowed();
    for (unsigned i = 0; i < LANEX_POOL_MAX_STANDARD; i++)
        list[i] = allowed[0];
    options.affinity_cpus = list;
    options.affinity_count = LANEX_POOL_MAX_STANDARD;
    list[WORKERS + 1] = 65535; /* no worker's: still wrong */
    refuses(&options, -EINVAL);
    list[WORKERS + 1] = UINT32_MAX;
    refuses(&options, -EINVAL);
    list[WORKERS + 1] = allowed[0];
    if (allowed_count > 1) {
        allow_only(allowed[1]);
        refuses(&options, -EINVAL);
    }
}

Test(affinity, words_that_contradict_are_refused)
{
    uint32_t list[1];
    lanex_executor_options options = options_with(LANEX_AFFINITY_LIST);

    read_allowed();
    list[0] = allowed[0];
    refuses(&options, -EINVAL); /* no list */
    options.affinity_cpus = list;
    refuses(&options, -EINVAL); /* an empty one */
    options.affinity_count = LANEX_AFFINITY_LIST_MAX + 1;
    refuses(&options, -EINVAL);
    options.affinity_count = 1;
    options.affinity = LANEX_AFFINITY_PER_CPU; /* a list that nobody would read */
    refuses(&options, -EINVAL);
    options.affinity = LANEX_AFFINITY_NONE;
    refuses(&options, -EINVAL);
    options.affinity = 3;
    refuses(&options, -EINVAL);
}

/* The kernel refuses a thread its CPU: the call may be filtered, or the mask shrink meanwhile. */
Test(affinity, a_worker_that_cannot_bind_itself_fails_create)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
    lanex_executor_options options = options_with(LANEX_AFFINITY_PER_CPU);
    lanex_executor *executor;

    /* The first thread may bring others with it that stay: a sanitizer's. */
    executor = lx_test_executor(WORKERS);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    refuses(&options, -EPERM);
    options.affinity = LANEX_AFFINITY_NONE; /* asks nothing of the kernel */
    cr_assert_eq(lanex_executor_create(&options, &executor), 0);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

/* ---- sizing by the process's mask ---- */

/* In a child that may use one CPU. */
static int one_cpu_says(void)
{
    lanex_executor_options options = lx_test_executor_options(0);
    lanex_config config = {.size = sizeof config};
    lanex_executor *executor;

    allow_only(allowed[allowed_count - 1]);
    if (lanex_usable_cpus() != 1)
        return 1;
    if (lanex_executor_create(&options, &executor) != 0 ||
        lanex_executor_config(executor, &config) != 0 || config.usable_cpus != 1 ||
        config.pool_size != 2 || config.actor_cap != 1 || config.heavy_permits != 1)
        return 2;
    if (lanex_executor_destroy(executor) != 0)
        return 3;
    options.profile = LANEX_PROFILE_MANY_CORE;
    options.affinity = LANEX_AFFINITY_PER_CPU;
    if (lanex_executor_create(&options, &executor) != 0 ||
        lanex_executor_config(executor, &config) != 0 || config.usable_cpus != 1)
        return 4;
    for (uint32_t i = 0; i < config.pool_size; i++) {
        uint32_t cpu;
        if (lanex_executor_worker_cpu(executor, i, &cpu) != 0 || cpu != allowed[allowed_count - 1])
            return 5;
    }
    return lanex_executor_destroy(executor) == 0 ? 0 : 6;
}

Test(affinity, an_executor_is_sized_by_the_mask_of_its_process)
{
    lanex_config config = {.size = sizeof config};
    lanex_executor *executor;
    int status;
    pid_t child;

    read_allowed();
    child = fork();
    cr_assert_geq(child, 0);
    if (child == 0)
        _exit(one_cpu_says());
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);

    executor = lx_test_executor(0);
    cr_assert_eq(lanex_executor_config(executor, &config), 0);
    cr_assert_eq(config.usable_cpus, lanex_usable_cpus());
    cr_assert_leq(config.usable_cpus, allowed_count == CPUS_TESTED ? UINT32_MAX : allowed_count);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
}

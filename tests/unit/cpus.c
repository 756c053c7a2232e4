/*
 * How many CPUs the process may use, on made-up affinity masks and /proc and /sys trees.
 */
#include "lx_test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lanex/executor.h>

#include "runtime/cpus.h"

/* ---- A tree of files in a temporary directory ---- */

#define LX_CPUS_IN_MASK 16u /* CPUs of the usual made-up mask: more than any quota here */

static char tree[64];
static unsigned char mask[(LX_CPUS_IN_MASK + 7) / 8];

static void make_tree(void)
{
    (void)snprintf(tree, sizeof tree, "/tmp/lanex-cpus-XXXXXX");
    cr_assert_not_null(mkdtemp(tree));
    memset(mask, 0xff, sizeof mask);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_tree(void)
{
    (void)nftw(tree, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(cpus, .init = make_tree, .fini = remove_tree);

static void put_bytes(const char *path, const char *text, size_t size)
{
    char full[2 * PATH_MAX];
    (void)snprintf(full, sizeof full, "%s%s", tree, path);
    for (char *c = full + strlen(tree) + 1; *c != '\0'; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        LX_REQUIRE(mkdir(full, 0700) == 0 || errno == EEXIST);
        *c = '/';
    }
    FILE *file = fopen(full, "w");
    LX_REQUIRE(file != NULL);
    LX_REQUIRE(fwrite(text, 1, size, file) == size);
    LX_REQUIRE(fclose(file) == 0);
}

static void put(const char *path, const char *text)
{
    put_bytes(path, text, strlen(text));
}

#define MOUNT_V2(root, at) "41 31 0:38 " root " " at " rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
#define MOUNT_V1(root, at, super)                                                                  \
    "32 31 0:29 " root " " at " rw,relatime - cgroup cgroup " super "\n"
#define MOUNT_OTHER "20 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw,cpu\n"

static void put_v2(const char *group_line)
{
    put("/proc/self/cgroup", group_line);
    put("/proc/self/mountinfo", MOUNT_OTHER MOUNT_V2("/", "/sys/fs/cgroup"));
}

static struct lx_cpus look(void)
{
    struct lx_cpu_sources sources = {.root = tree, .mask = mask, .mask_size = sizeof mask};
    struct lx_cpus cpus;
    lx_cpus_read(&sources, &cpus);
    LX_REQUIRE(lx_cpus_usable(&sources) == cpus.usable);
    return cpus;
}

/* A quota was found, and this came of it. */
#define expect_quota(usable, tight) expect_quota_at(usable, tight, __LINE__)
static void expect_quota_at(uint32_t usable, bool tight, int line)
{
    struct lx_cpus cpus = look();
    if (cpus.usable != usable || cpus.quota_tight != tight || cpus.period_us == 0)
        lx_test_die(__FILE__, line, "%u usable (not %u), tight %d, quota %lu/%lu", cpus.usable,
                    usable, cpus.quota_tight, cpus.quota_us, cpus.period_us);
}

#define expect_no_quota() expect_no_quota_at(__LINE__)
static void expect_no_quota_at(int line)
{
    struct lx_cpus cpus = look();
    if (cpus.usable != LX_CPUS_IN_MASK || cpus.quota_tight || cpus.period_us != 0 ||
        cpus.quota_us != 0)
        lx_test_die(__FILE__, line, "%u usable, tight %d, quota %lu/%lu", cpus.usable,
                    cpus.quota_tight, cpus.quota_us, cpus.period_us);
}

/* ---- Affinity ---- */

static uint32_t usable_of_mask(const void *bits, size_t size)
{
    struct lx_cpu_sources sources = {.root = tree, .mask = bits, .mask_size = size};
    return lx_cpus_usable(&sources);
}

Test(cpus, affinity_counts_the_bits_wherever_they_are)
{
    static const unsigned char one[] = {0x00, 0x80};
    static const unsigned char three[] = {0x01, 0x00, 0x00, 0x11};
    static const unsigned char none[8];
    unsigned char all[512]; /* 4096 CPUs: beyond the 1024 of the C library's cpu_set_t */
    memset(all, 0xff, sizeof all);
    cr_assert_eq(usable_of_mask(one, sizeof one), 1);
    cr_assert_eq(usable_of_mask(three, sizeof three), 3);
    cr_assert_eq(usable_of_mask(none, sizeof none), 1, "at least one");
    cr_assert_eq(usable_of_mask(all, 0), 1, "at least one");
    cr_assert_eq(usable_of_mask(all, sizeof all), 4096);
    memset(all, 0, sizeof all);
    all[511] = 0x80;
    all[200] = 0x02;
    cr_assert_eq(usable_of_mask(all, sizeof all), 2, "CPUs beyond 1024 count like others");
}

Test(cpus, affinity_is_the_calling_threads_own)
{
    cpu_set_t before;
    cpu_set_t one;
    struct lx_cpu_sources sources = {.root = tree}; /* nothing there: no quota */
    cr_assert_eq(sched_getaffinity(0, sizeof before, &before), 0);
    cr_assert_eq(lx_cpus_usable(&sources), (uint32_t)CPU_COUNT(&before));
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    cr_assert_eq(lx_cpus_usable(&sources), 1);
    cr_assert_eq(lanex_usable_cpus(), 1, "the system's quota cannot make it more or less");
    cr_assert_eq(sched_setaffinity(0, sizeof before, &before), 0);
}

Test(cpus, of_the_system_are_between_one_and_the_affinity)
{
    struct lx_cpus cpus;
    errno = EXDEV;
    lx_cpus_read(NULL, &cpus);
    cr_assert_eq(errno, EXDEV, "errno is untouched");
    cr_assert_geq(cpus.usable, 1);
    cr_assert_leq(cpus.usable, cpus.affinity);
    cr_assert_eq(lanex_usable_cpus(), cpus.usable);
    cr_assert_eq(lx_cpus_usable(NULL), cpus.usable);
    cr_assert_eq(errno, EXDEV);
}

/* ---- v2 ---- */

Test(cpus, v2_quota_of_half_a_cpu_is_one_and_tight)
{
    put_v2("0::/app\n");
    put("/sys/fs/cgroup/app/cpu.max", "50000 100000\n");
    expect_quota(1, true);
    struct lx_cpus cpus = look();
    cr_assert_eq(cpus.quota_us, 50000);
    cr_assert_eq(cpus.period_us, 100000);
}

Test(cpus, v2_quota_of_five_cpus_is_five)
{
    put_v2("0::/app\n");
    put("/sys/fs/cgroup/app/cpu.max", "500000 100000\n");
    expect_quota(5, false);
}

Test(cpus, v2_quota_is_rounded_up)
{
    put_v2("0::/app\n");
    put("/sys/fs/cgroup/app/cpu.max", "100001 100000\n");
    expect_quota(2, false);
    put("/sys/fs/cgroup/app/cpu.max", "100000 100000\n");
    expect_quota(1, false);
    put("/sys/fs/cgroup/app/cpu.max", "99999 100000\n");
    expect_quota(1, true);
}

Test(cpus, threads_may_spin_where_two_whole_cpus_are_allowed)
{
    static const unsigned char one[] = {0x10}, two[] = {0x11};
    struct lx_cpu_sources sources = {.root = tree, .mask = one, .mask_size = sizeof one};
    struct lx_cpus cpus;

    lx_cpus_read(&sources, &cpus);
    cr_assert_not(lx_cpus_may_spin(&cpus));
    sources.mask = two;
    lx_cpus_read(&sources, &cpus);
    cr_assert(lx_cpus_may_spin(&cpus));
    put_v2("0::/app\n");
    put("/sys/fs/cgroup/app/cpu.max", "199999 100000\n");
    cpus = look();
    cr_assert_eq(cpus.usable, 2);
    cr_assert_not(lx_cpus_may_spin(&cpus), "less than two, though rounded up to it");
    put("/sys/fs/cgroup/app/cpu.max", "200000 100000\n");
    cpus = look();
    cr_assert(lx_cpus_may_spin(&cpus));
    put("/sys/fs/cgroup/app/cpu.max", "50000 100000\n");
    cpus = look();
    cr_assert_not(lx_cpus_may_spin(&cpus));
}

Test(cpus, v2_max_is_no_quota)
{
    put_v2("0::/app\n");
    put("/sys/fs/cgroup/app/cpu.max", "max 100000\n");
    expect_no_quota();
}

Test(cpus, v2_without_a_period_has_the_kernels)
{
    put_v2("0::/app\n");
    put("/sys/fs/cgroup/app/cpu.max", "300000");
    expect_quota(3, false);
}

Test(cpus, v2_quota_beyond_the_affinity_changes_nothing)
{
    put_v2("0::/app\n");
    put("/sys/fs/cgroup/app/cpu.max", "6400000 100000\n");
    expect_quota(LX_CPUS_IN_MASK, false);
    mask[0] = 0x03;
    mask[1] = 0x00;
    expect_quota(2, false);
}

Test(cpus, v2_smaller_quota_outside_wins)
{
    put_v2("0::/slice/app/worker\n");
    put("/sys/fs/cgroup/slice/cpu.max", "200000 100000\n");
    put("/sys/fs/cgroup/slice/app/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/slice/app/worker/cpu.max", "700000 100000\n");
    expect_quota(2, false);
}

Test(cpus, v2_smaller_quota_inside_wins)
{
    put_v2("0::/slice/app/worker\n");
    put("/sys/fs/cgroup/slice/cpu.max", "700000 100000\n");
    put("/sys/fs/cgroup/slice/app/worker/cpu.max", "30000 20000\n");
    expect_quota(2, false);
}

Test(cpus, v2_quotas_are_compared_exactly_not_rounded)
{
    put_v2("0::/slice/app\n");
    put("/sys/fs/cgroup/slice/cpu.max", "1000001 1000000\n");
    put("/sys/fs/cgroup/slice/app/cpu.max", "2000 1000\n");
    struct lx_cpus cpus = look();
    cr_assert_eq(cpus.quota_us, 1000001);
    cr_assert_eq(cpus.period_us, 1000000);
    put("/sys/fs/cgroup/slice/app/cpu.max", "999 1000\n");
    expect_quota(1, true);
}

Test(cpus, v2_quota_at_the_mounts_root_counts)
{
    /* A cgroup namespace: the container's own group looks like the root, and has files there. */
    put_v2("0::/\n");
    put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
    expect_quota(4, false);
    put("/proc/self/cgroup", "0::/init.scope\n");
    expect_quota(4, false);
}

Test(cpus, v2_quota_of_groups_that_are_not_ours_does_not_count)
{
    put_v2("0::/slice/app\n");
    put("/sys/fs/cgroup/slice/app/child/cpu.max", "100000 100000\n");
    put("/sys/fs/cgroup/slice/app2/cpu.max", "100000 100000\n");
    put("/sys/fs/cgroup/slice/ap/cpu.max", "100000 100000\n");
    put("/sys/fs/cpu.max", "100000 100000\n"); /* above the mount */
    expect_no_quota();
}

Test(cpus, v2_levels_that_are_missing_are_stepped_over)
{
    /* The group was removed while its last process runs. */
    put_v2("0::/slice/gone (deleted)\n");
    put("/sys/fs/cgroup/slice/cpu.max", "300000 100000\n");
    expect_quota(3, false);
}

/* ---- Mounts ---- */

Test(cpus, mount_of_a_part_shows_the_group_below_its_root)
{
    put("/proc/self/cgroup", "0::/docker/abc/worker\n");
    put("/proc/self/mountinfo", MOUNT_V2("/docker/abc", "/sys/fs/cgroup"));
    put("/sys/fs/cgroup/worker/cpu.max", "300000 100000\n");
    expect_quota(3, false);
    put("/proc/self/cgroup", "0::/docker/abc\n");
    expect_no_quota();
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    expect_quota(2, false);
}

Test(cpus, mount_of_somebody_elses_part_does_not_count)
{
    put("/proc/self/cgroup", "0::/user.slice\n");
    put("/proc/self/mountinfo", MOUNT_V2("/docker/abc", "/srv/abc") MOUNT_V2("/user", "/srv/user")
                                    MOUNT_V2("/", "/sys/fs/cgroup"));
    put("/srv/abc/cpu.max", "100000 100000\n");
    put("/srv/user/cpu.max", "100000 100000\n");
    put("/srv/user/.slice/cpu.max", "100000 100000\n");
    put("/sys/fs/cgroup/user.slice/cpu.max", "600000 100000\n");
    expect_quota(6, false);
}

Test(cpus, group_outside_of_the_namespace_has_no_quota_that_is_seen)
{
    put_v2("0::/../other\n");
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    put("/sys/fs/other/cpu.max", "100000 100000\n");
    expect_no_quota();
    put("/proc/self/cgroup", "0::/..\n");
    put("/sys/fs/cpu.max", "100000 100000\n");
    expect_no_quota();
}

Test(cpus, mount_from_above_the_namespace_gives_its_own_quota)
{
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", MOUNT_V2("/../..", "/sys/fs/cgroup"));
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    expect_quota(2, false);
    /* A group that has a name below such a mount is found there. */
    put("/proc/self/cgroup", "0::/../../other\n");
    put("/sys/fs/cgroup/other/cpu.max", "50000 100000\n");
    expect_quota(1, true);
    /* One beside it is not. */
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", MOUNT_V2("/../other", "/sys/fs/cgroup/other"));
    expect_no_quota();
}

Test(cpus, mount_points_may_have_blanks_and_backslashes)
{
    put("/proc/self/cgroup", "0::/my app\n");
    put("/proc/self/mountinfo", MOUNT_V2("/", "/sys/c\\040g\\134x"));
    put("/sys/c g\\x/my app/cpu.max", "300000 100000\n");
    expect_quota(3, false);
}

Test(cpus, mount_lines_may_have_an_empty_source_and_any_optional_fields)
{
    put("/proc/self/cgroup", "0::/app\n");
    put("/proc/self/mountinfo", "9 1 0:9 / /sys/fs/cgroup rw shared:1 master:2 unbindable - "
                                "cgroup2  rw\n");
    put("/sys/fs/cgroup/app/cpu.max", "300000 100000\n");
    expect_quota(3, false);
}

/* ---- v1 ---- */

static void put_v1(const char *group, const char *quota, const char *period)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup/cpu,cpuacct%s/cpu.cfs_quota_us", group);
    put(path, quota);
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup/cpu,cpuacct%s/cpu.cfs_period_us", group);
    put(path, period);
}

static void put_v1_mounts(const char *group_lines)
{
    put("/proc/self/cgroup", group_lines);
    put("/proc/self/mountinfo", MOUNT_OTHER MOUNT_V1("/", "/sys/fs/cgroup/cpuset", "rw,cpuset")
                                    MOUNT_V1("/", "/sys/fs/cgroup/cpu,cpuacct", "rw,cpu,cpuacct")
                                        MOUNT_V1("/", "/sys/fs/cgroup/memory", "rw,memory"));
}

Test(cpus, v1_quota_of_half_a_cpu_is_one_and_tight)
{
    put_v1_mounts("5:memory:/other\n4:cpu,cpuacct:/app\n3:cpuset:/third\n1:name=systemd:/app\n");
    put_v1("/app", "50000\n", "100000\n");
    put_v1("/other", "1000\n", "100000\n");
    put_v1("/third", "1000\n", "100000\n");
    /* Not the controller's own hierarchy, whatever lies there. */
    put("/sys/fs/cgroup/cpuset/app/cpu.cfs_quota_us", "2000\n");
    put("/sys/fs/cgroup/cpuset/app/cpu.cfs_period_us", "100000\n");
    expect_quota(1, true);
    cr_assert_eq(look().quota_us, 50000);
}

Test(cpus, v1_quota_of_five_cpus_is_five)
{
    put_v1_mounts("4:cpuacct,cpu:/app\n");
    put_v1("/app", "250000\n", "50000\n");
    expect_quota(5, false);
}

Test(cpus, v1_minus_one_is_no_quota)
{
    put_v1_mounts("4:cpu,cpuacct:/app\n");
    put_v1("/app", "-1\n", "100000\n");
    put_v1("", "-1\n", "100000\n");
    expect_no_quota();
}

Test(cpus, v1_smallest_quota_of_all_levels_wins)
{
    put_v1_mounts("4:cpu,cpuacct:/a/b/c\n");
    put_v1("/a/b/c", "700000\n", "100000\n");
    put_v1("/a/b", "-1\n", "100000\n");
    put_v1("/a", "150000\n", "50000\n");
    put_v1("", "-1\n", "100000\n");
    expect_quota(3, false);
    put_v1("/a/b/c", "200000\n", "100000\n");
    expect_quota(2, false);
    put_v1("", "100000\n", "100000\n");
    expect_quota(1, false);
}

Test(cpus, v1_mount_of_a_container_is_found_by_its_prefix)
{
    put("/proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n");
    put("/proc/self/mountinfo",
        MOUNT_V1("/docker/abc", "/sys/fs/cgroup/cpu,cpuacct", "rw,cpu,cpuacct"));
    put_v1("", "300000\n", "100000\n");
    expect_quota(3, false);
}

/* ---- Both ---- */

Test(cpus, hybrid_has_the_quota_where_the_controller_is)
{
    put("/proc/self/cgroup", "4:cpu:/app\n1:name=systemd:/x\n0::/unified/app\n");
    put("/proc/self/mountinfo", MOUNT_V2("/", "/sys/fs/cgroup/unified")
                                    MOUNT_V1("/", "/sys/fs/cgroup/cpu,cpuacct", "rw,cpu,cpuacct"));
    put("/sys/fs/cgroup/unified/unified/app/cgroup.procs", "1\n");
    put_v1("/app", "300000\n", "100000\n");
    expect_quota(3, false);
}

Test(cpus, hybrid_with_quotas_on_both_sides_takes_the_smaller)
{
    put("/proc/self/cgroup", "4:cpu:/app\n0::/app\n");
    put("/proc/self/mountinfo", MOUNT_V1("/", "/sys/fs/cgroup/cpu,cpuacct", "rw,cpu,cpuacct")
                                    MOUNT_V2("/", "/sys/fs/cgroup/unified"));
    put_v1("/app", "300000\n", "100000\n");
    put("/sys/fs/cgroup/unified/app/cpu.max", "200000 100000\n");
    expect_quota(2, false);
    put_v1("/app", "100000\n", "100000\n");
    expect_quota(1, false);
}

/* ---- What is missing or malformed ---- */

Test(cpus, no_files_at_all_are_no_quota)
{
    expect_no_quota();
    put("/proc/self/cgroup", "0::/app\n");
    expect_no_quota();
    put("/proc/self/mountinfo", "");
    expect_no_quota();
    put("/proc/self/mountinfo", MOUNT_V2("/", "/sys/fs/cgroup"));
    expect_no_quota();
}

Test(cpus, malformed_v2_quota_is_none_and_the_level_above_still_counts)
{
    static const char *const malformed[] = {
        "",
        "\n",
        " ",
        "x",
        "-1 100000\n",
        "+100000 100000\n",
        "100000x 100000\n",
        "100000 100000x\n",
        "100000 100000 1\n",
        "100000  100000\n",
        "100000 \n",
        "100000\n100000\n",
        "0 100000\n",
        "100000 0\n",
        "100000 -5\n",
        "100000 1000001\n",
        "0x10 100000\n",
        "1e5 100000\n",
        "17592186044416 100000\n",
        "18446744073709551617 100000\n",
        "100000 18446744073709551617\n",
        "99999999999999999999999999999999999999999999999999999999999999999999999999 100000\n",
        "100000 100000                                                                    \n",
    };
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        put_v2("0::/slice/app\n");
        put("/sys/fs/cgroup/slice/app/cpu.max", malformed[i]);
        put("/sys/fs/cgroup/slice/cpu.max", "max 100000\n");
        expect_no_quota();
        put("/sys/fs/cgroup/slice/cpu.max", "300000 100000\n");
        expect_quota(3, false);
    }
    put_bytes("/sys/fs/cgroup/slice/app/cpu.max", "100000\0 100000\n", 15);
    expect_quota(3, false);
}

Test(cpus, largest_quota_that_the_kernel_knows_is_read)
{
    put_v2("0::/slice/app\n");
    put("/sys/fs/cgroup/slice/cpu.max", "17592186044415 1000000\n");
    put("/sys/fs/cgroup/slice/app/cpu.max", "17592186044415 999999\n");
    struct lx_cpus cpus = look();
    cr_assert_eq(cpus.period_us, 1000000);
    cr_assert_eq(cpus.usable, LX_CPUS_IN_MASK);
    put("/sys/fs/cgroup/slice/app/cpu.max", "17592186044415 1\n");
    expect_quota(LX_CPUS_IN_MASK, false);
}

Test(cpus, malformed_v1_files_are_no_quota)
{
    static const char *const malformed[] = {"", "x\n", "-2\n", "0\n", "100000 x\n", "100000\n\n"};
    put_v1_mounts("4:cpu,cpuacct:/app\n");
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        put_v1("/app", malformed[i], "100000\n");
        expect_no_quota();
        put_v1("/app", "100000\n", malformed[i]);
        expect_no_quota();
    }
    put_v1("/app", "100000\n", "100000\n");
    expect_quota(1, false);
    char period[PATH_MAX];
    (void)snprintf(period, sizeof period, "%s/sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_period_us",
                   tree);
    cr_assert_eq(unlink(period), 0);
    expect_no_quota();
}

Test(cpus, malformed_group_lines_are_passed_over)
{
    static const char *const malformed[] = {
        "",      "\n",        "0\n",        "0:\n",     "0::\n",           "0::app\n",
        ":::\n", "1::/app\n", "0:x:/app\n", "::/app\n", "4:cpuset:/app\n", "4:cpux:/app\n",
    };
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        put_v2(malformed[i]);
        put("/sys/fs/cgroup/app/cpu.max", "100000 100000\n");
        put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
        expect_no_quota();
    }
    put_v2("\n0\n0::/app"); /* no newline at the end */
    expect_quota(1, false);
}

Test(cpus, malformed_mount_lines_are_passed_over)
{
    put_v2("0::/app\n");
    put("/sys/fs/cgroup/app/cpu.max", "100000 100000\n");
    expect_quota(1, false);
    static const char *const malformed[] = {
        "\n",
        "1 2 3\n",
        "41 31 0:38 / /sys/fs/cgroup rw cgroup2 cgroup2 rw\n",
        "41 31 0:38 / /sys/fs/cgroup rw - cgroup2\n",
        "41 31 0:38 / /sys/fs/cgroup rw -\n",
        "41 31 0:38 / /sys/fs/cgroup rw - cgroup3 cgroup2 rw\n",
        "41 31 0:38 / sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "41 31 0:38 app /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "41 31 0:38  /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    };
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        put("/proc/self/mountinfo", malformed[i]);
        expect_no_quota();
    }
}

Test(cpus, overlong_lines_are_skipped_and_what_follows_is_read)
{
    static char text[100000];
    static const size_t lengths[] = {8190, 8191, 8192, 8193, 16382, 16383, 20000, 60000};
    put_v2("0::/app\n");
    put("/sys/fs/cgroup/app/cpu.max", "300000 100000\n");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memset(text, 'x', lengths[i]);
        (void)snprintf(text + lengths[i], sizeof text - lengths[i], "\n%s",
                       MOUNT_V2("/", "/sys/fs/cgroup"));
        put("/proc/self/mountinfo", text);
        expect_quota(3, false);
        text[lengths[i]] = '\0'; /* nothing but the long line */
        put("/proc/self/mountinfo", text);
        expect_no_quota();
    }
    /* A group's path at and beyond the kernel's limit. */
    (void)snprintf(text, sizeof text, "0::/%0*d\n", PATH_MAX - 2, 0);
    put_v2(text);
    expect_no_quota();
    (void)snprintf(text, sizeof text, "0::/%0*d\n", PATH_MAX, 0);
    put("/proc/self/cgroup", text);
    expect_no_quota();
}

Test(cpus, group_is_found_among_thousands_of_mounts)
{
    enum { LX_MOUNTS = 3000 };
    size_t size = (size_t)LX_MOUNTS * 128;
    char *text = malloc(size);
    cr_assert_not_null(text);
    size_t length = 0;
    for (int i = 0; i < LX_MOUNTS; i++)
        length += (size_t)snprintf(text + length, size - length,
                                   "%d 1 0:%d / /run/pods/%d rw - tmpfs tmpfs rw\n", i, i, i);
    (void)snprintf(text + length, size - length, "%s", MOUNT_V2("/", "/sys/fs/cgroup"));
    put("/proc/self/cgroup", "0::/app\n");
    put("/proc/self/mountinfo", text);
    put("/sys/fs/cgroup/app/cpu.max", "300000 100000\n");
    expect_quota(3, false);
    free(text);
}

Test(cpus, directories_in_place_of_files_are_no_quota)
{
    put_v2("0::/app\n");
    put("/sys/fs/cgroup/app/cpu.max/x", "");
    expect_no_quota();
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

Test(cpus, leaves_no_descriptor_behind)
{
    put_v2("0::/slice/app\n");
    put("/sys/fs/cgroup/slice/app/cpu.max", "300000 100000\n");
    unsigned before = open_descriptors();
    expect_quota(3, false);
    lx_cpus_usable(NULL);
    cr_assert_eq(open_descriptors(), before);
}

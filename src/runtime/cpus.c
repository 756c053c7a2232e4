#include "runtime/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <lanex/executor.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* CPUs that an affinity mask may have: eight times what any kernel can be built for (8192). */
#define LX_CPU_MASK_BITS 65536u
/* Bytes of a line of /proc that is looked at; longer ones (an overlay's) are no control group's. */
#define LX_CPU_LINE_MAX 8192u
/* Bytes of a file of /proc that are read: 100,000 mounts are about 16 MiB. */
#define LX_CPU_FILE_MAX (UINT64_C(16) << 20)
/* Mounts of control groups that are followed: one or two are usual, the rest are bind mounts. */
#define LX_CPU_MOUNTS_MAX 16u
/* Bytes of a file with a quota, with the NUL: two numbers. */
#define LX_CPU_QUOTA_TEXT 64u
/* Room that a directory's path leaves for the file's name. */
#define LX_CPU_NAME_ROOM 32u
/* The kernel's own limits, in us. With them quota * period fits into 64 bits. */
#define LX_CPU_QUOTA_US_MAX  ((UINT64_C(1) << 44) - 1)
#define LX_CPU_PERIOD_US_MAX UINT64_C(1000000)
/* What the kernel takes where cpu.max names no period, in us. */
#define LX_CPU_PERIOD_US_DEFAULT UINT64_C(100000)

/* Reads a file by lines. */
struct lines {
    int fd;
    bool at_end;   /* nothing more is to be read */
    bool skipping; /* within a line that was too long */
    uint64_t total;
    size_t begin, end; /* of what was read and not handed out */
    char buffer[LX_CPU_LINE_MAX];
};

/* The search for a quota, and its result so far. */
struct scan {
    const char *root;
    struct lx_cpus *cpus;
    unsigned mounts;
    char v1_group[PATH_MAX]; /* the process's group in the hierarchy that has `cpu`; "" = none */
    char v2_group[PATH_MAX];
    char path[PATH_MAX];
    struct lines lines;
};

/* Raw calls: the C library's are pthread cancellation points. */
static int open_file(const char *path)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static void close_file(int fd)
{
    (void)syscall(SYS_close, fd);
}

static long read_some(int fd, char *buffer, size_t size)
{
    long n;
    do {
        n = syscall(SYS_read, fd, buffer, size);
    } while (n < 0 && errno == EINTR);
    return n;
}

static bool lines_open(struct lines *lines, const char *path)
{
    lines->fd = open_file(path);
    lines->at_end = lines->skipping = false;
    lines->total = 0;
    lines->begin = lines->end = 0;
    return lines->fd >= 0;
}

/* Reads more behind what is there; a line that fills the buffer is given up. */
static void lines_fill(struct lines *lines)
{
    size_t kept = lines->end - lines->begin;
    if (kept == sizeof lines->buffer - 1) {
        lines->skipping = true;
        kept = 0;
    }
    memmove(lines->buffer, lines->buffer + lines->begin, kept);
    lines->begin = 0;
    lines->end = kept;
    long n = lines->total < LX_CPU_FILE_MAX
                 ? read_some(lines->fd, lines->buffer + kept, sizeof lines->buffer - 1 - kept)
                 : 0;
    if (n <= 0) {
        lines->at_end = true;
        return;
    }
    lines->end += (size_t)n;
    lines->total += (uint64_t)n;
}

/* The next line, without its newline, until the next call; NULL at the end. */
static char *lines_next(struct lines *lines)
{
    for (;;) {
        char *line = lines->buffer + lines->begin;
        char *newline = memchr(line, '\n', lines->end - lines->begin);
        if (newline == NULL && !lines->at_end) {
            lines_fill(lines);
            continue;
        }
        if (newline == NULL) {
            if (lines->begin == lines->end || lines->skipping)
                return NULL;
            newline = lines->buffer + lines->end; /* there is room: reads leave a byte free */
            lines->begin = lines->end;
        } else {
            lines->begin = (size_t)(newline - lines->buffer) + 1;
        }
        *newline = '\0';
        if (!lines->skipping)
            return line;
        lines->skipping = false;
    }
}

/* A whole small file as a string; false if it is absent, unreadable or too long. */
static bool read_text(const char *path, char text[LX_CPU_QUOTA_TEXT])
{
    int fd = open_file(path);
    if (fd < 0)
        return false;
    size_t length = 0;
    long n = 1;
    while (n > 0 && length < LX_CPU_QUOTA_TEXT) {
        n = read_some(fd, text + length, LX_CPU_QUOTA_TEXT - length);
        if (n > 0)
            length += (size_t)n;
    }
    close_file(fd);
    if (n < 0 || length == LX_CPU_QUOTA_TEXT)
        return false;
    text[length] = '\0';
    return strlen(text) == length;
}

/* Decimal digits of a value from 1 to max; moves the cursor behind them. */
static bool take_number(const char **cursor, uint64_t max, uint64_t *ret_value)
{
    const char *c = *cursor;
    uint64_t value = 0;
    for (; *c >= '0' && *c <= '9'; c++) {
        value = value * 10 + (uint64_t)(*c - '0');
        if (value > max)
            return false;
    }
    if (c == *cursor || value == 0)
        return false;
    *cursor = c;
    *ret_value = value;
    return true;
}

static bool is_end(const char *text)
{
    return strcmp(text, "\n") == 0 || *text == '\0';
}

static void take_quota(struct lx_cpus *cpus, uint64_t quota_us, uint64_t period_us)
{
    /* quota/period as fractions: no rounding may decide which is smaller. */
    if (cpus->period_us == 0 || quota_us * cpus->period_us < cpus->quota_us * period_us) {
        cpus->quota_us = quota_us;
        cpus->period_us = period_us;
    }
}

/* The text of path/name, path being as long as it is now again afterwards. */
static bool read_level(char *path, const char *name, char text[LX_CPU_QUOTA_TEXT])
{
    size_t length = strlen(path);
    (void)snprintf(path + length, LX_CPU_NAME_ROOM, "/%s", name);
    bool good = read_text(path, text);
    path[length] = '\0';
    return good;
}

/* "QUOTA PERIOD" or "QUOTA"; the quota "max" is none, as is anything malformed. */
static void take_level_v2(struct lx_cpus *cpus, char *path)
{
    char text[LX_CPU_QUOTA_TEXT];
    const char *cursor = text;
    uint64_t quota_us;
    uint64_t period_us = LX_CPU_PERIOD_US_DEFAULT;
    if (!read_level(path, "cpu.max", text) || !take_number(&cursor, LX_CPU_QUOTA_US_MAX, &quota_us))
        return;
    if (*cursor == ' ') {
        cursor++;
        if (!take_number(&cursor, LX_CPU_PERIOD_US_MAX, &period_us))
            return;
    }
    if (is_end(cursor))
        take_quota(cpus, quota_us, period_us);
}

/* A file for each; the quota -1 is none. */
static void take_level_v1(struct lx_cpus *cpus, char *path)
{
    char text[LX_CPU_QUOTA_TEXT];
    const char *cursor = text;
    uint64_t quota_us;
    uint64_t period_us;
    if (!read_level(path, "cpu.cfs_quota_us", text) ||
        !take_number(&cursor, LX_CPU_QUOTA_US_MAX, &quota_us) || !is_end(cursor))
        return;
    cursor = text;
    if (!read_level(path, "cpu.cfs_period_us", text) ||
        !take_number(&cursor, LX_CPU_PERIOD_US_MAX, &period_us) || !is_end(cursor))
        return;
    take_quota(cpus, quota_us, period_us);
}

/* Every level from mount/below up to the mount itself. */
static void walk(struct scan *scan, const char *mount, const char *below, bool v2)
{
    if (strcmp(mount, "/") == 0)
        mount = "";
    size_t room = sizeof scan->path - LX_CPU_NAME_ROOM;
    int length = snprintf(scan->path, room, "%s%s%s", scan->root, mount, below);
    if (length < 0 || (size_t)length >= room)
        return;
    char *stop = scan->path + strlen(scan->root) + strlen(mount);
    for (;;) {
        if (v2)
            take_level_v2(scan->cpus, scan->path);
        else
            take_level_v1(scan->cpus, scan->path);
        if (*stop == '\0')
            return;
        char *last = strrchr(stop, '/');
        *(last == NULL ? stop : last) = '\0';
    }
}

/* How many ".." a path begins with; *ret_rest is what follows them. */
static size_t leading_parents(const char *path, const char **ret_rest)
{
    size_t count = 0;
    while (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0')) {
        path += 3;
        count++;
    }
    *ret_rest = path;
    return count;
}

static bool has_parent(const char *path)
{
    const char *rest;
    while ((path = strchr(path, '/')) != NULL) {
        if (leading_parents(path, &rest) > 0)
            return true;
        path++;
    }
    return false;
}

/*
 * Where a group lies below a mount that shows the hierarchy from `mount_root` on. Both paths are
 * relative to the reader's cgroup namespace; with ".." where they lie outside of it. False if the
 * group is not below the mount: the quotas there are those of others.
 */
static bool below_mount(const char *group, const char *mount_root, const char **ret_below)
{
    size_t length = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    const char *below = group + length;
    if (strncmp(group, mount_root, length) == 0 && (*below == '/' || *below == '\0')) {
        *ret_below = strcmp(below, "/") == 0 ? "" : below;
        return !has_parent(*ret_below);
    }
    /* A mount from above the namespace's root holds the group at a place that has no name here;
     * its own quota is the group's all the same. */
    const char *rest;
    size_t mount_parents = leading_parents(mount_root, &rest);
    if (mount_parents == 0 || *rest != '\0' || leading_parents(group, &rest) >= mount_parents)
        return false;
    *ret_below = "";
    return true;
}

static bool list_has(const char *list, const char *word)
{
    size_t length = strlen(word);
    while (list != NULL) {
        if (strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == '\0'))
            return true;
        list = strchr(list, ',');
        if (list != NULL)
            list++;
    }
    return false;
}

/* Blanks and backslashes are "\ooo" in mountinfo. */
static void unescape(char *text)
{
    char *to = text;
    while (*text != '\0') {
        if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
            text[2] <= '7' && text[3] >= '0' && text[3] <= '7') {
            *to++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
            text += 4;
        } else {
            *to++ = *text++;
        }
    }
    *to = '\0';
}

/*
 * A line of /proc/self/mountinfo:
 * id parent device ROOT MOUNT-POINT options [optional fields] - TYPE source SUPER-OPTIONS
 */
static void take_mount(struct scan *scan, char *line)
{
    char *fields[6];
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        fields[i] = strsep(&line, " ");
    const char *separator;
    do {
        separator = strsep(&line, " ");
    } while (separator != NULL && strcmp(separator, "-") != 0);
    const char *type = strsep(&line, " ");
    (void)strsep(&line, " "); /* the source: may be empty */
    const char *options = strsep(&line, " ");
    if (type == NULL || options == NULL)
        return;

    bool v2 = strcmp(type, "cgroup2") == 0;
    if (!v2 && (strcmp(type, "cgroup") != 0 || !list_has(options, "cpu")))
        return;
    const char *group = v2 ? scan->v2_group : scan->v1_group;
    const char *below;
    unescape(fields[3]);
    unescape(fields[4]);
    if (group[0] != '/' || fields[3][0] != '/' || fields[4][0] != '/' ||
        !below_mount(group, fields[3], &below))
        return;
    scan->mounts++;
    walk(scan, fields[4], below, v2);
}

/* A line of /proc/self/cgroup: "ID:CONTROLLERS:GROUP"; v2 has ID 0 and no controllers. */
static void take_group(struct scan *scan, char *line)
{
    const char *id = strsep(&line, ":");
    const char *controllers = strsep(&line, ":");
    if (controllers == NULL || line == NULL || strlen(line) >= PATH_MAX)
        return;
    if (strcmp(id, "0") == 0 && controllers[0] == '\0')
        memcpy(scan->v2_group, line, strlen(line) + 1);
    else if (list_has(controllers, "cpu"))
        memcpy(scan->v1_group, line, strlen(line) + 1);
}

static bool open_below_root(struct scan *scan, const char *path)
{
    int length = snprintf(scan->path, sizeof scan->path, "%s%s", scan->root, path);
    return length > 0 && (size_t)length < sizeof scan->path && lines_open(&scan->lines, scan->path);
}

static void read_quota(const char *root, struct lx_cpus *cpus)
{
    struct scan scan;
    char *line;
    scan.root = root;
    scan.cpus = cpus;
    scan.mounts = 0;
    scan.v1_group[0] = scan.v2_group[0] = '\0';

    if (!open_below_root(&scan, "/proc/self/cgroup"))
        return;
    while ((line = lines_next(&scan.lines)) != NULL)
        take_group(&scan, line);
    close_file(scan.lines.fd);

    if (!open_below_root(&scan, "/proc/self/mountinfo"))
        return;
    while (scan.mounts < LX_CPU_MOUNTS_MAX && (line = lines_next(&scan.lines)) != NULL)
        take_mount(&scan, line);
    close_file(scan.lines.fd);
}

static uint32_t count_bits(const unsigned char *mask, size_t size)
{
    uint32_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += (uint32_t)__builtin_popcount(mask[i]);
    return count;
}

/* The calling thread's mask: the one that the threads it makes begin with. */
static uint32_t read_affinity(void)
{
    unsigned long mask[LX_CPU_MASK_BITS / (CHAR_BIT * sizeof(unsigned long))];
    /* The raw call says how many bytes the kernel wrote; the C library's has a fixed size in mind.
     */
    long n = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    if (n > 0)
        return count_bits((const unsigned char *)mask, (size_t)n);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online <= (long)LX_CPU_MASK_BITS ? (uint32_t)online : 1;
}

void lx_cpus_read(const struct lx_cpu_sources *sources, struct lx_cpus *ret_cpus)
{
    static const struct lx_cpu_sources of_system;
    int saved_errno = errno;
    if (sources == NULL)
        sources = &of_system;

    struct lx_cpus cpus = {0};
    cpus.affinity =
        sources->mask != NULL ? count_bits(sources->mask, sources->mask_size) : read_affinity();
    if (cpus.affinity == 0)
        cpus.affinity = 1;
    cpus.usable = cpus.affinity;

    read_quota(sources->root != NULL ? sources->root : "", &cpus);
    if (cpus.period_us != 0) {
        uint64_t whole = (cpus.quota_us + cpus.period_us - 1) / cpus.period_us;
        if (whole < cpus.usable)
            cpus.usable = (uint32_t)whole;
        cpus.quota_tight = cpus.quota_us < cpus.period_us;
    }
    *ret_cpus = cpus;
    errno = saved_errno;
}

bool lx_cpus_may_spin(const struct lx_cpus *cpus)
{
    return cpus->affinity >= 2 && (cpus->period_us == 0 || cpus->quota_us / 2 >= cpus->period_us);
}

uint32_t lx_cpus_usable(const struct lx_cpu_sources *sources)
{
    struct lx_cpus cpus;
    lx_cpus_read(sources, &cpus);
    return cpus.usable;
}

uint32_t lanex_usable_cpus(void)
{
    return lx_cpus_usable(NULL);
}

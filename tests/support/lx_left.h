/* What a process holds that may be left behind: counted before and after. */
#ifndef LX_TEST_LEFT_H
#define LX_TEST_LEFT_H

#include "lx_test.h"

#include <dirent.h>

struct lx_test_left {
    unsigned threads, descriptors;
};

static inline unsigned lx_test_entries(const char *path)
{
    unsigned count = 0;
    DIR *folder = opendir(path);

    LX_REQUIRE(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static inline struct lx_test_left lx_test_left(void)
{
    return (struct lx_test_left){lx_test_entries("/proc/self/task"),
                                 lx_test_entries("/proc/self/fd")};
}

static inline void lx_test_nothing_left(struct lx_test_left before)
{
    /* A joined thread leaves /proc a moment later. */
    LX_EVENTUALLY(lx_test_entries("/proc/self/task") == before.threads);
    LX_REQUIRE(lx_test_entries("/proc/self/fd") == before.descriptors);
}

#endif

/*
 * Keys from paths.
 */
#include <lanex/root_key.h>

#include <lanex/actor.h>

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(PATH_MAX <= LANEX_KEY_MAX, "what realpath gives fits in a key");

/* POSIX lets realpath be a cancellation point. Returns 0 or -errno. */
static int resolve(const char *path, char *canonical)
{
    int saved = errno, before, rc = 0;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    if (realpath(path, canonical) == NULL)
        rc = -errno;
    pthread_setcancelstate(before, NULL);
    errno = saved;
    return rc;
}

int lanex_root_key(const char *path, void *buffer, size_t size, size_t *ret_length)
{
    char canonical[PATH_MAX];
    size_t length;
    int rc;

    if (path == NULL || buffer == NULL || ret_length == NULL)
        return -EINVAL;
    rc = resolve(path, canonical);
    if (rc < 0)
        return rc;
    length = strlen(canonical);
    if (length > size)
        return -ERANGE;
    memcpy(buffer, canonical, length);
    *ret_length = length;
    return 0;
}

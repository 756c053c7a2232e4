/*
 * Keys from paths.
 */
#include <lanex/root_key.h>

#include <lanex/actor.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(PATH_MAX <= LANEX_KEY_MAX, "what realpath gives fits in a key");

int lanex_root_key(const char *path, void *buffer, size_t size, size_t *ret_length)
{
    char canonical[PATH_MAX];
    int saved = errno;
    size_t length;

    if (path == NULL || buffer == NULL || ret_length == NULL)
        return -EINVAL;
    if (realpath(path, canonical) == NULL) {
        int rc = -errno;
        errno = saved;
        return rc;
    }
    errno = saved;
    length = strlen(canonical);
    if (length > size)
        return -ERANGE;
    memcpy(buffer, canonical, length);
    *ret_length = length;
    return 0;
}

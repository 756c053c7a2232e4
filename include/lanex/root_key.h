/*
 * lanex/root_key.h - keys of actors from paths.
 *
 * For actors that are directories (project roots, data directories): every way to name a directory
 * must lead to the same actor, or two writers would work in it side by side.
 *
 *     char key[LANEX_KEY_MAX];
 *     size_t length;
 *     int rc = lanex_root_key(path, key, sizeof key, &length);
 *     if (rc == 0)
 *         rc = lanex_actor_register(executor, key, length, &options, &actor);
 */
#ifndef LANEX_ROOT_KEY_H
#define LANEX_ROOT_KEY_H

#include <lanex/base.h>

LANEX_BEGIN_DECLS

/*
 * Writes the canonical absolute path of what `path` names to `buffer`: the key. It is not
 * NUL-terminated and holds no NUL; ret_length receives its length, 1 to LANEX_KEY_MAX - 1.
 *
 * Covered, all of these give one key: relative paths, `.` and `..`, repeated and trailing slashes,
 * and symbolic links in any component, the last included. The path must exist; it may also be a
 * file.
 *
 * Not covered, each name gives a key of its own: bind mounts and other second mounts of one
 * directory, hard links of a file, and spellings that differ in case or Unicode form on a file
 * system that takes them for equal. The key is a name on purpose, as in version control and build
 * tools: it can be read in logs, and it outlives a directory that is deleted and made again, where
 * device and inode numbers change or come to stand for another directory. The price is that it
 * depends on the caller's mounts and root directory (chroot), and that a directory that is renamed,
 * or reached through a link that is turned elsewhere, has another key from then on. Who needs bind
 * mounts to be one compares st_dev and st_ino, and decides which name is to stand for both.
 *
 * Looks at the file system: may block on a slow one; not for a job that must be short. Costs a
 * system call per component.
 * Errors: -EINVAL (NULL), -ERANGE (the key is longer than `size`; LANEX_KEY_MAX always suffices),
 * -ENOENT (no such path, "" included, a dangling link, or a working directory that is gone),
 * -ENOTDIR, -EACCES, -ELOOP, -ENAMETOOLONG (path, or canonical path, longer than a key), -EIO,
 * -ENOMEM.
 */
LANEX_API int lanex_root_key(const char *path, void *buffer, size_t size, size_t *ret_length);

LANEX_END_DECLS

#endif

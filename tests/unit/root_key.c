/* Keys from paths: every way to name a directory gives one key. */
#include "tests/support/lx_executor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(root_key, .timeout = 30);

/* A directory with one/two in it and links to that; the test works inside it. */
struct tree {
    char home[PATH_MAX];
    int before; /* where the test was */
};

static void make_tree(struct tree *tree)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(tree->home, sizeof tree->home, "%s/lanex-root-key-XXXXXX", tmp != NULL ? tmp : "/tmp");
    tree->before = open(".", O_PATH | O_CLOEXEC);
    cr_assert_geq(tree->before, 0);
    cr_assert_not_null(mkdtemp(tree->home));
    cr_assert_eq(chdir(tree->home), 0);
    cr_assert_eq(mkdir("one", 0700), 0);
    cr_assert_eq(mkdir("one/two", 0700), 0);
    cr_assert_eq(mkdir("other", 0700), 0);
    cr_assert_eq(symlink("one/two", "relative"), 0);
    cr_assert_eq(symlink(tree->home, "one/two/up"), 0);
    cr_assert_eq(symlink("relative", "again"), 0);
    cr_assert_eq(symlink("nowhere", "dangling"), 0);
    cr_assert_eq(symlink("loop", "loop"), 0);
}

static void remove_tree(struct tree *tree)
{
    cr_assert_eq(chdir(tree->home), 0);
    cr_assert_eq(unlink("relative"), 0);
    cr_assert_eq(unlink("one/two/up"), 0);
    cr_assert_eq(unlink("again"), 0);
    cr_assert_eq(unlink("dangling"), 0);
    cr_assert_eq(unlink("loop"), 0);
    cr_assert_eq(rmdir("other"), 0);
    cr_assert_eq(rmdir("one/two"), 0);
    cr_assert_eq(rmdir("one"), 0);
    cr_assert_eq(fchdir(tree->before), 0);
    close(tree->before);
    cr_assert_eq(rmdir(tree->home), 0);
}

static void assert_same(const char *path, const char *key, size_t length)
{
    char got[LANEX_KEY_MAX];
    size_t got_length = 0;

    cr_assert_eq(lanex_root_key(path, got, sizeof got, &got_length), 0, "%s", path);
    cr_assert_eq(got_length, length, "%s: %.*s", path, (int)got_length, got);
    cr_assert_eq(memcmp(got, key, length), 0, "%s: %.*s", path, (int)got_length, got);
}

Test(root_key, all_names_of_a_directory_give_one_key)
{
    struct tree tree;
    char key[LANEX_KEY_MAX], other[LANEX_KEY_MAX], absolute[PATH_MAX + 16];
    size_t length = 0, other_length = 0;

    make_tree(&tree);
    cr_assert_eq(lanex_root_key("one/two", key, sizeof key, &length), 0);
    cr_assert_eq(key[0], '/');
    cr_assert_eq(memcmp(key + length - 8, "/one/two", 8), 0);
    cr_assert_null(memchr(key, '\0', length));
    assert_same("./one/./two", key, length);
    assert_same("one/two/", key, length);
    assert_same("one//two///", key, length);
    assert_same("other/../one/two", key, length);
    assert_same("one/../one/two/../two/.", key, length);
    assert_same("relative", key, length);
    assert_same("relative/", key, length);
    assert_same("again", key, length);
    assert_same("again/up/relative/up/one/two", key, length);
    snprintf(absolute, sizeof absolute, "%s/one/two", tree.home);
    assert_same(absolute, key, length);
    snprintf(absolute, sizeof absolute, "//%s/again/", tree.home);
    assert_same(absolute, key, length);
    cr_assert_eq(chdir("one/two"), 0);
    assert_same(".", key, length);
    assert_same("../two", key, length);
    assert_same("/proc/self/cwd", key, length);
    cr_assert_eq(lanex_root_key("..", other, sizeof other, &other_length), 0);
    cr_assert_eq(other_length, length - 4);
    cr_assert_eq(memcmp(other, key, other_length), 0);
    assert_same("/", "/", 1);
    assert_same("///", "/", 1);
    remove_tree(&tree);
}

Test(root_key, says_why_not)
{
    struct tree tree;
    char key[LANEX_KEY_MAX], too_long[PATH_MAX + 2];
    size_t length = 0, untouched = 77;

    make_tree(&tree);
    errno = 4711;
    cr_assert_eq(lanex_root_key(NULL, key, sizeof key, &untouched), -EINVAL);
    cr_assert_eq(lanex_root_key("one", NULL, sizeof key, &untouched), -EINVAL);
    cr_assert_eq(lanex_root_key("one", key, sizeof key, NULL), -EINVAL);
    cr_assert_eq(lanex_root_key("", key, sizeof key, &untouched), -ENOENT);
    cr_assert_eq(lanex_root_key("none", key, sizeof key, &untouched), -ENOENT);
    cr_assert_eq(lanex_root_key("none/..", key, sizeof key, &untouched), -ENOENT);
    cr_assert_eq(lanex_root_key("dangling", key, sizeof key, &untouched), -ENOENT);
    cr_assert_eq(lanex_root_key("loop", key, sizeof key, &untouched), -ELOOP);
    memset(too_long, 'x', sizeof too_long);
    too_long[sizeof too_long - 1] = '\0';
    cr_assert_eq(lanex_root_key(too_long, key, sizeof key, &untouched), -ENAMETOOLONG);
    cr_assert_eq(lanex_root_key("one", key, sizeof key, &length), 0);
    cr_assert_eq(lanex_root_key("one", key, length - 1, &untouched), -ERANGE);
    cr_assert_eq(lanex_root_key("one", key, 0, &untouched), -ERANGE);
    cr_assert_eq(lanex_root_key("one", key, length, &length), 0, "it just fits");
    cr_assert_eq(untouched, 77);
    cr_assert_eq(errno, 4711);
    remove_tree(&tree);
}

Test(root_key, a_file_is_no_directory)
{
    struct tree tree;
    char key[LANEX_KEY_MAX];
    size_t length = 0;
    int fd;

    make_tree(&tree);
    fd = open("file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_eq(lanex_root_key("file", key, sizeof key, &length), 0);
    cr_assert_eq(lanex_root_key("file/", key, sizeof key, &length), -ENOTDIR);
    cr_assert_eq(lanex_root_key("file/..", key, sizeof key, &length), -ENOTDIR);
    cr_assert_eq(unlink("file"), 0);
    remove_tree(&tree);
}

Test(root_key, the_working_directory_may_be_gone)
{
    struct tree tree;
    char key[LANEX_KEY_MAX];
    size_t length = 77;

    make_tree(&tree);
    cr_assert_eq(mkdir("gone", 0700), 0);
    cr_assert_eq(chdir("gone"), 0);
    cr_assert_eq(rmdir("../gone"), 0);
    cr_assert_eq(lanex_root_key(".", key, sizeof key, &length), -ENOENT);
    cr_assert_eq(length, 77);
    remove_tree(&tree);
}

Test(root_key, two_names_lead_to_one_actor)
{
    struct tree tree;
    lanex_executor *executor = lx_test_executor(2);
    char key[LANEX_KEY_MAX];
    size_t length = 0;

    make_tree(&tree);
    cr_assert_eq(lanex_root_key("again", key, sizeof key, &length), 0);
    cr_assert_eq(lanex_actor_register(executor, key, length, NULL, NULL), 1);
    cr_assert_eq(lanex_root_key("one/two/", key, sizeof key, &length), 0);
    cr_assert_eq(lanex_actor_register(executor, key, length, NULL, NULL), 0);
    cr_assert_eq(lanex_root_key("other", key, sizeof key, &length), 0);
    cr_assert_eq(lanex_actor_register(executor, key, length, NULL, NULL), 1);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    remove_tree(&tree);
}

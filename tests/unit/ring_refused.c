/*
 * What the probe does where io_uring is refused. Runs under refuse-ring, which leaves two words in
 * the environment; without them it is the control: rings are not refused by us.
 */
#include "ring_variants.h"

#include <sys/epoll.h>
#include <sys/resource.h>

struct expectation {
    const char *what; /* NULL: nothing was refused by the launcher */
    int number;
    const char *name;
};

/* Refusing io_uring_register costs only the messages of threads that have no ring. */
static bool still_rings(const struct expectation *e)
{
    return e->what && (strcmp(e->what, "register") == 0 || strcmp(e->what, "send-register") == 0);
}

static struct expectation expected(void)
{
    static const struct expectation names[] = {
        {.number = EPERM, .name = "EPERM"},           {.number = ENOSYS, .name = "ENOSYS"},
        {.number = EOPNOTSUPP, .name = "EOPNOTSUPP"}, {.number = ENOMEM, .name = "ENOMEM"},
        {.number = EINVAL, .name = "EINVAL"},
    };
    struct expectation e = {.what = getenv("LANEX_REFUSED_WHAT")};
    const char *number = getenv("LANEX_REFUSED_ERRNO");
    cr_assert_eq(e.what == NULL, number == NULL);
    for (size_t i = 0; number && i < sizeof names / sizeof *names; i++)
        if (names[i].number == atoi(number)) {
            e.number = names[i].number;
            e.name = names[i].name;
        }
    cr_assert(!number || e.name, "an errno that this test does not know");
    return e;
}

static void must_name_the_knobs(const char *line, const char *errno_name)
{
    fprintf(stderr, "%s\n", line);
    cr_assert_not_null(strstr(line, errno_name), "%s", line);
    cr_assert_not_null(strstr(line, "kernel.io_uring_disabled"), "%s", line);
    cr_assert_not_null(strstr(line, "seccomp"), "%s", line);
    cr_assert_not_null(strstr(line, "RLIMIT_MEMLOCK"), "%s", line);
    cr_assert_null(strchr(line, '\n'), "one line");
    cr_assert_lt(strlen(line), LX_BACKEND_WHY_SIZE - 1, "cut off");
}

Test(ring_refused, auto_falls_back_and_says_why)
{
    struct expectation e = expected();
    struct lx_backend backend;
    unsigned before = count_descriptors();
    cr_assert_eq(lx_backend_probe(LX_BACKEND_AUTO, &backend), 0);
    cr_assert_eq(count_descriptors(), before);
    if (!e.what) {
        cr_assert(backend.kind == LX_BACKEND_RING || !rings_work_here(), "%s", backend.why);
        return;
    }
    if (still_rings(&e) && rings_work_here()) {
        cr_assert_eq(backend.kind, LX_BACKEND_RING, "%s", backend.why);
        cr_assert_not(backend.send_msg_register);
        return;
    }
    cr_assert_eq(backend.kind, LX_BACKEND_POLL);
    cr_assert_eq(backend.refused_errno, e.number);
    must_name_the_knobs(backend.why, e.name);
    bool setup = strcmp(e.what, "setup") == 0;
    cr_assert_eq(strstr(backend.why, "io_uring_setup") != NULL, setup, "%s", backend.why);
}

Test(ring_refused, force_ring_gives_the_error)
{
    struct expectation e = expected();
    struct lx_backend backend = {.kind = LX_BACKEND_POLL, .refused_errno = 12345};
    unsigned before = count_descriptors();
    int rc = lx_backend_probe(LX_BACKEND_FORCE_RING, &backend);
    cr_assert_eq(count_descriptors(), before);
    if (rings_work_here()) {
        cr_assert(!e.what || still_rings(&e));
        cr_assert_eq(rc, 0, "%s", backend.why);
        cr_assert_eq(backend.kind, LX_BACKEND_RING);
        return;
    }
    cr_assert_lt(rc, 0);
    if (e.what && !still_rings(&e))
        cr_assert_eq(rc, -e.number);
    cr_assert_eq(backend.refused_errno, 12345, "only the line is filled on failure");
    must_name_the_knobs(backend.why, e.name ? e.name : "E");
}

Test(ring_refused, doors_work_whatever_was_refused)
{
    struct lx_backend backend;
    cr_assert_eq(lx_backend_probe(LX_BACKEND_AUTO, &backend), 0);
    struct lx_door from, to;
    cr_assert_eq(lx_door_init(&from, &backend), 0);
    cr_assert_eq(lx_door_init(&to, &backend), 0);
    cr_assert_eq(lx_door_enable(&from), 0);
    cr_assert_eq(lx_door_enable(&to), 0);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(lx_door_message(&from, &to), backend.kind == LX_BACKEND_RING);
        cr_assert(lx_door_wait(&to, LX_TIME_NEVER));
        lx_door_knock(&from);
        cr_assert(lx_door_wait(&from, LX_TIME_NEVER));
    }
    lx_door_fini(&from);
    lx_door_fini(&to);
}

Test(ring_refused, a_small_memlock_limit_breaks_nothing)
{
    struct rlimit none = {0, 0};
    cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    struct lx_backend backend;
    cr_assert_eq(lx_backend_probe(LX_BACKEND_AUTO, &backend), 0);
    if (backend.refused_errno)
        cr_assert_not_null(strstr(backend.why, "RLIMIT_MEMLOCK (0 KiB)"), "%s", backend.why);
    struct lx_door doors[16];
    for (int i = 0; i < 16; i++) {
        cr_assert_eq(lx_door_init(&doors[i], &backend), 0);
        cr_assert_eq(lx_door_enable(&doors[i]), 0);
        lx_door_knock(&doors[i]);
        cr_assert(lx_door_wait(&doors[i], LX_TIME_NEVER));
    }
    for (int i = 0; i < 16; i++)
        lx_door_fini(&doors[i]);
}

Test(ring_refused, no_descriptors_left_is_an_error_not_a_fallback)
{
    unsigned before = count_descriptors();
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int fd = dup(0);
    cr_assert_geq(fd, 0);
    close(fd);
    struct rlimit tight = {(rlim_t)fd, limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
    struct lx_backend backend;
    int rc = lx_backend_probe(LX_BACKEND_AUTO, &backend);
    struct lx_backend poll = {.kind = LX_BACKEND_POLL};
    struct lx_door door;
    int init = lx_door_init(&door, &poll);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(rc, -EMFILE);
    cr_assert_eq(init, -EMFILE);
    cr_assert_eq(count_descriptors(), before);
}

/* The k-th descriptor that a door needs cannot be had: an error, and nothing left behind. */
Test(ring_refused, a_door_that_cannot_be_made_leaves_nothing)
{
    struct lx_backend backend;
    cr_assert_eq(lx_backend_probe(LX_BACKEND_AUTO, &backend), 0);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    unsigned before = count_descriptors();
    int first = dup(0);
    cr_assert_geq(first, 0);
    close(first);
    bool ring = backend.kind == LX_BACKEND_RING;
    for (int k = 0; k <= 2; k++) {
        struct rlimit tight = {(rlim_t)(first + k), limit.rlim_max};
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
        struct lx_door door;
        int init = lx_door_init(&door, &backend);
        int enable = init == 0 ? lx_door_enable(&door) : 0;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        cr_assert_eq(init, k == 0 ? -EMFILE : 0, "%d descriptors free", k);
        cr_assert_eq(enable, k == 1 && ring ? -EMFILE : 0, "%d descriptors free", k);
        if (init == 0) {
            /* Also a door that got no ring works. */
            lx_door_knock(&door);
            (void)lx_door_message(NULL, &door);
            cr_assert(lx_door_wait(&door, LX_TIME_NEVER));
            lx_door_fini(&door);
        }
        cr_assert_eq(count_descriptors(), before);
    }
}

/* The probe must leave nothing on the calling thread: the kernel would interrupt the next wait of a
   thread whose ring goes. */
Test(ring_refused, the_probe_does_not_interrupt_its_caller_later)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    cr_assert_geq(epoll, 0);
    for (int i = 0; i < 10; i++) {
        struct lx_backend backend;
        cr_assert_eq(lx_backend_probe(LX_BACKEND_AUTO, &backend), 0);
        struct epoll_event event;
        cr_assert_eq(epoll_wait(epoll, &event, 1, 20), 0);
    }
    close(epoll);
}

/* Memory refused to calls about actors: each fails whole, and removing needs none. */
#include "tests/support/lx_executor.h"

#include "sync/seams.h"

#include <errno.h>

TestSuite(fault_actors, .timeout = 60);

#define MOST_ALLOCATIONS 32u /* that one call may make; a bound for the sweep, not a promise */

static struct lx_seams real;
static atomic_uint left; /* allocations until one is refused; 0: none is */

static void *refusing_allocate(size_t size, bool zeroed)
{
    unsigned before = atomic_load(&left);

    /* Other threads allocate nothing while a call is tried. */
    if (before != 0) {
        atomic_store(&left, before - 1);
        if (before == 1)
            return NULL;
    }
    return real.allocate(size, zeroed);
}

static void refuse(void)
{
    real = lx_seams;
    lx_seams.allocate = refusing_allocate;
}

static void stop_refusing(void)
{
    lx_seams = real;
}

struct counts {
    atomic_uint registered, unregistered, released;
};

static void count_register(lanex_actor *actor, const void *key, size_t key_length, void *context,
                           void *arg)
{
    struct counts *counts = arg;

    LX_REQUIRE(actor != NULL && key != NULL && key_length > 0 && context == arg);
    atomic_fetch_add(&counts->registered, 1);
}

static void count_unregister(lanex_actor *actor, const void *key, size_t key_length, void *context,
                             void *arg)
{
    struct counts *counts = arg;

    LX_REQUIRE(actor != NULL && key != NULL && key_length > 0 && context == arg);
    atomic_fetch_add(&counts->unregistered, 1);
}

static void count_release(void *context)
{
    struct counts *counts = context;

    atomic_fetch_add(&counts->released, 1);
}

static lanex_executor *executor_with_hooks(struct counts *counts)
{
    lanex_executor *executor = lx_test_executor(2);
    lanex_actor_hooks hooks = {
        .size = sizeof hooks,
        .on_register = count_register,
        .on_unregister = count_unregister,
        .arg = counts,
    };

    LX_REQUIRE(lanex_actor_set_hooks(executor, &hooks) == 0);
    return executor;
}

static int register_refusing(lanex_executor *executor, unsigned number, unsigned kth,
                             struct counts *counts)
{
    lanex_actor_options options = {
        .size = sizeof options, .context = counts, .context_release = count_release};
    int rc;

    atomic_store(&left, kth);
    rc = lanex_actor_register(executor, &number, sizeof number, &options, NULL);
    atomic_store(&left, 0);
    return rc;
}

Test(fault_actors, a_registration_that_fails_leaves_nothing)
{
    struct counts counts = {0, 0, 0};
    lanex_executor *executor;
    unsigned registered = 0, failed = 0;
    size_t count = 0;

    refuse();
    executor = executor_with_hooks(&counts);
    /* Past the growing of the table and of the rotation's space. */
    for (unsigned number = 0; number < 200; number++) {
        unsigned kth = 1;
        int rc;

        while ((rc = register_refusing(executor, number, kth, &counts)) != 1) {
            cr_assert_eq(rc, -ENOMEM);
            cr_assert_eq(lanex_actor_registered(executor, &number, sizeof number), 0);
            failed++;
            cr_assert_lt(++kth, MOST_ALLOCATIONS);
        }
        registered++;
    }
    cr_assert_geq(failed, registered, "each makes an allocation at least");
    cr_assert_eq(lanex_actor_hooks_wait(executor), 0);
    cr_assert_eq(atomic_load(&counts.registered), registered);
    cr_assert_eq(atomic_load(&counts.released), 0);
    cr_assert_eq(lanex_actor_count(executor, &count), 0);
    cr_assert_eq(count, registered);
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    cr_assert_eq(atomic_load(&counts.unregistered), registered);
    cr_assert_eq(atomic_load(&counts.released), registered);
    stop_refusing();
}

Test(fault_actors, removing_needs_no_memory_and_a_list_fails_whole)
{
    struct counts counts = {0, 0, 0};
    lanex_executor *executor;
    lanex_actor_list *list = (lanex_actor_list *)&list;
    const unsigned removed = 1, retired = 2;

    refuse();
    executor = executor_with_hooks(&counts);
    cr_assert_eq(register_refusing(executor, removed, 0, &counts), 1);
    cr_assert_eq(register_refusing(executor, retired, 0, &counts), 1);
    atomic_store(&left, 1);
    cr_assert_eq(lanex_actor_entries(executor, &list), -ENOMEM);
    atomic_store(&left, 1);
    cr_assert_eq(lanex_actor_try_entries(executor, &list), -ENOMEM);
    cr_assert_eq(list, (lanex_actor_list *)&list, "the output was touched");
    atomic_store(&left, 1);
    cr_assert_eq(lanex_actor_remove(executor, &removed, sizeof removed), 0);
    cr_assert_eq(lanex_actor_retire(executor, &retired, sizeof retired), 0);
    cr_assert_eq(lanex_actor_hooks_wait(executor), 0);
    cr_assert_eq(atomic_load(&left), 1, "something was allocated");
    atomic_store(&left, 0);
    cr_assert_eq(atomic_load(&counts.unregistered), 2);
    cr_assert_eq(atomic_load(&counts.released), 2, "a list that failed holds a context");
    cr_assert_eq(lanex_executor_destroy(executor), 0);
    stop_refusing();
}

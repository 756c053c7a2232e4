/* What the jobs of the mixed test do: chosen by their number and the seed alone. */
#include "mixed.h"

#include <errno.h>

struct mixed *mixed_now;

struct handed_over {
    struct lx_inbox_node node;
    lanex_deferred *handle;
    uint32_t way; /* how it is answered */
};

static void destroy_data(void *data)
{
    atomic_fetch_sub(&mixed_now->live_data, 1);
    free(data);
}

/* NULL for lack of memory; then there is nothing to destroy. */
static void *make_data(void)
{
    void *data = malloc(16);

    LX_REQUIRE(data != NULL || mixed_now->options.memory_may_lack);
    if (data != NULL)
        atomic_fetch_add(&mixed_now->live_data, 1);
    return data;
}

/* Under the gate: readers see the two words equal, writers are alone. */
static void touch_context(struct context *context, enum lanex_lane lane, bool writes)
{
    if (writes) {
        context->a++;
        LX_REQUIRE(context->a == context->b + 1);
        context->b++;
    } else if (lane != LANEX_LANE_HEAVY_INIT) {
        LX_REQUIRE(context->a == context->b);
    }
}

static void clean_up(void *arg)
{
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

static void panic_now(struct mixed *mixed)
{
    lanex_cleanup cleanup;

    lanex_cleanup_push(&cleanup, clean_up, &mixed->panics);
    lanex_panic("panic on purpose");
}

static bool defer(struct mixed *mixed, lanex_job *job, uint32_t way)
{
    struct handed_over *over = malloc(sizeof *over);

    LX_REQUIRE(over != NULL || mixed->options.memory_may_lack);
    if (over == NULL)
        return false;
    over->way = way;
    if (lanex_job_defer(job, &over->handle) != 0) {
        free(over); /* the build step of a job with an install step, or no memory */
        return false;
    }
    LX_REQUIRE(lx_inbox_push(&mixed->deferred, &over->node, 0));
    sem_post(&mixed->deferred_count);
    return true;
}

static void answer(struct mixed *mixed, lanex_job *job, struct lx_rng *rng)
{
    uint64_t roll = lx_rng_below(rng, 1000);

    if (roll < 3) {
        panic_now(mixed);
    } else if (roll < 50) {
        if (defer(mixed, job, (uint32_t)lx_rng_below(rng, 3)) && lx_rng_percent(rng, 2))
            panic_now(mixed);
    } else if (roll < 100) {
        int rc = lanex_job_respond_error(job, "no", "not today", roll % 2 == 0);
        LX_REQUIRE(rc == 0 || (rc == -ENOMEM && mixed->options.memory_may_lack));
    } else if (roll < 250) {
        lanex_job_respond(job, make_data(), destroy_data);
    } else if (roll < 260) {
        /* The last answer counts. */
        lanex_job_respond(job, make_data(), destroy_data);
        lanex_job_respond(job, make_data(), destroy_data);
    }
}

static void seal(struct mixed *mixed, uint64_t number)
{
    if (!lanex_cancelled() && lanex_seal())
        atomic_fetch_or(&mixed->flags[number], FLAG_EFFECT);
}

static enum lanex_lane lane_of(const lanex_job *job)
{
    /* The label says it; see the submitter. */
    return (enum lanex_lane)(lanex_job_label(job)[0] - '0');
}

void mixed_run(lanex_job *job, void *context, void *arg)
{
    struct mixed *mixed = mixed_now;
    uint64_t number = (uint64_t)(uintptr_t)arg;
    struct lx_rng rng = lx_rng_seeded(mixed->options.seed ^ number * 77);

    LX_REQUIRE(atomic_fetch_add(&mixed->ran[number], 1) == 0);
    LX_REQUIRE(lanex_current_job() == job);
    touch_context(context, lane_of(job), lane_of(job) == LANEX_LANE_MUTATING);
    seal(mixed, number);
    answer(mixed, job, &rng);
}

void mixed_install(lanex_job *job, void *context, void *arg)
{
    struct mixed *mixed = mixed_now;
    uint64_t number = (uint64_t)(uintptr_t)arg;
    struct lx_rng rng = lx_rng_seeded(mixed->options.seed ^ number * 79);

    LX_REQUIRE((atomic_fetch_or(&mixed->flags[number], FLAG_INSTALLED) & FLAG_INSTALLED) == 0);
    LX_REQUIRE(atomic_load(&mixed->ran[number]) == 1);
    touch_context(context, LANEX_LANE_HEAVY_INIT, true);
    answer(mixed, job, &rng);
}

/* ---- deferred answers ---- */

static void give(struct handed_over *over)
{
    int rc;

    switch (over->way) {
    case 0:
        rc = lanex_deferred_respond(over->handle, make_data(), destroy_data);
        LX_REQUIRE(rc == 0 || rc == -EALREADY);
        break;
    case 1:
        rc = lanex_deferred_respond_error(over->handle, "late", NULL, false);
        LX_REQUIRE(rc == 0 || rc == -EALREADY ||
                   (rc == -ENOMEM && mixed_now->options.memory_may_lack));
        break;
    default:
        lanex_deferred_drop(over->handle);
        break;
    }
    free(over);
}

static void *answer_deferred(void *arg)
{
    struct mixed *mixed = arg;

    for (;;) {
        uintptr_t link;

        while (sem_wait(&mixed->deferred_count) != 0)
            ;
        link = lx_inbox_take(&mixed->deferred, LX_INBOX_EMPTY);
        if (link == LX_INBOX_EMPTY && atomic_load(&mixed->stop))
            return NULL;
        while (link != LX_INBOX_EMPTY) {
            struct lx_inbox_node *node = lx_inbox_node_of(link);
            link = node->next;
            give((struct handed_over *)node);
        }
    }
}

void mixed_start_answerer(struct mixed *mixed)
{
    mixed_now = mixed;
    sem_init(&mixed->deferred_count, 0, 0);
    LX_REQUIRE(pthread_create(&mixed->answerer, NULL, answer_deferred, mixed) == 0);
}

void mixed_stop_answerer(struct mixed *mixed)
{
    LX_REQUIRE(atomic_load(&mixed->stop));
    sem_post(&mixed->deferred_count);
    pthread_join(mixed->answerer, NULL);
    sem_destroy(&mixed->deferred_count);
}

#include "admission/admission.h"
#include "sync/assert.h"

#define ARITY 4u /* children of a heap's node: few levels, and four keys lie on one cache line */

/* Places in the heap are counted from 1: 0 in oldest_at says that it is not there. */
static void put(struct lx_admission *adm, unsigned job_class, uint32_t place,
                struct lx_oldest_item item)
{
    adm->space.oldest[job_class][place] = item;
    adm->space.oldest_at[job_class][item.actor->slot] = place + 1;
}

static void sift_down(struct lx_admission *adm, unsigned job_class, uint32_t place,
                      struct lx_oldest_item item)
{
    const struct lx_oldest_item *items = adm->space.oldest[job_class];
    uint32_t count = adm->oldest_count[job_class];

    for (;;) {
        uint32_t child = place * ARITY + 1, least = child;

        if (child >= count)
            break;
        for (uint32_t end = child + ARITY < count ? child + ARITY : count; ++child < end;) {
            if (items[child].bound_ns < items[least].bound_ns)
                least = child;
        }
        if (items[least].bound_ns >= item.bound_ns)
            break;
        put(adm, job_class, place, items[least]);
        place = least;
    }
    put(adm, job_class, place, item);
}

static void sift_up(struct lx_admission *adm, unsigned job_class, uint32_t place,
                    struct lx_oldest_item item)
{
    const struct lx_oldest_item *items = adm->space.oldest[job_class];

    while (place > 0 && items[(place - 1) / ARITY].bound_ns > item.bound_ns) {
        put(adm, job_class, place, items[(place - 1) / ARITY]);
        place = (place - 1) / ARITY;
    }
    put(adm, job_class, place, item);
}

void lx_oldest_join(struct lx_admission *adm, struct lx_actor_entry *actor, unsigned job_class,
                    uint64_t since_ns)
{
    struct lx_oldest_item item = {.bound_ns = since_ns, .actor = actor};

    if (adm->space.oldest_at[job_class][actor->slot] != 0)
        return; /* an old bound is a bound */
    LX_ASSERT(adm->oldest_count[job_class] < adm->space.capacity);
    if (adm->oldest_count[job_class] == 0)
        adm->oldest_left[job_class] = true;
    put(adm, job_class, adm->oldest_count[job_class]++, item);
}

static void take_out(struct lx_admission *adm, struct lx_actor_entry *actor, unsigned job_class)
{
    struct lx_oldest_item *items = adm->space.oldest[job_class];
    uint32_t place = adm->space.oldest_at[job_class][actor->slot],
             count = --adm->oldest_count[job_class];
    struct lx_oldest_item last = items[count];

    LX_ASSERT(place != 0 && items[place - 1].actor == actor);
    adm->space.oldest_at[job_class][actor->slot] = 0;
    if (--place == 0)
        adm->oldest_left[job_class] = true;
    if (place == count)
        return;
    if (place > 0 && last.bound_ns < items[(place - 1) / ARITY].bound_ns)
        sift_up(adm, job_class, place, last);
    else
        sift_down(adm, job_class, place, last);
}

void lx_oldest_leave(struct lx_admission *adm, struct lx_actor_entry *actor)
{
    for (unsigned job_class = 0; job_class < LX_CLASSES; job_class++) {
        if (adm->space.oldest_at[job_class][actor->slot] != 0)
            take_out(adm, actor, job_class);
    }
}

static uint64_t oldest_of_actor(const struct lx_actor_entry *actor, unsigned job_class)
{
    uint64_t since_ns = LANEX_TIME_NEVER;

    for (unsigned list = 0; list < LX_LISTS; list++) {
        const struct lx_job_entry *head = actor->queue->lists[job_class][list];
        if (head != NULL && head->since_ns < since_ns)
            since_ns = head->since_ns;
    }
    return since_ns;
}

bool lx_oldest_look(struct lx_admission *adm, unsigned job_class, uint64_t *ret_since_ns)
{
    struct lx_oldest_item *items = adm->space.oldest[job_class];

    for (unsigned left = LX_OLDEST_SLICE; left > 0; left--) {
        struct lx_oldest_item top = items[0];
        uint64_t since_ns = oldest_of_actor(top.actor, job_class);

        LX_ASSERT(adm->oldest_count[job_class] > 0 && since_ns >= top.bound_ns);
        if (since_ns == top.bound_ns) {
            adm->oldest_left[job_class] = false;
            adm->oldest_ns[job_class] = since_ns;
            *ret_since_ns = since_ns;
            return true;
        }
        if (since_ns == LANEX_TIME_NEVER) {
            take_out(adm, top.actor, job_class);
        } else {
            top.bound_ns = since_ns;
            sift_down(adm, job_class, 0, top);
        }
    }
    *ret_since_ns = items[0].bound_ns;
    return false;
}

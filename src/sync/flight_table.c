/*
 * Values, builds, and the table of keys that is behind a flight.
 */
#include "sync/assert.h"
#include "sync/seams.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* Before uthash.h, which single_flight.h includes. */
#define uthash_malloc(size)       lx_allocate(size)
#define uthash_free(memory, size) lx_release(memory)
#define HASH_NONFATAL_OOM         1
static _Thread_local bool hash_oom;
#define uthash_nonfatal_oom(element) (hash_oom = true)
#include "sync/single_flight.h"

void *lx_flight_allocate(size_t size)
{
    int saved = errno;
    void *memory = lx_allocate_zeroed(size);

    errno = saved;
    return memory;
}

/* ---- values ---- */

void *lanex_flight_value_data(const lanex_flight_value *value)
{
    return value->data;
}

uint64_t lanex_flight_value_generation(const lanex_flight_value *value)
{
    return value->generation;
}

lanex_flight_value *lanex_flight_value_ref(lanex_flight_value *value)
{
    if (value != NULL) {
        /* relaxed: a new reference is made from one that already keeps the value alive */
        uint32_t before = atomic_fetch_add_explicit(&value->refs, 1, memory_order_relaxed);

        LX_ASSERT(before != 0 && before != UINT32_MAX);
    }
    return value;
}

void lanex_flight_value_unref(lanex_flight_value *value)
{
    uint32_t before;

    if (value == NULL)
        return;
    /* acq_rel: partners are the other threads' fetch_sub here: the last one destroys after all uses
     */
    before = atomic_fetch_sub_explicit(&value->refs, 1, memory_order_acq_rel);
    LX_ASSERT(before != 0);
    if (before != 1)
        return;
    if (value->destroy != NULL && value->data != NULL)
        value->destroy(value->data);
    lx_release(value);
}

/* ---- builds ---- */

struct lx_flight_build *lx_flight_build_ref(struct lx_flight_build *build)
{
    /* relaxed: as for values */
    atomic_fetch_add_explicit(&build->refs, 1, memory_order_relaxed);
    return build;
}

void lx_flight_build_unref(struct lx_flight_build *build)
{
    /* acq_rel: as for values */
    if (build == NULL || atomic_fetch_sub_explicit(&build->refs, 1, memory_order_acq_rel) != 1)
        return;
    lanex_flight_value_unref(build->value);
    lx_release(build);
}

int lx_flight_build_prepare(struct lx_flight_call *c)
{
    struct lx_flight_build *build = lx_flight_allocate(sizeof *build);
    lanex_flight_value *value = lx_flight_allocate(sizeof *value);

    if (build == NULL || value == NULL) {
        lx_release(build);
        lx_release(value);
        return -ENOMEM;
    }
    atomic_init(&value->refs, 1);
    value->generation = c->request->generation;
    value->destroy = c->flight->destroy;
    atomic_init(&build->refs, 1);
    build->state = LX_BUILD_RUNNING;
    build->generation = c->request->generation;
    build->value = value;
    build->flight = c->flight;
    build->hash = c->hash;
    build->request = c->request;
    c->build = build;
    return 0;
}

/* ---- the table ---- */

struct lx_flight_entry *lx_flight_find(lanex_flight *flight, uint64_t hash, const void *key,
                                       size_t key_length)
{
    struct lx_flight_entry *found = NULL;

    HASH_FIND_BYHASHVALUE(hh, flight->table, key, key_length, (unsigned)hash, found);
    return found;
}

/* Under the mutex. False: no memory for it. The length is uthash's macro. */
/* NOLINTNEXTLINE(readability-function-size) */
static bool add(struct lx_flight_call *c, struct lx_flight_entry *e)
{
    lanex_flight *flight = c->flight;

    hash_oom = false;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, flight->table, e->key, e->key_length, (unsigned)c->hash, e);
    if (hash_oom)
        return false;
    e->in_table = true;
    lx_flight_count(&flight->counters.keys);
    return true;
}

void lx_flight_take_out(lanex_flight *flight, struct lx_flight_entry *e)
{
    HASH_DEL(flight->table, e);
    e->in_table = false;
    lx_flight_uncount(&flight->counters.keys);
}

void lx_flight_entry_free(struct lx_flight_entry *e)
{
    lanex_flight_value_unref(e->value);
    lx_release(e);
}

static struct lx_flight_entry *entry_make(const lanex_flight_request *request)
{
    struct lx_flight_entry *e = lx_flight_allocate(sizeof *e + request->key_length);

    if (e != NULL) {
        e->key_length = request->key_length;
        memcpy(e->key, request->key, request->key_length);
    }
    return e;
}

int lx_flight_enter(struct lx_flight_call *c)
{
    lanex_flight *flight = c->flight;
    const lanex_flight_request *request = c->request;
    struct lx_flight_entry *made = NULL, *e;
    bool oom = false;

    for (;;) {
        lx_mutex_lock(&flight->mutex);
        e = lx_flight_find(flight, c->hash, request->key, request->key_length);
        if (e == NULL && made != NULL) {
            oom = !add(c, made);
            if (!oom) {
                e = made;
                made = NULL;
            }
        }
        if (e != NULL) {
            e->calls++;
            flight->inside++;
        }
        lx_mutex_unlock(&flight->mutex);
        if (e != NULL || oom)
            break;
        made = entry_make(request);
        if (made == NULL)
            return -ENOMEM;
    }
    lx_release(made);
    c->entry = e;
    return oom ? -ENOMEM : 0;
}

void lx_flight_leave(struct lx_flight_call *c)
{
    lanex_flight *flight = c->flight;
    struct lx_flight_entry *e = c->entry;
    bool last;

    if (e == NULL)
        return;
    c->entry = NULL;
    lx_mutex_lock(&flight->mutex);
    LX_ASSERT(e->calls > 0 && flight->inside > 0);
    e->calls--;
    flight->inside--;
    if (e->calls == 0 && e->in_table && e->mark == NULL && e->value == NULL)
        lx_flight_take_out(flight, e);
    last = e->calls == 0 && !e->in_table;
    lx_mutex_unlock(&flight->mutex);
    if (last)
        lx_flight_entry_free(e);
}

#include "runtime/actor_table.h"

#include <errno.h>
#include <string.h>

#include "runtime/actor.h"
#include "sync/assert.h"
#include "sync/seams.h"

#define BUCKETS_FIRST 16u
/* Actors a bucket before the table doubles: two cost a look at half a chain more on average, and
 * save half of the buckets' memory. */
#define CHAIN_MAX 2u

void lx_actor_table_init(struct lx_actor_table *table)
{
    memset(table, 0, sizeof *table);
    lx_hash_seed_draw(&table->seed);
}

void lx_actor_table_fini(struct lx_actor_table *table)
{
    LX_ASSERT(table->count == 0);
    lx_release(table->buckets);
    table->buckets = NULL;
}

static size_t bucket_of(const struct lx_actor_table *table, const void *key, size_t key_length)
{
    return (size_t)lx_hash(&table->seed, key, key_length) & table->mask;
}

struct lanex_actor *lx_actor_table_find(const struct lx_actor_table *table, const void *key,
                                        size_t key_length)
{
    struct lanex_actor *actor;

    if (table->count == 0)
        return NULL;
    actor = table->buckets[bucket_of(table, key, key_length)];
    while (actor != NULL &&
           (actor->key_length != key_length || memcmp(actor->key, key, key_length) != 0))
        actor = actor->table_next;
    return actor;
}

static void link_actor(struct lx_actor_table *table, struct lanex_actor *actor)
{
    struct lanex_actor **bucket = &table->buckets[bucket_of(table, actor->key, actor->key_length)];

    actor->table_next = *bucket;
    *bucket = actor;
}

/* Moves everything to twice as many buckets. */
static int grow(struct lx_actor_table *table)
{
    struct lx_actor_table larger = *table;
    size_t buckets = table->buckets == NULL ? BUCKETS_FIRST : 2 * (table->mask + 1);
    struct lanex_actor *actor, *next;

    larger.buckets = lx_allocate_zeroed(buckets * sizeof *larger.buckets);
    if (larger.buckets == NULL)
        return -ENOMEM;
    larger.mask = buckets - 1;
    for (size_t i = 0; table->buckets != NULL && i <= table->mask; i++) {
        for (actor = table->buckets[i]; actor != NULL; actor = next) {
            next = actor->table_next;
            link_actor(&larger, actor);
        }
    }
    lx_release(table->buckets);
    *table = larger;
    return 0;
}

int lx_actor_table_add(struct lx_actor_table *table, struct lanex_actor *actor)
{
    if (table->buckets == NULL || table->count >= CHAIN_MAX * (table->mask + 1)) {
        int rc = grow(table);
        if (rc < 0)
            return rc;
    }
    link_actor(table, actor);
    table->count++;
    return 0;
}

void lx_actor_table_remove(struct lx_actor_table *table, struct lanex_actor *actor)
{
    struct lanex_actor **link = &table->buckets[bucket_of(table, actor->key, actor->key_length)];

    while (*link != actor) {
        LX_ASSERT(*link != NULL);
        link = &(*link)->table_next;
    }
    /* The actor's own link stays, for a walk that stands at it. */
    *link = actor->table_next;
    table->count--;
}

struct lanex_actor *lx_actor_table_next(const struct lx_actor_table *table,
                                        const struct lanex_actor *actor)
{
    size_t bucket = 0;

    if (table->buckets == NULL)
        return NULL;
    if (actor != NULL) {
        if (actor->table_next != NULL)
            return actor->table_next;
        bucket = bucket_of(table, actor->key, actor->key_length) + 1;
    }
    while (bucket <= table->mask && table->buckets[bucket] == NULL)
        bucket++;
    return bucket <= table->mask ? table->buckets[bucket] : NULL;
}

/*
 * Keys to actors: a hash table whose chains run through the actors themselves, so that an entry
 * costs its link and its share of the buckets. It has no lock of its own and never shrinks.
 */
#ifndef LX_RUNTIME_ACTOR_TABLE_H
#define LX_RUNTIME_ACTOR_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "sync/hash.h"

struct lanex_actor;

struct lx_actor_table {
    struct lanex_actor **buckets; /* NULL before the first actor */
    size_t mask;                  /* number of buckets - 1: a power of two */
    size_t count;
    struct lx_hash_seed seed;
};

/* Allocates nothing. */
void lx_actor_table_init(struct lx_actor_table *table);
/* The table must be empty. */
void lx_actor_table_fini(struct lx_actor_table *table);

/* NULL: not there. */
struct lanex_actor *lx_actor_table_find(const struct lx_actor_table *table, const void *key,
                                        size_t key_length);
/* The actor's key must not be there. -ENOMEM: nothing was changed. */
int lx_actor_table_add(struct lx_actor_table *table, struct lanex_actor *actor);
/* The actor must be there. */
void lx_actor_table_remove(struct lx_actor_table *table, struct lanex_actor *actor);
/*
 * The one after `actor`, or the first for NULL; NULL at the end. In no particular order; the table
 * must not change in between, except by removing what was returned before.
 */
struct lanex_actor *lx_actor_table_next(const struct lx_actor_table *table,
                                        const struct lanex_actor *actor);

#endif

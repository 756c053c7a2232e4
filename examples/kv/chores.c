/* What a database needs beside its clients' requests, as jobs of class maintenance. */
#include "conn.h"

/* Coalesce keys: one waiting job of each kind per database is enough. */
#define COALESCE_EXPIRY  4u
#define COALESCE_FREEING 5u
/* A slice: what a client's request may have to wait for, well under a millisecond. */
#define EXPIRE_MAX       1000u
#define FREE_BUCKETS_MAX 2048u

/* Lane mutating: it changes the store, if only by what nobody can see any more. */
static void body_expire(lanex_job *job, void *context, void *arg)
{
    (void)job;
    struct kv_db *db = context;
    struct kv_chore *chore = arg;
    kv_body_begin(db, KV_STAT_MAINTENANCE);
    chore->more = kv_store_expire_due(db->store, kv_now_ms(), EXPIRE_MAX) == EXPIRE_MAX;
    kv_db_publish(db);
    kv_body_end(db, KV_STAT_MAINTENANCE);
}

/*
 * Lane maintenance_commit: what was flushed is out of every reader's sight, but the list of it is
 * the store's, which a write (another FLUSHDB) changes.
 */
static void body_free(lanex_job *job, void *context, void *arg)
{
    (void)job;
    struct kv_db *db = context;
    struct kv_chore *chore = arg;
    kv_body_begin(db, KV_STAT_MAINTENANCE);
    chore->more = kv_store_free_trash(db->store, FREE_BUCKETS_MAX);
    atomic_store_explicit(&db->has_trash, chore->more, memory_order_relaxed);
    kv_body_end(db, KV_STAT_MAINTENANCE);
}

static void submit_expiry(struct kv_db *db)
{
    lanex_job_options options = {
        .job_class = LANEX_CLASS_MAINTENANCE,
        .lane = LANEX_LANE_MUTATING,
        .run = body_expire,
        .label = "kv::expire",
        .coalesce_key = COALESCE_EXPIRY,
    };
    db->expiry.more = false;
    kv_submit(db->server, &db->expiry.task, db, &options);
}

static void submit_freeing(struct kv_db *db)
{
    lanex_job_options options = {
        .job_class = LANEX_CLASS_MAINTENANCE,
        .lane = LANEX_LANE_MAINTENANCE_COMMIT,
        .run = body_free,
        .label = "kv::free",
        .coalesce_key = COALESCE_FREEING,
    };
    db->freeing.more = false;
    kv_submit(db->server, &db->freeing.task, db, &options);
}

static void expiry_done(struct kv_server *server, struct kv_task *task,
                        lanex_completion *completion)
{
    struct kv_chore *chore = (struct kv_chore *)task;
    if (completion && chore->more && !server->stopping)
        submit_expiry(chore->db);
    else
        kv_chores_note(chore->db);
}

static void freeing_done(struct kv_server *server, struct kv_task *task,
                         lanex_completion *completion)
{
    struct kv_chore *chore = (struct kv_chore *)task;
    if (completion && chore->more && !server->stopping)
        submit_freeing(chore->db);
    else
        kv_chores_note(chore->db);
}

void kv_chores_init(struct kv_db *db)
{
    atomic_store_explicit(&db->next_expiry_ms, KV_TIME_NEVER, memory_order_relaxed);
    db->expiry = (struct kv_chore){
        .task = {.done = expiry_done, .stat = KV_STAT_MAINTENANCE, .commands = 1}, .db = db};
    db->freeing = (struct kv_chore){
        .task = {.done = freeing_done, .stat = KV_STAT_MAINTENANCE, .commands = 1}, .db = db};
}

static bool wants_ticks(struct kv_db *db)
{
    return atomic_load_explicit(&db->next_expiry_ms, memory_order_relaxed) != KV_TIME_NEVER ||
           atomic_load_explicit(&db->has_trash, memory_order_relaxed);
}

void kv_chores_note(struct kv_db *db)
{
    if (wants_ticks(db))
        kv_net_want_tick(db->server);
}

void kv_chores_tick(struct kv_server *server)
{
    int64_t now_ms = kv_now_ms();
    if (server->stopping)
        return;
    for (unsigned i = 0; i < KV_DATABASES; i++) {
        struct kv_db *db = &server->databases[i];
        if (!db->expiry.task.in_flight &&
            atomic_load_explicit(&db->next_expiry_ms, memory_order_relaxed) <= now_ms)
            submit_expiry(db);
        if (!db->freeing.task.in_flight &&
            atomic_load_explicit(&db->has_trash, memory_order_relaxed))
            submit_freeing(db);
        kv_chores_note(db);
    }
}

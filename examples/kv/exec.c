/* Groups of requests as jobs of the executor: submission, bodies, completions. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conn.h"

/* Completions taken from the port at a time. */
#define DRAIN_MAX 128u
/* Bytes of answers behind which a body ends early; the group's rest becomes another job. */
#define BODY_OUTPUT_MAX KV_OUTPUT_HIGH
/* How long a slice of KEYS goes on, and how many buckets it looks at between two looks at the
   clock. It bounds what a write behind it waits. */
#define SLICE_NS      UINT64_C(250000)
#define SLICE_BUCKETS 256u
/* A reply buffer up to this size is kept for the connection's next group. */
#define REPLY_KEPT_MAX (64u * 1024u)
#define ARGS_KEPT_MAX  1024u
/* What part of the bytes that may be held for clients may be answers not even counted yet. */
#define UNTAKEN_SHARE 8u

uint64_t kv_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

int64_t kv_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- submission ---- */

static void finish_task(struct kv_server *server, struct kv_task *task,
                        lanex_completion *completion, uint64_t now_ns)
{
    struct kv_lane_stats *stats = &server->stats[task->stat];
    stats->in_flight--;
    stats->jobs++;
    stats->commands += task->commands;
    kv_histogram_add(&stats->latency, now_ns - task->submitted_ns);
    task->in_flight = false;
    task->job = 0;
    task->done(server, task, completion);
}

void kv_submit(struct kv_server *server, struct kv_task *task, struct kv_db *db,
               const lanex_job_options *options)
{
    if (server->batch_count == KV_BATCH_MAX)
        kv_batch_flush(server);
    uint32_t at = server->batch_count++;
    lanex_job_options *own = &server->batch_options[at];
    *own = *options;
    own->size = sizeof *own;
    own->arg = task;
    own->sink = (lanex_sink){.kind = LANEX_SINK_PORT, .port = server->port};
    server->batch[at] = (lanex_submission){.actor = db->actor, .options = own};
    server->batch_tasks[at] = task;
    task->in_flight = true;
    server->stats[task->stat].in_flight++;
}

void kv_batch_flush(struct kv_server *server)
{
    uint32_t count = server->batch_count;
    uint64_t jobs[KV_BATCH_MAX];
    if (count == 0)
        return;
    uint64_t now_ns = kv_now_ns();
    for (uint32_t i = 0; i < count; i++)
        server->batch_tasks[i]->submitted_ns = now_ns;
    server->batch_count = 0;
    int rc = lanex_submit_batch(server->batch, count, jobs);
    for (uint32_t i = 0; i < count; i++) {
        struct kv_task *task = server->batch_tasks[i];
        if (rc < 0) { /* all or none: none */
            task->next_refused = server->refused;
            server->refused = task;
        } else {
            task->job = jobs[i];
        }
    }
}

void kv_refused_finish(struct kv_server *server)
{
    while (server->refused) {
        struct kv_task *task = server->refused;
        server->refused = task->next_refused;
        finish_task(server, task, NULL, kv_now_ns());
    }
}

void kv_completions_drain(struct kv_server *server)
{
    lanex_completion *completions[DRAIN_MAX];
    int count;
    do {
        count = lanex_port_drain(server->port, completions, DRAIN_MAX);
        uint64_t now_ns = kv_now_ns();
        for (int i = 0; i < count; i++) {
            finish_task(server, lanex_completion_arg(completions[i]), completions[i], now_ns);
            lanex_completion_release(completions[i]);
        }
    } while (count == (int)DRAIN_MAX);
}

/* ---- bodies: on a worker, inside the lane's gate ---- */

void kv_body_begin(struct kv_db *db, enum kv_stat stat)
{
    atomic_fetch_add_explicit(&db->server->running[stat].count, 1, memory_order_relaxed);
}

void kv_body_end(struct kv_db *db, enum kv_stat stat)
{
    atomic_fetch_sub_explicit(&db->server->running[stat].count, 1, memory_order_relaxed);
}

void kv_db_publish(struct kv_db *db)
{
    const struct kv_store *store = db->store;
    atomic_store_explicit(&db->keys, kv_store_count(store), memory_order_relaxed);
    atomic_store_explicit(&db->expires, store->ttl.count, memory_order_relaxed);
    atomic_store_explicit(&db->bytes, store->bytes, memory_order_relaxed);
    atomic_store_explicit(&db->next_expiry_ms, kv_store_next_expiry(store), memory_order_relaxed);
    atomic_store_explicit(&db->has_trash, kv_store_has_trash(store), memory_order_relaxed);
}

/*
 * Whether so much has been answered faster than the network thread takes it that this job had
 * better come again: it then does nothing, and its completion, which queues behind those of the
 * others, makes it another job. Else all clients' answers would be made before one of them is
 * counted.
 */
static bool too_much_untaken(const struct kv_server *server)
{
    return server->options.held_max > 0 &&
           atomic_load_explicit(&server->untaken, memory_order_relaxed) >
               server->options.held_max / UNTAKEN_SHARE;
}

static void note_untaken(struct kv_server *server, struct kv_group *group)
{
    group->untaken = group->reply.capacity;
    atomic_fetch_add_explicit(&server->untaken, group->untaken, memory_order_relaxed);
}

static void run_commands(struct kv_db *db, struct kv_group *group)
{
    if (too_much_untaken(db->server)) {
        group->task.commands = 0; /* they count when they are run */
        return;
    }
    struct kv_reply *reply = &group->reply;
    struct kv_call call = {.store = db->store, .reply = reply, .now_ms = kv_now_ms()};
    while (group->next < group->count && reply->length < BODY_OUTPUT_MAX) {
        const struct kv_group_command *command = &group->commands[group->next];
        call.base = group->region + command->request_at;
        call.args = group->args.items + command->args_from;
        call.argc = command->argc;
        command->command->run(&call);
        if (reply->failed) {
            kv_reply_cut(reply, group->reply_sure);
            kv_reply_error(reply, "ERR the answer is over the output limit, or memory is short");
        }
        group->reply_sure = reply->length;
        group->next++;
    }
    note_untaken(db->server, group);
}

static void body_read(lanex_job *job, void *context, void *arg)
{
    (void)job;
    kv_body_begin(context, KV_STAT_READ);
    run_commands(context, arg);
    kv_body_end(context, KV_STAT_READ);
}

static void body_write(lanex_job *job, void *context, void *arg)
{
    (void)job;
    kv_body_begin(context, KV_STAT_WRITE);
    run_commands(context, arg);
    kv_db_publish(context);
    kv_body_end(context, KV_STAT_WRITE);
}

static void body_keys(lanex_job *job, void *context, void *arg)
{
    (void)job;
    struct kv_db *db = context;
    struct kv_group *group = arg;
    kv_body_begin(db, KV_STAT_READ);
    const struct kv_group_command *command = &group->commands[0];
    const struct kv_arg *pattern = &group->args.items[command->args_from + 1];
    struct kv_str text = {group->region + command->request_at + pattern->offset, pattern->length};
    int64_t now_ms = kv_now_ms();
    uint64_t end_ns = kv_now_ns() + SLICE_NS;
    bool more;
    do {
        more = kv_keys_slice(db->store, text, &group->cursor, SLICE_BUCKETS, now_ms, &group->reply,
                             &group->found);
    } while (more && kv_now_ns() < end_ns);
    if (!more)
        group->next = 1;
    group->task.commands = more ? 0 : 1; /* it counts once, however many slices it is */
    note_untaken(db->server, group);
    kv_body_end(db, KV_STAT_READ);
}

static void body_info(lanex_job *job, void *context, void *arg)
{
    (void)job;
    struct kv_group *group = arg;
    kv_body_begin(context, KV_STAT_STATUS);
    const struct kv_group_command *command = &group->commands[0];
    struct kv_str section = {"", 0};
    if (command->argc > 1) {
        const struct kv_arg *wanted = &group->args.items[command->args_from + 1];
        section =
            (struct kv_str){group->region + command->request_at + wanted->offset, wanted->length};
    }
    kv_info_write(context, group->info, section, &group->reply);
    group->reply_sure = group->reply.length;
    group->next = 1;
    kv_body_end(context, KV_STAT_STATUS);
}

/* ---- groups ---- */

static bool is_keys(const struct kv_group *group)
{
    return group->commands[0].command->run == kv_cmd_keys;
}

/* What the job could not answer, and why. */
static void answer_rest(struct kv_group *group, lanex_completion *completion)
{
    const char *code = completion ? lanex_completion_code(completion) : "submission_refused";
    const char *message = completion ? lanex_completion_message(completion) : "";
    kv_reply_cut(&group->reply, group->reply_sure);
    for (; group->next < group->count; group->next++)
        kv_reply_error(&group->reply, "ERR the request was not carried out: %s%s%s", code,
                       message[0] ? ": " : "", message);
}

/* Puts the header before the keys that the slices found. */
static void finish_keys(struct kv_conn *conn)
{
    struct kv_group *group = &conn->group;
    struct kv_reply *header = &conn->server->scratch;
    kv_reply_cut(header, 0);
    if (group->reply.failed) {
        kv_reply_cut(&group->reply, 0);
        kv_reply_error(&group->reply,
                       "ERR the answer is over the output limit, or memory is short");
    } else {
        kv_reply_array(header, group->found);
        kv_out_append(conn, header->data, header->length);
    }
}

static void group_done(struct kv_server *server, struct kv_task *task, lanex_completion *completion)
{
    struct kv_group *group = (struct kv_group *)task;
    atomic_fetch_sub_explicit(&server->untaken, group->untaken, memory_order_relaxed);
    group->untaken = 0;
    struct kv_conn *conn =
        (struct kv_conn *)(void *)((char *)group - offsetof(struct kv_conn, group));
    bool ok = completion && lanex_completion_status(completion) == LANEX_STATUS_OK;
    if (!ok)
        answer_rest(group, completion);
    if (group->lane == KV_LANE_WRITE)
        kv_chores_note(group->db);
    bool whole = group->next == group->count;
    if (is_keys(group) && ok && whole)
        finish_keys(conn);
    if (whole || !is_keys(group)) /* unfinished slices gather in one buffer */
        kv_out_take(conn, &group->reply);
    group->reply_sure = 0;
    if (whole || conn->state == KV_CONN_CLOSED)
        kv_group_end(conn);
    kv_conn_advance(conn);
}

void kv_group_submit(struct kv_conn *conn)
{
    struct kv_group *group = &conn->group;
    struct kv_task *task = &group->task;
    lanex_job_options options = {.job_class = LANEX_CLASS_INTERACTIVE};
    task->done = group_done;
    task->commands = group->count - group->next;
    switch (group->lane) {
    case KV_LANE_READ:
        options.lane = LANEX_LANE_PURE_READ;
        options.run = is_keys(group) ? body_keys : body_read;
        options.label = is_keys(group) ? "kv::keys" : "kv::read";
        task->stat = KV_STAT_READ;
        break;
    case KV_LANE_WRITE:
        options.lane = LANEX_LANE_MUTATING;
        options.run = body_write;
        options.label = "kv::write";
        task->stat = KV_STAT_WRITE;
        break;
    case KV_LANE_STATUS:
        options.lane = LANEX_LANE_SERIAL_STATUS;
        options.run = body_info;
        options.label = "kv::info";
        task->stat = KV_STAT_STATUS;
        kv_info_fill(conn->server, group->info);
        break;
    case KV_LANE_HEAVY:
        options.lane = LANEX_LANE_HEAVY_INIT;
        options.run = kv_save_run;
        options.install = kv_save_install;
        options.label = "kv::save";
        task->stat = KV_STAT_HEAVY;
        group->db = &conn->server->databases[0];
        break;
    case KV_LANE_NETWORK:
        abort(); /* such requests never join a group */
    }
    kv_submit(conn->server, task, group->db, &options);
}

void kv_group_cancel(struct kv_conn *conn)
{
    struct kv_server *server = conn->server;
    struct kv_task *task = &conn->group.task;
    if (!task->in_flight || conn->group.lane == KV_LANE_HEAVY) /* a save goes through */
        return;
    if (task->job == 0) /* still in the batch */
        kv_batch_flush(server);
    if (task->in_flight && task->job != 0)
        (void)lanex_cancel(server->executor, task->job);
}

void kv_group_end(struct kv_conn *conn)
{
    struct kv_group *group = &conn->group;
    free(group->own_region);
    free(group->info);
    kv_save_free(conn->server, group->save);
    group->save = NULL;
    if (group->args.capacity > ARGS_KEPT_MAX)
        kv_args_free(&group->args);
    if (group->reply.capacity > REPLY_KEPT_MAX)
        kv_reply_free(&group->reply);
    kv_reply_cut(&group->reply, 0);
    group->args.count = 0;
    group->own_region = NULL;
    group->own_bytes = 0;
    group->region = NULL;
    group->info = NULL;
    group->count = group->next = 0;
    group->reply_sure = 0;
    group->cursor = group->found = 0;
}

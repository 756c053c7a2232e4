/*
 * SAVE, and the load at start: both heavy_init.
 *
 * SAVE takes an image of all databases at one instant: it holds the write gates of all for the
 * moment in which the images begin. What follows goes on beside the clients: each slice of an
 * image is a short hold of the database's read gate, and the file is written outside of any.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "snapshot.h"

/* Bounds of a slice, which is what a write may have to wait for. */
#define SLICE_BUCKETS 512u
#define SLICE_BYTES   (256u * 1024u)

struct kv_save {
    struct kv_snapshot_writer *writer;
    struct kv_image *images[KV_DATABASES];
};

static lanex_epoch *epoch_of(struct kv_server *server, unsigned index)
{
    return lanex_actor_epoch(server->databases[index].actor);
}

/* The caller holds the write gate. */
static struct kv_image *detach(struct kv_server *server, struct kv_save *save, unsigned index)
{
    struct kv_image *image = save->images[index];
    save->images[index] = NULL;
    if (image)
        kv_image_detach(server->databases[index].store, image);
    return image;
}

static void end_image(struct kv_server *server, struct kv_save *save, unsigned index)
{
    if (!save->images[index])
        return;
    lanex_epoch_write_acquire(epoch_of(server, index));
    struct kv_image *image = detach(server, save, index);
    lanex_epoch_write_release(epoch_of(server, index));
    kv_image_free(image); /* may be much to free: not inside the gate */
}

void kv_save_free(struct kv_server *server, struct kv_save *save)
{
    if (!save)
        return;
    for (unsigned i = 0; i < KV_DATABASES; i++)
        end_image(server, save, i);
    kv_snapshot_writer_destroy(save->writer);
    free(save);
}

/* All images at one instant: no write falls between the first and the last. */
static int begin_images(struct kv_server *server, struct kv_save *save)
{
    int rc = 0;
    for (unsigned i = 0; i < KV_DATABASES; i++)
        lanex_epoch_write_acquire(epoch_of(server, i));
    for (unsigned i = 0; i < KV_DATABASES && rc == 0; i++)
        rc = kv_image_begin(server->databases[i].store, &save->images[i]);
    for (unsigned i = 0; i < KV_DATABASES; i++)
        lanex_epoch_write_release(epoch_of(server, i));
    return rc;
}

static void add_entry(const struct kv_entry *entry, void *arg)
{
    kv_snapshot_add(arg, entry);
}

static void write_section(struct kv_server *server, struct kv_save *save, unsigned index)
{
    bool more = true;
    kv_snapshot_begin_section(save->writer, index);
    while (more) {
        lanex_epoch_read_acquire(epoch_of(server, index));
        for (unsigned i = 0;
             more && i < SLICE_BUCKETS && kv_snapshot_buffered(save->writer) < SLICE_BYTES; i++)
            more = kv_image_slice(save->images[index], 1, add_entry, save->writer);
        lanex_epoch_read_release(epoch_of(server, index));
        kv_snapshot_flush(save->writer);
    }
    kv_snapshot_end_section(save->writer);
}

static int save_all(struct kv_server *server, struct kv_save *save)
{
    int rc = kv_snapshot_writer_create(server->options.snapshot, kv_now_ms(), &save->writer);
    if (rc == 0)
        rc = begin_images(server, save);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < KV_DATABASES; i++) {
        write_section(server, save, i);
        if (i > 0) /* the first is this actor's own: its end is the install step's */
            end_image(server, save, i);
    }
    rc = kv_snapshot_writer_finish(save->writer);
    return rc < 0 ? rc : kv_snapshot_writer_publish(save->writer);
}

/* Runs beside readers and a writer of the first database's actor. */
void kv_save_run(lanex_job *job, void *context, void *arg)
{
    (void)job;
    struct kv_db *db = context;
    struct kv_group *group = arg;
    struct kv_server *server = db->server;
    kv_body_begin(db, KV_STAT_HEAVY);
    int rc = -ENOMEM;
    group->save = calloc(1, sizeof *group->save);
    if (!server->options.snapshot)
        kv_reply_error(&group->reply, "ERR no snapshot file: the server runs without --snapshot");
    else if (group->save && (rc = save_all(server, group->save)) == 0)
        kv_reply_status(&group->reply, "OK");
    else if (rc == -EBUSY)
        kv_reply_error(&group->reply, "ERR Background save already in progress");
    else
        kv_reply_error(&group->reply, "ERR the snapshot could not be written: %s", strerror(-rc));
    if (rc == 0)
        atomic_store_explicit(&server->saved_ms, kv_now_ms(), memory_order_relaxed);
    group->reply_sure = group->reply.length;
    group->next = 1;
    kv_body_end(db, KV_STAT_HEAVY);
}

/* Runs inside the write gate of the first database. */
void kv_save_install(lanex_job *job, void *context, void *arg)
{
    (void)job;
    struct kv_db *db = context;
    struct kv_group *group = arg;
    if (group->save)
        kv_image_free(detach(db->server, group->save, 0));
}

/* ---- load ---- */

struct load {
    const struct kv_snapshot *snapshot;
    uint32_t section;
    struct kv_store *store;
    lanex_ticket *ticket;
};

static void load_run(lanex_job *job, void *context, void *arg)
{
    (void)context;
    struct load *load = arg;
    char error[KV_SNAPSHOT_ERROR_MAX];
    int rc = kv_snapshot_build(load->snapshot, load->section, kv_now_ms(), &load->store, error);
    if (rc < 0)
        (void)lanex_job_respond_error(job, "load_failed", error[0] ? error : strerror(-rc), false);
}

static void load_install(lanex_job *job, void *context, void *arg)
{
    (void)job;
    struct kv_db *db = context;
    struct load *load = arg;
    kv_store_swap(db->store, load->store);
    kv_db_publish(db);
}

static int load_sections(struct kv_server *server, const struct kv_snapshot *snapshot)
{
    struct load loads[KV_SNAPSHOT_SECTIONS_MAX] = {0};
    int failed = 0;
    for (uint32_t i = 0; i < snapshot->sections_count; i++) {
        struct kv_db *db = &server->databases[snapshot->sections[i].database];
        loads[i].snapshot = snapshot;
        loads[i].section = i;
        lanex_job_options options = {
            .size = sizeof options,
            .lane = LANEX_LANE_HEAVY_INIT,
            .run = load_run,
            .install = load_install,
            .arg = &loads[i],
            .label = "kv::load",
        };
        int rc = lanex_submit_ticket(db->actor, &options, &loads[i].ticket);
        if (rc < 0) {
            fprintf(stderr, "lanex-kv: %s: %s\n", server->options.snapshot, strerror(-rc));
            failed = -1;
        }
    }
    for (uint32_t i = 0; i < snapshot->sections_count; i++) {
        if (!loads[i].ticket)
            continue;
        (void)lanex_ticket_wait(loads[i].ticket, LANEX_TIME_NEVER);
        const lanex_completion *completion = lanex_ticket_completion(loads[i].ticket);
        if (lanex_completion_status(completion) != LANEX_STATUS_OK) {
            fprintf(stderr, "lanex-kv: %s is refused: database %u: %s\n", server->options.snapshot,
                    snapshot->sections[i].database, lanex_completion_message(completion));
            failed = -1;
        }
        lanex_ticket_drop(loads[i].ticket);
        kv_store_destroy(loads[i].store); /* what was there before the install, or was not taken */
        kv_chores_note(&server->databases[snapshot->sections[i].database]);
    }
    return failed;
}

int kv_load(struct kv_server *server)
{
    char error[KV_SNAPSHOT_ERROR_MAX];
    struct kv_snapshot snapshot;
    int rc = kv_snapshot_open(server->options.snapshot, &snapshot, error);
    if (rc == -ENOENT)
        return 0; /* the first start */
    if (rc < 0) {
        fprintf(stderr, "lanex-kv: %s is refused: %s\n", server->options.snapshot,
                error[0] ? error : strerror(-rc));
        return -1;
    }
    rc = load_sections(server, &snapshot);
    kv_snapshot_close(&snapshot);
    return rc;
}

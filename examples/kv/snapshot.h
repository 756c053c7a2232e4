/*
 * The snapshot file: all databases as of one instant.
 *
 * Version 1, little endian throughout:
 *     header    "LXKVSNAP", u32 version, u32 sections, u64 created (Unix ms),
 *               KV_SNAPSHOT_SECTIONS_MAX times { u32 database, u32 zero, u64 offset, u64 bytes,
 *               u64 entries } of which `sections` are used and the rest zero,
 *               BLAKE2b-256 of all that
 *     sections  each a run of records { u32 key bytes, u32 value bytes, i64 expiry (Unix ms, or
 *               -1), key, value }, then the BLAKE2b-256 of the run (not counted in `bytes`);
 *               one behind the other, and nothing behind the last
 *
 * A file is written beside its final name, flushed to the disk, and renamed: the name always
 * stands for a whole snapshot. The reader believes nothing: every length is checked against the
 * bytes that are really there before memory is taken for it, so that memory is bounded by the
 * file's size whatever the file says. The checksum finds damage; it is no signature.
 */
#ifndef KV_SNAPSHOT_H
#define KV_SNAPSHOT_H

#include "store.h"

#define KV_SNAPSHOT_SECTIONS_MAX 16u
/* Bytes of a message that says what is wrong with a file. */
#define KV_SNAPSHOT_ERROR_MAX 160u

/* ---- writing ---- */

struct kv_snapshot_writer;

/*
 * Begins "<path>.<pid>.tmp". Errors: -errno of open, -ENOMEM, -ENAMETOOLONG. A writer that failed
 * once stays failed: the calls below do nothing then, and finish tells.
 */
int kv_snapshot_writer_create(const char *path, int64_t now_ms,
                              struct kv_snapshot_writer **ret_writer);
void kv_snapshot_begin_section(struct kv_snapshot_writer *writer, uint32_t database);
/* Copies the entry into memory, and does no more: it is for use inside a gate. */
void kv_snapshot_add(struct kv_snapshot_writer *writer, const struct kv_entry *entry);
/* Bytes that wait in memory for kv_snapshot_flush, which is for use outside a gate. */
size_t kv_snapshot_buffered(const struct kv_snapshot_writer *writer);
void kv_snapshot_flush(struct kv_snapshot_writer *writer);
void kv_snapshot_end_section(struct kv_snapshot_writer *writer);
/* Writes all out, and to the disk. Errors: the first that happened. */
int kv_snapshot_writer_finish(struct kv_snapshot_writer *writer);
/* Gives the finished file its name, for good. */
int kv_snapshot_writer_publish(struct kv_snapshot_writer *writer);
/* Removes the temporary file unless it was published. NULL is fine. */
void kv_snapshot_writer_destroy(struct kv_snapshot_writer *writer);

/* ---- reading ---- */

struct kv_snapshot_section {
    uint32_t database;
    uint64_t offset;
    uint64_t bytes;
    uint64_t entries;
};

struct kv_snapshot {
    int fd;
    uint32_t sections_count;
    int64_t created_ms;
    struct kv_snapshot_section sections[KV_SNAPSHOT_SECTIONS_MAX];
};

/*
 * Opens a file and checks its header and shape. Errors: -ENOENT and the like from open, -EBADMSG:
 * not a whole snapshot of a known version; `ret_error` then says why.
 */
int kv_snapshot_open(const char *path, struct kv_snapshot *ret_snapshot,
                     char ret_error[KV_SNAPSHOT_ERROR_MAX]);
void kv_snapshot_close(struct kv_snapshot *snapshot);
/*
 * Builds a store of one section; several may be built at once. What has expired by now_ms is left
 * out. Errors: -EBADMSG with `ret_error`, -ENOMEM, -errno of read; nothing is left behind then.
 */
int kv_snapshot_build(const struct kv_snapshot *snapshot, uint32_t section, int64_t now_ms,
                      struct kv_store **ret_store, char ret_error[KV_SNAPSHOT_ERROR_MAX]);

#endif

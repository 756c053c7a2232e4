#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "resp.h"
#include "snapshot_format.h"

/* Bytes read at a time. */
#define BUFFER_BYTES (256u * 1024u)

__attribute__((format(printf, 2, 3))) static int refuse(char *ret_error, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(ret_error, KV_SNAPSHOT_ERROR_MAX, format, list);
    va_end(list);
    return -EBADMSG;
}

/* All of [offset, offset + length), or -EBADMSG if the file ends before. */
static int read_at(int fd, void *to, size_t length, uint64_t offset)
{
    char *at = to;
    while (length > 0) {
        ssize_t got = pread(fd, at, length, (off_t)offset);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (got == 0)
            return -EBADMSG;
        at += got;
        length -= (size_t)got;
        offset += (uint64_t)got;
    }
    return 0;
}

static int check_rows(const unsigned char *header, uint64_t file_bytes, struct kv_snapshot *out,
                      char *ret_error)
{
    uint64_t at = SNAPSHOT_HEADER_BYTES;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < out->sections_count; i++) {
        const unsigned char *row = header + SNAPSHOT_FIXED_BYTES + i * SNAPSHOT_ROW_BYTES;
        struct kv_snapshot_section *section = &out->sections[i];
        *section = (struct kv_snapshot_section){
            .database = get_u32(row),
            .offset = get_u64(row + 8),
            .bytes = get_u64(row + 16),
            .entries = get_u64(row + 24),
        };
        if (section->database >= KV_SNAPSHOT_SECTIONS_MAX || seen & (1u << section->database))
            return refuse(ret_error, "section %" PRIu32 " names a bad or repeated database", i);
        seen |= 1u << section->database;
        uint64_t left = file_bytes - at;
        if (section->offset != at || left < SNAPSHOT_HASH_BYTES ||
            section->bytes > left - SNAPSHOT_HASH_BYTES)
            return refuse(ret_error, "section %" PRIu32 " does not lie inside the file", i);
        if (section->entries > section->bytes / SNAPSHOT_RECORD_BYTES)
            return refuse(ret_error, "section %" PRIu32 " claims more entries than fit", i);
        at += section->bytes + SNAPSHOT_HASH_BYTES;
    }
    return at == file_bytes ? 0 : refuse(ret_error, "bytes are left behind the last section");
}

static int check_header(struct kv_snapshot *out, uint64_t file_bytes, char *ret_error)
{
    unsigned char header[SNAPSHOT_HEADER_BYTES], sum[SNAPSHOT_HASH_BYTES];
    if (file_bytes < sizeof header)
        return refuse(ret_error, "shorter than a header");
    int rc = read_at(out->fd, header, sizeof header, 0);
    if (rc < 0)
        return rc == -EBADMSG ? refuse(ret_error, "shorter than a header") : rc;
    if (memcmp(header, SNAPSHOT_MAGIC, SNAPSHOT_MAGIC_BYTES) != 0)
        return refuse(ret_error, "not a snapshot: the mark is missing");
    if (get_u32(header + 8) != SNAPSHOT_VERSION)
        return refuse(ret_error, "version %" PRIu32 " is not known here", get_u32(header + 8));
    snapshot_hash hash;
    snapshot_hash_begin(&hash);
    snapshot_hash_add(&hash, header, sizeof header - sizeof sum);
    snapshot_hash_end(&hash, sum);
    if (memcmp(sum, header + sizeof header - sizeof sum, sizeof sum) != 0)
        return refuse(ret_error, "the header's checksum is wrong");
    out->sections_count = get_u32(header + 12);
    out->created_ms = (int64_t)get_u64(header + 16);
    if (out->sections_count > KV_SNAPSHOT_SECTIONS_MAX)
        return refuse(ret_error, "%" PRIu32 " sections are too many", out->sections_count);
    return check_rows(header, file_bytes, out, ret_error);
}

int kv_snapshot_open(const char *path, struct kv_snapshot *ret_snapshot,
                     char ret_error[KV_SNAPSHOT_ERROR_MAX])
{
    struct kv_snapshot out = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
    ret_error[0] = '\0';
    if (out.fd < 0)
        return -errno;
    struct stat stat;
    int rc = fstat(out.fd, &stat) < 0 ? -errno : 0;
    if (rc == 0 && !S_ISREG(stat.st_mode))
        rc = refuse(ret_error, "not a regular file");
    if (rc == 0)
        rc = check_header(&out, (uint64_t)stat.st_size, ret_error);
    if (rc < 0) {
        close(out.fd);
        return rc;
    }
    *ret_snapshot = out;
    return 0;
}

void kv_snapshot_close(struct kv_snapshot *snapshot)
{
    close(snapshot->fd);
    snapshot->fd = -1;
}

/* Reads one section front to back, hashing what it hands out. */
struct reader {
    int fd;
    uint64_t offset; /* of the next byte that is not in the buffer */
    uint64_t left;   /* bytes of the section not handed out yet */
    snapshot_hash hash;
    size_t at;
    size_t filled;
    unsigned char buffer[BUFFER_BYTES];
};

static int take(struct reader *reader, void *to, size_t length)
{
    if (length > reader->left)
        return -EBADMSG;
    unsigned char *out = to;
    reader->left -= length;
    while (length > 0) {
        size_t ready = reader->filled - reader->at;
        if (ready == 0) {
            /* `left` is already less by what is asked for here. */
            uint64_t unread = reader->left + length;
            size_t next = unread < BUFFER_BYTES ? (size_t)unread : BUFFER_BYTES;
            int rc = read_at(reader->fd, reader->buffer, next, reader->offset);
            if (rc < 0)
                return rc;
            snapshot_hash_add(&reader->hash, reader->buffer, next);
            reader->offset += next;
            reader->at = 0;
            reader->filled = ready = next;
        }
        size_t part = ready < length ? ready : length;
        memcpy(out, reader->buffer + reader->at, part);
        reader->at += part;
        out += part;
        length -= part;
    }
    return 0;
}

/* One record into the store. `scratch` holds key and value, and grows to what really is there. */
static int take_record(struct reader *reader, struct kv_store *store, char **scratch,
                       size_t *scratch_bytes, char *ret_error)
{
    unsigned char record[SNAPSHOT_RECORD_BYTES];
    int rc = take(reader, record, sizeof record);
    if (rc < 0)
        return rc == -EBADMSG ? refuse(ret_error, "a record is cut off") : rc;
    uint64_t key_bytes = get_u32(record), value_bytes = get_u32(record + 4);
    int64_t expiry = (int64_t)get_u64(record + 8);
    if (key_bytes > KV_BULK_MAX || value_bytes > KV_BULK_MAX ||
        key_bytes + value_bytes > reader->left)
        return refuse(ret_error, "a record claims more bytes than are left");
    if (expiry < SNAPSHOT_NO_EXPIRY || expiry == KV_TIME_NEVER)
        return refuse(ret_error, "a record has an impossible expiry");
    size_t bytes = (size_t)(key_bytes + value_bytes);
    if (!*scratch || bytes > *scratch_bytes) {
        char *grown = realloc(*scratch, bytes + 1); /* never nothing: an empty key has a place */
        if (!grown)
            return -ENOMEM;
        *scratch = grown;
        *scratch_bytes = bytes;
    }
    rc = take(reader, *scratch, bytes);
    if (rc < 0)
        return rc == -EBADMSG ? refuse(ret_error, "a record is cut off") : rc;
    struct kv_str key = {*scratch, (size_t)key_bytes};
    struct kv_str value = {*scratch + key_bytes, (size_t)value_bytes};
    if (kv_store_get(store, key, INT64_MIN)) /* a time at which nothing has expired */
        return refuse(ret_error, "a key stands twice in a section");
    return kv_store_set(store, key, value, expiry == SNAPSHOT_NO_EXPIRY ? KV_TIME_NEVER : expiry);
}

static int build(const struct kv_snapshot_section *section, struct reader *reader, int64_t now_ms,
                 struct kv_store *store, char *ret_error)
{
    char *scratch = NULL;
    size_t scratch_bytes = 0;
    int rc = 0;
    for (uint64_t i = 0; i < section->entries && rc == 0; i++)
        rc = take_record(reader, store, &scratch, &scratch_bytes, ret_error);
    free(scratch);
    if (rc < 0)
        return rc;
    if (reader->left > 0)
        return refuse(ret_error, "a section has fewer entries than bytes for them");
    unsigned char want[SNAPSHOT_HASH_BYTES], sum[SNAPSHOT_HASH_BYTES];
    rc = read_at(reader->fd, want, sizeof want, section->offset + section->bytes);
    if (rc < 0)
        return rc == -EBADMSG ? refuse(ret_error, "a section's checksum is cut off") : rc;
    snapshot_hash_end(&reader->hash, sum);
    if (memcmp(sum, want, sizeof sum) != 0)
        return refuse(ret_error, "a section's checksum is wrong");
    /* Only now: a key that has expired must not stand twice either. */
    (void)kv_store_expire_due(store, now_ms, UINT32_MAX);
    return 0;
}

int kv_snapshot_build(const struct kv_snapshot *snapshot, uint32_t section, int64_t now_ms,
                      struct kv_store **ret_store, char ret_error[KV_SNAPSHOT_ERROR_MAX])
{
    const struct kv_snapshot_section *row = &snapshot->sections[section];
    struct kv_store *store = NULL;
    ret_error[0] = '\0';
    struct reader *reader = calloc(1, sizeof *reader);
    if (!reader || kv_store_create(&store) < 0) {
        free(reader);
        return -ENOMEM;
    }
    reader->fd = snapshot->fd;
    reader->offset = row->offset;
    reader->left = row->bytes;
    snapshot_hash_begin(&reader->hash);
    int rc = build(row, reader, now_ms, store, ret_error);
    free(reader);
    if (rc < 0) {
        kv_store_destroy(store);
        return rc;
    }
    *ret_store = store;
    return 0;
}

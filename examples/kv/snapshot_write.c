#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "snapshot_format.h"

/* The first size of the buffer; it doubles up to what one flush finds in it. */
#define BUFFER_BYTES_FIRST (512u * 1024u)

struct kv_snapshot_writer {
    int fd;
    int error; /* the first -errno, or 0 */
    bool published;
    char *path;
    char *temporary;
    int64_t created_ms;
    uint64_t written; /* bytes handed to the kernel */
    uint32_t sections_count;
    struct kv_snapshot_section sections[KV_SNAPSHOT_SECTIONS_MAX];
    snapshot_hash hash; /* of the section under way, up to the last flush */
    unsigned char *buffer;
    size_t filled;
    size_t capacity;
};

static void write_all(struct kv_snapshot_writer *writer, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0 && !writer->error) {
        ssize_t written = write(writer->fd, at, length);
        if (written < 0) {
            if (errno != EINTR)
                writer->error = -errno;
            continue;
        }
        at += written;
        writer->written += (uint64_t)written;
        length -= (size_t)written;
    }
}

int kv_snapshot_writer_create(const char *path, int64_t now_ms,
                              struct kv_snapshot_writer **ret_writer)
{
    struct kv_snapshot_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return -ENOMEM;
    writer->fd = -1;
    writer->created_ms = now_ms;
    writer->path = strdup(path);
    if (!writer->path || asprintf(&writer->temporary, "%s.%d.tmp", path, (int)getpid()) < 0) {
        writer->temporary = NULL;
        kv_snapshot_writer_destroy(writer);
        return -ENOMEM;
    }
    writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (writer->fd < 0) {
        int error = -errno;
        kv_snapshot_writer_destroy(writer);
        return error;
    }
    static const unsigned char zeros[SNAPSHOT_HEADER_BYTES];
    write_all(writer, zeros, sizeof zeros); /* the header's place: it is known last */
    *ret_writer = writer;
    return 0;
}

size_t kv_snapshot_buffered(const struct kv_snapshot_writer *writer)
{
    return writer->filled;
}

void kv_snapshot_flush(struct kv_snapshot_writer *writer)
{
    snapshot_hash_add(&writer->hash, writer->buffer, writer->filled);
    write_all(writer, writer->buffer, writer->filled);
    writer->filled = 0;
}

/* Room for `more` bytes in the buffer, or NULL and the error. */
static unsigned char *reserve(struct kv_snapshot_writer *writer, size_t more)
{
    if (writer->capacity - writer->filled < more) {
        size_t capacity = writer->capacity ? writer->capacity : BUFFER_BYTES_FIRST;
        while (capacity - writer->filled < more)
            capacity *= 2;
        unsigned char *buffer = realloc(writer->buffer, capacity);
        if (!buffer) {
            writer->error = -ENOMEM;
            return NULL;
        }
        writer->buffer = buffer;
        writer->capacity = capacity;
    }
    return writer->buffer + writer->filled;
}

void kv_snapshot_begin_section(struct kv_snapshot_writer *writer, uint32_t database)
{
    if (writer->sections_count == KV_SNAPSHOT_SECTIONS_MAX && !writer->error)
        writer->error = -E2BIG;
    if (writer->error)
        return;
    writer->sections[writer->sections_count++] =
        (struct kv_snapshot_section){.database = database, .offset = writer->written};
    snapshot_hash_begin(&writer->hash);
}

void kv_snapshot_add(struct kv_snapshot_writer *writer, const struct kv_entry *entry)
{
    if (writer->error)
        return;
    size_t data_bytes = (size_t)entry->key_length + entry->value_length;
    unsigned char *record = reserve(writer, SNAPSHOT_RECORD_BYTES + data_bytes);
    if (!record)
        return;
    int64_t expiry =
        entry->expire_at_ms == KV_TIME_NEVER ? SNAPSHOT_NO_EXPIRY : entry->expire_at_ms;
    put_u32(record, entry->key_length);
    put_u32(record + 4, entry->value_length);
    put_u64(record + 8, (uint64_t)expiry);
    memcpy(record + SNAPSHOT_RECORD_BYTES, entry->data, data_bytes);
    writer->filled += SNAPSHOT_RECORD_BYTES + data_bytes;
    writer->sections[writer->sections_count - 1].entries++;
}

void kv_snapshot_end_section(struct kv_snapshot_writer *writer)
{
    if (writer->error)
        return;
    kv_snapshot_flush(writer);
    struct kv_snapshot_section *section = &writer->sections[writer->sections_count - 1];
    section->bytes = writer->written - section->offset;
    unsigned char sum[SNAPSHOT_HASH_BYTES];
    snapshot_hash_end(&writer->hash, sum);
    write_all(writer, sum, sizeof sum);
}

static void make_header(const struct kv_snapshot_writer *writer,
                        unsigned char header[SNAPSHOT_HEADER_BYTES])
{
    memset(header, 0, SNAPSHOT_HEADER_BYTES);
    memcpy(header, SNAPSHOT_MAGIC, SNAPSHOT_MAGIC_BYTES);
    put_u32(header + 8, SNAPSHOT_VERSION);
    put_u32(header + 12, writer->sections_count);
    put_u64(header + 16, (uint64_t)writer->created_ms);
    for (uint32_t i = 0; i < writer->sections_count; i++) {
        unsigned char *row = header + SNAPSHOT_FIXED_BYTES + i * SNAPSHOT_ROW_BYTES;
        put_u32(row, writer->sections[i].database);
        put_u64(row + 8, writer->sections[i].offset);
        put_u64(row + 16, writer->sections[i].bytes);
        put_u64(row + 24, writer->sections[i].entries);
    }
    snapshot_hash hash;
    snapshot_hash_begin(&hash);
    snapshot_hash_add(&hash, header, SNAPSHOT_HEADER_BYTES - SNAPSHOT_HASH_BYTES);
    snapshot_hash_end(&hash, header + SNAPSHOT_HEADER_BYTES - SNAPSHOT_HASH_BYTES);
}

int kv_snapshot_writer_finish(struct kv_snapshot_writer *writer)
{
    if (!writer->error) {
        unsigned char header[SNAPSHOT_HEADER_BYTES];
        make_header(writer, header);
        if (lseek(writer->fd, 0, SEEK_SET) < 0)
            writer->error = -errno;
        write_all(writer, header, sizeof header);
    }
    if (!writer->error && fsync(writer->fd) < 0)
        writer->error = -errno;
    return writer->error;
}

/* Makes the rename last: it is the directory that holds the name. */
static int sync_directory_of(const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd < 0 ? -errno : 0;
    if (fd >= 0 && fsync(fd) < 0)
        error = -errno;
    if (fd >= 0)
        close(fd);
    free(copy);
    return error;
}

int kv_snapshot_writer_publish(struct kv_snapshot_writer *writer)
{
    if (writer->error)
        return writer->error;
    if (rename(writer->temporary, writer->path) < 0)
        return writer->error = -errno;
    writer->published = true;
    return sync_directory_of(writer->path);
}

void kv_snapshot_writer_destroy(struct kv_snapshot_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0) {
        close(writer->fd);
        if (!writer->published && writer->temporary)
            unlink(writer->temporary);
    }
    free(writer->buffer);
    free(writer->temporary);
    free(writer->path);
    free(writer);
}

/*
 * The snapshot reader: whatever the file says, it is read or refused with a reason; what was read
 * is what stands in the file, each key once; and saved again and read again, it is the same.
 *
 * If the first input byte is odd, the rest is a file whose checksums are made right first, since
 * no mutation would get past them otherwise.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hash.h"
#include "snapshot_format.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define NOW_MS INT64_C(1000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void sum(const unsigned char *bytes, size_t length, unsigned char *to)
{
    snapshot_hash hash;
    snapshot_hash_begin(&hash);
    snapshot_hash_add(&hash, bytes, length);
    snapshot_hash_end(&hash, to);
}

/* Makes the checksums of the header and of each section that lies inside the file right. */
static void make_sums_right(unsigned char *file, size_t size)
{
    if (size < SNAPSHOT_HEADER_BYTES)
        return;
    size_t summed = SNAPSHOT_HEADER_BYTES - SNAPSHOT_HASH_BYTES;
    sum(file, summed, file + summed);
    for (uint32_t i = 0; i < KV_SNAPSHOT_SECTIONS_MAX; i++) {
        const unsigned char *row = file + SNAPSHOT_FIXED_BYTES + i * SNAPSHOT_ROW_BYTES;
        uint64_t offset = get_u64(row + 8), bytes = get_u64(row + 16);
        if (offset < SNAPSHOT_HEADER_BYTES || offset > size || bytes > size - offset ||
            size - offset - bytes < SNAPSHOT_HASH_BYTES)
            continue;
        sum(file + offset, (size_t)bytes, file + offset + bytes);
    }
}

/* What one file holds; a store is NULL if its section was refused. */
struct loaded {
    struct kv_snapshot snapshot;
    struct kv_store *stores[KV_SNAPSHOT_SECTIONS_MAX];
    bool whole;
};

static bool load(const char *path, size_t size, struct loaded *ret_loaded)
{
    char error[KV_SNAPSHOT_ERROR_MAX];
    memset(ret_loaded, 0, sizeof *ret_loaded);
    int rc = kv_snapshot_open(path, &ret_loaded->snapshot, error);
    if (rc < 0) {
        REQUIRE(rc == -EBADMSG && error[0] != '\0');
        return false;
    }
    ret_loaded->whole = true;
    for (uint32_t i = 0; i < ret_loaded->snapshot.sections_count; i++) {
        struct kv_store **store = &ret_loaded->stores[i];
        rc = kv_snapshot_build(&ret_loaded->snapshot, i, NOW_MS, store, error);
        if (rc < 0) {
            REQUIRE(rc == -EBADMSG && error[0] != '\0' && *store == NULL);
            ret_loaded->whole = false;
            continue;
        }
        REQUIRE(kv_store_count(*store) <= ret_loaded->snapshot.sections[i].entries);
        REQUIRE(kv_store_count(*store) <= size / SNAPSHOT_RECORD_BYTES);
    }
    return true;
}

/* One record of a section that was taken; returns where the next one begins. */
static const unsigned char *check_record(const unsigned char *at, struct kv_store *store,
                                         struct kv_store *seen, uint64_t *live)
{
    struct kv_str key = {(const char *)at + SNAPSHOT_RECORD_BYTES, get_u32(at)};
    struct kv_str value = {key.bytes + key.length, get_u32(at + 4)};
    int64_t expiry = (int64_t)get_u64(at + 8);
    bool expired = expiry != SNAPSHOT_NO_EXPIRY && expiry <= NOW_MS;
    const struct kv_entry *entry = kv_store_get(store, key, NOW_MS);
    REQUIRE(kv_store_get(seen, key, NOW_MS) == NULL);
    REQUIRE(kv_store_set(seen, key, (struct kv_str){NULL, 0}, KV_TIME_NEVER) == 0);
    REQUIRE(expired == (entry == NULL));
    if (entry) {
        REQUIRE(entry->value_length == value.length);
        REQUIRE(memcmp(kv_entry_value(entry), value.bytes, value.length) == 0);
        REQUIRE(entry->expire_at_ms == (expiry == SNAPSHOT_NO_EXPIRY ? KV_TIME_NEVER : expiry));
        ++*live;
    }
    return (const unsigned char *)value.bytes + value.length;
}

/* What was taken against the file's own words. */
static void check_taken(const struct loaded *loaded, const unsigned char *file)
{
    for (uint32_t i = 0; i < loaded->snapshot.sections_count; i++) {
        const struct kv_snapshot_section *section = &loaded->snapshot.sections[i];
        const unsigned char *at = file + section->offset;
        struct kv_store *seen = NULL;
        uint64_t live = 0;
        if (!loaded->stores[i])
            continue;
        REQUIRE(kv_store_create(&seen) == 0);
        for (uint64_t entry = 0; entry < section->entries; entry++)
            at = check_record(at, loaded->stores[i], seen, &live);
        REQUIRE(at == file + section->offset + section->bytes);
        REQUIRE(live == kv_store_count(loaded->stores[i]));
        kv_store_destroy(seen);
    }
}

static void unload(struct loaded *loaded)
{
    for (uint32_t i = 0; i < loaded->snapshot.sections_count; i++)
        kv_store_destroy(loaded->stores[i]);
    kv_snapshot_close(&loaded->snapshot);
}

static void add_entry(const struct kv_entry *entry, void *writer)
{
    kv_snapshot_add(writer, entry);
}

static void save(const char *path, struct loaded *loaded)
{
    struct kv_snapshot_writer *writer = NULL;
    REQUIRE(kv_snapshot_writer_create(path, loaded->snapshot.created_ms, &writer) == 0);
    for (uint32_t i = 0; i < loaded->snapshot.sections_count; i++) {
        struct kv_image *image = NULL;
        REQUIRE(kv_image_begin(loaded->stores[i], &image) == 0);
        kv_snapshot_begin_section(writer, loaded->snapshot.sections[i].database);
        while (kv_image_slice(image, 3, add_entry, writer))
            ;
        kv_snapshot_end_section(writer);
        kv_image_detach(loaded->stores[i], image);
        kv_image_free(image);
    }
    REQUIRE(kv_snapshot_writer_finish(writer) == 0);
    REQUIRE(kv_snapshot_writer_publish(writer) == 0);
    kv_snapshot_writer_destroy(writer);
}

static void check_entry(const struct kv_entry *entry, void *other)
{
    struct kv_str key = {kv_entry_key(entry), entry->key_length};
    const struct kv_entry *twin = kv_store_get(other, key, NOW_MS);
    REQUIRE(twin != NULL);
    REQUIRE(twin->expire_at_ms == entry->expire_at_ms);
    REQUIRE(twin->value_length == entry->value_length);
    REQUIRE(memcmp(kv_entry_value(twin), kv_entry_value(entry), entry->value_length) == 0);
}

static void check_same(const struct loaded *first, const struct loaded *second)
{
    REQUIRE(second->whole);
    REQUIRE(second->snapshot.sections_count == first->snapshot.sections_count);
    REQUIRE(second->snapshot.created_ms == first->snapshot.created_ms);
    for (uint32_t i = 0; i < first->snapshot.sections_count; i++) {
        uint64_t cursor = 0, count = kv_store_count(first->stores[i]);
        REQUIRE(second->snapshot.sections[i].database == first->snapshot.sections[i].database);
        REQUIRE(second->snapshot.sections[i].entries == count);
        REQUIRE(kv_store_count(second->stores[i]) == count);
        while (kv_store_walk(first->stores[i], &cursor, 16, NOW_MS, check_entry, second->stores[i]))
            ;
    }
}

/* In memory where there is such a folder: a file is flushed to its disk each time. */
static void check_saved_again(struct loaded *first)
{
    char folder[] = "/dev/shm/lanex-fuzz-XXXXXX", other[] = "/tmp/lanex-fuzz-XXXXXX";
    char path[64];
    struct loaded second;
    struct stat status;
    const char *made = mkdtemp(folder);
    if (!made)
        made = mkdtemp(other);
    REQUIRE(made);
    snprintf(path, sizeof path, "%s/again", made);
    save(path, first);
    REQUIRE(stat(path, &status) == 0);
    REQUIRE(load(path, (size_t)status.st_size, &second));
    check_same(first, &second);
    unload(&second);
    REQUIRE(unlink(path) == 0);
    REQUIRE(rmdir(made) == 0); /* nothing else was left there */
}

static void check_file(int fd, const unsigned char *file, size_t size)
{
    char path[64];
    struct loaded loaded;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!load(path, size, &loaded))
        return;
    check_taken(&loaded, file);
    if (loaded.whole)
        check_saved_again(&loaded);
    unload(&loaded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    REQUIRE(kv_hash_init() == 0);
    size_t length = size - 1;
    unsigned char *file = malloc(length + 1);
    REQUIRE(file);
    memcpy(file, data + 1, length);
    if (data[0] & 1)
        make_sums_right(file, length);
    int fd = memfd_create("snapshot", MFD_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, file, length) == (ssize_t)length);
    check_file(fd, file, length);
    close(fd);
    free(file);
    return 0;
}

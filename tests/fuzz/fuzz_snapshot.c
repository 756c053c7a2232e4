/*
 * The snapshot reader: whatever the file says, it is read or refused with a reason.
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

static void check_file(int fd, size_t size)
{
    char path[64], error[KV_SNAPSHOT_ERROR_MAX];
    struct kv_snapshot snapshot;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = kv_snapshot_open(path, &snapshot, error);
    if (rc < 0) {
        REQUIRE(rc == -EBADMSG && error[0] != '\0');
        return;
    }
    for (uint32_t i = 0; i < snapshot.sections_count; i++) {
        struct kv_store *store = NULL;
        rc = kv_snapshot_build(&snapshot, i, NOW_MS, &store, error);
        if (rc < 0) {
            REQUIRE(rc == -EBADMSG && error[0] != '\0');
            continue;
        }
        REQUIRE(kv_store_count(store) <= snapshot.sections[i].entries);
        REQUIRE(kv_store_count(store) <= size / SNAPSHOT_RECORD_BYTES);
        kv_store_destroy(store);
    }
    kv_snapshot_close(&snapshot);
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
    check_file(fd, length);
    close(fd);
    free(file);
    return 0;
}

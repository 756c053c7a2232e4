/* The example server's snapshot file: round trips, and that no damaged or lying file is taken. */
#include "tests/support/lx_test.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "hash.h"
#include "snapshot_format.h"

#define NOW_MS  INT64_C(1000)
#define ENTRIES 500u

TestSuite(kv_snapshot, .timeout = 60);

static char folder[64];
static char path[96];

static void begin(void)
{
    cr_assert_eq(kv_hash_init(), 0);
    snprintf(folder, sizeof folder, "/tmp/kv-snapshot-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/dump", folder);
}

static void end(void)
{
    unlink(path);
    cr_assert_eq(rmdir(folder), 0, "a temporary file was left");
}

static void add_entry(const struct kv_entry *entry, void *arg)
{
    kv_snapshot_add(arg, entry);
}

static void set(struct kv_store *store, unsigned number, size_t value_bytes, int64_t expire_at_ms)
{
    char key[32];
    char *value = malloc(value_bytes + 1);
    memset(value, (int)('a' + number % 26), value_bytes);
    int length = snprintf(key, sizeof key, "key:%u", number);
    struct kv_str key_str = {key, (size_t)length}, value_str = {value, value_bytes};
    cr_assert_eq(kv_store_set(store, key_str, value_str, expire_at_ms), 0);
    free(value);
}

/* Two databases: 0 with ENTRIES of all lengths, 3 with two that expire. */
static void write_file(void)
{
    struct kv_snapshot_writer *writer = NULL;
    cr_assert_eq(kv_snapshot_writer_create(path, NOW_MS, &writer), 0);
    for (unsigned database = 0; database <= 3; database += 3) {
        struct kv_store *store = NULL;
        struct kv_image *image = NULL;
        cr_assert_eq(kv_store_create(&store), 0);
        if (database == 0) {
            for (unsigned i = 0; i < ENTRIES; i++)
                set(store, i, i == 7 ? 700000 : i, KV_TIME_NEVER);
        } else {
            set(store, 1, 10, NOW_MS);
            set(store, 2, 10, NOW_MS + 1);
        }
        cr_assert_eq(kv_image_begin(store, &image), 0);
        kv_snapshot_begin_section(writer, database);
        while (kv_image_slice(image, 10, add_entry, writer))
            ;
        kv_snapshot_end_section(writer);
        kv_image_detach(store, image);
        kv_image_free(image);
        kv_store_destroy(store);
    }
    cr_assert_eq(kv_snapshot_writer_finish(writer), 0);
    cr_assert_eq(access(path, F_OK), -1, "the name stands for nothing before publish");
    cr_assert_eq(kv_snapshot_writer_publish(writer), 0);
    kv_snapshot_writer_destroy(writer);
}

/* 0 if every section of the file can be built. */
static int read_file(char error[KV_SNAPSHOT_ERROR_MAX])
{
    struct kv_snapshot snapshot;
    int rc = kv_snapshot_open(path, &snapshot, error);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < snapshot.sections_count && rc == 0; i++) {
        struct kv_store *store = NULL;
        rc = kv_snapshot_build(&snapshot, i, NOW_MS, &store, error);
        if (rc == 0)
            kv_store_destroy(store);
    }
    kv_snapshot_close(&snapshot);
    return rc;
}

Test(kv_snapshot, what_is_written_is_read, .init = begin, .fini = end)
{
    char error[KV_SNAPSHOT_ERROR_MAX];
    struct kv_snapshot snapshot;
    struct kv_store *first = NULL, *second = NULL;
    write_file();
    cr_assert_eq(kv_snapshot_open(path, &snapshot, error), 0, "%s", error);
    cr_assert_eq(snapshot.sections_count, 2);
    cr_assert_eq(snapshot.created_ms, NOW_MS);
    cr_assert_eq(snapshot.sections[1].database, 3);
    cr_assert_eq(kv_snapshot_build(&snapshot, 0, NOW_MS, &first, error), 0, "%s", error);
    cr_assert_eq(kv_snapshot_build(&snapshot, 1, NOW_MS, &second, error), 0, "%s", error);
    kv_snapshot_close(&snapshot);
    cr_assert_eq(kv_store_count(first), ENTRIES);
    const struct kv_entry *entry = kv_store_get(first, (struct kv_str){"key:7", 5}, NOW_MS);
    cr_assert_not_null(entry);
    cr_assert_eq(entry->value_length, 700000);
    cr_assert_eq(kv_entry_value(entry)[699999], 'h');
    cr_assert_eq(kv_store_count(second), 1, "one had expired");
    entry = kv_store_get(second, (struct kv_str){"key:2", 5}, NOW_MS);
    cr_assert_not_null(entry);
    cr_assert_eq(entry->expire_at_ms, NOW_MS + 1);
    kv_store_destroy(first);
    kv_store_destroy(second);
}

Test(kv_snapshot, an_unpublished_file_leaves_nothing, .init = begin, .fini = end)
{
    struct kv_snapshot_writer *writer = NULL;
    char error[KV_SNAPSHOT_ERROR_MAX];
    cr_assert_eq(kv_snapshot_writer_create(path, NOW_MS, &writer), 0);
    cr_assert_eq(kv_snapshot_writer_finish(writer), 0);
    kv_snapshot_writer_destroy(writer);
    cr_assert_eq(read_file(error), -ENOENT);
}

/* Changes `length` bytes of the file at `offset`. */
static void patch(off_t offset, const void *bytes, size_t length)
{
    int fd = open(path, O_WRONLY);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pwrite(fd, bytes, length, offset), (ssize_t)length);
    close(fd);
}

Test(kv_snapshot, any_flipped_bit_is_noticed, .init = begin, .fini = end)
{
    char error[KV_SNAPSHOT_ERROR_MAX];
    struct lx_rng rng = lx_rng_seeded(lx_test_seed());
    write_file();
    int fd = open(path, O_RDONLY);
    off_t size = lseek(fd, 0, SEEK_END);
    for (unsigned i = 0; i < 200; i++) {
        unsigned char byte;
        off_t at = (off_t)lx_rng_below(&rng, i % 2 ? 2048 : (uint64_t)size);
        cr_assert_eq(pread(fd, &byte, 1, at), 1);
        unsigned char flipped = (unsigned char)(byte ^ (1u << lx_rng_below(&rng, 8)));
        patch(at, &flipped, 1);
        cr_assert_eq(read_file(error), -EBADMSG, "a bit at %lld", (long long)at);
        cr_assert_neq(error[0], '\0');
        patch(at, &byte, 1);
    }
    cr_assert_eq(read_file(error), 0, "%s", error);
    close(fd);
}

Test(kv_snapshot, any_other_length_is_noticed, .init = begin, .fini = end)
{
    char error[KV_SNAPSHOT_ERROR_MAX];
    write_file();
    int fd = open(path, O_RDWR);
    off_t size = lseek(fd, 0, SEEK_END);
    cr_assert_eq(ftruncate(fd, size + 1), 0);
    cr_assert_eq(read_file(error), -EBADMSG);
    for (off_t length = size - 1; length > 0; length = length * 2 / 3) {
        cr_assert_eq(ftruncate(fd, length), 0);
        cr_assert_eq(read_file(error), -EBADMSG, "%lld bytes", (long long)length);
    }
    close(fd);
}

/* A lie whose checksums are right: the header says `what`, and its sum agrees. */
static void lie(size_t offset, uint64_t value, size_t length)
{
    unsigned char header[SNAPSHOT_HEADER_BYTES], bytes[8];
    int fd = open(path, O_RDWR);
    cr_assert_eq(pread(fd, header, sizeof header, 0), (ssize_t)sizeof header);
    put_u64(bytes, value);
    memcpy(header + offset, bytes, length);
    snapshot_hash hash;
    snapshot_hash_begin(&hash);
    snapshot_hash_add(&hash, header, sizeof header - SNAPSHOT_HASH_BYTES);
    snapshot_hash_end(&hash, header + sizeof header - SNAPSHOT_HASH_BYTES);
    cr_assert_eq(pwrite(fd, header, sizeof header, 0), (ssize_t)sizeof header);
    close(fd);
}

Test(kv_snapshot, a_lying_header_is_refused, .init = begin, .fini = end)
{
    static const struct {
        size_t offset, length;
        uint64_t value;
        const char *message;
    } lies[] = {
        {8, 4, 2, "version 2 is not known here"},
        {12, 4, 17, "17 sections are too many"},
        {12, 4, 1, "bytes are left behind the last section"},
        {24, 4, 16, "section 0 names a bad or repeated database"},
        {24, 4, 3, "section 1 names a bad or repeated database"},
        {32, 8, UINT64_MAX, "section 0 does not lie inside the file"},
        {40, 8, UINT64_MAX - 600, "section 0 does not lie inside the file"},
        {48, 8, UINT64_MAX, "section 0 claims more entries than fit"},
        {48, 8, ENTRIES - 1, "a section has fewer entries than bytes for them"},
        {48, 8, ENTRIES + 1, "a record is cut off"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        char error[KV_SNAPSHOT_ERROR_MAX];
        unlink(path);
        write_file();
        lie(lies[i].offset, lies[i].value, lies[i].length);
        cr_assert_eq(read_file(error), -EBADMSG, "lie %zu", i);
        cr_assert_str_eq(error, lies[i].message);
    }
}

Test(kv_snapshot, a_lying_record_is_refused_before_memory_is_taken, .init = begin, .fini = end)
{
    char error[KV_SNAPSHOT_ERROR_MAX];
    unsigned char huge[4];
    write_file();
    put_u32(huge, UINT32_MAX);
    patch(SNAPSHOT_HEADER_BYTES + 4, huge, sizeof huge);
    cr_assert_eq(read_file(error), -EBADMSG);
    cr_assert_str_eq(error, "a record claims more bytes than are left");
}

/* A section of one key, which expires at each of these times in turn. */
static void write_repeated(const int64_t *expiries, size_t count)
{
    struct kv_snapshot_writer *writer = NULL;
    cr_assert_eq(kv_snapshot_writer_create(path, NOW_MS, &writer), 0);
    kv_snapshot_begin_section(writer, 0);
    for (size_t i = 0; i < count; i++) {
        struct kv_store *store = NULL;
        uint64_t cursor = 0;
        cr_assert_eq(kv_store_create(&store), 0);
        set(store, 1, i, expiries[i]);
        cr_assert(!kv_store_walk(store, &cursor, 1, 0, add_entry, writer));
        kv_store_destroy(store);
    }
    kv_snapshot_end_section(writer);
    cr_assert_eq(kv_snapshot_writer_finish(writer), 0);
    cr_assert_eq(kv_snapshot_writer_publish(writer), 0);
    kv_snapshot_writer_destroy(writer);
}

Test(kv_snapshot, a_repeated_key_is_refused_though_it_has_expired, .init = begin, .fini = end)
{
    const int64_t times[] = {NOW_MS, NOW_MS + 1, KV_TIME_NEVER};
    for (size_t first = 0; first < 3; first++) {
        char error[KV_SNAPSHOT_ERROR_MAX];
        write_repeated(&times[first], 1);
        cr_assert_eq(read_file(error), 0, "%s", error);
        for (size_t second = 0; second < 3; second++) {
            const int64_t both[] = {times[first], times[second]};
            write_repeated(both, 2);
            cr_assert_eq(read_file(error), -EBADMSG, "%zu, then %zu", first, second);
            cr_assert_str_eq(error, "a key stands twice in a section");
        }
    }
}

Test(kv_snapshot, what_is_no_file_is_refused, .init = begin, .fini = end)
{
    char error[KV_SNAPSHOT_ERROR_MAX];
    struct kv_snapshot snapshot;
    struct kv_snapshot_writer *writer = NULL;
    cr_assert_eq(kv_snapshot_open(folder, &snapshot, error), -EBADMSG);
    cr_assert_str_eq(error, "not a regular file");
    cr_assert_eq(kv_snapshot_writer_create("/nonexistent/folder/x", 0, &writer), -ENOENT);
}

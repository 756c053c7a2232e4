/*
 * Runs a fuzz target without a fuzzer: fuzz-smoke in the suite, or by hand on files.
 * Arguments are files or folders, each of whose files is one input; then come inputs made by
 * damaging them, or random bytes where there are none. The seed is LANEX_TEST_SEED or printed.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "lx_rng.h"

#define MAX_INPUTS     4096
#define MAX_INPUT_SIZE ((size_t)1 << 20)
/* How many made inputs a run tries: under a few seconds for a parser, sanitizers included. */
#define MADE_INPUTS 20000U
/* The largest random input in bytes: short ones reach more of a parser per second. */
#define MAX_RANDOM_SIZE 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    uint8_t *data;
    size_t size;
};

static struct input inputs[MAX_INPUTS];
static size_t input_count;

static void fail(const char *what, const char *name)
{
    (void)fprintf(stderr, "%s: %s: %s\n", what, name, strerror(errno));
    exit(1);
}

static void read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(MAX_INPUT_SIZE);

    if (file == NULL || data == NULL) {
        fail("cannot read", path);
    }
    const size_t size = fread(data, 1, MAX_INPUT_SIZE, file);
    (void)fclose(file);
    if (input_count == MAX_INPUTS) {
        errno = E2BIG;
        fail("too many inputs", path);
    }
    inputs[input_count++] = (struct input){.data = data, .size = size};
}

static void read_path(const char *path)
{
    struct stat status;
    DIR *folder = NULL;
    const struct dirent *entry = NULL;
    char inside[4096];

    if (stat(path, &status) != 0) {
        fail("cannot read", path);
    }
    if (!S_ISDIR(status.st_mode)) {
        read_file(path);
        return;
    }
    folder = opendir(path);
    if (folder == NULL) {
        fail("cannot read", path);
    }
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name);
            read_file(inside);
        }
    }
    (void)closedir(folder);
}

/* Each input gets a block of its own exact size, so that AddressSanitizer sees a read past it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size == 0 ? 1 : size);

    if (copy == NULL) {
        fail("no memory", "input");
    }
    memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static size_t random_bytes(struct lx_rng *rng, uint8_t *buffer)
{
    const size_t size = (size_t)lx_rng_below(rng, MAX_RANDOM_SIZE + 1);

    for (size_t i = 0; i < size; i++) {
        buffer[i] = (uint8_t)lx_rng_next(rng);
    }
    return size;
}

/* A known input, cut, with bytes changed, or with another one behind it. */
static size_t damaged(struct lx_rng *rng, uint8_t *buffer)
{
    const struct input *from = &inputs[lx_rng_below(rng, input_count)];
    size_t size = from->size;

    memcpy(buffer, from->data, size);
    if (lx_rng_percent(rng, 30)) {
        const struct input *more = &inputs[lx_rng_below(rng, input_count)];
        const size_t room = MAX_INPUT_SIZE - size;
        const size_t added = more->size < room ? more->size : room;
        memcpy(buffer + size, more->data, added);
        size += added;
    }
    if (lx_rng_percent(rng, 30)) {
        size = (size_t)lx_rng_below(rng, size + 1);
    }
    for (uint64_t changes = lx_rng_below(rng, 8); changes > 0 && size > 0; changes--) {
        buffer[lx_rng_below(rng, size)] = (uint8_t)lx_rng_next(rng);
    }
    return size;
}

int main(int argc, char **argv)
{
    static uint8_t buffer[MAX_INPUT_SIZE];
    const char *text = getenv("LANEX_TEST_SEED");
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : (uint64_t)now.tv_nsec;
    struct lx_rng rng = lx_rng_seeded(seed);

    (void)fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    for (int i = 1; i < argc; i++) {
        read_path(argv[i]);
    }
    for (size_t i = 0; i < input_count; i++) {
        run(inputs[i].data, inputs[i].size);
    }
    for (unsigned i = 0; i < MADE_INPUTS; i++) {
        const bool random = input_count == 0 || lx_rng_percent(&rng, 20);
        const size_t size = random ? random_bytes(&rng, buffer) : damaged(&rng, buffer);
        run(buffer, size);
    }
    (void)fprintf(stderr, "%zu known and %u made inputs\n", input_count, MADE_INPUTS);
    for (size_t i = 0; i < input_count; i++) {
        free(inputs[i].data);
    }
    return 0;
}

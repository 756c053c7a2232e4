#include <errno.h>
#include <stdlib.h>

#include "store_internal.h"

struct kv_image {
    struct kv_store *store;  /* NULL once detached */
    struct kv_table adopted; /* the store's table, if it was flushed meanwhile */
    bool has_adopted;
    bool walked;           /* the walk is over; kept entries may be left */
    uint64_t position;     /* of the walk: moved by slices, which run as reads; read by writes */
    uint32_t generation;   /* entries of later generations are not part of it */
    struct kv_entry *kept; /* taken out of the table by writes before the walk met them */
};

int kv_image_begin(struct kv_store *store, struct kv_image **ret_image)
{
    if (store->image)
        return -EBUSY;
    struct kv_image *image = calloc(1, sizeof *image);
    if (!image)
        return -ENOMEM;
    image->store = store;
    image->generation = store->generation++;
    store->image = image;
    *ret_image = image;
    return 0;
}

bool kv_image_needs(const struct kv_image *image, const struct kv_entry *entry)
{
    return entry->generation <= image->generation && !image->has_adopted && !image->walked &&
           kv_table_position(entry->hash) >= image->position;
}

bool kv_image_keep(struct kv_image *image, struct kv_entry *entry)
{
    if (!kv_image_needs(image, entry))
        return false;
    entry->next = image->kept;
    image->kept = entry;
    return true;
}

bool kv_image_adopt(struct kv_image *image, const struct kv_table *table)
{
    if (image->has_adopted || image->walked)
        return false;
    image->adopted = *table;
    image->has_adopted = true;
    return true;
}

/* Hands on what belongs to the image. */
struct slice {
    const struct kv_image *image;
    void (*visit)(const struct kv_entry *entry, void *arg);
    void *arg;
};

static void slice_entry(struct kv_entry *entry, void *arg)
{
    const struct slice *slice = arg;
    if (entry->generation <= slice->image->generation)
        slice->visit(entry, slice->arg);
}

static bool take_kept(struct kv_image *image, uint32_t max,
                      void (*visit)(const struct kv_entry *entry, void *arg), void *arg)
{
    for (; image->kept && max > 0; max--) {
        struct kv_entry *entry = image->kept;
        image->kept = entry->next;
        visit(entry, arg);
        free(entry);
    }
    return image->kept != NULL;
}

bool kv_image_slice(struct kv_image *image, uint32_t max_buckets,
                    void (*visit)(const struct kv_entry *entry, void *arg), void *arg)
{
    if (image->walked)
        return take_kept(image, max_buckets, visit, arg);
    const struct kv_table *table = image->has_adopted ? &image->adopted : &image->store->table;
    struct slice slice = {.image = image, .visit = visit, .arg = arg};
    bool more = true;
    for (uint32_t i = 0; i < max_buckets && more; i++)
        more = kv_table_walk(table, &image->position, slice_entry, &slice);
    image->walked = !more;
    return more || image->kept != NULL;
}

void kv_image_detach(struct kv_store *store, struct kv_image *image)
{
    if (store->image == image)
        store->image = NULL;
    image->store = NULL;
}

static void ignore(const struct kv_entry *entry, void *arg)
{
    (void)entry;
    (void)arg;
}

void kv_image_free(struct kv_image *image)
{
    if (!image)
        return;
    take_kept(image, UINT32_MAX, ignore, NULL);
    if (image->has_adopted)
        kv_table_fini(&image->adopted);
    free(image);
}

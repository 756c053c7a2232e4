/* What store.c and image.c share. */
#ifndef KV_STORE_INTERNAL_H
#define KV_STORE_INTERNAL_H

#include "store.h"

/* A table that was flushed. */
struct kv_trash {
    struct kv_trash *next;
    struct kv_table table;
};

/* Takes the entry, which is out of the table, if the image still has to meet it. */
bool kv_image_keep(struct kv_image *image, struct kv_entry *entry);
/* True if the image still has to meet the entry, which therefore must not be changed in place. */
bool kv_image_needs(const struct kv_image *image, const struct kv_entry *entry);
/* Hands a flushed table over to the image; false if it has met all of it. */
bool kv_image_adopt(struct kv_image *image, const struct kv_table *table);

#endif

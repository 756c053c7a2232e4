/*
 * Seams that refuse: the k-th allocation, map or thread, or all of them; and what is out, so that a
 * test can say that nothing was left behind.
 */
#ifndef LX_FAULT_REFUSE_H
#define LX_FAULT_REFUSE_H

#include <stdint.h>

enum refuse_kind { REFUSE_NOTHING, REFUSE_MEMORY, REFUSE_MAPS, REFUSE_THREADS, REFUSE_ALL };

/* Puts them in place, refusing nothing. Once, before the first executor of the process. */
void refuse_install(void);
/* From now on the k-th call of that kind (REFUSE_ALL: of any kind), counted from 1, is refused. */
void refuse_kth(enum refuse_kind kind, unsigned k);
/* From now on every call of that kind is refused. */
void refuse_each_of(enum refuse_kind kind);
/* No more; how many were refused since one of the above. */
unsigned refuse_stop(void);

struct refuse_left {
    unsigned threads, descriptors;
    int64_t blocks; /* allocations and maps */
};

struct refuse_left refuse_count_left(void);
/* Dies if there is anything else than there was, once threads that have ended are gone. */
#define refuse_must_be(before) refuse_must_be_at((before), __FILE__, __LINE__)
void refuse_must_be_at(struct refuse_left before, const char *file, int line);

#endif

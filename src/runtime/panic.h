#ifndef LX_RUNTIME_PANIC_H
#define LX_RUNTIME_PANIC_H

#include "runtime/executor.h"

/* Bytes of a panic's message: the label, the text, and the words around them. */
#define LX_PANIC_MESSAGE (LANEX_LABEL_MAX + LX_PANIC_TEXT + 32u)

/* Ends the job of this worker: runs its clean-ups, jumps to the worker's loop. panic_text is set.
 */
void lx_panic_leave(struct lx_worker *worker) __attribute__((noreturn));

#endif

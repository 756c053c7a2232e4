#ifndef LX_RUNTIME_CONTAIN_H
#define LX_RUNTIME_CONTAIN_H

#include <lanex/executor.h>

/* Signal containment, if the configuration asks for it: for the process, and for a worker's thread.
 */
int lx_contain_acquire(const lanex_config *config);
void lx_contain_release(const lanex_config *config);
int lx_contain_enter_thread(const lanex_config *config, void **ret_stack);
void lx_contain_leave_thread(void *stack);

#endif

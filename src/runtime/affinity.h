/*
 * Which CPU each worker is bound to, if any. The CPUs must be among those that the thread in create
 * may use: a mask that was given to the process from outside is a limit, not a hint.
 */
#ifndef LX_RUNTIME_AFFINITY_H
#define LX_RUNTIME_AFFINITY_H

#include <lanex/executor.h>

#define LX_CPU_ANY UINT32_MAX /* a worker that is not bound */

/*
 * Gives `workers` workers their CPUs: worker i gets ret_cpus[i], LX_CPU_ANY without affinity. The
 * options have been checked by lx_config_resolve. -EINVAL: a CPU of the list is not allowed; or
 * what the kernel said when asked for the mask.
 */
int lx_affinity_assign(const lanex_executor_options *options, uint32_t workers, uint32_t *ret_cpus);

/* Binds the calling thread; nothing for LX_CPU_ANY. Errors: the kernel's. */
int lx_affinity_enter(uint32_t cpu);

#endif

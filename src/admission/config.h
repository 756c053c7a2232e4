#ifndef LX_ADMISSION_CONFIG_H
#define LX_ADMISSION_CONFIG_H

#include <lanex/executor.h>

/* lanex_config_resolve with `usable_cpus` known and pointers checked. */
int lx_config_resolve(const lanex_executor_options *asked, uint32_t usable_cpus, lanex_config *out);

#endif

/* The memory and address space that this process can still use. */
#ifndef SP_FORMAT_SYSTEM_FREE_MEMORY_H
#define SP_FORMAT_SYSTEM_FREE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the bytes that can be allocated without swapping: what the kernel reports as available,
 * or less if a control group of the process has less left. Pages of files count as free, since the
 * kernel can drop them. UINT64_MAX: the system does not say. */
uint64_t sp_free_memory(void);

/* Returns the least that the control groups in `list` (sp_each_control_group) have left;
 * UINT64_MAX: they have no limit. */
uint64_t sp_free_group_memory(const char *list, const char *root);

/* Sets the bytes of address space that are left to the process and its limit (ulimit -v); false:
 * there is no limit. */
bool sp_address_space(uint64_t *left, uint64_t *limit);

#endif

/* Mapped files that another process cuts short. Reading a mapping beyond the end of its file is
 * fatal (SIGBUS). A program that starts the guard reads zeros there instead, and learns that the
 * file is damaged. Faults at other addresses end the process as without the guard. */
#ifndef SP_FORMAT_SYSTEM_FILE_GUARD_H
#define SP_FORMAT_SYSTEM_FILE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts the guard of files that are mapped from now on, for this process and those that it forks
 * after they were mapped: what one of them misses is damaged for all. */
void sp_file_guard_start(void);

/* A mapping begins or ends to be guarded. Beyond some number of mappings, further ones are not. */
void sp_file_guard_add(const uint8_t *data, size_t size);
void sp_file_guard_remove(const uint8_t *data);

/* True if bytes of the mapping that begins at `data` were missing when they were read. */
bool sp_file_guard_is_damaged(const uint8_t *data);

#endif

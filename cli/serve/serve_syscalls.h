/* Forbids the server the system calls that it does not need after its start, by a filter that the
 * kernel runs for each of them, seccomp(2). It opens no socket, starts no program, and changes
 * neither permissions, users, mounts nor the kernel. A forbidden call fails with EPERM. */
#ifndef SP_CLI_SERVE_SERVE_SYSCALLS_H
#define SP_CLI_SERVE_SERVE_SYSCALLS_H

#include "format/base/err.h"

#include <stdbool.h>

/* Whether the program was built with libseccomp. */
bool sp_serve_syscalls_can_be_filtered(void);

/* Sets the filter for the calling thread, the threads that it creates afterwards, and their
 * processes, so the program has no other thread yet. SP_E_UNSUPPORTED: the program was built
 * without libseccomp, or the kernel has no such filters. */
SP_MUST_CHECK enum sp_status sp_serve_syscalls_filter(struct sp_err *err);

#endif

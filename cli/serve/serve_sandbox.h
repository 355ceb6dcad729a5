/* Takes from the server what it does not need after its start, so that a client that takes it over
 * gains little: it reads the files next to its models, and accepts connections. It creates and
 * changes no file but processed prompts and the statistics of drafting, starts no program, opens no
 * TCP connection or port, and sends signals to its own processes only. Linux enforces this by
 * Landlock, landlock(7), without privileges. */
#ifndef SP_CLI_SERVE_SERVE_SANDBOX_H
#define SP_CLI_SERVE_SERVE_SANDBOX_H

#include "cli/serve/http/serve_listen.h"
#include "cli/serve/jobs/serve_folder.h"
#include "format/base/err.h"

#include <stdbool.h>

/* Enters the sandbox. It holds for the calling thread, the threads that it creates afterwards, and
 * their processes, so the program has no other thread yet. prompt_cache, drafting_cache: folders
 * whose files are read, made and removed; NULL: none.
 * SP_E_UNSUPPORTED: this system has no Landlock; SP_E_IO: it refuses. */
SP_MUST_CHECK enum sp_status sp_serve_sandbox_enter(const struct sp_serve_paths *models,
                                                    const struct sp_serve_adapters *adapters,
                                                    const char *prompt_cache,
                                                    const char *drafting_cache,
                                                    const struct sp_listeners *listeners,
                                                    struct sp_err *err);

/* Whether the program was built with libseccomp. */
bool sp_serve_syscalls_can_be_filtered(void);

/* Forbids the server the system calls that it does not need after its start, by a filter that the
 * kernel runs for each of them, seccomp(2): for the calling thread, the threads that it creates
 * afterwards, and their processes, so the program has no other thread yet. SP_E_UNSUPPORTED: the
 * program was built without libseccomp, or the kernel has no such filters. */
SP_MUST_CHECK enum sp_status sp_serve_syscalls_filter(struct sp_err *err);

#endif

/* Texts that the user names: prompts, schemas, conversations, what to learn or to be measured from.
 */
#ifndef SP_CLI_BASE_INPUT_TEXT_H
#define SP_CLI_BASE_INPUT_TEXT_H

#include "format/base/err.h"

#include <stddef.h>

enum { SP_INPUT_MOST = 64 << 20 }; /* bytes, where nothing says otherwise */

/* *text = all of it, NUL-terminated, owned: of a file, of a pipe (a shell's `<(command)` is one,
 * and so may be /dev/stdin), or, where `path` is NULL or "-", of standard input. SP_E_INPUT beyond
 * `most` bytes, and for what is neither. */
SP_MUST_CHECK enum sp_status sp_input_text(char **text, size_t *size, const char *path, size_t most,
                                           struct sp_err *err);
/* What errors call it: `path`, or "standard input". */
const char *sp_input_name(const char *path);

#endif

/* What a session remembers, to a file and back: prompts that were read once need not be read again.
 *
 * One function of each object walks what it remembers in a fixed order, and does so in both
 * directions: what is written and what is read cannot differ. The numbers are those in memory, so a
 * session that goes on from a file gives the same bits as the one that wrote it, on any machine.
 *
 *   "SPCACHE\0", version (8 bytes, little-endian as everything here), what the walks give, XXH3-64
 *   of that
 *
 * A file from a stranger is refused, or at worst leads to another text, as a model from a stranger
 * may; it never leads outside of memory: every number that is a size is bounded when it is read. */
#ifndef SP_RUNTIME_MODEL_SESSION_FILE_H
#define SP_RUNTIME_MODEL_SESSION_FILE_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_state; /* opaque: a file that is written, or read */

/* A file that appears at sp_state_end. Only another such file is replaced. */
SP_MUST_CHECK enum sp_status sp_state_create(struct sp_state **out, const char *path,
                                             struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_state_open(struct sp_state **out, const char *path,
                                           struct sp_err *err);
void sp_state_close(struct sp_state *state); /* NULL is fine; what has not ended is dropped */

bool sp_state_is_read(const struct sp_state *state);
const char *sp_state_path(const struct sp_state *state); /* for messages; as given */

/* Writes them, or fills them. */
SP_MUST_CHECK enum sp_status sp_state_bytes(struct sp_state *state, void *bytes, size_t size,
                                            struct sp_err *err);
/* One number; when read SP_E_INPUT if it is larger than `most`. */
SP_MUST_CHECK enum sp_status sp_state_number(struct sp_state *state, size_t *number, size_t most,
                                             struct sp_err *err);
/* One number that has to be the same; when read SP_E_INPUT names what is not: "another <what>". */
SP_MUST_CHECK enum sp_status sp_state_same(struct sp_state *state, uint64_t number,
                                           const char *what, struct sp_err *err);

/* Everything is written, or read. When read, with the rest of the file that nobody asked for:
 * SP_E_INPUT where the digest does not match. */
SP_MUST_CHECK enum sp_status sp_state_end(struct sp_state *state, struct sp_err *err);

#endif

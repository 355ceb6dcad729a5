/* The caches of a speculator, written to a file and read back. */
#ifndef SP_RUNTIME_SPECULATE_SPECULATE_STATE_H
#define SP_RUNTIME_SPECULATE_SPECULATE_STATE_H

#include "runtime/speculate/speculate.h"

/* What is cached, and of which tokens (runtime/backend/session_file.h). Read: more positions than
 * there are are SP_E_INPUT, no draft's where there is one is SP_E_CHECK; on failure nothing is
 * cached. */
SP_MUST_CHECK enum sp_status sp_speculator_save(struct sp_speculator *s,
                                                struct sp_session_file *file, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_speculator_load(struct sp_speculator *s,
                                                struct sp_session_file *file, struct sp_err *err);

#endif

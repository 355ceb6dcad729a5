/* The caches of a speculator, written to a file and read back. */
#ifndef SP_RUNTIME_SPECULATE_SPECULATE_STATE_H
#define SP_RUNTIME_SPECULATE_SPECULATE_STATE_H

#include "runtime/speculate/speculate.h"

/* Write the caches and their tokens to a file (runtime/backend/session_file.h), and read them.
 * Reading fails with SP_E_INPUT if the file has more tokens than the context, with SP_E_CHECK if it
 * lacks the caches of this speculator's draft; after a failure nothing is cached. */
SP_MUST_CHECK enum sp_status sp_speculator_save(struct sp_speculator *s,
                                                struct sp_session_file *file, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_speculator_load(struct sp_speculator *s,
                                                struct sp_session_file *file, struct sp_err *err);

#endif

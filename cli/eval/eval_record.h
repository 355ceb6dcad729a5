/* Stores the figures of `spectool eval` in the packed file that they are about (format/receipts.h).
 */
#ifndef SP_CLI_EVAL_EVAL_RECORD_H
#define SP_CLI_EVAL_EVAL_RECORD_H

#include "cli/eval/eval.h"
#include "cli/base/out.h"

/* What the figures alone do not say. */
struct sp_eval_record {
    uint64_t reference_digest; /* of the reference's target */
    size_t n_places, n_predict;
};

/* Refuses what cannot be recorded, before anything is measured: SP_E_USAGE. */
SP_MUST_CHECK enum sp_status sp_eval_record_check(const struct sp_eval *eval, struct sp_err *err);

/* Adds the figures of the only file of `eval` to it, or replaces those of the same measurement. The
 * file is written anew and replaced atomically. */
SP_MUST_CHECK enum sp_status sp_eval_record_write(const struct sp_eval *eval,
                                                  const struct sp_eval_record *record,
                                                  struct sp_err *err);

#endif

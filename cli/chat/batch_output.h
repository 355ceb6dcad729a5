/* The output of a batch: standard output, or a file, in which the answers of an interrupted batch
 * are kept.
 *
 * Answers are written in the order of their lines, so the number of whole lines in the file is the
 * number of lines that need no answer any more. */
#ifndef SP_CLI_CHAT_BATCH_OUTPUT_H
#define SP_CLI_CHAT_BATCH_OUTPUT_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* Valid when zeroed. */
struct sp_batch_output {
    FILE *file;       /* owned unless it is standard output */
    const char *path; /* borrowed; NULL: standard output */
    char **kept;      /* [n_kept] custom_id of each kept answer, NULL: none; owned */
    size_t n_kept, cap_kept;
    size_t n_kept_failures; /* kept answers that are errors */
    off_t size;             /* of the kept answers, in bytes */
    bool has_tail;          /* a line without an end follows them */
};

/* Opens the file, or standard output if `path` is NULL, and locks the file against other batches:
 * SP_E_IO if one writes it. A file that has other lines than answers of a batch is refused with
 * SP_E_INPUT. Opening changes nothing in the file. The caller closes it also on failure. */
SP_MUST_CHECK enum sp_status sp_batch_output_open(struct sp_batch_output *out, const char *path,
                                                  struct sp_err *err);

/* Checks that the kept answer index < n_kept is one to the line with this custom_id or NULL. */
SP_MUST_CHECK enum sp_status sp_batch_output_match(const struct sp_batch_output *output,
                                                   size_t index, const char *custom_id,
                                                   struct sp_err *err);

/* Drops a last line without an end. To be called before the first new answer is written. */
SP_MUST_CHECK enum sp_status sp_batch_output_drop_tail(struct sp_batch_output *output,
                                                       struct sp_err *err);

/* Flushes the answers that were written. */
SP_MUST_CHECK enum sp_status sp_batch_output_flush(struct sp_batch_output *output,
                                                   struct sp_err *err);
void sp_batch_output_close(struct sp_batch_output *output);

#endif

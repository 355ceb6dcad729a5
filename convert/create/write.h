/* Writes a packed file from sources and a plan: tensors, texts and pairing record, all or nothing.
 */
#ifndef SP_CONVERT_CREATE_WRITE_H
#define SP_CONVERT_CREATE_WRITE_H

#include "convert/create/create_report.h"
#include "convert/create/plan.h"

/* The complete input of a packed file. */
struct sp_pack_input {
    const struct sp_source *target, *draft; /* borrowed; draft may be NULL */
    const char *records;                    /* the text of the Modelfile's records; borrowed */
    size_t records_size;
    const char *smoothing; /* [smoothing_size] the text of its section, or NULL; borrowed */
    size_t smoothing_size;
    struct sp_budget budget;  /* that the target's types were chosen for */
    double predicted_kl;      /* of that choice; 0: unknown */
    const char *draft_choice; /* of struct sp_create_options; borrowed */
    struct sp_plan plan;      /* released by the caller */
};

/* *most = bytes of the file that would be written, or a few more. No weight is read. `outline`, if
 * it is not NULL: where the file's outline is written (format/packfile_write.h). */
SP_MUST_CHECK enum sp_status sp_pack_input_measure(uint64_t *most,
                                                   const struct sp_pack_input *input,
                                                   const char *outline, struct sp_err *err);

/* Reads and converts every weight as sp_pack_input_write does, and writes nothing. */
SP_MUST_CHECK enum sp_status sp_pack_input_read(const struct sp_pack_input *input,
                                                unsigned n_threads,
                                                const struct sp_create_callbacks *callbacks,
                                                struct sp_err *err);

/* Writes the packed file at `path`. */
SP_MUST_CHECK enum sp_status sp_pack_input_write(const struct sp_pack_input *input,
                                                 const char *path, bool force, unsigned n_threads,
                                                 const struct sp_create_callbacks *callbacks,
                                                 uint64_t *file_size, struct sp_err *err);

#endif

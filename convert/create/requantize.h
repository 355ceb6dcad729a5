/* The command `quantize`: packs the models of a packed file again, in other types, with the rules
 * of convert/create/create.h. */
#ifndef SP_CONVERT_CREATE_REQUANTIZE_H
#define SP_CONVERT_CREATE_REQUANTIZE_H

#include "convert/create/create_report.h"
#include "convert/create/type_rules.h"
#include "format/base/err.h"

#include <stdbool.h>

struct sp_requantize_options {
    const char *input;
    const char *output;        /* NULL: the input is replaced, atomically */
    enum sp_dtype target_type; /* SP_DTYPE_NONE: copied byte for byte */
    enum sp_dtype draft_type;
    enum sp_dtype output_type;
    struct sp_type_rules rules;
    struct sp_budget budget;
    const char *calibration;
    unsigned n_threads;
    bool force;
    bool dry_run;
    bool allow_lossy; /* --requantize: quantized tensors may be quantized again */
    /* Members, after the digests, of a receipt of the draft's type (spectool-pack(5)); NULL: none.
     * With one, no type needs to be requested. */
    const char *draft_choice;
    struct sp_create_callbacks callbacks;
};

/* Packs the models of a packed file again, in other types. *report may be NULL; it is filled on
 * success. */
SP_MUST_CHECK enum sp_status sp_requantize(struct sp_create_report *report,
                                           const struct sp_requantize_options *options,
                                           struct sp_err *err);

#endif

/* From opened sources and the user's options to the plan of both parts: types as requested, rules
 * for single tensors, types that fit a budget of bytes, calibration. */
#ifndef SP_CONVERT_CREATE_MAKE_PLAN_H
#define SP_CONVERT_CREATE_MAKE_PLAN_H

#include "convert/create/calibration.h"
#include "convert/create/type_rules.h"
#include "convert/create/write.h"

struct sp_plan_inputs {
    const struct sp_source *target, *draft; /* borrowed; draft may be NULL */
    const char *records;                    /* of the Modelfile; borrowed; they count for `size` */
    size_t records_size;
    struct sp_policy_request target_request, draft_request;
    struct sp_type_rules rules; /* borrowed */
    struct sp_budget budget;
    bool allow_lossy;
    const char *calibration_path; /* NULL: none */
};

/* Valid when zeroed. The plan borrows from the sources, the rules and the calibration. */
struct sp_made_plan {
    struct sp_plan plan;
    struct sp_calibration_file *calibration; /* NULL: none */
    struct sp_strbuf smoothing;              /* text of the section; owned; empty: none */
    enum sp_dtype uniform;                   /* of struct sp_create_report */
};

/* Notes for the user are added to *warnings, a line each. *out is released by the caller, on
 * failure too. */
SP_MUST_CHECK enum sp_status sp_plan_make(struct sp_made_plan *out,
                                          const struct sp_plan_inputs *inputs, char **warnings,
                                          struct sp_err *err);
void sp_made_plan_release(struct sp_made_plan *made);

#endif

/* Rules of the user for the types of single tensors: a pattern of names, and the type. */
#ifndef SP_CONVERT_CREATE_TYPE_RULES_H
#define SP_CONVERT_CREATE_TYPE_RULES_H

#include "convert/create/plan.h"

/* The text is "PATTERN=TYPE" and is cut at the last '='. PATTERN is a pattern of fnmatch(3) for
 * canonical names of the target's tensors or, with "draft:" in front, of the draft's. */
struct sp_type_rule {
    const char *text; /* as the user wrote it; borrowed; it is the rule that the plan names */
    enum sp_dtype type;
};

struct sp_type_rules {
    struct sp_type_rule *rules; /* [n]; of those that match a tensor, the last decides */
    size_t n;
};

/* Sets the choices (one for each spec of `source`) of the tensors that a rule of this part matches,
 * and leaves the others. SP_E_USAGE for a rule of this part that matches nothing. */
SP_MUST_CHECK enum sp_status sp_type_rules_apply(struct sp_plan_choice *choices,
                                                 const struct sp_type_rules *rules,
                                                 const struct sp_source *source, enum sp_part part,
                                                 struct sp_err *err);

/* The first rule for this part; NULL: there is none. */
const struct sp_type_rule *sp_type_rules_first(const struct sp_type_rules *rules,
                                               enum sp_part part);

#endif

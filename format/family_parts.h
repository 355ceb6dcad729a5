/* What family.c and family_source.c share; not for anybody else. */
#ifndef SP_FORMAT_FAMILY_PARTS_H
#define SP_FORMAT_FAMILY_PARTS_H

#include "format/family.h"

enum { SP_SPEC_NAME = 128 }; /* longest canonical name, its end included */

/* *out = a copy that lives as long as the specs. */
SP_MUST_CHECK enum sp_status sp_specs_add_string(const char **out, struct sp_specs *specs,
                                                 const char *text, struct sp_err *err);

#endif

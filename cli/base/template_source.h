/* The chat template of a packed file, a checkpoint folder, or a file that is one. */
#ifndef SP_CLI_BASE_TEMPLATE_SOURCE_H
#define SP_CLI_BASE_TEMPLATE_SOURCE_H

#include "format/packfile.h"
#include "runtime/template/template.h"

/* `language` (or UNKNOWN) is what a template file or TEMPLATE is written in. SP_E_INPUT where there
 * is no template. *out is released with sp_template_free. */
SP_MUST_CHECK enum sp_status sp_template_source_open(struct sp_template **out, const char *path,
                                                     enum sp_template_language language,
                                                     struct sp_err *err);

/* Of an open packed file: its Modelfile's TEMPLATE, else the checkpoint's. *out = NULL: it has
 * none. */
SP_MUST_CHECK enum sp_status
sp_template_source_pack(struct sp_template **out, const struct sp_pack *pack, struct sp_err *err);

/* "2025-06-15" or "2025-06-15 12:00:00" (also with a T between); noon where there is no time. */
SP_MUST_CHECK enum sp_status sp_template_parse_date(struct sp_template_time *out, const char *text,
                                                    struct sp_err *err);

#endif

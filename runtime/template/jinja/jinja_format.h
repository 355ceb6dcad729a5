/* Python's two kinds of formatting: the operator % of strings, and str.format. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_FORMAT_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_FORMAT_H

#include "runtime/template/jinja/jinja_machine.h"

/* Compute "%d %s" % value and "{} {a}".format(...). */
SP_MUST_CHECK enum sp_status sp_jinja_percent(struct sp_jinja_machine *m, struct sp_value *out,
                                              struct sp_value format, struct sp_value arg);
SP_MUST_CHECK enum sp_status sp_jinja_format(struct sp_jinja_machine *m, struct sp_value *out,
                                             struct sp_value format,
                                             const struct sp_jinja_args *args);

#endif

/* strftime for Jinja's strftime_now. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_TIME_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_TIME_H

#include "runtime/template/value/template_limits.h"
#include "runtime/template/value/value.h"

/* Appends strftime in the C locale. The time has no zone, so %z and %Z are empty. */
SP_MUST_CHECK enum sp_status sp_jinja_build_time(struct sp_builder *b, struct sp_value format,
                                                 const struct sp_template_time *now);

#endif

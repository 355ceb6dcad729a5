/* Go's text/template language, as ollama's Modelfile TEMPLATE uses it.
 *
 * What a template means is what Go 1.19 makes of it with missingkey=zero and ollama's functions
 * json, currentDate, yesterdayDate and toTypeScriptType. Data are values: dictionaries are
 * map[string]interface{}, those of SP_SHAPE_STRUCT have exactly their fields. */
#ifndef SP_RUNTIME_TEMPLATE_GOTEMPLATE_H
#define SP_RUNTIME_TEMPLATE_GOTEMPLATE_H

#include "runtime/template/template_limits.h"
#include "runtime/template/value.h"

struct sp_gotemplate;

/* Errors are "template:LINE: ...". */
SP_MUST_CHECK enum sp_status sp_gotemplate_compile(struct sp_gotemplate **out, const char *text,
                                                   size_t size, struct sp_err *err);
void sp_gotemplate_free(struct sp_gotemplate *t); /* NULL is fine */

/* Does the template mention a field of that name (letter case does not count)? */
bool sp_gotemplate_mentions(const struct sp_gotemplate *t, const char *field);

/* How a template is executed: as it is; or for a turn of a chat, with {{ .Response }} appended
 * where it mentions neither .Messages nor .Response; or for the turn that the model is to continue:
 * only what stands up to the first .Response. The last two are ollama's. */
enum sp_gotemplate_part { SP_GOTEMPLATE_ALL, SP_GOTEMPLATE_TURN, SP_GOTEMPLATE_LAST_TURN };

/* Appends what the template makes of `data` to `out`, whose heap pays. */
SP_MUST_CHECK enum sp_status
sp_gotemplate_render(struct sp_builder *out, const struct sp_gotemplate *t, struct sp_value data,
                     enum sp_gotemplate_part part, struct sp_template_time now, struct sp_err *err);

#endif

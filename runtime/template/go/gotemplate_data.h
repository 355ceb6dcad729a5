/* The data of Go templates: JSON to values and back. */
#ifndef SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_DATA_H
#define SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_DATA_H

#include "runtime/template/value/value.h"

/* Appends json.Marshal of the value. */
SP_MUST_CHECK enum sp_status sp_go_json(struct sp_builder *b, struct sp_value v);

/* Make the values that ollama passes to a template, from JSON with Go's or JSON's field names. */
SP_MUST_CHECK enum sp_status sp_go_message(struct sp_heap *heap, struct sp_value *out,
                                           const struct sp_json *json);
SP_MUST_CHECK enum sp_status sp_go_tools(struct sp_heap *heap, struct sp_value *out,
                                         const struct sp_json *json);
/* Makes a JSON value as Go decodes it into interface{}: all numbers are float64. */
SP_MUST_CHECK enum sp_status sp_go_value(struct sp_heap *heap, struct sp_value *out,
                                         const struct sp_json *json);

#endif

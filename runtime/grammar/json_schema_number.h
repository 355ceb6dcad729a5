/* JSON Schema: numbers between bounds. */
#ifndef SP_RUNTIME_GRAMMAR_JSON_SCHEMA_NUMBER_H
#define SP_RUNTIME_GRAMMAR_JSON_SCHEMA_NUMBER_H

#include "runtime/grammar/json_schema.h"

uint32_t sp_schema_number(struct sp_schema *s, const struct sp_schema_view *view, bool whole,
                          uint32_t next);

#endif

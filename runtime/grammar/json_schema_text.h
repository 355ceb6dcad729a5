/* JSON Schema: strings, by their length, pattern or format. */
#ifndef SP_RUNTIME_GRAMMAR_JSON_SCHEMA_TEXT_H
#define SP_RUNTIME_GRAMMAR_JSON_SCHEMA_TEXT_H

#include "runtime/grammar/json_schema.h"

uint32_t sp_schema_string(struct sp_schema *s, const struct sp_schema_view *view, uint32_t next);

/* Matches a string without escapes that differs from all n names. */
uint32_t sp_schema_other_name(struct sp_schema *s, const char *const *names, size_t n,
                              uint32_t next);

#endif

/* JSON Schema: the values of enum and const, and the branches of oneOf. */
#ifndef SP_RUNTIME_GRAMMAR_JSON_SCHEMA_CHOICE_H
#define SP_RUNTIME_GRAMMAR_JSON_SCHEMA_CHOICE_H

#include "runtime/grammar/json_schema.h"

/* Compares two JSON values; also false if the grammar has failed. */
bool sp_schema_same_value(struct sp_schema *s, const struct sp_json *a, const struct sp_json *b);

/* Records a failure unless the branches of a part's oneOf provably exclude each other: by their
 * types, by their const and enum, or by those of a property that both require. */
void sp_schema_check_one_of(struct sp_schema *s, const struct sp_schema_part *part,
                            const struct sp_json *branches);

#endif

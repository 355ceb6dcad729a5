/* Views of a JSON Schema: the schemas that a value has to match, and access to their keywords. */
#ifndef SP_RUNTIME_GRAMMAR_JSON_SCHEMA_VIEW_H
#define SP_RUNTIME_GRAMMAR_JSON_SCHEMA_VIEW_H

#include "runtime/grammar/json_schema.h"

/* Records the failure SP_E_INPUT or SP_E_UNSUPPORTED "#/path/key: what" for a keyword of a part. */
void sp_schema_fail(struct sp_schema *s, const struct sp_schema_part *part, const char *key,
                    enum sp_status status, const char *what);

/* Adds a schema and those that it refers to (allOf, $ref). `path` is the path of the parent place;
 * `key` and `name` (NULL: none) lead from there to the schema. */
void sp_schema_add(struct sp_schema *s, struct sp_schema_view *view, const struct sp_json *json,
                   const char *path, const char *key, const char *name);

/* The rule of a view; sp_schema_finish defines it. */
uint32_t sp_schema_rule(struct sp_schema *s, const struct sp_schema_view *view);

/* The next part from *i on that has a keyword; *i moves past it. NULL: none. */
const struct sp_schema_part *sp_schema_next(const struct sp_schema *s,
                                            const struct sp_schema_view *view, const char *key,
                                            size_t *i, const struct sp_json **value);
bool sp_schema_has(const struct sp_schema *s, const struct sp_schema_view *view, const char *key);

/* Records a failure and returns false if an array has more than `most` elements. */
bool sp_schema_is_short(struct sp_schema *s, const struct sp_schema_part *part, const char *key,
                        const struct sp_json *array, size_t most);

/* A bound given by a keyword whose value is an integer >= 0: the largest of `otherwise` and all
 * parts' values (sign 1), or the smallest (sign -1). */
uint32_t sp_schema_bound(struct sp_schema *s, const struct sp_schema_view *view, const char *key,
                         int sign, uint32_t otherwise);

/* The types to which the keywords of all parts apply, keywords that apply to every type
 * excepted. */
unsigned sp_schema_keyword_types(const struct sp_schema *s, const struct sp_schema_view *view);

#endif

/* Views of a JSON Schema: which schemas a value has to match, and what their keywords say. */
#ifndef SP_RUNTIME_GRAMMAR_JSON_SCHEMA_VIEW_H
#define SP_RUNTIME_GRAMMAR_JSON_SCHEMA_VIEW_H

#include "runtime/grammar/json_schema.h"

/* What a keyword of a part says: SP_E_INPUT or SP_E_UNSUPPORTED "#/path/key: what". */
void sp_schema_fail(struct sp_schema *s, const struct sp_schema_part *part, const char *key,
                    enum sp_status status, const char *what);

/* Adds a schema and all that it brings along (allOf, $ref). `path` is the place's, `key` and `name`
 * (NULL: none) lead there from it. */
void sp_schema_add(struct sp_schema *s, struct sp_schema_view *view, const struct sp_json *json,
                   const char *path, const char *key, const char *name);

/* The rule for a view, made when its turn comes. */
uint32_t sp_schema_rule(struct sp_schema *s, const struct sp_schema_view *view);

/* The next part from *i on that has a keyword; *i moves behind it. NULL: none. */
const struct sp_schema_part *sp_schema_next(const struct sp_schema *s,
                                            const struct sp_schema_view *view, const char *key,
                                            size_t *i, const struct sp_json **value);
bool sp_schema_has(const struct sp_schema *s, const struct sp_schema_view *view, const char *key);

/* Fails where an array has more than `most` elements; false then. */
bool sp_schema_is_short(struct sp_schema *s, const struct sp_schema_part *part, const char *key,
                        const struct sp_json *array, size_t most);

/* The largest of all parts' values of a keyword that is an integer 0.. (sign 1), or the smallest
 * (sign -1), if that is more, or less, than `otherwise`. */
uint32_t sp_schema_bound(struct sp_schema *s, const struct sp_schema_view *view, const char *key,
                         int sign, uint32_t otherwise);

/* The types that keywords of one type speak of, of all parts. */
unsigned sp_schema_spoken_of(const struct sp_schema *s, const struct sp_schema_view *view);

#endif

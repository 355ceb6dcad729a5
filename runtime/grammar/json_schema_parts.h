/* What the files that compile a JSON schema share. */
#ifndef SP_RUNTIME_GRAMMAR_JSON_SCHEMA_PARTS_H
#define SP_RUNTIME_GRAMMAR_JSON_SCHEMA_PARTS_H

#include "runtime/grammar/grammar.h"
#include "runtime/grammar/json_schema.h"

/* JSON strings that match several regular expressions and have a bounded length. */

struct sp_text_pattern {
    const char *text; /* [len] borrowed */
    size_t len;
    const char *path; /* of its schema, for messages; borrowed */
};

/* A string in quotation marks of min to max characters (SP_NO_LIMIT: any number) that matches all n
 * patterns, followed by `next`. SP_E_UNSUPPORTED is recorded where that takes too many states. */
uint32_t sp_grammar_intersection(struct sp_grammar *g, const struct sp_text_pattern *patterns,
                                 size_t n, uint32_t min, uint32_t max, uint32_t next);

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

/* The types to which the keywords of all parts apply, except those that apply to every type. */
unsigned sp_schema_keyword_types(const struct sp_schema *s, const struct sp_schema_view *view);

uint32_t sp_schema_number(struct sp_schema *s, const struct sp_schema_view *view, bool whole,
                          uint32_t next);

struct sp_schema_names {
    const char **at; /* [n] borrowed from the document; owned */
    size_t n, cap;
};

/* The names in `properties`, then those that are only in `required`. */
void sp_schema_find_names(struct sp_schema *s, const struct sp_schema_view *view,
                          struct sp_schema_names *names);
bool sp_schema_is_required(const struct sp_schema *s, const struct sp_schema_view *view,
                           const char *name);
/* Sets *out to the view of a property's value; name NULL: of a property that no part names. */
void sp_schema_property(struct sp_schema *s, const struct sp_schema_view *view, const char *name,
                        struct sp_schema_view *out);
uint32_t sp_schema_object(struct sp_schema *s, const struct sp_schema_view *view);

uint32_t sp_schema_string(struct sp_schema *s, const struct sp_schema_view *view, uint32_t next);

/* Matches a string without escapes that differs from all n names. */
uint32_t sp_schema_other_name(struct sp_schema *s, const char *const *names, size_t n,
                              uint32_t next);

#endif

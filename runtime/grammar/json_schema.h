/* JSON Schema (draft 2020-12) as a grammar.
 *
 * A value may have to match several schemas at once: its own, those in its allOf, the target of
 * its $ref, one of its anyOf. Such a view is a list of places in the document, each a schema whose
 * keywords all apply. A view becomes one rule, and an equal list finds the same rule again. So to
 * merge schemas is to look a keyword up in every part, and a schema that refers to itself is a
 * rule that calls itself.
 *
 * The grammar is stricter than the schema in a few points, and never more permissive: if an
 * object's `properties` are given and `additionalProperties` is not, there are no other
 * properties; properties come in the order of the schema, unless others are allowed and few of them
 * are optional; a keyword that applies to one type
 * implies that type, unless `type` allows more; the values of enum and const are written as in the
 * schema; numbers and whitespace are bounded (json_grammar.h). */
#ifndef SP_RUNTIME_GRAMMAR_JSON_SCHEMA_H
#define SP_RUNTIME_GRAMMAR_JSON_SCHEMA_H

#include "format/base/strbuf.h"
#include "format/json/json.h"
#include "runtime/grammar/json_grammar.h"

/* Types as bits. An integer is a number, but a number need not be an integer. */
enum sp_json_types {
    SP_TYPE_NULL = 1,
    SP_TYPE_BOOLEAN = 2,
    SP_TYPE_INTEGER = 4,
    SP_TYPE_FRACTION = 8,
    SP_TYPE_NUMBER = SP_TYPE_INTEGER | SP_TYPE_FRACTION,
    SP_TYPE_STRING = 16,
    SP_TYPE_ARRAY = 32,
    SP_TYPE_OBJECT = 64,
    SP_TYPE_ANY = 127,
};

/* A schema and its place in the document. */
struct sp_schema_place {
    const struct sp_json *json; /* an object; borrowed */
    char *path;                 /* "#/properties/a", owned */
};

enum { SP_SCHEMA_PARTS = 24, SP_SCHEMA_PLACES = 1 << 13, SP_SCHEMA_VIEWS = 1 << 13 };
/* The most names of an object, values of an enum, branches of a oneOf: compared in pairs. */
enum { SP_SCHEMA_NAMES = 2000, SP_SCHEMA_VALUES = 2000, SP_SCHEMA_BRANCHES = 64 };

struct sp_schema_part {
    uint32_t place;
    bool any_chosen, one_chosen; /* a branch of its anyOf, of its oneOf is in the view as well */
};

struct sp_schema_view {
    struct sp_schema_part parts[SP_SCHEMA_PARTS];
    size_t n;
    bool never;      /* one of the schemas is `false` */
    const char *tag; /* a property that is required as the discriminator of a oneOf; borrowed; NULL:
                      * none */
};

struct sp_schema_job {
    struct sp_schema_view view;
    uint32_t rule;
};

/* A schema that says a keyword in others (json_schema_derived.c). */
struct sp_schema_derived {
    const struct sp_json *of;
    bool negated;
    struct sp_json *json; /* owned */
};

struct sp_schema {
    struct sp_grammar *g;
    struct sp_json_grammar json;
    const struct sp_json *root;
    struct sp_schema_place *places; /* [n_places] owned, like `jobs` */
    size_t n_places, cap_places;
    struct sp_schema_job *jobs; /* [n_jobs] views that have a rule, in order of creation */
    size_t n_jobs, cap_jobs;
    struct sp_schema_derived *derived; /* [n_derived] owned */
    size_t n_derived, cap_derived, derived_bytes;
    struct sp_err *relaxed; /* borrowed: keywords that are not supported restrict nothing, and the
                             * first one is reported here; NULL: they are a failure */
};

/* Defines the rules of all views that were requested, and releases the memory of *s. Before the
 * first request set g, json and root, and zero the rest. */
void sp_schema_finish(struct sp_schema *s);

/* The types (a set of enum sp_json_types) that a value of the view may have. */
unsigned sp_schema_types(struct sp_schema *s, const struct sp_schema_view *view);

/* ---- strings that match several regular expressions and have a bounded length
 * (grammar_intersection.c) ---- */

struct sp_text_pattern {
    const char *text; /* [len] borrowed */
    size_t len;
    const char *path, *key; /* of its schema, and its keyword, for messages; borrowed */
    bool negated;           /* the text must not match */
};

/* A string in quotation marks of min to max characters (SP_NO_LIMIT: any number) that matches all n
 * patterns, one of which is not negated, followed by `next`. SP_E_UNSUPPORTED is recorded where
 * that takes too many states. */
uint32_t sp_grammar_intersection(struct sp_grammar *g, const struct sp_text_pattern *patterns,
                                 size_t n, uint32_t min, uint32_t max, uint32_t next);
/* True if a text matches a pattern; also false if the grammar has failed. */
bool sp_grammar_pattern_matches(struct sp_grammar *g, const struct sp_text_pattern *pattern,
                                const char *text);

/* ---- what the files that compile a schema share ---- */

/* Records the failure SP_E_INPUT or SP_E_UNSUPPORTED "#/path/key: what" for a keyword of a part.
 * The second is none in a relaxed schema, where the keyword restricts nothing. */
void sp_schema_fail(struct sp_schema *s, const struct sp_schema_part *part, const char *key,
                    enum sp_status status, const char *what);

/* Adds a schema and those that it refers to (allOf, $ref). `path` is the path of the parent place;
 * `key` and `name` (NULL: none) lead from there to the schema. */
void sp_schema_add(struct sp_schema *s, struct sp_schema_view *view, const struct sp_json *json,
                   const char *path, const char *key, const char *name);

/* The schema that a $ref leads to; records a failure and returns NULL if it leads nowhere. */
const struct sp_json *sp_schema_follow(struct sp_schema *s, const struct sp_schema_part *part,
                                       const char *pointer);

/* The schema that a schema with nothing but a $ref stands for, or itself; NULL: as above. */
const struct sp_json *sp_schema_resolve(struct sp_schema *s, const struct sp_schema_part *part,
                                        const struct sp_json *json);

/* What a schema does not match, and the conditions (if, dependencies) of a part's schema, as
 * schemas of other keywords, borrowed until sp_schema_finish. NULL: a failure was recorded, or
 * there are no conditions. */
const struct sp_json *sp_schema_negation(struct sp_schema *s, const struct sp_schema_part *part,
                                         const char *key, const struct sp_json *schema);
const struct sp_json *sp_schema_conditions(struct sp_schema *s, const struct sp_schema_part *part);

/* True if a value would have to match a schema and not match it, as in {"not": {"$ref": "#"}}. */
bool sp_schema_is_contradictory(const struct sp_schema *s, const struct sp_schema_view *view);

/* True for {"type": "string", "not": {"pattern": ...}}, which is a keyword of strings. */
bool sp_schema_is_unlike(const struct sp_json *json);

/* True for a keyword of JSON Schema that restricts values. */
bool sp_schema_is_keyword(const char *name);

/* Appends the alternative "^text$", in which every character stands for itself. */
SP_MUST_CHECK enum sp_status sp_schema_append_literal(struct sp_strbuf *pattern, const char *text,
                                                      size_t len, struct sp_err *err);

/* The names of the types; that of integers, which are numbers, is the last. */
enum { SP_SCHEMA_TYPES = 7 };
extern const struct sp_schema_type {
    const char *name;
    unsigned types;
} sp_schema_type_names[SP_SCHEMA_TYPES];

/* The types of a value, and those that a `type` names; 0: it is no type. */
unsigned sp_schema_type_of(const struct sp_json *value);
unsigned sp_schema_types_of(const struct sp_json *type);

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

/* Finds the first part with an anyOf or oneOf without a chosen branch yet, and the keyword. */
bool sp_schema_find_choice(const struct sp_schema *s, const struct sp_schema_view *v, size_t *which,
                           const char **key);

/* Compares two JSON values; also false if the grammar has failed. */
bool sp_schema_same_value(struct sp_schema *s, const struct sp_json *a, const struct sp_json *b);

/* True if the enum, const and type of all parts allow a value, an element of values_from. */
bool sp_schema_is_enum_value(struct sp_schema *s, const struct sp_schema_view *v,
                             const struct sp_json *one, const struct sp_json *values_from,
                             unsigned types);
/* Matches one value of an enum. */
uint32_t sp_schema_enum_value(struct sp_schema *s, const struct sp_json *one);

uint32_t sp_schema_array(struct sp_schema *s, const struct sp_schema_view *v);
uint32_t sp_schema_number(struct sp_schema *s, const struct sp_schema_view *view, bool whole,
                          uint32_t next);

struct sp_schema_names {
    const char **at; /* [n] borrowed from the document; owned */
    size_t n, cap;
};

/* The names in `properties`, then those that are only in `required`. */
void sp_schema_find_names(struct sp_schema *s, const struct sp_schema_view *view,
                          struct sp_schema_names *names);
/* True if an array has this string. */
bool sp_schema_lists(const struct sp_json *array, const char *name);
bool sp_schema_is_required(const struct sp_schema *s, const struct sp_schema_view *view,
                           const char *name);
/* Sets *out to the view of a property's value; name NULL: of a property that no part names, whose
 * name matches one pattern of `patternProperties`, or (NULL) none. */
void sp_schema_property(struct sp_schema *s, const struct sp_schema_view *view, const char *name,
                        const char *pattern, struct sp_schema_view *out);
uint32_t sp_schema_object(struct sp_schema *s, const struct sp_schema_view *view);

/* False if the view is relaxed and a pattern, which then restricts nothing, is not supported. */
bool sp_schema_takes_pattern(struct sp_schema *s, const struct sp_schema_part *part,
                             const char *key, const char *text, size_t len);
uint32_t sp_schema_string(struct sp_schema *s, const struct sp_schema_view *view, uint32_t next);

/* Matches a string without escapes that differs from all n names. */
uint32_t sp_schema_other_name(struct sp_schema *s, const char *const *names, size_t n,
                              uint32_t next);

#endif

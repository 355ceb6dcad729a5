/* JSON Schema (draft 2020-12) as a grammar: the structs that all json_schema*.c files use.
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
    struct sp_schema_job
        *jobs; /* [n_jobs] the views that have a rule, in the order of their creation */
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

#endif

/* JSON Schema (draft 2020-12) as a grammar: what the parts of it share.
 *
 * A value may have to match several schemas at once: that of its place, those in its allOf, what
 * its $ref leads to, one of its anyOf. Such a view is a list of places in the document, each a
 * schema whose keywords all hold; it becomes one rule, found again by its list. So merging is
 * looking a keyword up in every part, and a schema that refers to itself is a rule that calls
 * itself.
 *
 * Some liberties are taken, all of which leave texts out and let none in: where an object's
 * `properties` are given and `additionalProperties` is not, there are no others; the properties
 * come in the order of the schema; a keyword that speaks of one type only means that type, unless
 * `type` says more; a value that is given (enum, const) is written as the schema writes it; numbers
 * and blanks are bounded (json_grammar.h). */
#ifndef SP_RUNTIME_GRAMMAR_JSON_SCHEMA_H
#define SP_RUNTIME_GRAMMAR_JSON_SCHEMA_H

#include "format/base/json.h"
#include "runtime/grammar/json_grammar.h"

/* Types as bits: an integer is a number, but not every number is one. */
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

/* A schema in the document. */
struct sp_schema_place {
    const struct sp_json *json; /* an object; borrowed */
    char *path;                 /* "#/properties/a", owned */
};

enum { SP_SCHEMA_PARTS = 24, SP_SCHEMA_PLACES = 1 << 13, SP_SCHEMA_VIEWS = 1 << 13 };
/* Of one object, of one enum, of one oneOf: what is compared each with each. */
enum { SP_SCHEMA_NAMES = 2000, SP_SCHEMA_VALUES = 2000, SP_SCHEMA_BRANCHES = 64 };

struct sp_schema_part {
    uint32_t place;
    bool any_chosen, one_chosen; /* one of its anyOf, of its oneOf is a part too */
};

struct sp_schema_view {
    struct sp_schema_part parts[SP_SCHEMA_PARTS];
    size_t n;
    bool never; /* one of them is `false` */
};

struct sp_schema_job {
    struct sp_schema_view view;
    uint32_t rule;
};

struct sp_schema {
    struct sp_grammar *g;
    struct sp_json_grammar json;
    const struct sp_json *root;
    struct sp_schema_place *places; /* [n_places] owned, as what follows */
    size_t n_places, cap_places;
    struct sp_schema_job *jobs; /* [n_jobs] in the order in which they were asked for */
    size_t n_jobs, cap_jobs;
};

/* A schema in a grammar that is being built: begin with g, json and root set, the rest zero. Makes
 * the rules that were asked for, and releases what it took. */
void sp_schema_finish(struct sp_schema *s);

/* The types (enum sp_json_types) that a value may have. */
unsigned sp_schema_types(struct sp_schema *s, const struct sp_schema_view *view);

#endif

/* JSON Schema: objects and their properties. */
#ifndef SP_RUNTIME_GRAMMAR_JSON_SCHEMA_OBJECT_H
#define SP_RUNTIME_GRAMMAR_JSON_SCHEMA_OBJECT_H

#include "runtime/grammar/json_schema.h"

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

#endif

/* Texts in Jinja: string operations that filters and methods share, and values written as Python's
 * str and repr, as JSON, and as escaped HTML. Lengths and counts are in code points. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_TEXT_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_TEXT_H

#include "runtime/template/jinja/jinja_machine.h"
#include "runtime/template/value/value_text.h"

/* Append str(v) and repr(v). */
SP_MUST_CHECK enum sp_status sp_jinja_build_str(struct sp_builder *b, struct sp_value v);
SP_MUST_CHECK enum sp_status sp_jinja_build_repr(struct sp_builder *b, struct sp_value v);
SP_MUST_CHECK enum sp_status sp_jinja_to_text(struct sp_jinja_machine *m, struct sp_value *out,
                                              struct sp_value v);

struct sp_jinja_json_style {
    const char *indent; /* indentation of one level; NULL: all on one line */
    size_t indent_len;
    struct sp_value item_separator, key_separator; /* texts */
    enum sp_json_text text;
    bool sort_keys;
};

/* Appends json.dumps(v). */
SP_MUST_CHECK enum sp_status sp_jinja_build_json(struct sp_builder *b, struct sp_value v,
                                                 const struct sp_jinja_json_style *style);
SP_MUST_CHECK enum sp_status sp_jinja_escape(struct sp_jinja_machine *m, struct sp_value *out,
                                             struct sp_value v);
/* Appends strftime in the C locale. The time has no zone, so %z and %Z are empty. */
SP_MUST_CHECK enum sp_status sp_jinja_build_time(struct sp_builder *b, struct sp_value format,
                                                 const struct sp_template_time *now);

/* The byte offset of the first occurrence from `from` on, or SIZE_MAX; comparisons are work. */
SP_MUST_CHECK enum sp_status sp_jinja_find(struct sp_jinja_machine *m, size_t *at,
                                           struct sp_value text, struct sp_value what, size_t from);

enum sp_jinja_sides { SP_JINJA_LEFT = 1, SP_JINJA_RIGHT = 2, SP_JINJA_BOTH = 3 };

/* Strips `chars`, or whitespace if they are SP_V_ABSENT or none. */
SP_MUST_CHECK enum sp_status sp_jinja_strip(struct sp_jinja_machine *m, struct sp_value *out,
                                            struct sp_value text, struct sp_value chars,
                                            enum sp_jinja_sides sides);
SP_MUST_CHECK enum sp_status sp_jinja_replace(struct sp_jinja_machine *m, struct sp_value *out,
                                              struct sp_value text, struct sp_value from,
                                              struct sp_value to, int64_t count);

enum sp_jinja_case { SP_JINJA_UPPER, SP_JINJA_LOWER, SP_JINJA_TITLE, SP_JINJA_CAPITALIZE };

SP_MUST_CHECK enum sp_status sp_jinja_recase(struct sp_jinja_machine *m, struct sp_value *out,
                                             struct sp_value text, enum sp_jinja_case how);
/* *out: true if a text has letters with case and all of them have the same one. */
SP_MUST_CHECK enum sp_status sp_jinja_has_case(struct sp_jinja_machine *m, struct sp_value *out,
                                               struct sp_value text, bool upper);
SP_MUST_CHECK enum sp_status sp_jinja_splitlines(struct sp_jinja_machine *m, struct sp_value *out,
                                                 struct sp_value text, bool keep_ends);

#endif

/* Writes values as text: Python's str and repr, JSON, and escaped HTML. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_TEXT_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_TEXT_H

#include "runtime/template/jinja/jinja_machine.h"

/* Append str(v) and repr(v). */
SP_MUST_CHECK enum sp_status sp_jinja_build_str(struct sp_builder *b, struct sp_value v);
SP_MUST_CHECK enum sp_status sp_jinja_build_repr(struct sp_builder *b, struct sp_value v);
SP_MUST_CHECK enum sp_status sp_jinja_to_text(struct sp_jinja_machine *m, struct sp_value *out,
                                              struct sp_value v);

struct sp_jinja_json_style {
    const char *indent; /* indentation of one level; NULL: all on one line */
    size_t indent_len;
    struct sp_value item_separator, key_separator; /* texts */
    bool sort_keys, ascii;
};

/* Appends json.dumps(v). */
SP_MUST_CHECK enum sp_status sp_jinja_build_json(struct sp_builder *b, struct sp_value v,
                                                 const struct sp_jinja_json_style *style);
SP_MUST_CHECK enum sp_status sp_jinja_escape(struct sp_jinja_machine *m, struct sp_value *out,
                                             struct sp_value v);

#endif

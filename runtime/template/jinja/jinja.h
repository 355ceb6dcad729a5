/* The Jinja template language, as chat templates use it.
 *
 * A template renders as in Jinja2 3.1 in the environment of Hugging Face transformers: sandboxed,
 * trim_blocks, lstrip_blocks, loop controls, the generation tag, raise_exception, strftime_now,
 * and tojson without HTML escapes. Values print as in Python. Unsupported constructs (inheritance,
 * includes, a few filters) are refused by name, never skipped. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_H

#include "runtime/template/value/value.h"

struct sp_jinja_node; /* the statements of a template */

/* Compiles `size` bytes of UTF-8 into a tree in the heap, which counts it; NULL: an empty template,
 * or a failure that the heap keeps, "template:LINE: ...". */
const struct sp_jinja_node *sp_jinja_compile(struct sp_heap *heap, const char *text, size_t size);

/* Renders the template with the variables in the dictionary `vars` and appends the text to `out`,
 * whose heap contains the variables, counts all memory and work, and keeps a failure. */
SP_MUST_CHECK enum sp_status sp_jinja_render(struct sp_builder *out,
                                             const struct sp_jinja_node *body, struct sp_value vars,
                                             struct sp_template_time now);

#endif

/* Go's text/template language, as ollama's Modelfile TEMPLATE uses it.
 *
 * A template renders as in Go 1.19 with missingkey=zero and ollama's functions json, currentDate,
 * yesterdayDate and toTypeScriptType. Data are values: dictionaries are map[string]interface{},
 * those of SP_SHAPE_STRUCT have exactly their fields. */
#ifndef SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_H
#define SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_H

#include "runtime/template/value/value.h"

struct sp_gotemplate;

/* Compiles `size` bytes of UTF-8, borrowed as long as the template, into the heap, which counts it;
 * NULL: a failure that the heap keeps, "template:LINE: ...". */
const struct sp_gotemplate *sp_gotemplate_compile(struct sp_heap *heap, const char *text,
                                                  size_t size);

/* True for a keyword or a function of the language. */
bool sp_gotemplate_has_word(const char *text, size_t len);

/* True if the template mentions a field of that name, in any case. `field` is in lower case. */
bool sp_gotemplate_mentions(const struct sp_gotemplate *t, const char *field);

/* How a template is executed. ALL: unchanged. TURN: for one turn of a chat, with {{ .Response }}
 * appended if it mentions neither .Messages nor .Response. LAST_TURN: for the turn that the model
 * continues, only the part up to the first .Response. The last two are ollama's rules. */
enum sp_gotemplate_part { SP_GOTEMPLATE_ALL, SP_GOTEMPLATE_TURN, SP_GOTEMPLATE_LAST_TURN };

/* Appends the template's text with `data` to `out`, whose heap counts memory and work, and keeps a
 * failure. */
SP_MUST_CHECK enum sp_status
sp_gotemplate_render(struct sp_builder *out, const struct sp_gotemplate *t, struct sp_value data,
                     enum sp_gotemplate_part part, struct sp_template_time now);

struct sp_go_chat {
    const struct sp_json *messages, *tools; /* arrays; NULL: none */
    struct sp_value prompt, suffix;         /* if neither is empty, they replace the messages */
    bool think, is_think_set;
    const char *think_level; /* NULL: none */
    struct sp_template_time now;
};

/* Renders a conversation by ollama's rules. */
SP_MUST_CHECK enum sp_status sp_go_chat(struct sp_builder *out, const struct sp_gotemplate *t,
                                        const struct sp_go_chat *chat);

/* Makes a JSON value as Go decodes it into interface{}: all numbers are float64. */
struct sp_value sp_go_value(struct sp_heap *heap, const struct sp_json *json);

#endif

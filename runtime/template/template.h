/* Chat templates: from a conversation to the text that the model reads.
 *
 * A template is written in Jinja (in checkpoints) or in Go's text/template (TEMPLATE in ollama's
 * Modelfile). Templates are untrusted: compiling and rendering are limited in memory, work and
 * nesting (runtime/template/value/value.h), and unsupported constructs are refused by
 * name. */
#ifndef SP_RUNTIME_TEMPLATE_TEMPLATE_H
#define SP_RUNTIME_TEMPLATE_TEMPLATE_H

#include "format/json/json.h"
#include "runtime/spectool.h"
#include "runtime/template/value/value.h"

/* Recognizes a language by its tags: `{%` or `{{ name` is Jinja, `{{ .Field` or `{{ if` is Go.
 * UNKNOWN: there are none. */
enum sp_template_language sp_template_recognize(const char *text, size_t size);

/* The possible sources of a template, in order of precedence; texts are borrowed. */
struct sp_template_texts {
    struct sp_text modelfile; /* the value of its TEMPLATE */
    struct sp_text jinja;     /* chat_template.jinja */
    struct sp_text json;      /* chat_template.json */
    struct sp_text config; /* tokenizer_config.json: chat_template, and tokens such as bos_token */
};

/* Compiles the template; *out = NULL if none of the texts has one. From a list of named templates
 * it takes "default", and "tool_use" for conversations with tools. */
SP_MUST_CHECK enum sp_status sp_template_open(struct sp_template **out,
                                              const struct sp_template_texts *texts,
                                              struct sp_err *err);

/* Reads the tokens of a tokenizer_config.json, which templates use as bos_token, eos_token, ... */
SP_MUST_CHECK enum sp_status
sp_template_read_tokens(struct sp_template *t, const struct sp_text *config, struct sp_err *err);

/* The input of a rendering. JSON is borrowed; NULL: none. */
struct sp_template_input {
    const struct sp_json *messages, *tools; /* arrays */
    const struct sp_json *kwargs;           /* Jinja: an object of further variables */
    const struct sp_json *vars; /* an object: exactly these variables, nothing is added */
    const struct sp_json *prompt, *suffix; /* Go: text around a gap, instead of messages */
    bool generation_prompt;                /* Jinja: add_generation_prompt is true */
    bool think, is_think_set;              /* Go; Jinja: enable_thinking and thinking, if set */
    const char *think_level;               /* Go; Jinja: reasoning_effort; NULL: none */
    struct sp_template_time now;
    bool *exhausted; /* a probe: smaller limits apply; set to true if they are exceeded; or NULL */
};

/* Renders a conversation. *text is owned by the caller (free), NUL-terminated, *len bytes. */
SP_MUST_CHECK enum sp_status sp_template_render(char **text, size_t *len,
                                                const struct sp_template *t,
                                                const struct sp_template_input *input,
                                                struct sp_err *err);

/* ---- the JSON texts of a struct sp_chat_request (template_request.c) ---- */

/* Valid when zeroed. All JSON is owned. */
struct sp_template_request {
    struct sp_json *messages, *tools, *kwargs, *vars, *prompt, *suffix; /* NULL: none */
    struct sp_template_input input; /* borrows from the members above */
};

/* Parses a request, all of whose members are set; its texts are borrowed. The caller releases
 * *out, also on failure. SP_E_INPUT names the member that is not valid JSON. */
SP_MUST_CHECK enum sp_status sp_template_request_read(struct sp_template_request *out,
                                                      const struct sp_chat_request *request,
                                                      enum sp_json_strictness strictness,
                                                      struct sp_err *err);
void sp_template_request_release(struct sp_template_request *request);

#endif

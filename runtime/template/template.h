/* Chat templates: from a conversation to the text that the model reads.
 *
 * A template is written in Jinja (as checkpoints bring it) or in Go's text/template (ollama's
 * Modelfile TEMPLATE). Both come from strangers: compiling and rendering are bounded in memory,
 * work and nesting (runtime/template/template_limits.h), and what is not supported is refused by
 * name. */
#ifndef SP_RUNTIME_TEMPLATE_TEMPLATE_H
#define SP_RUNTIME_TEMPLATE_TEMPLATE_H

#include "format/base/json.h"
#include "runtime/spectool.h"
#include "runtime/template/template_limits.h"

/* By its marks: `{%`, `{{ name` and the like are Jinja's, `{{ .Field`, `{{ if` Go's. UNKNOWN where
 * there are none. */
enum sp_template_language sp_template_recognise(const char *text, size_t size);

/* Where a template may come from, the first that is there counts; texts are borrowed, NULL: absent.
 */
struct sp_template_texts {
    const char *modelfile; /* the value of its TEMPLATE */
    size_t modelfile_size;
    const char *jinja; /* chat_template.jinja */
    size_t jinja_size;
    const char *json; /* chat_template.json */
    size_t json_size;
    const char *config; /* tokenizer_config.json: chat_template, and bos_token and its like */
    size_t config_size;
};

/* *out = NULL where none of the texts holds a template. A list of named templates: "default", and
 * "tool_use" for conversations with tools. */
SP_MUST_CHECK enum sp_status sp_template_open(struct sp_template **out,
                                              const struct sp_template_texts *texts,
                                              struct sp_err *err);

/* Makes the tokens of a tokenizer_config.json known as bos_token, eos_token, ... */
SP_MUST_CHECK enum sp_status sp_template_read_tokens(struct sp_template *t, const char *config,
                                                     size_t size, struct sp_err *err);

/* What is rendered. JSON is borrowed; NULL: none. */
struct sp_template_input {
    const struct sp_json *messages, *tools; /* arrays */
    const struct sp_json *kwargs; /* Jinja: an object of variables beside messages and tools */
    const struct sp_json *vars;   /* an object: all variables there are; nothing is added */
    const struct sp_json *prompt, *suffix; /* Go: strings; text around a gap instead of messages */
    bool generation_prompt;                /* Jinja: add_generation_prompt is true */
    bool think, is_think_set; /* Go; in Jinja enable_thinking and thinking, where it is set */
    const char *think_level;  /* Go; in Jinja reasoning_effort; NULL: none */
    struct sp_template_time now;
};

/* *text owned by the caller (free), NUL-terminated, *len bytes. */
SP_MUST_CHECK enum sp_status sp_template_render(char **text, size_t *len,
                                                const struct sp_template *t,
                                                const struct sp_template_input *input,
                                                struct sp_err *err);

#endif

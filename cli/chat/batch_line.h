/* A line of a batch: a request and its settings. */
#ifndef SP_CLI_CHAT_BATCH_LINE_H
#define SP_CLI_CHAT_BATCH_LINE_H

#include "cli/chat/loaded_model.h"
#include "format/json/json.h"

struct sp_batch_line {
    struct sp_json *json;            /* the line as JSON, from which strings are borrowed; owned */
    const char *custom_id;           /* identifier given by the user; NULL: none */
    struct sp_settings settings;     /* owned */
    struct sp_grammar *grammar;      /* the line's own grammar; owned; NULL: none */
    struct sp_ids ids;               /* token ids of the prompt; owned */
    struct sp_chat_prompt *rendered; /* the prompt as rendered; owned; NULL: without a template */
};
void sp_batch_line_release(struct sp_batch_line *line);

/* Parses a line. The caller releases *out, also on failure; it may then have its custom_id. */
SP_MUST_CHECK enum sp_status sp_batch_line_parse(struct sp_batch_line *out, const char *text,
                                                 size_t size, struct sp_err *err);
/* True if the parsed line is a request of OpenAI's or Anthropic's API. */
bool sp_batch_line_is_request(const struct sp_batch_line *line);
/* Reads everything of a parsed line except the prompt. */
SP_MUST_CHECK enum sp_status sp_batch_line_read(struct sp_batch_line *line,
                                                const struct sp_loaded_model *model,
                                                struct sp_err *err);

/* Renders the line's prompt with the conversation of `model`, which stays unchanged; only one
 * thread may call it at a time. *out = `model` with the line's settings, for its answer; it
 * borrows from both. */
SP_MUST_CHECK enum sp_status sp_batch_line_request(struct sp_loaded_model *out,
                                                   struct sp_batch_line *line,
                                                   struct sp_loaded_model *model,
                                                   struct sp_err *err);

#endif

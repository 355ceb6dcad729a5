/* A line of a batch: what is asked, and how the answer is to be generated. */
#ifndef SP_CLI_CHAT_BATCH_LINE_H
#define SP_CLI_CHAT_BATCH_LINE_H

#include "cli/chat/generation.h"
#include "format/base/json.h"

struct sp_batch_line {
    struct sp_json *json;            /* owned, and lent to: */
    const char *custom_id;           /* NULL: none */
    struct sp_settings settings;     /* owned */
    struct sp_grammar *grammar;      /* owned; NULL: none of its own */
    struct sp_ids ids;               /* the prompt; owned */
    struct sp_chat_prompt *rendered; /* the same by a chat; owned; NULL: without a template */
};
void sp_batch_line_release(struct sp_batch_line *line);

/* Everything but the prompt. *out is the caller's to release, also on failure, and has its
 * custom_id where that could be read. */
SP_MUST_CHECK enum sp_status sp_batch_line_read(struct sp_batch_line *out, const char *text,
                                                size_t size, const struct sp_generation *generation,
                                                struct sp_err *err);

/* The prompt, by the generation's conversation, which is left as it was: one thread at a time.
 * *out = the generation that answers it, with the line's settings; borrows from both. */
SP_MUST_CHECK enum sp_status sp_batch_line_ask(struct sp_generation *out,
                                               struct sp_batch_line *line,
                                               struct sp_generation *generation,
                                               struct sp_err *err);

#endif

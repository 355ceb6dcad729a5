/* One answer on its way to the user: streamed text or JSON lines, then the figures of drafting. */
#ifndef SP_CLI_CHAT_CONSOLE_ANSWER_H
#define SP_CLI_CHAT_CONSOLE_ANSWER_H

#include "runtime/spectool.h"

#include <stdio.h>

struct sp_console_style {
    bool json;       /* an object a token and a piece of text, the last one with everything */
    bool ids;        /* the file has no tokenizer: ids in place of text, with commas between */
    bool show_draft; /* text that the draft had guessed in colour */
    bool verbose;    /* all figures */
    bool digest;     /* the last object holds logits_xxh3 */
    bool plain;      /* --no-draft: no rounds are listed */
    bool hide_reasoning;
    bool told_useless; /* that the draft does not help was said: once is enough */
    FILE *
        whole; /* the last object alone, to this file; NULL: all as it comes, to stdout; borrowed */
    const char *custom_id;    /* told first in the last object, NULL: none; borrowed */
    const char *prompt_cache; /* file that keeps prompts, NULL: none; borrowed */
};

/* Generates and shows. `request` comes without callbacks. A caught signal stops the answer
 * (SP_STOP_CANCELLED). prompt NULL: all is content, shown as it comes; else *reader separates
 * content and reasoning (closed by the caller, also on failure; NULL where it could not be opened),
 * which are shown apart on a screen, or where reasoning is hidden; elsewhere the text is shown as
 * it comes. */
SP_MUST_CHECK enum sp_status
sp_console_answer(struct sp_result *result, struct sp_chat_reader **reader,
                  struct sp_session *session, const struct sp_request *request,
                  const struct sp_chat_prompt *prompt, const struct sp_console_style *style,
                  struct sp_err *err);

/* Figures on stderr, or the last JSON object on stdout; reader NULL: nothing was separated. */
void sp_console_report(const struct sp_result *result, const struct sp_chat_reader *reader,
                       const struct sp_package_info *info, const struct sp_sampling *sampling,
                       struct sp_console_style *style);

#endif

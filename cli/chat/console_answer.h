/* One answer on its way to the user: streamed text or JSON lines, then the figures of drafting. */
#ifndef SP_CLI_CHAT_CONSOLE_ANSWER_H
#define SP_CLI_CHAT_CONSOLE_ANSWER_H

#include "cli/chat/message.h"
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

/* By which thoughts are told apart. */
struct sp_chat_format_tags {
    const struct sp_chat_format *format;
    const struct sp_chat_specials *specials;
    bool in_reasoning; /* the prompt has begun one */
};

/* Generates and shows. `request` comes without callbacks. A caught signal stops the answer
 * (SP_STOP_CANCELLED). marks NULL: all is content, as it comes; else `said` gets content and
 * thoughts apart (released by the caller, also on failure), and on a screen, or where thoughts are
 * hidden, they are shown apart; elsewhere the text is as it comes. */
SP_MUST_CHECK enum sp_status
sp_console_answer(struct sp_result *result, struct sp_message *message, struct sp_session *session,
                  const struct sp_request *request, const struct sp_chat_format_tags *tags,
                  const struct sp_console_style *style, struct sp_err *err);

/* Figures on stderr, or the last JSON object on stdout; said NULL: nothing was told apart. */
void sp_console_report(const struct sp_result *result, const struct sp_message *message,
                       const struct sp_package_info *info, const struct sp_sampling *sampling,
                       struct sp_console_style *style);

#endif

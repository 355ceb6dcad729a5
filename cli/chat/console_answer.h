/* Shows an answer while it is generated, as text or as JSON lines, and its figures at the end. */
#ifndef SP_CLI_CHAT_CONSOLE_ANSWER_H
#define SP_CLI_CHAT_CONSOLE_ANSWER_H

#include "runtime/spectool.h"

#include <stdio.h>

struct sp_console_style {
    /* JSON lines: an object per token and per part of text, the last one with everything */
    bool json;
    bool ids;        /* the file has no tokenizer: ids separated by commas are shown */
    bool show_draft; /* accepted draft tokens are shown in color */
    bool verbose;    /* all figures are shown */
    bool digest;     /* the last object contains logits_xxh3 */
    bool plain;      /* --no-draft was given: no rounds are listed */
    bool hide_reasoning;
    bool wrap;                  /* lines of text are broken between words on a screen */
    bool quiet;                 /* no figures and no notes */
    bool reported_useless;      /* the note that the draft does not help was printed */
    bool session;               /* notes name commands of the session instead of options */
    bool reported_loop;         /* the note that an answer repeats itself was printed */
    double started;             /* sp_seconds() when the user asked; 0: when the answer began */
    double first_token_seconds; /* from then to the first token of the last answer */
    /* print only the last object, to this file; borrowed; NULL: print everything to stdout */
    FILE *last_object_file;
    const char *custom_id; /* first member of the last object; borrowed; NULL: none */
};

/* Generates an answer and shows it. `request` has no callbacks. A caught signal stops the answer
 * (SP_STOP_CANCELLED). prompt NULL: all text is content. Otherwise *reader separates content and
 * reasoning; the caller closes it, also on failure, and it is NULL if it could not be opened. On a
 * terminal, or if reasoning is hidden, the two are shown separately; elsewhere the text is shown
 * as it is generated. A note says once that a greedy answer repeats itself without end. */
SP_MUST_CHECK enum sp_status sp_console_answer(struct sp_result *result,
                                               struct sp_chat_reader **reader,
                                               struct sp_session *session,
                                               const struct sp_request *request,
                                               const struct sp_chat_prompt *prompt,
                                               struct sp_console_style *style, struct sp_err *err);

/* Prints the figures to stderr, or the last JSON object to stdout. reader: may be NULL. */
void sp_console_report(const struct sp_result *result, const struct sp_chat_reader *reader,
                       const struct sp_package_info *info, const struct sp_sampling *sampling,
                       struct sp_console_style *style);

#endif

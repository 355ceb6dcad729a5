/* Conversations that a chat template refuses or would lose a part of, changed into ones that it
 * takes. A conversation that the template takes stays as it is. */
#ifndef SP_RUNTIME_CHAT_CHAT_NORMALIZE_H
#define SP_RUNTIME_CHAT_CHAT_NORMALIZE_H

#include "runtime/chat/chat_format.h"
#include "runtime/template/template.h"

/* What a template does not take, and the change that a conversation gets, as bits. */
enum sp_chat_change {
    SP_CHAT_NO_SYSTEM = 1,      /* system messages: put before the first user message */
    SP_CHAT_SYSTEM_LAST = 2,    /* the same if the last message is not the user's */
    SP_CHAT_ONE_SYSTEM = 4,     /* several at the start: merged */
    SP_CHAT_SYSTEM_FIRST = 8,   /* system messages after others: merged into the first one */
    SP_CHAT_USERS_APART = 16,   /* two user messages in a row: merged */
    SP_CHAT_ANSWERS_APART = 32, /* two texts of the assistant in a row: merged */
    SP_CHAT_TEXT_APART = 64,    /* a text and calls in one message: two messages */
    SP_CHAT_TEXT_LOST = 128,    /* texts before and after calls: one message with the calls, whose
                                 * text the template leaves out if it needs SP_CHAT_TEXT_APART */
    SP_CHAT_ANSWER_TOOLS = 256, /* a user message after calls or results: an answer "OK." between */
    SP_CHAT_SHORT_IDS = 512,    /* ids of calls other than nine letters and digits: shortened */
    SP_CHAT_WHOLE_ARGUMENTS = 1024, /* arguments that are no object: {"arguments": their text} */
    SP_CHAT_FULL_TOOLS = 2048,      /* tools without description or parameters: filled in */
    SP_CHAT_FILL_ARGUMENTS = 4096, /* for every template: arguments that are missing or empty: {} */
};

/* Changes the messages and tools of a request. *changed: which changes were made. */
SP_MUST_CHECK enum sp_status
sp_chat_normalize(unsigned *changed, struct sp_template_request *request, unsigned refused,
                  const struct sp_tool_call_format *calls, struct sp_err *err);

/* Writes the changes as words, with commas between them; "" for none. Returns `text`. */
enum { SP_CHAT_CHANGES_TEXT = 320 };
const char *sp_chat_describe_changes(char text[SP_CHAT_CHANGES_TEXT], unsigned changed);

#endif

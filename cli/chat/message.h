/* What an answer has said so far, apart: content, thoughts, calls of tools. */
#ifndef SP_CLI_CHAT_MESSAGE_H
#define SP_CLI_CHAT_MESSAGE_H

#include "format/base/strbuf.h"
#include "runtime/chat/chat_parser.h"

enum { SP_CALL_ID_SIZE = 10 };

struct sp_message_add_call {
    char id[SP_CALL_ID_SIZE]; /* nine letters and digits: there are templates that take no others */
    char *name, *arguments;   /* arguments: JSON, [size] and a NUL; owned */
    size_t size, cap;
};

/* A run of content or of thought, or a call: what was said in which order. */
struct sp_message_part {
    enum sp_chat_part_kind kind; /* SP_CHAT_TOOL_CALL of all calls */
    size_t at, size;             /* bytes of the content or the thought; of a call: which one, 1 */
    size_t n_tokens;             /* for whoever adds the pieces to count */
};

/* Valid when zeroed. */
struct sp_message {
    struct sp_strbuf content, reasoning; /* owned, as is: */
    struct sp_message_add_call *calls;
    size_t n_calls, cap_calls;
    struct sp_message_part *parts; /* owned; next to each other they are of other kinds, or calls */
    size_t n_parts, cap_parts;
    uint64_t key; /* of the ids: another one an answer */
};
void sp_message_release(struct sp_message *message);
/* Tokens of thoughts. */
size_t sp_message_n_reasoning_tokens(const struct sp_message *message);
/* A call that has begun is one, and parts of arguments are those of the last one. */
SP_MUST_CHECK enum sp_status sp_message_add(struct sp_message *message,
                                            const struct sp_chat_part *piece, struct sp_err *err);

#endif

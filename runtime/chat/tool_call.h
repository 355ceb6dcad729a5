/* Parses one tool call of an answer's text. */
#ifndef SP_RUNTIME_CHAT_TOOL_CALL_H
#define SP_RUNTIME_CHAT_TOOL_CALL_H

#include "runtime/chat/chat_format.h"
#include "runtime/chat/tool_value.h"

/* Valid when zeroed; both are owned. */
struct sp_tool_call {
    struct sp_strbuf name;      /* the function's name and a NUL */
    struct sp_strbuf arguments; /* a JSON object */
};
void sp_tool_call_release(struct sp_tool_call *call);

/* The source of a call: the text after its opening tag. */
struct sp_tool_call_source {
    const struct sp_tool_call_format *format;
    const struct sp_json *tools;
    const char *text;
    size_t size;
    bool final;       /* the answer has ended */
    bool constrained; /* by a grammar: a call without its closing tag is cut */
    bool bare;        /* there is no tag: the call must name one of the tools and have arguments */
};

/* Parses a call into *call, which is replaced. *used: the bytes up to its closing tag, not
 * included. SP_VALUE_MORE: with more text it may become a call; at the end of the answer that is
 * SP_VALUE_NONE, and *call has the part that is certain, if its name is known. */
SP_MUST_CHECK enum sp_status sp_tool_call_read(enum sp_value_read *read, struct sp_tool_call *call,
                                               size_t *used,
                                               const struct sp_tool_call_source *source,
                                               struct sp_err *err);

/* Returns true if `name` can be the name of a function. */
bool sp_tool_call_name_possible(const char *name, size_t size);

/* Returns true if several calls may stand between one pair of tags. */
bool sp_tool_call_is_list(const struct sp_tool_call_format *format);

#endif

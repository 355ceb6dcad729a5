/* One call of a tool out of an answer's text. */
#ifndef SP_RUNTIME_CHAT_TOOL_CALL_H
#define SP_RUNTIME_CHAT_TOOL_CALL_H

#include "runtime/chat/chat_format.h"
#include "runtime/chat/tool_value.h"

/* Valid when zeroed; both are owned. */
struct sp_tool_call {
    struct sp_strbuf name;      /* and a NUL */
    struct sp_strbuf arguments; /* a JSON object */
};
void sp_tool_call_release(struct sp_tool_call *call);

/* What a call is read from: the text behind its open mark. */
struct sp_tool_call_source {
    const struct sp_tool_call_format *format;
    const struct sp_json *tools;
    const char *text;
    size_t size;
    bool final; /* nothing follows */
    bool bare;  /* nothing marks it: it must be of one of the tools, and have arguments */
};

/* *call is replaced; *used: bytes up to its close mark, not included. MORE: as the text stands, it
 * may become one. */
SP_MUST_CHECK enum sp_status sp_tool_call_read(enum sp_value_read *read, struct sp_tool_call *call,
                                               size_t *used,
                                               const struct sp_tool_call_source *source,
                                               struct sp_err *err);

/* Can it be the name of a function? */
bool sp_tool_call_name_possible(const char *name, size_t size);

/* May several calls stand between one pair of marks? */
bool sp_tool_call_is_list(const struct sp_tool_call_format *format);

#endif

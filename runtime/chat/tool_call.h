/* Parses one tool call of an answer's text. */
#ifndef SP_RUNTIME_CHAT_TOOL_CALL_H
#define SP_RUNTIME_CHAT_TOOL_CALL_H

#include "runtime/chat/chat_format.h"
#include "format/json/json_write.h"

/* MORE: the text ends inside the value. */
enum sp_value_read { SP_VALUE_MORE, SP_VALUE_READ, SP_VALUE_NONE };

/* Valid when zeroed. */
struct sp_tool_call {
    struct sp_strbuf name;        /* the function's name and a NUL; owned */
    struct sp_json_out arguments; /* a JSON object in `text`, owned; no_memory: of the name, too */
    /* The arguments as the source writes them, as far as they are known; borrowed from it. NULL:
     * they have not begun, or what is written is not JSON that only a call can be. */
    const char *written; /* [n_written] */
    size_t n_written;
};

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

/* ---- values of arguments, as models write them, to JSON (tool_value.c) ---- */
/* Finds the end of the JSON object, list or string at the beginning of the text, by its brackets
 * and quotes alone. */
enum sp_value_read sp_tool_value_json_end(size_t *end, const char *text, size_t size);

/* Notations close to JSON. `quote` replaces the quotes of strings (empty: it does not); keys and
 * words may stand without quotes. `python`: as Python's repr() writes values, where a tuple is a
 * list and parentheses at the beginning hold name=value pairs as the members of an object. */
struct sp_value_notation {
    const char *quote;
    bool python;
};

/* Appends the JSON of the bracketed value at the beginning of the text; *end: its bytes. A value
 * with SP_VALUE_READ is valid JSON; with SP_VALUE_MORE its beginning is appended. */
enum sp_value_read sp_tool_value_read(struct sp_json_out *out, size_t *end, const char *text,
                                      size_t size, const struct sp_value_notation *notation);

/* Appends a JSON string. */
void sp_tool_value_string(struct sp_json_out *out, const char *text, size_t size);

/* Appends the JSON of a value that was written without a notation, by the type in the tool's
 * schema: a string, or for another type JSON or Python's notation, if the text is that. */
void sp_tool_value_typed(struct sp_json_out *out, const struct sp_json *tools, const char *function,
                         const char *key, const char *text, size_t size);

/* True if the function's schema makes this argument a string; an undeclared argument is one. */
bool sp_tool_value_is_text(const struct sp_json *function, const char *key);

/* Returns the function of that name in a list of tools (OpenAI's and ollama's form), or NULL. */
const struct sp_json *sp_tool_value_tool(const struct sp_json *tools, const char *name);

#endif

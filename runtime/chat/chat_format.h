/* The chat format of a model: how it writes reasoning and tool calls, learned from its chat
 * template.
 *
 * A template shows how earlier answers were written. Conversations with reasoning and tool calls
 * made of known words are rendered, and the tags are the texts around those words. A learned tool
 * call format is only used if it parses the template's own rendering. If a template does not write
 * tool calls but shows the model its tools and names one of a few customary tags, or the tokenizer
 * has a token for such a tag, that custom is used.
 *
 *   style     a call of f with x = 1, between `open` and `close`
 *   OBJECT    {"name": "f", "arguments": {"x": 1}}; several calls, or a list of them
 *   NAMED     f, `before_arguments`, {"x": 1}
 *   BARE      like NAMED, with keys without quotes, and `quote` around strings
 *   TAGGED    f, `after_name`, then for each argument: `before_key`, x, `before_text` or
 *             `before_value`, 1, `after_value`
 *   PYTHON    f(x=1); several calls, or a list of them
 *   HARMONY   OpenAI's format of messages on channels, for reasoning and calls
 *             (https://github.com/openai/harmony, docs/format.md)
 *
 * Tags are stored without whitespace at their ends; an empty tag is not written. */
#ifndef SP_RUNTIME_CHAT_CHAT_FORMAT_H
#define SP_RUNTIME_CHAT_CHAT_FORMAT_H

#include "runtime/chat/chat_tag.h"
#include "runtime/template/template.h"
#include "runtime/tokenizer/tokenizer.h"

enum sp_tool_call_style {
    SP_TOOL_CALL_UNKNOWN, /* calls stay in the text */
    SP_TOOL_CALL_OBJECT,
    SP_TOOL_CALL_NAMED,
    SP_TOOL_CALL_BARE,
    SP_TOOL_CALL_TAGGED,
    SP_TOOL_CALL_PYTHON,
    SP_TOOL_CALL_HARMONY,
};

/* Plain data, valid when zeroed: nothing is known. */
struct sp_tool_call_format {
    enum sp_tool_call_style style;
    char all_open[SP_TAG_SIZE], all_close[SP_TAG_SIZE];     /* around all calls of an answer */
    char open[SP_TAG_SIZE], close[SP_TAG_SIZE];             /* around each call */
    char name_key[SP_TAG_SIZE], arguments_key[SP_TAG_SIZE]; /* OBJECT; name_key empty: the name
                                                             * is the key of the arguments */
    char before_arguments[SP_TAG_SIZE];
    char quote[SP_TAG_SIZE];
    char after_name[SP_TAG_SIZE], before_key[SP_TAG_SIZE];
    char before_text[SP_TAG_SIZE], before_value[SP_TAG_SIZE], after_value[SP_TAG_SIZE];
    char value_lead[8], value_tail[8]; /* whitespace between those tags and the value */
    bool text_arguments;               /* the template takes arguments as JSON in a string only */
    bool null_content; /* the template writes calls only where the content is null */
};

struct sp_chat_format {
    char reasoning_open[SP_TAG_SIZE],
        reasoning_close[SP_TAG_SIZE]; /* reasoning_close empty: unknown */
    struct sp_tool_call_format calls;
};

/* Learns the format. The tokenizer may be NULL. Learning nothing is not an error. SP_E_CHECK: the
 * template exceeds a limit of work or memory. */
SP_MUST_CHECK enum sp_status sp_chat_format_learn(struct sp_chat_format *out,
                                                  const struct sp_template *t,
                                                  const struct sp_tokenizer *tokenizer,
                                                  struct sp_err *err);

/* True if an answer to this prompt begins inside reasoning: it then ends with reasoning_open. */
bool sp_chat_format_opens_reasoning(const struct sp_chat_format *format, const char *prompt,
                                    size_t size);

/* Write a printable description of the tags, such as "<think>...</think>" or
 * `<tool_call>{"name": ..., "arguments": ...}</tool_call>`, or "unknown". Return `text`. */
enum { SP_CHAT_FORMAT_TEXT = 1024 };
const char *sp_chat_format_describe_reasoning(char text[SP_CHAT_FORMAT_TEXT],
                                              const struct sp_chat_format *format);
const char *sp_chat_format_describe_calls(char text[SP_CHAT_FORMAT_TEXT],
                                          const struct sp_chat_format *format);

/* A special token that a tag contains. No text of an answer shows it, so the reader of an answer
 * must receive it separately (sp_request.special). */
struct sp_chat_special {
    uint32_t id;
    char *text; /* owned */
};
struct sp_chat_specials {
    struct sp_chat_special *at; /* [n], owned */
    size_t n;
};

#endif

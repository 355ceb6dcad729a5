/* How a model writes down its thoughts and its calls of tools, learned from its chat template.
 *
 * A template says how the answers of earlier turns were written, so it is asked: conversations with
 * thoughts and calls of known words are rendered, and the marks are what stands around those words.
 * What was learned of calls is believed only if it reads the template's own rendering back. Where a
 * template does not write calls at all, but shows the model its tools and names one of a few
 * customary marks, or the tokenizer has a token for it, that custom is taken.
 *
 *   form      a call of f with x = 1, between `open` and `close`
 *   OBJECT    {"name": "f", "arguments": {"x": 1}}; several, or a list of them, are several calls
 *   NAMED     f, `before_arguments`, {"x": 1}
 *   BARE      the same, in which keys have no quotes, and texts have `quote` for theirs
 *   TAGGED    f, `behind_name`, then of each argument: `before_key`, x, `before_text` or
 *             `before_value`, 1, `behind_value`
 *   PYTHON    f(x=1); several, or a list of them, are several calls
 *   HARMONY   OpenAI's format of messages on channels, thoughts and calls alike
 *             (https://github.com/openai/harmony, docs/format.md)
 *
 * Marks come without blanks at their ends; an empty one is not written. */
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
    enum sp_tool_call_style form;
    char all_open[SP_TAG_SIZE], all_close[SP_TAG_SIZE];     /* around all calls of an answer */
    char open[SP_TAG_SIZE], close[SP_TAG_SIZE];             /* around each */
    char name_key[SP_TAG_SIZE], arguments_key[SP_TAG_SIZE]; /* OBJECT; name_key empty: the name
                                                             * is the key of the arguments */
    char before_arguments[SP_TAG_SIZE];
    char quote[SP_TAG_SIZE];
    char behind_name[SP_TAG_SIZE], before_key[SP_TAG_SIZE];
    char before_text[SP_TAG_SIZE], before_value[SP_TAG_SIZE], behind_value[SP_TAG_SIZE];
    char value_lead[8], value_tail[8]; /* blanks between those marks and the value */
    bool text_arguments;               /* the template takes arguments as JSON in a string only */
    bool null_content; /* the template writes calls only where the content is null */
};

struct sp_chat_format {
    char reasoning_open[SP_TAG_SIZE],
        reasoning_close[SP_TAG_SIZE]; /* reasoning_close empty: unknown */
    struct sp_tool_call_format calls;
};

/* The tokenizer may be NULL. Nothing learned is no failure. */
SP_MUST_CHECK enum sp_status sp_chat_format_learn(struct sp_chat_format *out,
                                                  const struct sp_template *t,
                                                  const struct sp_tokenizer *tokenizer,
                                                  struct sp_err *err);

/* Can thoughts be told from the rest? */
bool sp_chat_format_has_reasoning(const struct sp_chat_format *format);

/* Does an answer to this prompt begin inside a thought? Then the prompt ends with reasoning_open.
 */
bool sp_chat_format_opens_reasoning(const struct sp_chat_format *format, const char *prompt,
                                    size_t size);

/* For people: "<think>...</think>", `<tool_call>{"name": ..., "arguments": ...}</tool_call>`;
 * "unknown". Returns `text`. */
enum { SP_CHAT_FORMAT_TEXT = 1024 };
const char *sp_chat_format_describe_reasoning(char text[SP_CHAT_FORMAT_TEXT],
                                              const struct sp_chat_format *format);
const char *sp_chat_format_describe_calls(char text[SP_CHAT_FORMAT_TEXT],
                                          const struct sp_chat_format *format);

/* A special token that a mark holds: no text of an answer shows it, so whoever reads answers must
 * be told of it apart (sp_request.special). */
struct sp_chat_special {
    uint32_t id;
    char *text; /* owned */
};
struct sp_chat_specials {
    struct sp_chat_special *at; /* [n], owned */
    size_t n;
};
/* `calls`: those of calls, too. */
SP_MUST_CHECK enum sp_status sp_chat_specials_find(struct sp_chat_specials *out,
                                                   const struct sp_chat_format *format,
                                                   const struct sp_tokenizer *tokenizer, bool calls,
                                                   struct sp_err *err);
void sp_chat_specials_release(struct sp_chat_specials *specials);

#endif

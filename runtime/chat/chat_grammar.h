/* The grammar of a whole answer: reasoning as the model writes it, then a response format, tool
 * calls as the model writes them, or both.
 *
 * Reasoning is any text up to its closing tag. Calls name one of the given tools, and their
 * arguments match the tool's schema, in the order of the schema; whitespace is optional between
 * tags, where templates differ. runtime/chat/chat_parser.h parses everything that the grammar
 * allows as what it stands for. For calls that are not JSON:
 *
 * TAGGED   a value whose schema is a string stands without quotes, up to the tag after it; all
 * other values are JSON, or True, False, None
 * BARE     the same, with a string between the model's own quotes
 * PYTHON   values are JSON, or those words
 *
 * For a string without quotes, pattern, format and length limits are refused, as are choices
 * between schemas of all the arguments (anyOf, oneOf). No other arguments are written. */
#ifndef SP_RUNTIME_CHAT_CHAT_GRAMMAR_H
#define SP_RUNTIME_CHAT_CHAT_GRAMMAR_H

#include "runtime/chat/chat_format.h"
#include "runtime/grammar/grammar.h"

enum sp_reasoning_mode {
    SP_REASONING_NONE,
    SP_REASONING_OPEN,     /* the prompt opens the reasoning */
    SP_REASONING_OPTIONAL, /* the model may open it */
};

/* All members are borrowed; what the grammar needs is copied. */
struct sp_chat_grammar_options {
    const struct sp_chat_format *format;
    const struct sp_tokenizer *tokenizer; /* knows special tokens in tags; NULL: tags are text */
    const uint32_t *ends;                 /* [n_ends] tokens that end an answer, in tags too */
    size_t n_ends;
    enum sp_reasoning_mode thinking;
    const struct sp_grammar *content; /* the response format, finished; NULL: any text */
    const struct sp_json *tools;      /* tools as in OpenAI's API; NULL: no calls */
    const char *function;             /* the only function that may be called; NULL: any */
    bool must_call;                   /* the answer is calls without content */
    bool one_call;
    bool tagged_only; /* text that begins with no tag is free; not with `must_call` or `content` */
    /* NULL: a schema that cannot be enforced is refused. Else that of a tool which is not strict is
     * relaxed: keywords that are not supported restrict nothing, or it allows any arguments. The
     * first such keyword of each tool is added here. */
    char *changes; /* [changes_size] a text */
    size_t changes_size;
};

/* Returns whether the answer begins with reasoning, given the prompt and the options. `think`:
 * false if reasoning is switched off. */
enum sp_reasoning_mode sp_reasoning_mode_of(const struct sp_chat_format *format, const char *prompt,
                                            size_t size, bool think);

/* Returns true if calls can be constrained to their schemas in this format. */
bool sp_chat_format_can_constrain_calls(const struct sp_chat_format *format);

/* Builds the grammar; *out is owned by the caller. SP_E_UNSUPPORTED: the format of calls is not
 * known, or a tool's schema is not supported; SP_E_INPUT: a tool without a name, and the like. */
SP_MUST_CHECK enum sp_status sp_chat_grammar(struct sp_grammar **out,
                                             const struct sp_chat_grammar_options *options,
                                             struct sp_err *err);

#endif

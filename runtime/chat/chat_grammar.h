/* The grammar of a whole answer: a thought as the model writes it, then a form, calls of tools as
 * the model writes them, or both.
 *
 * A thought is any text up to its close mark. Calls are of the tools that there are, their
 * arguments held to the tools' schemas, in the order of the schema; between marks, where templates
 * differ, there may be blanks. All that the grammar allows is read by runtime/chat/chat_parser.h as
 * what it is meant for. Where calls are not JSON:
 *
 *   TAGGED   what a schema calls a string stands as it is, up to the mark behind it; all other
 *            values are JSON, or True, False, None
 *   BARE     the same, a string between the model's own quotes
 *   PYTHON   values are JSON, or those words
 *
 * and there pattern, format and lengths of a string that stands as it is are refused, as is what
 * chooses between schemas of all the arguments (anyOf, oneOf). Arguments that no schema names are
 * not written. */
#ifndef SP_RUNTIME_CHAT_CHAT_GRAMMAR_H
#define SP_RUNTIME_CHAT_CHAT_GRAMMAR_H

#include "runtime/chat/chat_format.h"
#include "runtime/grammar/grammar.h"

enum sp_reasoning_mode {
    SP_REASONING_NONE,
    SP_REASONING_OPEN,     /* the prompt has opened a thought */
    SP_REASONING_OPTIONAL, /* the model may open one */
};

/* All borrowed, and copied where it is needed. */
struct sp_chat_grammar_options {
    const struct sp_chat_format *format;
    const struct sp_tokenizer *tokenizer; /* of the special tokens in marks; NULL: marks are text */
    const uint32_t *ends; /* [n_ends] tokens that end an answer: a mark that is one does, too */
    size_t n_ends;
    enum sp_reasoning_mode thinking;
    const struct sp_grammar *content; /* the form, finished; NULL: any text */
    const struct sp_json *tools;      /* a list, as OpenAI has it; NULL: no calls */
    const char *function;             /* the one that may be called; NULL: any */
    bool must_call;                   /* there is no content */
    bool one_call;
};

/* What is known of a prompt and of the options: must the answer begin with a thought, may it?
 * `think`: false where thinking is switched off. */
enum sp_reasoning_mode sp_reasoning_mode_of(const struct sp_chat_format *format, const char *prompt,
                                            size_t size, bool think);

/* Can calls be held to, as the model writes them? */
bool sp_chat_format_can_constrain_calls(const struct sp_chat_format *format);

/* *out is finished, and owned by the caller. SP_E_UNSUPPORTED: the syntax of calls is not known, or
 * a tool's schema asks for what is not done; SP_E_INPUT: a tool without a name, and the like. */
SP_MUST_CHECK enum sp_status sp_chat_grammar(struct sp_grammar **out,
                                             const struct sp_chat_grammar_options *form,
                                             struct sp_err *err);

#endif

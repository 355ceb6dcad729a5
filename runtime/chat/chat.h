/* The structs behind the public chat handles, for chat.c, chat_prompt.c and chat_reader.c alone.
 * The functions are declared in runtime/spectool.h.
 *
 *   chat          a template, and the chat format that was learned from it
 *   chat_prompt   messages -> text, ids, grammar, and the settings of the parser
 *   chat_reader   text and special tokens of the answer -> parts, and the whole answer */
#ifndef SP_RUNTIME_CHAT_CHAT_H
#define SP_RUNTIME_CHAT_CHAT_H

#include "runtime/chat/chat_format.h"
#include "runtime/chat/chat_normalize.h"
#include "runtime/spectool.h"

struct sp_chat {
    const struct sp_package *package;     /* borrowed; NULL: none */
    const struct sp_tokenizer *tokenizer; /* borrowed; NULL: none */
    const struct sp_template *template;   /* own_template, or a borrowed one */
    struct sp_template *own_template;     /* owned; NULL: `template` is borrowed */
    struct sp_chat_format format;
    unsigned refused;                    /* changes that the template needs: enum sp_chat_change */
    struct sp_chat_specials specials[2]; /* owned; [0]: in tags of reasoning, [1]: and of calls */
    char reasoning[SP_CHAT_FORMAT_TEXT],
        tool_calls[SP_CHAT_FORMAT_TEXT]; /* printable descriptions of the tags */
    bool has_end_id;
    uint32_t end_id; /* the special token that the template writes after an answer */
};

/* Returns true if the tokens of an answer's reasoning can be limited. */
bool sp_chat_can_limit_reasoning(const struct sp_chat *chat);

struct sp_chat_prompt {
    const struct sp_chat *chat;         /* borrowed */
    char changes[SP_CHAT_CHANGES_TEXT]; /* of the conversation */
    char *text;                         /* [size] and a NUL; owned, as everything below */
    size_t size;
    uint32_t *ids; /* [n_ids] */
    size_t n_ids;
    uint32_t *end_ids; /* [n_end_ids] */
    size_t n_end_ids;
    uint32_t *special_ids; /* [n_special_ids]: the ids of `specials` */
    size_t n_special_ids;
    const struct sp_chat_specials *specials; /* borrowed from the chat; NULL: none */
    struct sp_grammar *own_grammar;          /* owned; NULL: grammar is the request's */
    const struct sp_grammar *grammar;        /* NULL: the answer is not constrained */
    struct sp_json *tools;                   /* owned; tools whose calls are parsed; NULL: none */
    bool content_only;                       /* the whole answer is content */
    bool in_reasoning;                       /* the prompt has opened the reasoning */
    bool constrained_calls; /* the grammar constrains calls to the schemas of tools */
    bool tagged_calls_only; /* of these, only calls that begin with a tag */
    bool limits_reasoning;
    struct sp_reasoning_limit reasoning_limit; /* tags borrowed from the chat */
};

#endif

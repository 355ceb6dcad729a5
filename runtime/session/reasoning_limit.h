/* Limits the tokens of an answer's reasoning: after so many, a chooser writes the closing tag of
 * the reasoning, whatever the model would choose.
 *
 * Where the tag is written depends on the answer's tokens alone. Draft and target are limited
 * alike, so a round of speculation emits what plain steps would emit. */
#ifndef SP_RUNTIME_SESSION_REASONING_LIMIT_H
#define SP_RUNTIME_SESSION_REASONING_LIMIT_H

#include "runtime/sampling/chooser.h"
#include "runtime/spectool.h"
#include "runtime/tokenizer/token_trie.h"

struct sp_reasoning_limiter;

/* Pointers are borrowed until sp_reasoning_limiter_close unless stated otherwise. */
struct sp_reasoning_limiter_options {
    struct sp_reasoning_limit limit; /* the tags are borrowed */
    const struct sp_tokenizer *tokenizer;
    const struct sp_token_trie *trie; /* of the tokenizer */
    size_t start;                     /* position of the answer's first token */
    struct sp_chooser inner;          /* chooses all other tokens */
};

SP_MUST_CHECK enum sp_status
sp_reasoning_limiter_open(struct sp_reasoning_limiter **out,
                          const struct sp_reasoning_limiter_options *options, struct sp_err *err);
void sp_reasoning_limiter_close(struct sp_reasoning_limiter *limiter); /* NULL is fine */

/* The chooser of one sequence. */
struct sp_chooser sp_reasoning_limiter_chooser(struct sp_reasoning_limiter *limiter);

#endif

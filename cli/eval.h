/* The figures of `spectool eval`. */
#ifndef SP_CLI_EVAL_H
#define SP_CLI_EVAL_H

#include "runtime/spectool.h"

struct sp_eval {
    const char *name, *reference; /* names of the files; reference NULL: none */
    const char *kv_type;
    size_t n_tokens;
    size_t n_bytes; /* bytes of text of the scored tokens; 0: unknown, without a tokenizer */
    struct sp_evaluation text;
    const char *draft; /* kind of the draft; NULL: it was not tried */
    struct sp_draft_eval trial;
};

#endif

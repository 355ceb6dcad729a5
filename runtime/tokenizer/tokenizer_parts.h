/* What a tokenizer is inside; shared by tokenizer.c and detokenize.c. */
#ifndef SP_RUNTIME_TOKENIZER_TOKENIZER_PARTS_H
#define SP_RUNTIME_TOKENIZER_TOKENIZER_PARTS_H

#include "format/tokenizer/rewrite.h"
#include "format/tokenizer/tokmap.h"
#include "runtime/tokenizer/added_tokens.h"
#include "runtime/tokenizer/tokenizer.h"

/* A chain of steps made ready. Valid when zeroed. */
struct sp_chain {
    struct sp_rewrite at[SP_MAX_STEPS];
    size_t n;
};

struct sp_tokenizer {
    struct sp_tokmap map; /* views of the block, which is borrowed */
    struct sp_chain normalizer, splitter, decoder;
    struct sp_added raw, normal;
    struct sp_pack *own_pack; /* what the block is in, owned; NULL: the caller's */
    uint8_t *own_blob;        /* the same of a block that was compiled from a tokenizer.json */
};

#endif

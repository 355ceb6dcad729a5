/* What a tokenizer is inside; shared by tokenizer.c and detokenize.c. */
#ifndef SP_RUNTIME_TOKENIZER_PARTS_H
#define SP_RUNTIME_TOKENIZER_PARTS_H

#include "format/rewrite.h"
#include "format/tokmap.h"
#include "runtime/added.h"
#include "runtime/tokenizer.h"

/* A chain of steps made ready. Valid when zeroed. */
struct sp_chain {
    struct sp_rewrite at[SP_MAX_STEPS];
    size_t n;
};

struct sp_tokenizer {
    struct sp_tokmap map; /* views of the block, which is borrowed */
    struct sp_chain normalizer, splitter, decoder;
    struct sp_added raw, normal;
};

#endif

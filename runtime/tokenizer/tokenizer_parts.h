/* The struct of a tokenizer, private to runtime/tokenizer. */
#ifndef SP_RUNTIME_TOKENIZER_TOKENIZER_PARTS_H
#define SP_RUNTIME_TOKENIZER_TOKENIZER_PARTS_H

#include "format/tokenizer/rewrite.h"
#include "format/tokenizer/tokmap.h"
#include "runtime/tokenizer/added_tokens.h"
#include "runtime/tokenizer/tokenizer.h"

#include <pthread.h>

/* A sequence of opened steps. Valid when zeroed. */
struct sp_chain {
    struct sp_rewrite at[SP_MAX_STEPS];
    size_t n;
};

struct sp_tokenizer {
    struct sp_tokmap map; /* views into the block, which is borrowed */
    struct sp_chain normalizer, splitter, decoder;
    struct sp_added raw, normal;
    pthread_mutex_t *lock;    /* held while a long text is encoded; owned */
    size_t max_token_bytes;   /* most bytes of a text that become one token; 0: not known */
    struct sp_pack *own_pack; /* packed file that contains the block, owned; NULL: the caller's */
    uint8_t *own_blob;        /* block compiled from a tokenizer.json, owned; NULL: none */
};

#endif

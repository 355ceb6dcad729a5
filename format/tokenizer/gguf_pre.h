/* The rules by which tokenizers of BPE split a text, by the names that llama.cpp's converter gives
 * them. */
#ifndef SP_FORMAT_TOKENIZER_GGUF_PRE_H
#define SP_FORMAT_TOKENIZER_GGUF_PRE_H

#include <stddef.h>

enum {
    SP_GGUF_PRE_DIGITS = 1,         /* digits are split off one by one first */
    SP_GGUF_PRE_NFC = 4,            /* the normalizer */
    SP_GGUF_PRE_IGNORE_MERGES = 8,  /* a word that is a token is not merged */
    SP_GGUF_PRE_BOS = 16,           /* a beginning token unless add_bos_token is false */
    SP_GGUF_PRE_EOS = 32,           /* an end token unless add_eos_token is false */
    SP_GGUF_PRE_TWO_SEPARATORS = 2, /* between two texts, as RoBERTa has them */
    SP_GGUF_PRE_PIECES = 64,        /* not byte-level but SentencePiece's, as Gemma 4 has them */
};

struct sp_gguf_pre {
    const char *pattern; /* NULL: GPT-2's, which ByteLevel has built in */
    unsigned flags;
    const char *const *first; /* patterns that are split off before, ended by NULL; NULL: none */
    const char *names[16];    /* values of tokenizer.ggml.pre, ended by NULL */
};

/* NULL: the name is unknown. */
const struct sp_gguf_pre *sp_gguf_pre_find(const char *name, size_t len);

#endif

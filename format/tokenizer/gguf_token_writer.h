/* tokenizer.json being made of a GGUF file's vocabulary. For the files that make it. */
#ifndef SP_FORMAT_TOKENIZER_GGUF_TOKEN_WRITER_H
#define SP_FORMAT_TOKENIZER_GGUF_TOKEN_WRITER_H

#include "format/json/json_write.h"
#include "format/tokenizer/gguf_tokens.h"

#include <stddef.h>

/* The rules by which tokenizers of BPE split a text, by the names that llama.cpp's converter gives
 * them. */

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

/* The rules that tokenizer.ggml.pre names; static. SP_E_UNSUPPORTED: they are not known. */
SP_MUST_CHECK enum sp_status sp_gguf_pre_find(const struct sp_gguf_pre **out,
                                              const struct sp_gguf *file, struct sp_err *err);

/* tokenizer.ggml.model */
enum sp_gguf_token_kind {
    SP_GGUF_BYTE_LEVEL, /* "gpt2" */
    SP_GGUF_PIECES,     /* "llama": SentencePiece BPE, of which only scores are stored */
    SP_GGUF_MERGES,     /* "gemma4", or "gpt2" with SP_GGUF_PRE_PIECES: the same with a list of
                           merges */
    SP_GGUF_UNIGRAM,    /* "t5" */
    SP_GGUF_WORDPIECE,  /* "bert" */
};

/* What other tokenizer files that are read as the metadata of a GGUF file state besides. Zero:
 * nothing. */
struct sp_gguf_token_rules {
    /* Of kind "gpt2": how texts are split; the merges are those that the scores amount to. */
    const struct sp_gguf_pre *ranked;
    bool sentencepiece; /* of "llama" and "t5": every step of SentencePiece itself */
    /* The prepend_scheme of the space in front of a text; NULL: SentencePiece's own. */
    const char *prefix;
};

struct sp_gguf_token_writer {
    const struct sp_gguf *file;
    struct sp_gguf_token_rules rules;
    struct sp_gguf_tokens tokens;
    enum sp_gguf_token_kind kind;
    const struct sp_gguf_pre *pre; /* of "gpt2"; else NULL */
    struct sp_json_out out;        /* its text is owned */
    enum sp_status st;             /* of the first failure; what is written after it is not used */
    struct sp_err *err;
};

/* The token of a key such as "tokenizer.ggml.bos_token_id"; NULL: there is none. */
const struct sp_gguf_token *sp_gguf_token_find(struct sp_gguf_token_writer *w, const char *key,
                                               uint64_t *id);

/* The truth value of a key, `otherwise` if the file does not have it. */
bool sp_gguf_token_flag(struct sp_gguf_token_writer *w, const char *key, bool otherwise);

/* Appends the text of a token as a string; without one, `otherwise` as it is. */
void sp_gguf_token_put_text(struct sp_gguf_token_writer *w, const struct sp_gguf_token *token,
                            const char *otherwise);

/* Appends "post_processor", with a comma behind it. */
void sp_gguf_token_put_ends(struct sp_gguf_token_writer *w);

/* Appends "normalizer" to "decoder" of SentencePiece's models. */
void sp_gguf_token_put_piece_steps(struct sp_gguf_token_writer *w);
/* Appends a Precompiled normalizer with the file's map of characters; false: there is none. */
bool sp_gguf_token_put_charsmap(struct sp_gguf_token_writer *w);

/* Append what follows "added_tokens" in tokenizers of encoders (gguf_subwords.c). The second takes
 * tokens as sp_gguf_tokens_restore_words has them. */
void sp_gguf_token_put_unigram(struct sp_gguf_token_writer *w);
void sp_gguf_token_put_wordpiece(struct sp_gguf_token_writer *w);

#endif

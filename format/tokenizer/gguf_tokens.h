/* The vocabulary of a GGUF file: texts, types and scores of its tokens. For gguf_tokenizer.c. */
#ifndef SP_FORMAT_TOKENIZER_GGUF_TOKENS_H
#define SP_FORMAT_TOKENIZER_GGUF_TOKENS_H

#include "format/base/strbuf.h"
#include "format/gguf.h"
#include "format/json/json_write.h"

/* tokenizer.ggml.token_type */
enum sp_gguf_token_type {
    SP_GGUF_TOKEN_NORMAL = 1,
    SP_GGUF_TOKEN_UNKNOWN = 2,
    SP_GGUF_TOKEN_CONTROL = 3,
    SP_GGUF_TOKEN_USER = 4, /* found in texts before anything else, but no control token */
    SP_GGUF_TOKEN_UNUSED = 5,
    SP_GGUF_TOKEN_BYTE = 6,
};

/* The token of a key such as "tokenizer.ggml.bos_token_id": *id keeps its value if there is none. A
 * number without a token, such as -1 or 4294967295, stands for none, but in a vocabulary of kind
 * "llama" for the beginning and end that llama.cpp gives it, tokens 1 and 2. */
SP_MUST_CHECK enum sp_status sp_gguf_token_id(uint64_t *id, const struct sp_gguf *file,
                                              const char *key, struct sp_err *err);
/* Names the keys of tokenizer.ggml whose numbers have no token, and those that are not read and may
 * change ids. */
SP_MUST_CHECK enum sp_status sp_gguf_note_tokens(const struct sp_gguf *file, char **warnings,
                                                 struct sp_err *err);

struct sp_gguf_token {
    const char *text; /* UTF-8 of `len` bytes; borrowed from the file or from sp_gguf_tokens.own */
    uint32_t len;
    enum sp_gguf_token_type type;
    float score;
};

/* A vocabulary being made of another file, as arrays of a GGUF file. Valid when zeroed. */
struct sp_gguf_token_list {
    struct sp_strbuf texts, scores, types; /* [n] strings, f32, i32 */
    uint64_t n;
};
SP_MUST_CHECK enum sp_status sp_gguf_token_list_add(struct sp_gguf_token_list *list,
                                                    const char *text, size_t len, float score,
                                                    uint32_t type, struct sp_err *err);
void sp_gguf_token_list_release(struct sp_gguf_token_list *list);

/* Valid when zeroed. */
struct sp_gguf_tokens {
    struct sp_gguf_token *all; /* [n], by id; owned */
    uint32_t n;
    char *own;       /* texts that are changed; owned */
    uint32_t *slots; /* [n_slots] ids + 1 by hash of the text, 0: free; owned; NULL: not indexed */
    size_t n_slots;
    bool unique; /* two tokens of one type with equal texts are refused */
};

/* Reads the vocabulary; `pieces`: that of SentencePiece, in which spaces are written as U+2581;
 * `scored`: with scores. n is 0 if the file has none. Zeroed on failure. */
SP_MUST_CHECK enum sp_status sp_gguf_tokens_read(struct sp_gguf_tokens *out,
                                                 const struct sp_gguf *file, bool pieces,
                                                 bool scored, struct sp_err *err);
/* Gives the tokens of WordPiece their published texts: the converter puts U+2581 in front of what
 * begins a word and takes the ## of what continues one. */
SP_MUST_CHECK enum sp_status sp_gguf_tokens_restore_words(struct sp_gguf_tokens *tokens,
                                                          struct sp_err *err);
void sp_gguf_tokens_release(struct sp_gguf_tokens *tokens);

/* Appends the members of "vocab", tokens 0..n - 1. */
void sp_gguf_tokens_put_vocab(struct sp_json_out *out, const struct sp_gguf_tokens *tokens,
                              uint32_t n);

/* Appends the elements of "merges" that SentencePiece's scores amount to: every division of a token
 * into two tokens, the best score first. */
SP_MUST_CHECK enum sp_status sp_gguf_tokens_put_merges(struct sp_json_out *out,
                                                       struct sp_gguf_tokens *tokens,
                                                       struct sp_err *err);

#endif

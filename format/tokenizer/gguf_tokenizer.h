/* tokenizer.json and tokenizer_config.json of a GGUF model, made from tokenizer.ggml.*: byte-level
 * BPE ("gpt2") with the split rules that tokenizer.ggml.pre names, and SentencePiece BPE ("llama").
 */
#ifndef SP_FORMAT_TOKENIZER_GGUF_TOKENIZER_H
#define SP_FORMAT_TOKENIZER_GGUF_TOKENIZER_H

#include "format/gguf.h"
#include "format/tokenizer/gguf_token_writer.h"

/* None if the file has no tokenizer. A kind or a split rule that is not known is SP_E_UNSUPPORTED
 * and named. */
SP_MUST_CHECK enum sp_status sp_gguf_tokenizer_text(struct sp_text *text,
                                                    const struct sp_gguf *file, struct sp_err *err);
SP_MUST_CHECK enum sp_status
sp_gguf_tokenizer_config_text(struct sp_text *text, const struct sp_gguf *file, struct sp_err *err);

/* As sp_gguf_tokenizer_text, of the kinds "llama" and "t5", with every step of SentencePiece
 * itself. `first_prefix`: a space is put in front of a text, but not behind special tokens. */
SP_MUST_CHECK enum sp_status sp_gguf_sentencepiece_text(struct sp_text *text,
                                                        const struct sp_gguf *file,
                                                        const char *prefix, struct sp_err *err);

/* As sp_gguf_tokenizer_text, of kind "gpt2": texts are split by `pre`, and the merges are those
 * that the tokens' scores amount to. */
SP_MUST_CHECK enum sp_status sp_gguf_ranked_text(struct sp_text *text, const struct sp_gguf *file,
                                                 const struct sp_gguf_pre *pre, struct sp_err *err);

/* The chat template. Further templates, which are not read, are named in *warnings. */
SP_MUST_CHECK enum sp_status sp_gguf_template_text(struct sp_text *text, const struct sp_gguf *file,
                                                   char **warnings, struct sp_err *err);

#endif

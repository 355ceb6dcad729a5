/* tokenizer.json and tokenizer_config.json of a GGUF model, made from tokenizer.ggml.*: byte-level
 * BPE ("gpt2") with the split rules of tokenizer.ggml.pre, and SentencePiece BPE ("llama"). */
#ifndef SP_FORMAT_TOKENIZER_GGUF_TOKENIZER_H
#define SP_FORMAT_TOKENIZER_GGUF_TOKENIZER_H

#include "format/gguf.h"
#include "format/tokenizer/gguf_token_writer.h"

/* None if the file has no tokenizer. `rules` NULL: it is a GGUF file. A kind or a split rule that
 * is not known is SP_E_UNSUPPORTED and named. */
SP_MUST_CHECK enum sp_status sp_gguf_tokenizer_text(struct sp_text *text,
                                                    const struct sp_gguf *file,
                                                    const struct sp_gguf_token_rules *rules,
                                                    struct sp_err *err);
SP_MUST_CHECK enum sp_status
sp_gguf_tokenizer_config_text(struct sp_text *text, const struct sp_gguf *file, struct sp_err *err);

/* The chat template. Further templates, which are not read, are named in *warnings. */
SP_MUST_CHECK enum sp_status sp_gguf_template_text(struct sp_text *text, const struct sp_gguf *file,
                                                   char **warnings, struct sp_err *err);

#endif

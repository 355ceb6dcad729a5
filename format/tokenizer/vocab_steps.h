/* The component trees of tokenizer.json, reduced to chains of primitive steps; used by vocab.c. */
#ifndef SP_FORMAT_TOKENIZER_VOCAB_STEPS_H
#define SP_FORMAT_TOKENIZER_VOCAB_STEPS_H

#include "format/tokenizer/vocab.h"

/* root: the value of "normalizer", "pre_tokenizer", "decoder" or "post_processor"; NULL for null.
 * What is not supported is SP_E_UNSUPPORTED and named. Texts stay in the document. */
SP_MUST_CHECK enum sp_status
sp_steps_read_normalizer(struct sp_steps *out, const struct sp_json *root, struct sp_err *err);
/* BertNormalizer puts spaces around Chinese characters. Its tokenizers split at spaces afterwards,
 * so a step that isolates these characters gives the same pieces. Adds it if the normalizer has
 * this component. */
SP_MUST_CHECK enum sp_status sp_steps_add_han(struct sp_steps *splitter,
                                              const struct sp_json *normalizer, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_steps_read_splitter(struct sp_steps *out,
                                                    const struct sp_json *root, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_steps_read_decoder(struct sp_steps *out, const struct sp_json *root,
                                                   struct sp_err *err);
/* Sets prefix and suffix. */
SP_MUST_CHECK enum sp_status sp_vocab_read_template(struct sp_vocab *vocab,
                                                    const struct sp_json *root, struct sp_err *err);

#endif

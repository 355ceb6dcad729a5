/* The component trees of tokenizer.json, reduced to chains of primitive steps; used by vocab.c. */
#ifndef SP_FORMAT_TOKENIZER_VOCAB_STEPS_H
#define SP_FORMAT_TOKENIZER_VOCAB_STEPS_H

#include "format/tokenizer/vocab.h"

/* Reads normalizer, splitter and decoder of the document, and of its post_processor prefix and
 * suffix. What is not supported is SP_E_UNSUPPORTED and named. Texts stay in the document. */
SP_MUST_CHECK enum sp_status sp_vocab_read_steps(struct sp_vocab *vocab, struct sp_err *err);

#endif

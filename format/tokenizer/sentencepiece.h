/* tokenizer.model, SentencePiece's own file, from which tokenizer.json is made where a checkpoint
 * has none. */
#ifndef SP_FORMAT_TOKENIZER_SENTENCEPIECE_H
#define SP_FORMAT_TOKENIZER_SENTENCEPIECE_H

#include "format/base/err.h"

#include <stddef.h>

/* *text = the tokenizer.json of the folder's tokenizer.model, owned by the caller; NULL if there is
 * none, or if the tokenizer_class of `config`, the text of tokenizer_config.json (NULL: none), is
 * one that numbers its tokens in another way. Models of words or characters are SP_E_UNSUPPORTED.
 */
SP_MUST_CHECK enum sp_status sp_sentencepiece_read(char **text, size_t *size, const char *folder,
                                                   const char *config, size_t config_size,
                                                   struct sp_err *err);

#endif

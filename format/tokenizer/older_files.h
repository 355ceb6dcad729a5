/* Files of older checkpoints that state tokens beside tokenizer_config.json. */
#ifndef SP_FORMAT_TOKENIZER_OLDER_FILES_H
#define SP_FORMAT_TOKENIZER_OLDER_FILES_H

#include "format/base/err.h"

#include <stddef.h>

/* tokenizer.model, SentencePiece's own file, from which tokenizer.json is made where a checkpoint
 * has none. */

/* *text = the tokenizer.json of the folder's tokenizer.model, owned by the caller; NULL if there is
 * none, or if the tokenizer_class of `config`, the text of tokenizer_config.json (NULL: none), is
 * one that numbers its tokens in another way. Models of words or characters are SP_E_UNSUPPORTED.
 */
SP_MUST_CHECK enum sp_status sp_sentencepiece_read(char **text, size_t *size, const char *folder,
                                                   const char *config, size_t config_size,
                                                   struct sp_err *err);

/* Adds what special_tokens_map.json and added_tokens.json of the folder state to *config, the text
 * of its tokenizer_config.json (NULL: there is none), as transformers does: only if that has no
 * added_tokens_decoder, and without tokens that tokenizer.json, whose text is `tokenizer`, has as
 * added tokens. *config is owned by the caller, replaced if it changes. */
SP_MUST_CHECK enum sp_status sp_older_files_add(char **config, size_t *size, const char *folder,
                                                const char *tokenizer, size_t tokenizer_size,
                                                struct sp_err *err);

#endif

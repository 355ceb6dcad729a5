/* Files of older checkpoints that state tokens beside tokenizer_config.json. */
#ifndef SP_FORMAT_TOKENIZER_OLDER_FILES_H
#define SP_FORMAT_TOKENIZER_OLDER_FILES_H

#include "format/base/mem.h"
#include "format/json/json.h"

/* tokenizer.model, SentencePiece's own file, from which tokenizer.json is made where a checkpoint
 * has none. */

/* *text = the tokenizer.json of the folder's tokenizer.model; none if there is no such file, or if
 * the tokenizer_class of `config`, its tokenizer_config.json, is one that numbers its tokens in
 * another way. Models of words or characters are SP_E_UNSUPPORTED. */
SP_MUST_CHECK enum sp_status sp_sentencepiece_read(struct sp_text *text, const char *folder,
                                                   const struct sp_text *config,
                                                   struct sp_err *err);

/* *root = the folder's tokenizer_config.json of this text, owned by the caller also after a
 * failure; NULL: none. Failures name the file; what is no object is SP_E_INPUT. */
SP_MUST_CHECK enum sp_status sp_tokenizer_config_parse(struct sp_json **root,
                                                       const struct sp_text *config,
                                                       const char *folder, struct sp_err *err);

/* Adds what special_tokens_map.json and added_tokens.json of the folder state to *config, its
 * tokenizer_config.json, as transformers does: only if that has no added_tokens_decoder, and
 * without tokens that `tokenizer`, its tokenizer.json, has as added tokens. */
SP_MUST_CHECK enum sp_status sp_older_files_add(struct sp_text *config, const char *folder,
                                                const struct sp_text *tokenizer,
                                                struct sp_err *err);

#endif

/* The files of sentence-transformers beside a checkpoint: modules.json, which lists the modules
 * that a text passes through, and the folder of each module. */
#ifndef SP_CONVERT_SOURCE_POOLING_FILES_H
#define SP_CONVERT_SOURCE_POOLING_FILES_H

#include "format/config/pooling.h"
#include "format/safetensors.h"

/* Reads the pooling of a checkpoint in this folder. *record is the text of the pooling section;
 * none: the folder has no modules.json. n_hidden and max_positions are those of the model.
 * SP_E_UNSUPPORTED names the module or the key that cannot be honoured. */
SP_MUST_CHECK enum sp_status sp_pooling_files_read(struct sp_text *record,
                                                   struct sp_pooling_config *out,
                                                   const char *folder, unsigned n_hidden,
                                                   unsigned max_positions, struct sp_err *err);
/* The longest text by the files of the folder, in tokens. */
SP_MUST_CHECK enum sp_status sp_pooling_files_max_tokens(unsigned *out, const char *folder,
                                                         unsigned max_positions,
                                                         struct sp_err *err);
/* Sets the activation of a score by the member `key` of an object; the default is the sigmoid. */
SP_MUST_CHECK enum sp_status sp_pooling_files_activation(struct sp_score_config *score,
                                                         const struct sp_json *object,
                                                         const char *key, struct sp_err *err);
/* Adds the tensors of the dense layers to the checkpoint of the same folder. */
SP_MUST_CHECK enum sp_status sp_pooling_files_add(struct sp_safetensors *checkpoint,
                                                  const char *folder, struct sp_err *err);

/* ---- classification heads (classifier_head.c) ----
 *
 * Rerankers with a classification head: transformers' *ForSequenceClassification with one label, as
 * CrossEncoder of sentence-transformers runs them. The head becomes the dense layers of a pooling,
 * and the tokenizer's form for two texts a part of its record. */

/* Reads the head of a checkpoint in this folder or, if that is NULL, of one without further files,
 * which a GGUF file is: `tokenizer` is its tokenizer.json. `config` is parsed of `json`. *record is
 * the text of the pooling section. SP_E_UNSUPPORTED names what cannot be honoured, such as several
 * labels. */
SP_MUST_CHECK enum sp_status
sp_classifier_head_read(struct sp_text *record, struct sp_pooling_config *out, const char *folder,
                        const struct sp_text *tokenizer, const struct sp_config *config,
                        const struct sp_text *json, struct sp_err *err);

#endif

/* Rerankers with a classification head: transformers' *ForSequenceClassification with one label, as
 * CrossEncoder of sentence-transformers runs them. The head becomes the dense layers of a pooling,
 * and the tokenizer's form for two texts a part of its record. */
#ifndef SP_CONVERT_SOURCE_CLASSIFIER_HEAD_H
#define SP_CONVERT_SOURCE_CLASSIFIER_HEAD_H

#include "format/config/config.h"

/* Reads the head of a checkpoint in this folder, whose parsed config is `config` and whose
 * config.json has the text `json`. *record, owned by the caller, is the text of the pooling
 * section. SP_E_UNSUPPORTED names what cannot be honoured, such as several labels. */
SP_MUST_CHECK enum sp_status
sp_classifier_head_read(char **record, size_t *size, struct sp_pooling_config *out,
                        const char *folder, const struct sp_config *config, const char *json,
                        size_t json_size, struct sp_err *err);

/* Reads the head of a checkpoint without further files, which a GGUF file is: `tokenizer` is the
 * text of its tokenizer.json. */
SP_MUST_CHECK enum sp_status
sp_classifier_head_read_text(char **record, size_t *size, struct sp_pooling_config *out,
                             const char *tokenizer, size_t tokenizer_size,
                             const struct sp_config *config, const char *json, size_t json_size,
                             struct sp_err *err);

#endif

/* How the hidden states of a text become one vector, or one score: the pooling section of a packed
 * file, which `create` makes of the files that sentence-transformers stores beside a checkpoint.
 *
 * An embedding is the pooled hidden state, passed through the dense layers in their order, and
 * divided by its length if the record says so. spectool-pack(5) defines the text of the record. */
#ifndef SP_FORMAT_CONFIG_POOLING_H
#define SP_FORMAT_CONFIG_POOLING_H

#include "format/config/config.h"
#include "format/json/json.h"

/* "last", "mean", "cls" or "rank"; "none". Static. */
const char *sp_pooling_name(enum sp_pooling_mode mode);

/* The width of an embedding of a model with this hidden size; 1 for a score. */
unsigned sp_pooling_width(const struct sp_pooling_config *pooling, unsigned n_hidden);

/* Writes the record. `prompts` (an object of texts) and `default_prompt` may be NULL. */
SP_MUST_CHECK enum sp_status sp_pooling_print(struct sp_text *text,
                                              const struct sp_pooling_config *pooling,
                                              const struct sp_json *prompts,
                                              const char *default_prompt, struct sp_err *err);
/* Reads a record. n_hidden: the width of the first dense layer's input. *root, owned by the caller,
 * is the record as a whole, with its prompts; root may be NULL. */
SP_MUST_CHECK enum sp_status sp_pooling_read(struct sp_pooling_config *out, struct sp_json **root,
                                             const struct sp_text *text, unsigned n_hidden,
                                             struct sp_err *err);

#endif

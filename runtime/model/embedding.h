/* The input rows of a pass: token embeddings, or pairs of a token and a hidden state. */
#ifndef SP_RUNTIME_MODEL_EMBEDDING_H
#define SP_RUNTIME_MODEL_EMBEDDING_H

#include <stddef.h>
#include <stdint.h>

struct sp_model;     /* runtime/model/model.h */
struct sp_workspace; /* runtime/model/workspace.h */

/* Sets `out` to the embedding of a token, scaled as the workspace's model requires. out: as many
 * floats as the table of `source` has columns. */
void sp_embed_row(const struct sp_workspace *ws, const struct sp_model *source, uint32_t id,
                  float *out);

/* Sets the pass's n rows of ws->x from the tokens and hidden states of its sequences. */
void sp_embed_pairs(struct sp_workspace *ws, size_t n);

#endif

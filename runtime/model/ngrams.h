/* Embeddings of n-grams, which a layer adds to its streams (Qwen4). */
#ifndef SP_RUNTIME_MODEL_NGRAMS_H
#define SP_RUNTIME_MODEL_NGRAMS_H

#include "runtime/model/workspace.h"

/* Allocates ws->ngrams; leaves it NULL if no layer has a table. */
SP_MUST_CHECK enum sp_status sp_ngrams_open(struct sp_workspace *ws, struct sp_err *err);

/* Adds the embeddings of the n-grams that end with the pass's n tokens, ws->ids, to the streams. */
void sp_ngrams_run(struct sp_workspace *ws, unsigned layer, size_t n);

#endif

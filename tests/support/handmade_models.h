/* Writes small checkpoints made by hand: a Qwen3.5 target with a built-in prediction head, and
 * DSpark and EAGLE-3 drafts for it. The target's delta layers carry state, and its next token
 * always repeats the last one, so a head that repeats the target's input is always accepted. */
#ifndef SP_TESTS_SUPPORT_HANDMADE_MODELS_H
#define SP_TESTS_SUPPORT_HANDMADE_MODELS_H

#include "format/dtype.h"

#include <stdbool.h>

struct handmade_options {
    float mixing;   /* scale of what layers add to the residual stream; the text varies above about
                       0.05 */
    bool copies;    /* the head passes the target's hidden state on; else its weights are random */
    bool converted; /* as mlx stores it: norms include the 1, convolutions transposed, no head */
    bool no_ffn;    /* the head's layer has no MLP */
    bool unknown;   /* the head has a tensor that nobody knows */
    bool marks_odd; /* EAGLE-3: t2d contains an odd token instead of an even one */
    unsigned n_vocab; /* 0: HANDMADE_TOKENS; else a target and its head alone */
};

/* Writes config.json and model.safetensors into `folder`, which must exist. */
void handmade_qwen3_5(const char *folder, const struct handmade_options *how);

/* Write a Modelfile of the target, with more lines or with an EAGLE-3 draft, to the scratch folder
 * (scratch.h), and return its path. */
const char *handmade_modelfile(const struct handmade_options *how, const char *more);
const char *handmade_eagle3_modelfile(const struct handmade_options *how);
/* Return the packed file of such a Modelfile, and remove the scratch folder. */
const char *packed_handmade(const struct handmade_options *how, enum sp_dtype target,
                            enum sp_dtype draft);
const char *packed_handmade_eagle3(const struct handmade_options *how, enum sp_dtype target,
                                   enum sp_dtype draft);

/* A DSpark draft for this target with an embedding and a head of its own. It reads the target's
 * embeddings and layer 2. The block below the heads is always the same. */
struct handmade_dspark {
    const char *markov; /* "vanilla", "gated", "rnn"; NULL: no markov head */
    unsigned rank, block_size, n_vocab /* 0: HANDMADE_TOKENS */;
    bool confidence, confidence_markov;
    bool repeats; /* the correction of the markov head makes every draft token repeat the previous
                     one */
};

enum { HANDMADE_TOKENS = 160, HANDMADE_WIDTH = 64, HANDMADE_MASK = 158 };

/* Writes the DSpark draft. The first HANDMADE_WIDTH rows of its output matrix are the identity, so
 * those logits of an uncorrected row are its hidden state. */
void handmade_dspark(const char *folder, const struct handmade_dspark *how);

/* Writes an EAGLE-3 draft for this target whose vocabulary is the even tokens. how->copies: it
 * repeats the target's input. */
void handmade_eagle3(const char *folder, const struct handmade_options *how);

#endif

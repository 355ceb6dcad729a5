/* A made-up Qwen3.5 checkpoint with a built-in prediction head, written where a test wants it:
 * delta layers that remember, and a next token that is always the last one again, so that a head
 * which repeats what its target saw is always right. And a DSpark draft for it. */
#ifndef SP_TESTS_SUPPORT_HANDMADE_MODELS_H
#define SP_TESTS_SUPPORT_HANDMADE_MODELS_H

#include <stdbool.h>

struct handmade_options {
    float
        mixing;  /* scale of what layers add to the residual stream; above about 0.05 text varies */
    bool copies; /* the head hands the target's hidden state through; else its weights are random */
    bool converted; /* as mlx stores it: norms with their 1, convolutions transposed, no head */
    bool no_ffn;    /* the head's layer has no MLP */
    bool marks_odd; /* EAGLE-3: t2d has an odd token in place of an even one */
};

/* Writes config.json and model.safetensors into `folder` (which exists). */
void handmade_qwen3_5(const char *folder, const struct handmade_options *how);

/* A DSpark draft for it, with tables of its own, which reads the target's embeddings and its layer
 * 2. Whatever its heads are, the block under them is the same. */
struct handmade_dspark {
    const char *markov; /* "vanilla", "gated", "rnn"; NULL: no markov head */
    unsigned rank, block_size;
    bool confidence, confidence_markov;
    bool repeats; /* what the markov head adds makes every guess the token before it again */
};

enum { HANDMADE_TOKENS = 160, HANDMADE_WIDTH = 64, HANDMADE_MASK = 158 };

/* The first HANDMADE_WIDTH rows of its output matrix are the identity: these logits of an
 * uncorrected row are its hidden state. */
void handmade_dspark(const char *folder, const struct handmade_dspark *how);

/* The same of an EAGLE-3 draft for it, whose vocabulary is the even tokens: how->copies says
 * whether it repeats what its target saw. */
void handmade_eagle3(const char *folder, const struct handmade_options *how);

#endif

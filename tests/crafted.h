/* A made-up Qwen3.5 checkpoint with a built-in prediction head, written where a test wants it:
 * delta layers that remember, and a next token that is always the last one again, so that a head
 * which repeats what its target saw is always right. */
#ifndef SP_TESTS_CRAFTED_H
#define SP_TESTS_CRAFTED_H

#include <stdbool.h>

struct crafted {
    float
        mixing;  /* scale of what layers add to the residual stream; above about 0.05 text varies */
    bool copies; /* the head hands the target's hidden state through; else its weights are random */
    bool converted; /* as mlx stores it: norms with their 1, convolutions transposed, no head */
    bool no_ffn;    /* the head's layer has no MLP */
};

/* Writes config.json and model.safetensors into `folder` (which exists). */
void crafted_qwen3_5(const char *folder, const struct crafted *how);

#endif

/* Matches small checkpoints, listed tensor by tensor, against the tensors that a family expects. */
#ifndef SP_TESTS_SUPPORT_TENSOR_MATCH_H
#define SP_TESTS_SUPPORT_TENSOR_MATCH_H

#include "format/family/family.h"

enum { MATCH_MAX_TENSORS = 64 };

/* A config and the tensors of a checkpoint, listed as "name 2 3, name 4, ...", and how they match.
 * In lists and what they are compared with, "@" stands for "model.layers.0." (in the name of a
 * matched tensor for "layers.0."). */
struct match {
    struct sp_config config;
    struct sp_source_tensor tensors[MATCH_MAX_TENSORS];
    size_t n;
    char text[4096];
    size_t used;
    /* the result */
    enum sp_status status;
    struct sp_specs specs;
    struct sp_err err;
    bool compare_equal;
    size_t n_skipped;
};

/* The checkpoint, to which tensors can be added before it is matched; kept (keep.h). */
struct match *match_open(const char *config, const char *list);
void match_add_tensors(struct match *m, const char *list);
void match_run(struct match *m);

/* The three in one; fails the test unless the tensors match. */
struct match *match_accepted(const char *config, const char *list);

/* Compares the spans of one tensor with text: "source first:step:rows x cols", followed by 'T' if
 * it is transposed and "/pitch" if it has a pitch. Further spans of the same source follow without
 * its name. */
void match_assert_spans(const struct match *m, const char *name, const char *expected);
void match_assert_refused(const char *config, const char *list, enum sp_status status,
                          const char *sentence);

/* Vocabulary 8, hidden size 4, one layer, 2 heads of size 2, 1 key/value head, intermediate size
 * 6. */
#define SIZES                                                                                      \
    "\"vocab_size\": 8, \"hidden_size\": 4, \"num_hidden_layers\": 1, \"num_attention_heads\": 2," \
    "\"num_key_value_heads\": 1, \"head_dim\": 2, \"intermediate_size\": 6"
#define LLAMA "{\"model_type\": \"llama\", " SIZES "}"
#define LAYER(p)                                                                                   \
    p "layers.0.input_layernorm.weight 4, " p "layers.0.self_attn.q_proj.weight 4 4, " p           \
      "layers.0.self_attn.k_proj.weight 2 4, " p "layers.0.self_attn.v_proj.weight 2 4, " p        \
      "layers.0.self_attn.o_proj.weight 4 4, " p "layers.0.post_attention_layernorm.weight 4, " p  \
      "layers.0.mlp.gate_proj.weight 6 4, " p "layers.0.mlp.up_proj.weight 6 4, " p                \
      "layers.0.mlp.down_proj.weight 4 6"
#define BODY(p) p "norm.weight 4, " LAYER(p)
#define EMBED "model.embed_tokens.weight 8 4"
#define HEAD "lm_head.weight 8 4"

#endif

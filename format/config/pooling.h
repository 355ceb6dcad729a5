/* How the hidden states of a text become one vector, or one score: the pooling section of a packed
 * file, which `create` makes of the files that sentence-transformers stores beside a checkpoint.
 *
 * An embedding is the pooled hidden state, passed through the dense layers in their order, and
 * divided by its length if the record says so. spectool-pack(5) defines the text of the record. */
#ifndef SP_FORMAT_CONFIG_POOLING_H
#define SP_FORMAT_CONFIG_POOLING_H

#include "format/base/err.h"
#include "format/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which hidden states of a text, after the final norm, its embedding is made of. */
enum sp_pooling_mode {
    SP_POOL_NONE, /* the model has no pooling */
    SP_POOL_LAST, /* that of the last token */
    SP_POOL_MEAN, /* the mean over all tokens */
    SP_POOL_CLS,  /* that of the first token */
    SP_POOL_RANK, /* no hidden state: a score by the logits after the last token */
};

enum { SP_MAX_DENSE = 8, SP_MAX_PAIR_IDS = 4 };

/* The beginning of the names of the dense layers' tensors, "dense.0.weight", "dense.0.bias". The
 * importer lists those of a checkpoint as "dense.0.linear.weight", "dense.0.linear.bias". */
#define SP_DENSE_PREFIX "dense."

/* y = norm(f(W x + b)) with f the identity, tanh or gelu. The norm is the model's kind of norm,
 * with weights [n_out] "dense.0.norm.weight"; without it y = f(W x + b). */
struct sp_dense_config {
    unsigned n_in, n_out;
    bool bias, tanh, gelu, norm;
};

/* How a classifier reads two texts: ids[0], the first text, ids[1], the second text, ids[2]. */
struct sp_pair_config {
    uint32_t ids[3][SP_MAX_PAIR_IDS];
    unsigned n_ids[3];
    bool second_type; /* the second text and what follows it have the second type of tokens */
};

/* The score of a reranker: the logit of one token, minus that of another, or its sigmoid. */
struct sp_score_config {
    uint32_t true_token, false_token;
    bool two_tokens; /* there is a false_token */
    bool sigmoid;
};

/* Zero: the model has no pooling. */
struct sp_pooling_config {
    enum sp_pooling_mode mode;
    bool normalize;
    unsigned n_dense;
    struct sp_dense_config dense[SP_MAX_DENSE];
    unsigned max_tokens;          /* the longest text, its special tokens included */
    struct sp_score_config score; /* of SP_POOL_RANK, and the sigmoid of a classifier */
    /* A reranker with a classification head: its score is the only number of the last layer. */
    bool classifies;
    struct sp_pair_config pair;
};

/* "last", "mean", "cls" or "rank"; "none". Static. */
const char *sp_pooling_name(enum sp_pooling_mode mode);

/* The width of an embedding of a model with this hidden size; 1 for a score. */
unsigned sp_pooling_width(const struct sp_pooling_config *pooling, unsigned n_hidden);

/* Writes the record. `prompts` (an object of texts) and `default_prompt` may be NULL. *text is
 * owned by the caller. */
SP_MUST_CHECK enum sp_status sp_pooling_print(char **text, size_t *size,
                                              const struct sp_pooling_config *pooling,
                                              const struct sp_json *prompts,
                                              const char *default_prompt, struct sp_err *err);
/* Reads a record. n_hidden: the width of the first dense layer's input. *root, owned by the caller,
 * is the record as a whole, with its prompts; root may be NULL. */
SP_MUST_CHECK enum sp_status sp_pooling_read(struct sp_pooling_config *out, struct sp_json **root,
                                             const char *text, size_t size, unsigned n_hidden,
                                             struct sp_err *err);

#endif

/* The members of struct sp_decoder, the state of one sequence in all layers, and what the files
 * that compute a pass share. */
#ifndef SP_RUNTIME_MODEL_DECODER_INTERNAL_H
#define SP_RUNTIME_MODEL_DECODER_INTERNAL_H

#include "runtime/model/recurrent.h"
#include "runtime/model/workspace.h"

/* A copy of the recurrent states of all layers after `len` positions. */
enum { SP_STATE_CHECKPOINTS = 2 };
struct sp_state_checkpoint {
    size_t len;    /* 0: unused */
    float *floats; /* NULL: the decoder keeps no checkpoints */
};

struct sp_decoder {
    const struct sp_model *model;
    const struct sp_backend *backend;
    struct sp_decoder_options options;
    struct sp_arena memory;         /* of all below but the memory of caches */
    struct sp_workspace *workspace; /* its own, or shared; reference-counted */
    const struct sp_lora *lora;     /* the sequence's adapter; NULL: none */
    float lora_scale;               /* by which its products are multiplied */
    /* [n_caches]: of the layers, unused if a layer reads another one's; then, in a model with an
     * index, the index keys of the layers. */
    struct sp_kv *caches;
    unsigned n_caches;
    size_t n_ready;                 /* positions that the caches have memory for */
    struct sp_page_use *shared;     /* [spans of all positions] */
    struct sp_page_rows *page_rows; /* [2 n_caches] of one of these */
    struct sp_kv **keys;            /* [n_layers] the cache that the layer reads */
    float *frequencies[2];          /* [n_rot / 2] of each rotation */
    struct sp_recurrent *recurrent; /* [n_layers]; NULL: no recurrent layers */
    struct sp_state_span *spans;    /* [n_spans] of all of these states, as committed */
    size_t n_spans, n_state;        /* n_state: their floats */
    struct sp_state_checkpoint checkpoints[SP_STATE_CHECKPOINTS];
    float *features;     /* [max_rows][n_taps * H] */
    size_t n_run;        /* rows of the last run */
    size_t n_committed;  /* rows of the last run that the states include */
    size_t first_logits; /* row of the workspace's logits where the decoder's begin */
};

/* out = fc of n rows of features, [n][fc.cols], which a draft may norm first. out: rows of the
 * workspace, ld_x apart. */
void sp_project_features(struct sp_workspace *ws, float *out, const float *features, size_t n);
/* Computes the logits that the sequences of the pass need, in the order of the sequences. */
void sp_workspace_logits(struct sp_workspace *ws);

/* Sets `out` to the embedding of a token, scaled as the workspace's model requires. out: as many
 * floats as the table of `source` has columns. */
void sp_embed_row(const struct sp_workspace *ws, const struct sp_model *source, uint32_t id,
                  float *out);

/* Sets the pass's n rows of ws->x from the tokens and hidden states of its sequences. */
void sp_embed_pairs(struct sp_workspace *ws, size_t n);

#endif

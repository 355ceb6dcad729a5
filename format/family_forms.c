/* How a checkpoint stores each canonical tensor: under its own name, as rows of a fused matrix, one
 * expert at a time, alternating, transposed. What a family may look like is in the table of forms;
 * each form insists on the shape that the config gives its source. */
#include "format/family_parts.h"

#include "format/decimal.h"
#include "format/dtype.h"
#include "format/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t sp_matcher_find(const struct sp_matcher *m, const char *name)
{
    size_t low = 0, high = m->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(m->sorted[middle]->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < m->n && strcmp(m->sorted[low]->name, name) == 0 ? low : m->n;
}

bool sp_matcher_has(const struct sp_matcher *m, const char *prefix, const char *name)
{
    char full[SP_SOURCE_NAME];

    snprintf(full, sizeof full, "%s%s", prefix, name);
    return sp_matcher_find(m, full) < m->n;
}

void sp_matcher_report(struct sp_matcher *m, const char *format, ...)
{
    struct sp_findings *f = &m->findings;
    char text[SP_ERR_TEXT];
    va_list args;
    size_t len;

    va_start(args, format);
    sp_decimal_vprint(text, sizeof text, format, args);
    va_end(args);
    len = strlen(text);
    f->n++;
    if (f->n_shown + 1 != f->n || f->len + len + 2 >= sizeof f->text) {
        if (f->n > 1) return;
        len = sizeof f->text - 1; /* one endless name */
    }
    f->len += (size_t)snprintf(f->text + f->len, sizeof f->text - f->len, "%s%.*s",
                               f->n_shown ? "; " : "", (int)len, text);
    f->n_shown++;
}

/* A tensor that there should be, where names are made up and not looked for. */
static enum sp_status publish(struct sp_matcher *m, const char *name, const uint64_t *shape,
                              unsigned rank)
{
    struct sp_published_list *list = m->published;
    struct sp_source_tensor t = {.rank = rank};
    enum sp_status st;

    if (list->n == SP_MAX_PUBLISHED) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "a checkpoint of more than %d tensors",
                       SP_MAX_PUBLISHED);
    }
    memcpy(t.shape, shape, rank * sizeof *shape);
    if ((st = sp_specs_add_string(&t.name, m->specs, name, m->err))) return st;
    st = sp_grow(&list->all, &list->cap, list->n + 1, sizeof *list->all, m->err);
    if (st == SP_OK) list->all[list->n++] = t;
    return st;
}

/* A tensor that must be there in this shape; *found or not, the matching goes on. */
static enum sp_status claim(bool *found, struct sp_matcher *m, const char *name,
                            const uint64_t *shape, unsigned rank)
{
    size_t i = sp_matcher_find(m, name);
    const struct sp_source_tensor *t = i < m->n ? m->sorted[i] : NULL;
    char have[SP_SHAPE_TEXT], want[SP_SHAPE_TEXT];

    *found = true;
    if (m->published) return publish(m, name, shape, rank);
    *found = false;
    sp_shape_text(want, shape, rank);
    if (t == NULL) {
        sp_matcher_report(m, "missing tensor \"%s\" %s", name, want);
        return SP_OK;
    }
    m->used[i] = true;
    *found = (t->rank == rank && memcmp(t->shape, shape, rank * sizeof *shape) == 0) ||
             (t->rank == 0 && rank == 1 && shape[0] == 1);
    if (*found) return SP_OK;
    sp_matcher_report(m, "tensor \"%s\" has shape %s, expected %s", name,
                      sp_shape_text(have, t->shape, t->rank), want);
    return SP_OK;
}

static enum sp_status add_piece(struct sp_matcher *m, struct sp_tensor_spec *spec, const char *name,
                                struct sp_piece piece)
{
    struct sp_specs *s = m->specs;
    enum sp_status st;

    if ((st = sp_specs_add_string(&piece.source, s, name, m->err))) return st;
    st = sp_grow(&s->pieces, &s->cap_pieces, s->n_pieces + 1, sizeof *s->pieces, m->err);
    if (st) return st;
    if (spec->n_pieces++ == 0) spec->first_piece = s->n_pieces;
    s->pieces[s->n_pieces++] = piece;
    return SP_OK;
}

/* How a source tensor holds a canonical one. */
enum form {
    FORM_WHOLE,      /* as it is, maybe under another name */
    FORM_QKV,        /* rows of q, k, v; `part` says which */
    FORM_GATE_UP,    /* rows of gate, up */
    FORM_EACH,       /* one tensor for each expert */
    FORM_HALVES,     /* [E, 2I, H]: rows of gate, up for each expert */
    FORM_ALTERNATE,  /* [E, H, 2I]: gate, up, gate, up, ... transposed */
    FORM_ROWS,       /* [E, 2I, H]: gate, up, gate, up, ... */
    FORM_TRANSPOSED, /* [E, cols, rows] */
    FORM_BIASES,     /* [E, 2I]: gate, up, gate, up, ... */
    FORM_HEADS,      /* [2 n, H]: query rows, then gate rows, of each head */
    FORM_QKVZ,       /* delta layers: rows of q, k, v, z of each key head; `part` 1: of z */
    FORM_ROW,        /* a vector as the only row of a matrix */
    FORM_BA,         /* ... of b, a of each key head; `part` says which */
    FORM_PAIRS,      /* of each head, rows that rotate together are neighbours */
    FORM_ZXBCDT,     /* Mamba-2 layers: rows of z, of x, B and C, of dt; `part` says which */
};

struct form_row {
    enum sp_storage storage;
    const char *canonical, *source; /* after "layers.N."; "%u" stands for the expert */
    enum form form;
    unsigned part;
};

/* Of several rows for one tensor the first whose source exists counts; the first of all is how it
 * is published. */
static const struct form_row forms[] = {
    {SP_STORED_QKV, "self_attn.q_proj.weight", "self_attn.qkv_proj.weight", FORM_QKV, 0},
    {SP_STORED_QKV, "self_attn.k_proj.weight", "self_attn.qkv_proj.weight", FORM_QKV, 1},
    {SP_STORED_QKV, "self_attn.v_proj.weight", "self_attn.qkv_proj.weight", FORM_QKV, 2},
    {SP_STORED_GATE_UP, "mlp.gate_proj.weight", "mlp.gate_up_proj.weight", FORM_GATE_UP, 0},
    {SP_STORED_GATE_UP, "mlp.up_proj.weight", "mlp.gate_up_proj.weight", FORM_GATE_UP, 1},

    {SP_STORED_PAIRED, "self_attn.q_proj.weight", "self_attn.q_proj.weight", FORM_PAIRS, 0},
    {SP_STORED_PAIRED, "self_attn.k_proj.weight", "self_attn.k_proj.weight", FORM_PAIRS, 0},
    {SP_STORED_PAIRED, "self_attn.q_proj.bias", "self_attn.q_proj.bias", FORM_PAIRS, 0},
    {SP_STORED_PAIRED, "self_attn.k_proj.bias", "self_attn.k_proj.bias", FORM_PAIRS, 0},
    {SP_STORED_PAIRED, "self_attn.q_norm.weight", "self_attn.q_norm.weight", FORM_PAIRS, 0},
    {SP_STORED_PAIRED, "self_attn.k_norm.weight", "self_attn.k_norm.weight", FORM_PAIRS, 0},

    {SP_STORED_GLM4, "post_attention_layernorm.weight", "post_self_attn_layernorm.weight",
     FORM_WHOLE, 0},
    {SP_STORED_GLM4, "pre_feedforward_layernorm.weight", "post_attention_layernorm.weight",
     FORM_WHOLE, 0},
    {SP_STORED_GLM4, "post_feedforward_layernorm.weight", "post_mlp_layernorm.weight", FORM_WHOLE,
     0},

    {SP_STORED_SHARED_MLP, "mlp.gate_proj.weight", "shared_mlp.input_linear.weight", FORM_GATE_UP,
     0},
    {SP_STORED_SHARED_MLP, "mlp.up_proj.weight", "shared_mlp.input_linear.weight", FORM_GATE_UP, 1},
    {SP_STORED_SHARED_MLP, "mlp.down_proj.weight", "shared_mlp.output_linear.weight", FORM_WHOLE,
     0},

    {SP_STORED_SHARED_MLP, "mlp.shared_expert.gate_proj.weight", "shared_mlp.input_linear.weight",
     FORM_GATE_UP, 0},
    {SP_STORED_SHARED_MLP, "mlp.shared_expert.up_proj.weight", "shared_mlp.input_linear.weight",
     FORM_GATE_UP, 1},
    {SP_STORED_SHARED_MLP, "mlp.shared_expert.down_proj.weight", "shared_mlp.output_linear.weight",
     FORM_WHOLE, 0},

    {SP_STORED_MAMBA, "mamba.in_proj_z.weight", "mamba.in_proj.weight", FORM_ZXBCDT, 0},
    {SP_STORED_MAMBA, "mamba.in_proj_xbc.weight", "mamba.in_proj.weight", FORM_ZXBCDT, 1},
    {SP_STORED_MAMBA, "mamba.in_proj_dt.weight", "mamba.in_proj.weight", FORM_ZXBCDT, 2},
    {SP_STORED_MAMBA, "mamba.in_proj_z.bias", "mamba.in_proj.bias", FORM_ZXBCDT, 0},
    {SP_STORED_MAMBA, "mamba.in_proj_xbc.bias", "mamba.in_proj.bias", FORM_ZXBCDT, 1},
    {SP_STORED_MAMBA, "mamba.in_proj_dt.bias", "mamba.in_proj.bias", FORM_ZXBCDT, 2},

    {SP_STORED_MIXER, "input_layernorm.weight", "norm.weight", FORM_WHOLE, 0},
    {SP_STORED_MIXER, "post_attention_layernorm.weight", "norm.weight", FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mlp.router.weight", "mixer.gate.weight", FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mlp.router.correction", "mixer.gate.e_score_correction_bias", FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mlp.experts.up_proj.weight", "mixer.experts.%u.up_proj.weight", FORM_EACH,
     0},
    {SP_STORED_MIXER, "mlp.experts.up_proj.weight", "mixer.experts.up_proj", FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mlp.experts.down_proj.weight", "mixer.experts.%u.down_proj.weight",
     FORM_EACH, 0},
    {SP_STORED_MIXER, "mlp.experts.down_proj.weight", "mixer.experts.down_proj", FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mlp.shared_expert.up_proj.weight", "mixer.shared_experts.up_proj.weight",
     FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mlp.shared_expert.down_proj.weight", "mixer.shared_experts.down_proj.weight",
     FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mamba.in_proj_z.weight", "mixer.in_proj.weight", FORM_ZXBCDT, 0},
    {SP_STORED_MIXER, "mamba.in_proj_xbc.weight", "mixer.in_proj.weight", FORM_ZXBCDT, 1},
    {SP_STORED_MIXER, "mamba.in_proj_dt.weight", "mixer.in_proj.weight", FORM_ZXBCDT, 2},
    {SP_STORED_MIXER, "mamba.in_proj_z.bias", "mixer.in_proj.bias", FORM_ZXBCDT, 0},
    {SP_STORED_MIXER, "mamba.in_proj_xbc.bias", "mixer.in_proj.bias", FORM_ZXBCDT, 1},
    {SP_STORED_MIXER, "mamba.in_proj_dt.bias", "mixer.in_proj.bias", FORM_ZXBCDT, 2},

    {SP_STORED_FEED_FORWARD, "post_attention_layernorm.weight", "pre_ff_layernorm.weight",
     FORM_WHOLE, 0},
    {SP_STORED_FEED_FORWARD, "mlp.gate_proj.weight", "feed_forward.gate_proj.weight", FORM_WHOLE,
     0},
    {SP_STORED_FEED_FORWARD, "mlp.up_proj.weight", "feed_forward.up_proj.weight", FORM_WHOLE, 0},
    {SP_STORED_FEED_FORWARD, "mlp.down_proj.weight", "feed_forward.down_proj.weight", FORM_WHOLE,
     0},
    {SP_STORED_FEED_FORWARD, "mlp.gate_proj.bias", "feed_forward.gate_proj.bias", FORM_WHOLE, 0},
    {SP_STORED_FEED_FORWARD, "mlp.up_proj.bias", "feed_forward.up_proj.bias", FORM_WHOLE, 0},
    {SP_STORED_FEED_FORWARD, "mlp.down_proj.bias", "feed_forward.down_proj.bias", FORM_WHOLE, 0},

    {SP_STORED_C_FC, "mlp.up_proj.weight", "mlp.c_fc.weight", FORM_WHOLE, 0},
    {SP_STORED_C_FC, "mlp.up_proj.bias", "mlp.c_fc.bias", FORM_WHOLE, 0},
    {SP_STORED_C_FC, "mlp.down_proj.weight", "mlp.c_proj.weight", FORM_WHOLE, 0},
    {SP_STORED_C_FC, "mlp.down_proj.bias", "mlp.c_proj.bias", FORM_WHOLE, 0},

    {SP_STORED_HUNYUAN, "self_attn.q_norm.weight", "self_attn.query_layernorm.weight", FORM_WHOLE,
     0},
    {SP_STORED_HUNYUAN, "self_attn.k_norm.weight", "self_attn.key_layernorm.weight", FORM_WHOLE, 0},

    {SP_STORED_LINEAR, "mlp.router.weight", "block_sparse_moe.router.layer.weight", FORM_WHOLE, 0},
    {SP_STORED_LINEAR, "mlp.experts.gate_proj.weight", "block_sparse_moe.input_linear.weight",
     FORM_HALVES, 0},
    {SP_STORED_LINEAR, "mlp.experts.up_proj.weight", "block_sparse_moe.input_linear.weight",
     FORM_HALVES, 1},
    {SP_STORED_LINEAR, "mlp.experts.down_proj.weight", "block_sparse_moe.output_linear.weight",
     FORM_WHOLE, 0},

    {SP_STORED_SPARSE, "mlp.router.weight", "block_sparse_moe.gate.weight", FORM_WHOLE, 0},
    {SP_STORED_SPARSE, "mlp.experts.gate_proj.weight", "block_sparse_moe.experts.%u.w1.weight",
     FORM_EACH, 0},
    {SP_STORED_SPARSE, "mlp.experts.up_proj.weight", "block_sparse_moe.experts.%u.w3.weight",
     FORM_EACH, 0},
    {SP_STORED_SPARSE, "mlp.experts.down_proj.weight", "block_sparse_moe.experts.%u.w2.weight",
     FORM_EACH, 0},

    {SP_STORED_EXPERTS, "mlp.router.weight", "mlp.gate.weight", FORM_WHOLE, 0},
    {SP_STORED_EXPERTS, "mlp.experts.gate_proj.weight", "mlp.experts.%u.gate_proj.weight",
     FORM_EACH, 0},
    {SP_STORED_EXPERTS, "mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj", FORM_HALVES, 0},
    {SP_STORED_EXPERTS, "mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj.weight",
     FORM_HALVES, 0},
    {SP_STORED_EXPERTS, "mlp.experts.gate_proj.weight", "mlp.switch_mlp.gate_proj.weight",
     FORM_WHOLE, 0},
    {SP_STORED_EXPERTS, "mlp.experts.up_proj.weight", "mlp.experts.%u.up_proj.weight", FORM_EACH,
     0},
    {SP_STORED_EXPERTS, "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj", FORM_HALVES, 1},
    {SP_STORED_EXPERTS, "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj.weight",
     FORM_HALVES, 1},
    {SP_STORED_EXPERTS, "mlp.experts.up_proj.weight", "mlp.switch_mlp.up_proj.weight", FORM_WHOLE,
     0},
    {SP_STORED_EXPERTS, "mlp.experts.down_proj.weight", "mlp.experts.%u.down_proj.weight",
     FORM_EACH, 0},
    {SP_STORED_EXPERTS, "mlp.experts.down_proj.weight", "mlp.experts.down_proj", FORM_WHOLE, 0},
    {SP_STORED_EXPERTS, "mlp.experts.down_proj.weight", "mlp.switch_mlp.down_proj.weight",
     FORM_WHOLE, 0},

    {SP_STORED_GATED, "self_attn.q_proj.weight", "self_attn.q_proj.weight", FORM_HEADS, 0},
    {SP_STORED_GATED, "self_attn.gate_proj.weight", "self_attn.q_proj.weight", FORM_HEADS, 1},

    {SP_STORED_STATICS, "mlp.router.correction", "mlp.moe_statics.e_score_correction_bias",
     FORM_ROW, 0},
    {SP_STORED_ROUTED, "mlp.router.correction", "mlp.gate.e_score_correction_bias", FORM_WHOLE, 0},
    {SP_STORED_ROUTED, "mlp.shared_expert.gate_proj.weight", "mlp.shared_experts.gate_proj.weight",
     FORM_WHOLE, 0},
    {SP_STORED_ROUTED, "mlp.shared_expert.up_proj.weight", "mlp.shared_experts.up_proj.weight",
     FORM_WHOLE, 0},
    {SP_STORED_ROUTED, "mlp.shared_expert.down_proj.weight", "mlp.shared_experts.down_proj.weight",
     FORM_WHOLE, 0},

    {SP_STORED_GROUPED, "linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_qkvz.weight",
     FORM_QKVZ, 0},
    {SP_STORED_GROUPED, "linear_attn.in_proj_z.weight", "linear_attn.in_proj_qkvz.weight",
     FORM_QKVZ, 1},
    {SP_STORED_GROUPED, "linear_attn.in_proj_b.weight", "linear_attn.in_proj_ba.weight", FORM_BA,
     0},
    {SP_STORED_GROUPED, "linear_attn.in_proj_a.weight", "linear_attn.in_proj_ba.weight", FORM_BA,
     1},

    {SP_STORED_LFM2, "input_layernorm.weight", "operator_norm.weight", FORM_WHOLE, 0},
    {SP_STORED_LFM2, "post_attention_layernorm.weight", "ffn_norm.weight", FORM_WHOLE, 0},
    {SP_STORED_LFM2, "self_attn.o_proj.weight", "self_attn.out_proj.weight", FORM_WHOLE, 0},
    {SP_STORED_LFM2, "self_attn.q_norm.weight", "self_attn.q_layernorm.weight", FORM_WHOLE, 0},
    {SP_STORED_LFM2, "self_attn.k_norm.weight", "self_attn.k_layernorm.weight", FORM_WHOLE, 0},
    {SP_STORED_LFM2, "mlp.gate_proj.weight", "feed_forward.w1.weight", FORM_WHOLE, 0},
    {SP_STORED_LFM2, "mlp.up_proj.weight", "feed_forward.w3.weight", FORM_WHOLE, 0},
    {SP_STORED_LFM2, "mlp.down_proj.weight", "feed_forward.w2.weight", FORM_WHOLE, 0},
    {SP_STORED_LFM2, "mlp.router.weight", "feed_forward.gate.weight", FORM_WHOLE, 0},
    {SP_STORED_LFM2, "mlp.router.correction", "feed_forward.expert_bias", FORM_WHOLE, 0},
    {SP_STORED_LFM2, "mlp.experts.gate_proj.weight", "feed_forward.experts.%u.w1.weight", FORM_EACH,
     0},
    {SP_STORED_LFM2, "mlp.experts.up_proj.weight", "feed_forward.experts.%u.w3.weight", FORM_EACH,
     0},
    {SP_STORED_LFM2, "mlp.experts.down_proj.weight", "feed_forward.experts.%u.w2.weight", FORM_EACH,
     0},
    {SP_STORED_LFM2, "mlp.experts.gate_proj.weight", "feed_forward.experts.gate_up_proj",
     FORM_HALVES, 0},
    {SP_STORED_LFM2, "mlp.experts.up_proj.weight", "feed_forward.experts.gate_up_proj", FORM_HALVES,
     1},
    {SP_STORED_LFM2, "mlp.experts.down_proj.weight", "feed_forward.experts.down_proj", FORM_WHOLE,
     0},

    {SP_STORED_BESIDE, "mlp.router.weight", "router.proj.weight", FORM_WHOLE, 0},
    {SP_STORED_BESIDE, "mlp.router.scale", "router.scale", FORM_WHOLE, 0},
    {SP_STORED_BESIDE, "mlp.router.expert_scale", "router.per_expert_scale", FORM_WHOLE, 0},
    {SP_STORED_BESIDE, "mlp.experts.gate_proj.weight", "experts.gate_up_proj", FORM_HALVES, 0},
    {SP_STORED_BESIDE, "mlp.experts.up_proj.weight", "experts.gate_up_proj", FORM_HALVES, 1},
    {SP_STORED_BESIDE, "mlp.experts.down_proj.weight", "experts.down_proj", FORM_WHOLE, 0},
    {SP_STORED_BESIDE, "mlp.shared_expert.gate_proj.weight", "mlp.gate_proj.weight", FORM_WHOLE, 0},
    {SP_STORED_BESIDE, "mlp.shared_expert.up_proj.weight", "mlp.up_proj.weight", FORM_WHOLE, 0},
    {SP_STORED_BESIDE, "mlp.shared_expert.down_proj.weight", "mlp.down_proj.weight", FORM_WHOLE, 0},

    {SP_STORED_INTERLEAVED, "mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj",
     FORM_ALTERNATE, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj",
     FORM_ALTERNATE, 1},
    {SP_STORED_INTERLEAVED, "mlp.experts.down_proj.weight", "mlp.experts.down_proj",
     FORM_TRANSPOSED, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj_blocks",
     FORM_ROWS, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj_blocks",
     FORM_ROWS, 1},
    {SP_STORED_INTERLEAVED, "mlp.experts.down_proj.weight", "mlp.experts.down_proj_blocks",
     FORM_WHOLE, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.gate_proj.bias", "mlp.experts.gate_up_proj_bias",
     FORM_BIASES, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.up_proj.bias", "mlp.experts.gate_up_proj_bias",
     FORM_BIASES, 1},
    {SP_STORED_INTERLEAVED, "mlp.experts.down_proj.bias", "mlp.experts.down_proj_bias", FORM_WHOLE,
     0},
};

/* Outside the layers. */
static const struct outer_form {
    enum sp_storage storage;
    const char *canonical, *source;
} outer_forms[] = {
    {SP_STORED_LFM2, "norm.weight", "embedding_norm.weight"},
    {SP_STORED_MIXER, "norm.weight", "norm_f.weight"},
    {SP_STORED_MIXER, "embed_tokens.weight", SP_MIXER_EMBEDDING},
    {SP_STORED_FEED_FORWARD, "norm.weight", "final_layernorm.weight"},
    {SP_STORED_NEXTN, "fc.weight", "eh_proj.weight"},
    {SP_STORED_NEXTN, "pre_fc_norm_embedding.weight", "enorm.weight"},
    {SP_STORED_NEXTN, "pre_fc_norm_hidden.weight", "hnorm.weight"},
    {SP_STORED_NEXTN, "norm.weight", "shared_head.norm.weight"},
};

static enum sp_status add_whole(struct sp_matcher *m, struct sp_tensor_spec *spec, const char *name)
{
    struct sp_piece piece = {.step = 1, .n_rows = 1, .n_cols = spec->shape[spec->rank - 1]};
    enum sp_status st;
    bool found;

    for (unsigned i = 0; i + 1 < spec->rank; i++)
        piece.n_rows *= spec->shape[i];
    if ((st = claim(&found, m, name, spec->shape, spec->rank)) || !found) return st;
    return add_piece(m, spec, name, piece);
}

static enum sp_status add_row(struct sp_matcher *m, struct sp_tensor_spec *spec, const char *name)
{
    uint64_t shape[2] = {1, spec->shape[0]};
    enum sp_status st;
    bool found;

    if ((st = claim(&found, m, name, shape, 2)) || !found) return st;
    return add_piece(m, spec, name,
                     (struct sp_piece){.step = 1, .n_rows = 1, .n_cols = spec->shape[0]});
}

/* Contiguous rows out of a matrix that holds several; of a vector, elements. */
static enum sp_status add_slice(struct sp_matcher *m, struct sp_tensor_spec *spec, const char *name,
                                uint64_t first_row, uint64_t n_all)
{
    uint64_t n_cols = spec->rank == 2 ? spec->shape[1] : 1, shape[2] = {n_all, n_cols};
    enum sp_status st;
    bool found;

    if ((st = claim(&found, m, name, shape, spec->rank)) || !found) return st;
    return add_piece(
        m, spec, name,
        (struct sp_piece){
            .first_row = first_row, .step = 1, .n_rows = spec->shape[0], .n_cols = n_cols});
}

/* The source's name with the expert's number in place of %u. */
static void name_expert(char *out, size_t size, const char *pattern, unsigned expert)
{
    const char *mark = strstr(pattern, "%u");

    snprintf(out, size, "%.*s%u%s", (int)(mark - pattern), pattern, expert, mark + 2);
}

static enum sp_status add_each(struct sp_matcher *m, struct sp_tensor_spec *spec,
                               const char *pattern)
{
    char name[SP_SOURCE_NAME];
    enum sp_status st = SP_OK;

    for (unsigned e = 0; st == SP_OK && e < spec->shape[0]; e++) {
        bool found;
        if (m->findings.n >= SP_MAX_FINDINGS) break;
        name_expert(name, sizeof name, pattern, e);
        if ((st = claim(&found, m, name, spec->shape + 1, 2)) || !found) continue;
        st = add_piece(
            m, spec, name,
            (struct sp_piece){.step = 1, .n_rows = spec->shape[1], .n_cols = spec->shape[2]});
    }
    return st;
}

/* Every other run of n rows: of each pair of runs the one numbered `part`. */
static enum sp_status add_runs(struct sp_matcher *m, struct sp_tensor_spec *spec, const char *name,
                               const uint64_t *shape, unsigned rank, uint64_t n, unsigned part)
{
    uint64_t n_cols = shape[rank - 1], n_rows = shape[0] * (rank == 3 ? shape[1] : 1);
    enum sp_status st;
    bool found;

    if ((st = claim(&found, m, name, shape, rank)) || !found) return st;
    for (uint64_t row = part * n; st == SP_OK && row < n_rows; row += 2 * n) {
        st = add_piece(
            m, spec, name,
            (struct sp_piece){.first_row = row, .step = 1, .n_rows = n, .n_cols = n_cols});
    }
    return st;
}

/* Each expert's rows. */
static enum sp_status add_halves(struct sp_matcher *m, struct sp_tensor_spec *spec,
                                 const char *name, unsigned part)
{
    uint64_t n = spec->shape[1], shape[3] = {spec->shape[0], 2 * n, spec->shape[2]};

    return add_runs(m, spec, name, shape, 3, n, part);
}

/* Every other row over all experts: they have an even number of rows each. */
static enum sp_status add_alternate(struct sp_matcher *m, struct sp_tensor_spec *spec,
                                    const char *name, enum form form, unsigned part)
{
    uint64_t rows = 2 * spec->shape[1], cols = form == FORM_BIASES ? 1 : spec->shape[2];
    uint64_t shape[3] = {spec->shape[0], rows, cols};
    struct sp_piece piece = {.first_row = part,
                             .step = 2,
                             .n_rows = spec->shape[0] * spec->shape[1],
                             .n_cols = cols,
                             .transposed = form == FORM_ALTERNATE};
    enum sp_status st;
    bool found;

    if (piece.transposed) {
        shape[1] = cols;
        shape[2] = rows;
    }
    st = claim(&found, m, name, shape, form == FORM_BIASES ? 2 : 3);
    if (st || !found) return st;
    return add_piece(m, spec, name, piece);
}

static enum sp_status add_transposed(struct sp_matcher *m, struct sp_tensor_spec *spec,
                                     const char *name)
{
    uint64_t shape[3] = {spec->shape[0], spec->shape[2], spec->shape[1]};
    enum sp_status st;
    bool found;

    if ((st = claim(&found, m, name, shape, 3)) || !found) return st;
    return add_piece(m, spec, name,
                     (struct sp_piece){.step = 1,
                                       .n_rows = spec->shape[0] * spec->shape[1],
                                       .n_cols = spec->shape[2],
                                       .transposed = true});
}

/* Each head's rows. */
static enum sp_status add_heads(struct sp_matcher *m, struct sp_tensor_spec *spec, const char *name,
                                const struct sp_layer_config *l, unsigned part)
{
    uint64_t shape[2] = {2 * spec->shape[0], spec->shape[1]};

    return add_runs(m, spec, name, shape, 2, l->head_dim, part);
}

/* Of each head's rotated rows 0, 2, 4, ..., then 1, 3, 5, ..., then those that do not rotate: row i
 * rotates with row i + n_rot / 2, as everywhere else. */
static enum sp_status add_pairs(struct sp_matcher *m, struct sp_tensor_spec *spec, const char *name,
                                const struct sp_layer_config *l)
{
    /* A norm with weights for every head is a matrix there, of a row for each. */
    bool is_matrix = spec->role == SP_ROLE_NORM && m->config->qk_norm == SP_QK_OWN;
    uint64_t heads[2] = {spec->shape[0] / l->head_dim, l->head_dim};
    uint64_t n_cols = spec->rank == 2 ? spec->shape[1] : 1;
    uint64_t n_rot = l->rope < 0 ? 0 : m->config->ropes[l->rope].n_rot;
    enum sp_status st;
    bool found;

    st = claim(&found, m, name, is_matrix ? heads : spec->shape, is_matrix ? 2 : spec->rank);
    if (st || !found) return st;
    for (uint64_t row = 0; st == SP_OK && row < spec->shape[0]; row += l->head_dim) {
        const struct sp_piece pieces[] = {
            {.first_row = row, .step = 2, .n_rows = n_rot / 2, .n_cols = n_cols},
            {.first_row = row + 1, .step = 2, .n_rows = n_rot / 2, .n_cols = n_cols},
            {.first_row = row + n_rot, .step = 1, .n_rows = l->head_dim - n_rot, .n_cols = n_cols},
        };
        for (size_t i = 0; st == SP_OK && i < 3; i++) {
            if (pieces[i].n_rows) st = add_piece(m, spec, name, pieces[i]);
        }
    }
    return st;
}

/* Rows that lie group by group, one group for each key head of a delta layer: of each group a run
 * of rows[i] after another. Runs first..last of all groups, run by run. */
static enum sp_status add_groups(struct sp_matcher *m, struct sp_tensor_spec *spec,
                                 const char *name, const uint64_t *rows, size_t n_runs,
                                 size_t first, size_t last)
{
    uint64_t n_groups = m->config->delta.n_key_heads, group = 0, before = 0;
    uint64_t shape[2] = {0, spec->shape[1]};
    enum sp_status st;
    bool found;

    for (size_t i = 0; i < n_runs; i++)
        group += rows[i];
    shape[0] = n_groups * group;
    if ((st = claim(&found, m, name, shape, 2)) || !found) return st;
    for (size_t i = 0; i <= last; before += rows[i++]) {
        for (uint64_t g = 0; i >= first && st == SP_OK && g < n_groups; g++) {
            struct sp_piece piece = {.first_row = g * group + before,
                                     .step = 1,
                                     .n_rows = rows[i],
                                     .n_cols = spec->shape[1]};
            st = add_piece(m, spec, name, piece);
        }
    }
    return st;
}

static enum sp_status add_delta_rows(struct sp_matcher *m, struct sp_tensor_spec *spec,
                                     const char *name, const struct form_row *form)
{
    const struct sp_delta_config *c = &m->config->delta;
    uint64_t n = c->n_value_heads / c->n_key_heads, values = n * c->value_dim;
    const uint64_t qkvz[] = {c->key_dim, c->key_dim, values, values}, ba[] = {n, n};

    if (form->form == FORM_BA) return add_groups(m, spec, name, ba, 2, form->part, form->part);
    return add_groups(m, spec, name, qkvz, 4, form->part ? 3 : 0, form->part ? 3 : 2);
}

static enum sp_status add_mamba_rows(struct sp_matcher *m, struct sp_tensor_spec *spec,
                                     const char *name, unsigned part)
{
    const struct sp_mamba_config *c = &m->config->mamba;
    uint64_t values = (uint64_t)c->n_heads * c->head_dim;
    uint64_t keys = (uint64_t)c->n_groups * c->state_dim, dt = 2 * values + 2 * keys;
    const uint64_t first[] = {0, values, dt};

    return add_slice(m, spec, name, first[part], dt + c->n_heads);
}

static enum sp_status add_form(struct sp_matcher *m, struct sp_tensor_spec *spec,
                               const struct form_row *form, const char *name,
                               const struct sp_layer_config *l)
{
    uint64_t q = (uint64_t)l->n_heads * l->head_dim, kv = (uint64_t)l->n_kv_heads * l->head_dim;
    uint64_t first[3] = {0, q, q + kv};

    switch (form->form) {
    case FORM_WHOLE:
        return add_whole(m, spec, name);
    case FORM_QKV:
        return add_slice(m, spec, name, first[form->part], q + 2 * kv);
    case FORM_GATE_UP:
        return add_slice(m, spec, name, form->part * spec->shape[0], 2 * spec->shape[0]);
    case FORM_EACH:
        return add_each(m, spec, name);
    case FORM_HALVES:
        return add_halves(m, spec, name, form->part);
    case FORM_ALTERNATE:
    case FORM_ROWS:
    case FORM_BIASES:
        return add_alternate(m, spec, name, form->form, form->part);
    case FORM_HEADS:
        return add_heads(m, spec, name, l, form->part);
    case FORM_ROW:
        return add_row(m, spec, name);
    case FORM_QKVZ:
    case FORM_BA:
        return add_delta_rows(m, spec, name, form);
    case FORM_ZXBCDT:
        return add_mamba_rows(m, spec, name, form->part);
    case FORM_PAIRS:
        return add_pairs(m, spec, name, l);
    case FORM_TRANSPOSED:
        return add_transposed(m, spec, name);
    }
    return sp_fail(m->err, SP_E_BUG, "tensor \"%s\" has no form", spec->name);
}

/* Where names are made up, the first that comes into question is there. */
static bool exists(const struct sp_matcher *m, const char *name)
{
    return m->published || sp_matcher_has(m, "", name);
}

/* Is there a tensor of this form? Of experts apart, the first stands for all. */
static bool form_exists(const struct sp_matcher *m, const struct form_row *form, const char *name)
{
    char first[SP_SOURCE_NAME];

    if (form->form != FORM_EACH) return exists(m, name);
    name_expert(first, sizeof first, name, 0);
    return exists(m, first);
}

static void name_in_layer(char *out, size_t size, const struct sp_matcher *m, unsigned layer,
                          const char *suffix)
{
    if (m->only_layer) {
        snprintf(out, size, "%s%s%s", m->prefix, m->only_layer, suffix);
    } else {
        snprintf(out, size, "%slayers.%u.%s", m->prefix, layer, suffix);
    }
}

/* Where sublayers have no names of their own, "mixer" stands for each. */
static bool name_mixer(char *out, size_t size, const struct sp_matcher *m, const char *suffix)
{
    static const char *const sublayers[] = {"mamba.", "self_attn.", "mlp."};

    for (size_t i = 0; i < 3 && (m->storage & SP_STORED_MIXER); i++) {
        size_t n = strlen(sublayers[i]);
        if (strncmp(suffix, sublayers[i], n) != 0) continue;
        snprintf(out, size, "mixer.%s", suffix + n);
        return true;
    }
    return false;
}

static enum sp_status match_layer_spec(struct sp_matcher *m, struct sp_tensor_spec *spec)
{
    static const struct form_row plain = {.form = FORM_WHOLE};
    const struct form_row *chosen = NULL;
    unsigned layer = (unsigned)strtoul(spec->name + strlen("layers."), NULL, 10);
    const char *suffix = strchr(spec->name + strlen("layers."), '.') + 1;
    char name[SP_SOURCE_NAME], renamed[SP_SPEC_NAME];

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const struct form_row *form = &forms[i];
        if (!(form->storage & m->storage) || strcmp(form->canonical, suffix) != 0) continue;
        name_in_layer(name, sizeof name, m, layer, form->source);
        if (chosen == NULL) chosen = form;
        if (!form_exists(m, form, name)) continue;
        chosen = form;
        break;
    }
    if (chosen == NULL) chosen = &plain;
    if (chosen == &plain && name_mixer(renamed, sizeof renamed, m, suffix)) suffix = renamed;
    if (chosen->source) suffix = chosen->source;
    name_in_layer(name, sizeof name, m, layer, suffix);
    return add_form(m, spec, chosen, name, &m->config->layers[layer]);
}

/* The norms of all taps, one after another. */
static enum sp_status add_tap_norms(struct sp_matcher *m, struct sp_tensor_spec *spec)
{
    uint64_t width = m->config->draft.target_hidden;
    char name[SP_SOURCE_NAME];
    enum sp_status st = SP_OK;

    for (unsigned i = 0; st == SP_OK && i < m->config->draft.n_taps; i++) {
        bool found;
        snprintf(name, sizeof name, "%sfc_norm.%u.weight", m->prefix, i);
        if ((st = claim(&found, m, name, &width, 1)) || !found) continue;
        st = add_piece(m, spec, name, (struct sp_piece){.step = 1, .n_rows = 1, .n_cols = width});
    }
    return st;
}

/* An assistant's projections stand beside its text model. */
static bool is_beside(const struct sp_matcher *m, const char *name, const char *prefixed)
{
    static const char *const begins[] = {"pre_projection.", "post_projection.",
                                         "masked_embedding."};

    if (m->config->draft.kind == SP_DRAFT_NONE) return false;
    if (!m->published) return !exists(m, prefixed) && exists(m, name);
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        if (strncmp(name, begins[i], strlen(begins[i])) == 0) return true;
    }
    return false;
}

enum sp_status sp_matcher_place(struct sp_matcher *m, struct sp_tensor_spec *spec)
{
    char name[SP_SOURCE_NAME];

    if (strcmp(spec->name, SP_TAP_NORMS) == 0) return add_tap_norms(m, spec);
    if (strncmp(spec->name, "layers.", strlen("layers.")) == 0) return match_layer_spec(m, spec);
    if (strcmp(spec->name, "lm_head.weight") == 0 ||
        (spec->role == SP_ROLE_EMBEDDING && m->embedding_is_head)) {
        return add_whole(m, spec, m->head_name);
    }
    for (size_t i = 0; i < sizeof outer_forms / sizeof outer_forms[0]; i++) {
        const struct outer_form *form = &outer_forms[i];
        if (!(form->storage & m->storage) || strcmp(form->canonical, spec->name) != 0) continue;
        snprintf(name, sizeof name, "%s%s", m->prefix, form->source);
        return add_whole(m, spec, name);
    }
    snprintf(name, sizeof name, "%s%s", m->prefix, spec->name);
    if (is_beside(m, spec->name, name)) return add_whole(m, spec, spec->name);
    if (strstr(spec->name, "_codebook") && !exists(m, name)) {
        snprintf(name, sizeof name, "%s%s.weight", m->prefix, spec->name);
    }
    return add_whole(m, spec, name);
}

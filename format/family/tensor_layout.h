/* The layouts in which a tensor of a checkpoint holds a canonical one: unchanged, as rows of a
 * fused matrix, one expert at a time, alternating, transposed. Aliases
 * (format/family/tensor_alias.h) name them. A layout is a function, so that a family with a layout
 * of its own can bring it along. */
#ifndef SP_FORMAT_FAMILY_TENSOR_LAYOUT_H
#define SP_FORMAT_FAMILY_TENSOR_LAYOUT_H

#include "format/base/err.h"

#include <stddef.h>

struct sp_layer_config;
struct sp_tensor_match;
struct sp_tensor_spec;

/* The tensor of a checkpoint that holds a canonical tensor. */
struct sp_alias_source {
    const char *name;                    /* full name; "%u" stands for an expert or a head */
    const struct sp_layer_config *layer; /* NULL outside the layers */
    unsigned part;                       /* sp_alias.part */
};

/* Adds the row spans that make the canonical tensor `spec` out of its source, and claims the source
 * in the shape that the config gives it. A missing or misshapen source is reported in `m`. */
typedef enum sp_status sp_layout_fn(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                    const struct sp_alias_source *source);

sp_layout_fn sp_layout_whole;              /* the source unchanged */
sp_layout_fn sp_layout_one_row;            /* a vector stored as a matrix of one row */
sp_layout_fn sp_layout_scalar;             /* one element stored without dimensions */
sp_layout_fn sp_layout_qkv;                /* rows of q, k, v; parts 0, 1, 2 */
sp_layout_fn sp_layout_grouped_qkv;        /* rows of q, k, v of each K/V head; parts 0, 1, 2 */
sp_layout_fn sp_layout_gate_up;            /* rows of gate, up; parts 0, 1 */
sp_layout_fn sp_layout_query_gate;         /* [2 n, H]: query, gate rows per head; parts 0, 1 */
sp_layout_fn sp_layout_each_expert;        /* one source per expert */
sp_layout_fn sp_layout_expert_gate_up;     /* [E, 2I, H]: gate, up rows per expert; parts 0, 1 */
sp_layout_fn sp_layout_transposed;         /* [E, cols, rows] */
sp_layout_fn sp_layout_transposed_gate_up; /* [E, H, 2I]: gate, up columns; parts 0, 1 */
sp_layout_fn sp_layout_alternating_cols;   /* [E, H, 2I]: gate, up, gate, up, ...; parts 0, 1 */
sp_layout_fn sp_layout_alternating_rows;   /* [E, 2I, H]: gate, up, gate, up, ...; parts 0, 1 */
sp_layout_fn sp_layout_alternating_biases; /* [E, 2I]: gate, up, gate, up, ...; parts 0, 1 */
sp_layout_fn sp_layout_each_head;          /* one vector per head, each in a source of its own */
sp_layout_fn sp_layout_interleaved_heads;  /* neighboring rows of a head rotate together */
sp_layout_fn sp_layout_swapped_halves;     /* the second half of a head's rows comes first */
sp_layout_fn sp_layout_query_tails;        /* the last rows of each query head may interleave */
sp_layout_fn sp_layout_key_tail;           /* the last rows of kv_a_proj may interleave */
sp_layout_fn sp_layout_index_heads;        /* the first rows of each index head may interleave */
sp_layout_fn sp_layout_latent_keys;        /* the key rows of each head of kv_b_proj, transposed */
sp_layout_fn sp_layout_latent_values;      /* the value rows of each head of kv_b_proj */
sp_layout_fn sp_layout_delta_qkv;          /* q, k, v rows of in_proj_qkvz, per key head */
sp_layout_fn sp_layout_delta_z;            /* z rows of in_proj_qkvz, per key head */
sp_layout_fn sp_layout_delta_ba;           /* b, a rows per key head; parts 0, 1 */
sp_layout_fn sp_layout_delta_heads;        /* q, k, v rows of qkv_proj, per head */
sp_layout_fn sp_layout_delta_each;         /* q, k, v rows in three sources, that of q named */
sp_layout_fn sp_layout_mamba_in_proj;      /* rows of z, of x, B and C, of dt; parts 0, 1, 2 */

/* *out = `pattern` with the number of an expert or a head in place of "%u". */
void sp_layout_numbered_name(char *out, size_t size, const char *pattern, unsigned number);

#endif

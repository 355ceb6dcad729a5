/* What a config owes to the tensors that exist. */
#ifndef SP_FORMAT_FAMILY_CONFIG_SETTLE_H
#define SP_FORMAT_FAMILY_CONFIG_SETTLE_H

#include "format/config/config.h"

/* The tensors of a checkpoint or a packed file that a config depends on. */
struct sp_tables {
    bool embedding, head;
    uint64_t head_rows;
    bool layer_scalars; /* layers.0.layer_scalar exists */
    uint64_t fc_cols;   /* columns of a draft's fc.weight; 0: there is none */
    uint64_t conv_taps; /* last dimension of a delta layer's conv1d.weight; 0: there is none */
    bool mtp;           /* pre_fc_norm_hidden.weight exists: this is a built-in prediction head */
    bool mtp_ffn;       /* the layer of that head has an MLP */
    bool mtp_experts;   /* which has experts */
    bool d2t;           /* d2t exists: a draft has a vocabulary of its own */
};

/* Completes a parsed config from the tensors that exist: whether the head is tied, whose tables a
 * draft uses, and its default taps. The config of a built-in prediction head becomes that of its
 * one layer. sp_specs_of_source calls it for a checkpoint; a reader of packed files calls it before
 * sp_specs_of_config. Returns SP_E_INPUT when config and tensors contradict each other. */
SP_MUST_CHECK enum sp_status sp_config_settle(struct sp_config *config,
                                              const struct sp_tables *found, struct sp_err *err);

#endif

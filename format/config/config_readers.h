/* The parts of sp_config_parse: one reader per subject. Only config*.c include this header.
 * format/config/README.md lists the files. */
#ifndef SP_FORMAT_CONFIG_CONFIG_READERS_H
#define SP_FORMAT_CONFIG_CONFIG_READERS_H

#include "format/config/config_text.h"
#include "format/config/family_row.h"

void sp_config_read_sizes(struct sp_sizes *out, const struct sp_config_text *t);

/* Fills the sizes and traits of the model as a whole. */
sp_read_fn sp_config_read_traits;

#define SP_THETAS_KEY "layer_rope_theta"

/* Fills ropes[0], of layers without a window, ropes[1] if sliding layers have a rotary embedding of
 * their own, and query_growth. Needs head_dim and max_positions. */
sp_read_fn sp_config_read_ropes;

/* The kind of a layer in families whose layers are one sublayer each (sp_family.sublayers). */
enum sp_sublayer {
    SP_SUBLAYER_MAMBA,
    SP_SUBLAYER_ATTENTION,
    SP_SUBLAYER_MLP,
    SP_SUBLAYER_EXPERTS,
};

/* *out = the number of sublayers. Fails if one of them is of an unknown kind. */
void sp_config_count_sublayers(unsigned *out, const struct sp_config_text *t);
enum sp_sublayer sp_config_sublayer(const struct sp_config_text *t, unsigned i);

/* Allocates and fills the layers. Needs the traits and n_ropes. */
sp_read_fn sp_config_read_layers;

/* Fills `routing`. Needs the layers. */
sp_read_fn sp_config_read_routing;

/* Fills `latent` in families with latent attention, and with it the head sizes of the layers and
 * the scale of the scores. Needs the layers and the ropes. */
sp_read_fn sp_config_read_latent;

/* Fills `delta` if there are such layers, and n_mtp_layers. Needs the layers. */
sp_read_fn sp_config_read_delta;

/* Fills `short_conv` in families with such layers, and adjusts the width of their MLPs. Needs the
 * layers. */
sp_read_fn sp_config_read_short_conv;

/* Fills `mamba` if there are such layers. Needs the layers. */
sp_read_fn sp_config_read_mamba;

/* Reads is_causal, and makes layers of a bidirectional model see all tokens. Needs the layers. */
sp_read_fn sp_config_read_causal;

/* Detects the kind of a draft by its architecture and model_type, and sets t->draft, t->dflash and
 * t->what. A kind that is not implemented is refused. */
void sp_config_detect_draft(struct sp_config_text *t);

/* Reads the keys of a draft, and sets whether its layers are causal. Needs the layers. */
sp_read_fn sp_config_read_draft;
/* Its parts: the keys of a Gemma 4 assistant, of an EAGLE-3 or P-EAGLE draft, and of DSpark's
 * heads, which needs block size and taps. */
sp_read_fn sp_config_read_assistant, sp_config_read_eagle3, sp_config_read_dspark;

/* Refuses unknown methods of quantization, and keys that change the computation and that the family
 * does not read. */
void sp_config_refuse(const struct sp_config_text *t);

/* Notes the keys of an object that no reader asked for since sp_json_watch, unless they are known
 * to have no effect, and removes them. */
void sp_config_note_unread(struct sp_json *config, struct sp_config_text *t);

#endif

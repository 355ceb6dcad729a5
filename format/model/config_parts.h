/* The parts that sp_config_parse is made of, one file each; not for anybody else.
 *
 * config_text.c    the effective config: text_config's keys over the root's
 * config_rope.c    old and new spellings of rotation -> struct sp_rope
 * config_layers.c  windows, rotation and experts of each layer
 * config_routing.c how experts are chosen
 * config_latent.c  multi-head latent attention
 * config_delta.c   gated delta-rule layers
 * config_short_conv.c  short convolutions, and what else LFM2 says in its own words
 * config_mamba.c   Mamba-2 layers
 * config_sublayers.c  layers that are one sublayer each
 * config_draft.c   drafts: which kind, and a DFlash draft's own keys
 * config_eagle3.c  the keys of an EAGLE-3 or P-EAGLE draft
 * config_assistant.c  the keys of a Gemma 4 assistant, and what its target must be like
 * config_refuse.c  keys that change the maths and are not implemented
 * config.c         the driver, sizes and traits */
#ifndef SP_FORMAT_MODEL_CONFIG_PARTS_H
#define SP_FORMAT_MODEL_CONFIG_PARTS_H

#include "format/model/config.h"
#include "format/model/family_table.h"
#include "format/base/json.h"

/* Upper bounds of what a config may ask for: far above any model, far below overflow. */
enum {
    SP_CAP_LAYERS = 4096,
    SP_CAP_WIDTH = 1 << 20,
    SP_CAP_HEADS = 1 << 14,
    SP_CAP_VOCAB = 1 << 24,
    SP_CAP_EXPERTS = 1 << 14,
    SP_CAP_POSITIONS = 1 << 30,
};

/* One config.json being read. All pointers are borrowed. */
struct sp_config_text {
    const struct sp_json *root;
    const struct sp_json *text;   /* text_config, or what stands for it; NULL: there is none */
    bool speculators;             /* a draft as the speculators library spells it */
    const struct sp_json *dflash; /* dflash_config; NULL: there is none */
    const struct sp_family *family;
    const struct sp_wrapper *wrapper; /* NULL: the text config is the root */
    enum sp_draft_kind draft;
    const char *what; /* "", "dflash ", ...: begins the messages that all share */
    char **warnings;
};

/* The object that states `key`, even as null: text_config before the root. NULL: neither does. */
const struct sp_json *sp_text_holder(const struct sp_config_text *t, const char *key);
/* The value; NULL when absent or null. */
const struct sp_json *sp_text_get(const struct sp_config_text *t, const char *key);

/* Absent or null: *out keeps its value. */
SP_MUST_CHECK enum sp_status sp_text_unsigned(const struct sp_config_text *t, const char *key,
                                              unsigned min, unsigned max, unsigned *out,
                                              struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_text_double(const struct sp_config_text *t, const char *key,
                                            double min, double max, double *out,
                                            struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_text_bool(const struct sp_config_text *t, const char *key,
                                          bool *out, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_text_string(const struct sp_config_text *t, const char *key,
                                            const char **out, struct sp_err *err);

/* Members of one object, as unsigned; like sp_json_get_i64 otherwise. */
SP_MUST_CHECK enum sp_status sp_object_unsigned(const struct sp_json *object, const char *key,
                                                unsigned min, unsigned max, unsigned *out,
                                                struct sp_err *err);

#define SP_THETAS_KEY "layer_rope_theta"

/* Fills ropes[0] (layers that see everything) and, where sliding layers rotate differently,
 * ropes[1]. Needs head_dim and max_positions. Also fills query_growth. */
SP_MUST_CHECK enum sp_status sp_config_read_ropes(struct sp_config *out,
                                                  const struct sp_config_text *t,
                                                  const struct sp_sizes *sizes, struct sp_err *err);

/* What a layer is where each is one sublayer (sp_family.sublayers). */
enum sp_sublayer {
    SP_SUBLAYER_MAMBA,
    SP_SUBLAYER_ATTENTION,
    SP_SUBLAYER_MLP,
    SP_SUBLAYER_EXPERTS,
};

/* How many there are; checks them all. */
SP_MUST_CHECK enum sp_status
sp_config_count_sublayers(unsigned *out, const struct sp_config_text *t, struct sp_err *err);
enum sp_sublayer sp_config_sublayer(const struct sp_config_text *t, unsigned i);

/* Allocates and fills the layers. Needs the traits and n_ropes. */
SP_MUST_CHECK enum sp_status sp_config_read_layers(struct sp_config *out,
                                                   const struct sp_config_text *t,
                                                   const struct sp_sizes *sizes,
                                                   struct sp_err *err);

/* Fills `routing`. Needs the layers. */
SP_MUST_CHECK enum sp_status
sp_config_read_routing(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* Fills `latent` where the family attends so, and what follows for the layers and the scale of
 * scores. Needs the layers, and ropes, whose head_dim is that of the rotated dims alone. */
SP_MUST_CHECK enum sp_status sp_config_read_latent(struct sp_config *out,
                                                   const struct sp_config_text *t,
                                                   const struct sp_sizes *sizes,
                                                   struct sp_err *err);

/* Fills `delta` where the family has such layers. */
SP_MUST_CHECK enum sp_status
sp_config_read_delta(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* Fills `short_conv` where the family has such layers, and corrects the width of their MLPs. Needs
 * the layers. */
SP_MUST_CHECK enum sp_status sp_config_read_short_conv(struct sp_config *out,
                                                       const struct sp_config_text *t,
                                                       struct sp_err *err);

/* Fills `mamba` where there are such layers. Needs the layers. */
SP_MUST_CHECK enum sp_status
sp_config_read_mamba(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* Which kind of draft the names say this is; a kind that is not implemented is refused. Sets
 * t->draft, t->dflash and t->what. */
SP_MUST_CHECK enum sp_status sp_config_detect_draft(struct sp_config_text *t, struct sp_err *err);

/* The keys of a Gemma 4 assistant, which has nothing of its own to attend to. Needs the layers. */
SP_MUST_CHECK enum sp_status
sp_config_read_assistant(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* Where a key of a block draft stands: in dflash_config, or else at the root. NULL: nowhere. */
const struct sp_json *sp_dflash_holder(const struct sp_config_text *t, const char *key);

/* The keys of DSpark's heads. Needs block size and taps. */
SP_MUST_CHECK enum sp_status sp_config_read_dspark(struct sp_draft_config *out,
                                                   const struct sp_config_text *t,
                                                   struct sp_err *err);

/* The keys of an EAGLE-3 or P-EAGLE draft. Needs the layers. */
SP_MUST_CHECK enum sp_status
sp_config_read_eagle3(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* The keys of a draft. Needs the layers; sets their direction. */
SP_MUST_CHECK enum sp_status
sp_config_read_draft(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* Refuses unknown methods of quantization and keys that change the maths. */
SP_MUST_CHECK enum sp_status sp_config_refuse(const struct sp_config_text *t, struct sp_err *err);

#endif

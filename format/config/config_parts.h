/* The parts of sp_config_parse: lookup of keys, and one reader per subject. Only config*.c and the
 * readers of single families (format/family/families/) include this header. format/config/README.md
 * lists the files. */
#ifndef SP_FORMAT_CONFIG_CONFIG_PARTS_H
#define SP_FORMAT_CONFIG_CONFIG_PARTS_H

#include "format/config/config.h"
#include "format/config/family_row.h"
#include "format/base/json.h"

/* Upper limits of the numbers in a config: far above any model, far below overflow. */
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
    const struct sp_json *text;   /* text_config or its counterpart in a draft; NULL: none */
    bool speculators;             /* a draft in the format of the speculators library */
    const struct sp_json *dflash; /* dflash_config; NULL: there is none */
    const struct sp_family *family;
    const struct sp_wrapper *wrapper; /* NULL: the text config is the root */
    enum sp_draft_kind draft;
    const char *what; /* beginning of messages about drafts: "dflash ", ...; else "" */
    char **warnings;
};

/* The object that has `key`, even as null: text_config or else the root; NULL if neither has it. */
const struct sp_json *sp_text_holder(const struct sp_config_text *t, const char *key);
/* The value of `key`; NULL if it is missing or null. */
const struct sp_json *sp_text_get(const struct sp_config_text *t, const char *key);

/* These readers leave *out unchanged if the key is missing or null. */
SP_MUST_CHECK enum sp_status sp_text_unsigned(const struct sp_config_text *t, const char *key,
                                              unsigned min, unsigned max, unsigned *out,
                                              struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_text_double(const struct sp_config_text *t, const char *key,
                                            double min, double max, double *out,
                                            struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_text_bool(const struct sp_config_text *t, const char *key,
                                          bool *out, struct sp_err *err);
/* Like sp_text_bool, but null is false. */
SP_MUST_CHECK enum sp_status sp_text_flag(const struct sp_config_text *t, const char *key,
                                          bool *out, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_text_string(const struct sp_config_text *t, const char *key,
                                            const char **out, struct sp_err *err);

/* Reads a member of one object as unsigned; *out is unchanged if it is missing or null. */
SP_MUST_CHECK enum sp_status sp_object_unsigned(const struct sp_json *object, const char *key,
                                                unsigned min, unsigned max, unsigned *out,
                                                struct sp_err *err);

SP_MUST_CHECK enum sp_status
sp_config_read_sizes(struct sp_sizes *out, const struct sp_config_text *t, struct sp_err *err);

/* Fills the sizes and traits of the model as a whole. */
SP_MUST_CHECK enum sp_status sp_config_read_traits(struct sp_config *out,
                                                   const struct sp_config_text *t,
                                                   const struct sp_sizes *sizes,
                                                   struct sp_err *err);

#define SP_THETAS_KEY "layer_rope_theta"

/* Fills ropes[0], of layers without a window, ropes[1] if sliding layers have a rotary embedding of
 * their own, and query_growth. Needs head_dim and max_positions. */
SP_MUST_CHECK enum sp_status sp_config_read_ropes(struct sp_config *out,
                                                  const struct sp_config_text *t,
                                                  const struct sp_sizes *sizes, struct sp_err *err);

/* The kind of a layer in families whose layers are one sublayer each (sp_family.sublayers). */
enum sp_sublayer {
    SP_SUBLAYER_MAMBA,
    SP_SUBLAYER_ATTENTION,
    SP_SUBLAYER_MLP,
    SP_SUBLAYER_EXPERTS,
};

/* *out = the number of sublayers. Returns SP_E_UNSUPPORTED if one of them is of an unknown kind. */
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

/* Fills `latent` in families with latent attention, and with it the head sizes of the layers and
 * the scale of the scores. Needs the layers and the ropes. */
SP_MUST_CHECK enum sp_status sp_config_read_latent(struct sp_config *out,
                                                   const struct sp_config_text *t,
                                                   const struct sp_sizes *sizes,
                                                   struct sp_err *err);

/* Fills `delta` if there are such layers, and n_mtp_layers. Needs the layers. */
SP_MUST_CHECK enum sp_status
sp_config_read_delta(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* Fills `short_conv` in families with such layers, and adjusts the width of their MLPs. Needs the
 * layers. */
SP_MUST_CHECK enum sp_status sp_config_read_short_conv(struct sp_config *out,
                                                       const struct sp_config_text *t,
                                                       struct sp_err *err);

/* Fills `mamba` if there are such layers. Needs the layers. */
SP_MUST_CHECK enum sp_status
sp_config_read_mamba(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* Reads is_causal, and makes the layers of a bidirectional model see all tokens. Needs the layers.
 */
SP_MUST_CHECK enum sp_status
sp_config_read_causal(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* Detects the kind of a draft by its architecture and model_type, and sets t->draft, t->dflash and
 * t->what. A kind that is not implemented is refused. */
SP_MUST_CHECK enum sp_status sp_config_detect_draft(struct sp_config_text *t, struct sp_err *err);

/* Reads the keys of a Gemma 4 assistant. Needs the layers. */
SP_MUST_CHECK enum sp_status
sp_config_read_assistant(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* The object that has a key of a block draft: dflash_config or else the root; NULL if neither. */
const struct sp_json *sp_dflash_holder(const struct sp_config_text *t, const char *key);

/* Reads the keys of DSpark's heads. Needs block size and taps. */
SP_MUST_CHECK enum sp_status sp_config_read_dspark(struct sp_draft_config *out,
                                                   const struct sp_config_text *t,
                                                   struct sp_err *err);

/* Reads the keys of an EAGLE-3 or P-EAGLE draft. Needs the layers. */
SP_MUST_CHECK enum sp_status
sp_config_read_eagle3(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* Reads the keys of a draft, and sets whether its layers are causal. Needs the layers. */
SP_MUST_CHECK enum sp_status
sp_config_read_draft(struct sp_config *out, const struct sp_config_text *t, struct sp_err *err);

/* Refuses unknown methods of quantization, and keys that change the computation and that the family
 * does not read. */
SP_MUST_CHECK enum sp_status sp_config_refuse(const struct sp_config_text *t, struct sp_err *err);

#endif

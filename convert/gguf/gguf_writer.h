/* The members of a JSON object, made from values of a GGUF file's metadata. For the files that make
 * config.json and generation_config.json of it. */
#ifndef SP_CONVERT_GGUF_GGUF_WRITER_H
#define SP_CONVERT_GGUF_GGUF_WRITER_H

#include "convert/gguf/gguf_model.h"
#include "format/json/json_write.h"

enum { SP_GGUF_KEY_SIZE = 96 };

/* A text being made; the caller sets model. The first failure is kept until sp_gguf_finish returns
 * it, and nothing that is read or appended after it counts. */
struct sp_gguf_writer {
    const struct sp_gguf_model *model;
    const struct sp_gguf_member *member; /* whose rule is applied; static */
    struct sp_json_out out;              /* its text is owned until sp_gguf_finish */
    struct sp_err err;                   /* the first failure */
};

/* Appends members by the rule of `member` (format/config/gguf_row.h). */
typedef void sp_gguf_put_fn(struct sp_gguf_writer *w);

/* Keys below are without the architecture in front; sp_gguf_key has it. It is that of another
 * converter (struct sp_key_name) where the file has only that. */
void sp_gguf_key(char out[SP_GGUF_KEY_SIZE], const struct sp_gguf_writer *w, const char *key);
bool sp_gguf_has(const struct sp_gguf_writer *w, const char *key);

/* Whether a layer has the tensor blk.N.`name`.weight. */
bool sp_gguf_layer_has(const struct sp_gguf_writer *w, uint64_t layer, const char *name);

/* Rows of each matrix of a tensor of the file; a vector is one row; 0: there is no such tensor. */
uint64_t sp_gguf_rows_of(const struct sp_gguf_writer *w, const char *tensor);

/* Values of keys, or `otherwise` if the key is absent. A size is one number, or a list of one
 * number for each layer: all equal, or in families with sizes_per_layer the first that is not 0. */
uint64_t sp_gguf_size(struct sp_gguf_writer *w, const char *key, uint64_t otherwise);
double sp_gguf_number(struct sp_gguf_writer *w, const char *key, double otherwise);
bool sp_gguf_flag(struct sp_gguf_writer *w, const char *key, bool otherwise);
/* The size of one layer, of which the list must have a number. */
uint64_t sp_gguf_layer_size(struct sp_gguf_writer *w, const char *key, uint64_t layer,
                            uint64_t otherwise);
/* An absent key is a failure. */
uint64_t sp_gguf_need_size(struct sp_gguf_writer *w, const char *key);
/* Elements of a head of keys, which are hidden size / heads if the file does not say. */
uint64_t sp_gguf_head_size(struct sp_gguf_writer *w);

/* Append a member, with a comma before it. */
void sp_gguf_put_integer(struct sp_gguf_writer *w, const char *key, uint64_t value);
void sp_gguf_put_word(struct sp_gguf_writer *w, const char *key, const char *word);
void sp_gguf_put_bool(struct sp_gguf_writer *w, const char *key, bool value);
void sp_gguf_put_float(struct sp_gguf_writer *w, const char *key, double value);

/* Append the value of a key under its published name, if the key is there. The key of copy_id is
 * complete. */
void sp_gguf_copy_size(struct sp_gguf_writer *w, const char *key, const char *published);
void sp_gguf_copy_float(struct sp_gguf_writer *w, const char *key, const char *published);
void sp_gguf_copy_id(struct sp_gguf_writer *w, const char *key, const char *published);

/* Appends rope_theta and rope_scaling (gguf_rope.c). */
void sp_gguf_put_rope(struct sp_gguf_writer *w);

/* Appends the members that the row of the model's family lists, each by a rule. A value that cannot
 * be honoured is a failure. */
void sp_gguf_put_members(struct sp_gguf_writer *w);
/* Whether that reads a key, which is without the architecture in front. */
bool sp_gguf_members_read(const struct sp_gguf_model *model, const char *key);

/* The rules about layers that are not all plain attention of one size (gguf_layers.c). */
sp_gguf_put_fn sp_gguf_put_delta, sp_gguf_put_mamba, sp_gguf_put_by_heads, sp_gguf_put_sublayers,
    sp_gguf_put_latent, sp_gguf_put_gemma4;

/* Hands the text over, or releases it and returns the failure. */
SP_MUST_CHECK enum sp_status sp_gguf_finish(struct sp_text *text, struct sp_gguf_writer *w,
                                            struct sp_err *err);

#endif

/* Binding of a model's tensors: steps that find a tensor by its canonical name and make a member of
 * the model of it. A name that begins with '@' belongs to a layer. What a model has is checked
 * before (model.c), so a tensor that is absent is one that its configuration does not ask for. */
#ifndef SP_RUNTIME_MODEL_BINDER_H
#define SP_RUNTIME_MODEL_BINDER_H

#include "runtime/model/model.h"

/* The state of binding, with the first failure, after which further steps do nothing. */
struct sp_binder {
    const struct sp_pack *pack;
    struct sp_model *model;
    struct sp_err *err;
    enum sp_status status;
};

/* The name of a tensor by its beginning and its end. */
struct sp_tensor_name {
    char text[96];
};

/* Returns NULL if the tensor is absent. */
const struct sp_pack_tensor *sp_bind_find(struct sp_binder *b, const char *format, unsigned layer);
/* A zeroed vector of n floats, padded to whole SIMD vectors, owned by the model. NULL: binding has
 * failed. */
float *sp_bind_room(struct sp_binder *b, size_t n);
/* Binds a vector, of a norm as its weight. Returns NULL if the tensor is absent. */
const float *sp_bind_vector(struct sp_binder *b, const char *name, unsigned layer, bool is_norm);
const float *sp_bind_scaled(struct sp_binder *b, const char *name, unsigned layer, size_t n,
                            double scale);
/* Binds (stored * factor)^power, and its absolute value for power 0; of sp_config.unit. */
const float *sp_bind_scales(struct sp_binder *b, const char *name, unsigned layer, double factor,
                            int power);
const float *sp_bind_norm(struct sp_binder *b, const char *name, unsigned layer);
const float *sp_bind_bias(struct sp_binder *b, const char *name, unsigned layer);
/* Sets *w to the matrix of a tensor, unless the tensor is absent. */
void sp_bind_matrix(struct sp_binder *b, struct sp_matrix *w, const char *name, unsigned layer);
struct sp_tensor_name sp_join_name(const char *begin, const char *end);
/* Binds the weight and the bias of a linear layer. */
void sp_bind_linear(struct sp_binder *b, struct sp_matrix *w, const float **bias, const char *name,
                    unsigned layer);
/* Binds the weight of a convolution, [channels, 1, kernel], as taps [kernel][channels]. */
float *sp_bind_taps(struct sp_binder *b, const char *name, unsigned layer, size_t channels,
                    size_t kernel);

/* Bind what replaces or surrounds attention in layer i. */
void sp_bind_delta(struct sp_binder *b, struct sp_delta_weights *w, unsigned i);
void sp_bind_short_conv(struct sp_binder *b, struct sp_short_conv_weights *w, unsigned i);
void sp_bind_residual(struct sp_binder *b, struct sp_layer *l, unsigned i);
void sp_bind_messages(struct sp_binder *b, struct sp_layer *l, unsigned i);
void sp_bind_relative(struct sp_binder *b, struct sp_layer *l, unsigned i);
void sp_bind_mamba(struct sp_binder *b, struct sp_mamba_weights *w, unsigned i);
void sp_bind_cca(struct sp_binder *b, struct sp_layer *l, unsigned i);
void sp_bind_attention(struct sp_binder *b, struct sp_layer *l, unsigned i);
void sp_bind_altup(struct sp_binder *b, struct sp_layer *l, unsigned i);
void sp_bind_ngrams(struct sp_binder *b, struct sp_ngram_weights *w, unsigned i);

#endif

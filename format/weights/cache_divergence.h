/* How much the type of each layer's KV cache matters to a target's output, as a calibration file
 * and a packed file state it (spectool-pack(5)), and the choice of a type for each layer. */
#ifndef SP_FORMAT_WEIGHTS_CACHE_DIVERGENCE_H
#define SP_FORMAT_WEIGHTS_CACHE_DIVERGENCE_H

#include "format/json/json.h"
#include "format/json/json_write.h"
#include "format/packfile.h"

/* The types that a layer's cache may have, the largest first. */
enum sp_layer_cache {
    SP_LAYER_F16,
    SP_LAYER_Q8,
    SP_LAYER_Q8_Q4, /* keys of 8 bits, values of 4 */
    SP_LAYER_Q4,
    SP_N_LAYER_CACHES
};

/* "f16", "q8", ... */
extern const char *const sp_layer_cache_names[SP_N_LAYER_CACHES];

/* KL divergence of the output (nats per token) from that with f32 caches if the cache of this layer
 * alone has a type; negative: not measured, and no type but f16 is chosen. */
struct sp_cache_divergence {
    double nats[SP_N_LAYER_CACHES];
    enum sp_layer_cache chosen;
};

/* Valid when zeroed: nothing is measured. */
struct sp_cache_divergences {
    struct sp_cache_divergence *layers; /* [n] owned */
    size_t n, cap;
    bool has_choice;    /* the layers' types were chosen, and measured together: */
    double nats, error; /* the divergence, and its standard error */
};

/* Reads an object that has for each type, by its name, an array of the layers' divergences, null
 * for those that are not measured, and perhaps the choice: `chosen`, an array of names, and
 * `divergence` and `error`. Of NULL nothing is measured. SP_E_INPUT names what is malformed. */
SP_MUST_CHECK enum sp_status sp_cache_divergences_read(struct sp_cache_divergences *out,
                                                       const struct sp_json *object,
                                                       struct sp_err *err);
/* Appends that object. */
void sp_cache_divergences_print(struct sp_json_out *out, const struct sp_cache_divergences *all);
/* Appends a layer. */
SP_MUST_CHECK enum sp_status sp_cache_divergences_add(struct sp_cache_divergences *all,
                                                      struct sp_cache_divergence layer,
                                                      struct sp_err *err);
void sp_cache_divergences_release(struct sp_cache_divergences *all);

/* Reads the section of a packed file; nothing is measured if it has none. */
SP_MUST_CHECK enum sp_status sp_cache_divergences_of_pack(struct sp_cache_divergences *out,
                                                          const struct sp_pack *pack,
                                                          struct sp_err *err);

/* What a type of one layer adds to the divergence. Of what was measured, the part of f16, whose
 * error is negligible, is what any change costs where activations are rounded to 8 bits. */
double sp_cache_divergence_of(const struct sp_cache_divergence *layer, enum sp_layer_cache type);

/* Chooses the layers' types so that the sum of what they add is at most `most`. From f16 for all,
 * it takes the step to a smaller type that saves the most bytes for what it adds, among those that
 * fit, until none does. sizes[i][type]: bytes of a token. Returns the sum. */
double sp_cache_divergences_choose(struct sp_cache_divergences *all,
                                   const double (*sizes)[SP_N_LAYER_CACHES], double most);

#endif

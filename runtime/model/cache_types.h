/* The types of the KV caches of a model's layers: by an option for all of them, or, of a target
 * whose file states a choice (format/weights/cache_divergence.h), layer by layer. */
#ifndef SP_RUNTIME_MODEL_CACHE_TYPES_H
#define SP_RUNTIME_MODEL_CACHE_TYPES_H

#include "format/weights/cache_divergence.h"
#include "runtime/model/model.h"
#include "runtime/vector/vector.h"

/* Sets the types of SP_CACHE_AUTO to those that the file of this target states, if it does. Returns
 * SP_E_INPUT if it states them for another number of layers. */
SP_MUST_CHECK enum sp_status sp_cache_types_read(struct sp_model *model, const struct sp_pack *pack,
                                                 struct sp_err *err);
/* Chooses the types of a target that was measured, by what the layers' add: *sum <= most. Opened
 * decoders keep theirs. */
SP_MUST_CHECK enum sp_status sp_cache_types_choose(double *sum, struct sp_model *model,
                                                   struct sp_cache_divergences *all, double most,
                                                   struct sp_err *err);

/* The type to open a decoder of the model with, if `type` is asked for. SP_CACHE_AUTO is none for a
 * target that has no choice (SP_E_UNSUPPORTED); a draft, whose caches change no text, gets q8, or
 * f16 if some heads cannot have that. */
SP_MUST_CHECK enum sp_status
sp_cache_types_resolve(enum sp_cache_type *type, const struct sp_model *model, struct sp_err *err);

/* The type of the cache of layer i if all have `type`. Keys with a large bias (some layers of Qwen2
 * have 100 and more) lose what the tokens add to it if they become codes: one such layer makes nine
 * tenths of the divergence that q8 causes in Qwen2.5 0.5B. These keys keep f16. */
enum sp_cache_type sp_cache_types_of(const struct sp_model *model, unsigned i,
                                     enum sp_cache_type type);

/* True if layer i has a cache that may have another type than those of the other layers, and its
 * heads can be codes. */
bool sp_cache_types_vary(const struct sp_model *model, unsigned i);

/* Adds the layers with caches to their numbers by type, if there is a choice. */
void sp_cache_types_count(unsigned counts[SP_N_CACHE_TYPES], const struct sp_model *model);

/* The types of the choice, in the order of enum sp_layer_cache. */
extern const enum sp_cache_type sp_cache_types_chosen[SP_N_LAYER_CACHES];

#endif

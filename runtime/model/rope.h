/* Rotary position embedding: the frequencies of every kind, and the cosines and sines of a
 * position.
 *
 * Follows transformers step by step in float where transformers computes in float (powers,
 * divisions, the angle itself), so that angles agree to the bit if its power function rounds
 * correctly: at position 100000 one unit in the last place of a frequency would rotate a head by
 * half a degree. Cosine and sine are those of the float angle, rounded once. The rotation itself is
 * sp_vector.rope. */
#ifndef SP_RUNTIME_MODEL_ROPE_H
#define SP_RUNTIME_MODEL_ROPE_H

#include "format/config/config.h"

/* freq[i], i < n_rot / 2: radians per position of pair (i, i + n_rot / 2). total_positions, the
 * planned length, selects longrope's factors and sets dynamic's base; queries and keys must use the
 * same frequencies. */
void sp_rope_frequencies(float *freq, const struct sp_rope *rope, size_t total_positions);

/* cos[i] and sin[i] of pos * freq[i], times `amplitude`, for n frequencies. */
void sp_rope_row(float *cos, float *sin, const float *freq, size_t n, double amplitude, size_t pos);

#endif

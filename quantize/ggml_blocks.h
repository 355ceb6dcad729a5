/* Decoding of the blocks that GGUF files store (format/ggml_type.h). Packed files use spectool's
 * own codes, so there is no encoder.
 *
 * The formulas and the order of the float operations are those of gguf/quants.py of llama.cpp: the
 * numbers are equal to that library's, bit for bit. Those of Q1_0 and Q2_0, which it does not
 * decode, are those of ggml-quants.c. */
#ifndef SP_QUANTIZE_GGML_BLOCKS_H
#define SP_QUANTIZE_GGML_BLOCKS_H

#include "quantize/types/groupwise.h"

/* out[0..n_blocks * block - 1] = the weights of whole blocks of a type that sp_ggml_size accepts.
 * A scale that is not finite gives weights that are not. */
void sp_ggml_decode(float *out, uint32_t type, const uint8_t *blocks, size_t n_blocks);

enum { SP_GGML_MAX_GROUPS = 2 };

/* The type that keeps the codes of a known type, and the flags of its panels; SP_DTYPE_NONE: none
 * does. */
enum sp_dtype sp_ggml_kept(uint8_t *flags, uint32_t type);
/* The groups of a block of a type whose codes are kept. Returns their number. */
size_t sp_ggml_unpack(struct sp_group groups[SP_GGML_MAX_GROUPS], uint32_t type,
                      const uint8_t *block);

/* ---- IQ1, IQ2 and IQ3, whose weights are points of a grid (ggml_grid_blocks.c) ----
 *
 * The codes and scale bytes of a block of 256 weights whose d, in front of the others, is left out;
 * IQ1_M has none there, and a d in parts is put together. The bytes of scales of IQ2_XS and IQ2_S,
 * which come last, stay as they are, for the caller. */
void sp_ggml_unpack_iq1_s(struct sp_group *out, const uint8_t *rest);
void sp_ggml_unpack_iq1_m(struct sp_group *out, const uint8_t *rest);
void sp_ggml_unpack_iq2_xxs(struct sp_group *out, const uint8_t *rest);
void sp_ggml_unpack_iq2_xs(struct sp_group *out, const uint8_t *rest);
void sp_ggml_unpack_iq2_s(struct sp_group *out, const uint8_t *rest);
void sp_ggml_unpack_iq3_xxs(struct sp_group *out, const uint8_t *rest);
void sp_ggml_unpack_iq3_s(struct sp_group *out, const uint8_t *rest);

#endif

/* The blocks of ggml whose weights are points of a grid: IQ1, IQ2 and IQ3. For ggml_blocks.c. */
#ifndef SP_QUANTIZE_GGML_GRID_BLOCKS_H
#define SP_QUANTIZE_GGML_GRID_BLOCKS_H

#include "quantize/types/groupwise.h"

/* The codes and scale bytes of a block of 256 weights whose d, in front of the others, is left out;
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

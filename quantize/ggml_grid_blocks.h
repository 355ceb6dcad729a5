/* The blocks of ggml whose weights are points of a grid: IQ1, IQ2 and IQ3. For ggml_blocks.c. */
#ifndef SP_QUANTIZE_GGML_GRID_BLOCKS_H
#define SP_QUANTIZE_GGML_GRID_BLOCKS_H

#include <stdint.h>

/* out[256] = the weights of one block. */
void sp_ggml_decode_iq1_s(float *out, const uint8_t *block);
void sp_ggml_decode_iq1_m(float *out, const uint8_t *block);
void sp_ggml_decode_iq2_xxs(float *out, const uint8_t *block);
void sp_ggml_decode_iq2_xs(float *out, const uint8_t *block);
void sp_ggml_decode_iq2_s(float *out, const uint8_t *block);
void sp_ggml_decode_iq3_xxs(float *out, const uint8_t *block);
void sp_ggml_decode_iq3_s(float *out, const uint8_t *block);

#endif

/* Reading quantization_config: what prequantized*.c share. No other file includes this header. */
#ifndef SP_FORMAT_CONFIG_PREQUANTIZED_PARTS_H
#define SP_FORMAT_CONFIG_PREQUANTIZED_PARTS_H

#include "format/base/affix.h"
#include "format/config/prequantized.h"

/* Adds the tile of a group size, of one row. A missing, null or negative one means whole rows. */
SP_MUST_CHECK enum sp_status sp_quant_read_group(struct sp_prequantized *out,
                                                 const struct sp_json *object, const char *key,
                                                 struct sp_err *err);

/* The readers of the methods that pack codes into words. */
typedef enum sp_status sp_quant_read_fn(struct sp_prequantized *out, const struct sp_json *q,
                                        struct sp_err *err);
sp_quant_read_fn sp_quant_read_gptq, sp_quant_read_awq, sp_quant_read_auto_round, sp_quant_read_mlx,
    sp_quant_read_bitsandbytes;

#endif

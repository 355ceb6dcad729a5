/* The rules of gguf_members.c about layers that are not all plain attention of one size. */
#ifndef SP_CONVERT_GGUF_GGUF_LAYERS_H
#define SP_CONVERT_GGUF_GGUF_LAYERS_H

#include "convert/gguf/gguf_writer.h"

sp_gguf_put_fn sp_gguf_put_delta;
sp_gguf_put_fn sp_gguf_put_mamba;
sp_gguf_put_fn sp_gguf_put_by_heads;
sp_gguf_put_fn sp_gguf_put_sublayers;
sp_gguf_put_fn sp_gguf_put_latent;
sp_gguf_put_fn sp_gguf_put_gemma4;

#endif

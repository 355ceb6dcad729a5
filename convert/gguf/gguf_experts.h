/* The rules of gguf_members.c about experts. */
#ifndef SP_CONVERT_GGUF_GGUF_EXPERTS_H
#define SP_CONVERT_GGUF_GGUF_EXPERTS_H

#include "convert/gguf/gguf_writer.h"

sp_gguf_put_fn sp_gguf_put_experts;
sp_gguf_put_fn sp_gguf_put_norm_topk;
sp_gguf_put_fn sp_gguf_put_routed;
sp_gguf_put_fn sp_gguf_put_sigmoid;
sp_gguf_put_fn sp_gguf_put_selection;
sp_gguf_put_fn sp_gguf_put_mlp_types;
sp_gguf_put_fn sp_gguf_put_last_moe;

#endif

/* The members of config.json that only some architectures have. For gguf_config.c. */
#ifndef SP_CONVERT_GGUF_GGUF_FAMILY_H
#define SP_CONVERT_GGUF_GGUF_FAMILY_H

#include "convert/gguf/gguf_writer.h"

/* Appends the members of the model's own architecture. A value that cannot be honoured is an error.
 */
SP_MUST_CHECK enum sp_status sp_gguf_put_family(struct sp_gguf_writer *w);
/* Whether that reads a key, which is without the architecture in front. */
bool sp_gguf_family_reads(const struct sp_gguf_arch *arch, const char *key);

/* ---- its parts ---- */

/* Experts; `count` is the published name of their number. */
SP_MUST_CHECK enum sp_status sp_gguf_put_experts(struct sp_gguf_writer *w, const char *count);
/* Whether the weights of the chosen experts are normalized; `norm`: if the file does not say. */
SP_MUST_CHECK enum sp_status sp_gguf_put_norm_topk(struct sp_gguf_writer *w, bool norm);
/* Experts of DeepSeek's kind, and shared ones (gguf_latent.c). */
SP_MUST_CHECK enum sp_status sp_gguf_put_routed_experts(struct sp_gguf_writer *w);
/* Granite's multipliers and experts. */
SP_MUST_CHECK enum sp_status sp_gguf_put_granite(struct sp_gguf_writer *w);
/* 0 means that no layer has a window, as an absent key does. */
SP_MUST_CHECK enum sp_status sp_gguf_put_window(struct sp_gguf_writer *w);
/* Which layers have a window: true or false for each, or the number of layers of which one has
 * none. */
SP_MUST_CHECK enum sp_status sp_gguf_put_window_pattern(struct sp_gguf_writer *w);
/* The part of a head that rotates, half of it if the file does not say. */
SP_MUST_CHECK enum sp_status sp_gguf_put_partial_rotary(struct sp_gguf_writer *w);

/* ---- families in files of their own ---- */

SP_MUST_CHECK enum sp_status sp_gguf_put_exaone4(struct sp_gguf_writer *w);

/* gguf_gemma.c */
SP_MUST_CHECK enum sp_status sp_gguf_put_gemma2(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_gemma3(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_gemma_embedding(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_gemma4(struct sp_gguf_writer *w);

/* gguf_experts.c */
SP_MUST_CHECK enum sp_status sp_gguf_put_olmoe(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_exaone_moe(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_ernie_moe(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_afmoe(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_glm4_moe(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_qwen2_moe(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_qwen3_moe(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_hunyuan_moe(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_mellum(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_cohere2_moe(struct sp_gguf_writer *w);

SP_MUST_CHECK enum sp_status sp_gguf_put_latent(struct sp_gguf_writer *w); /* gguf_latent.c */
/* Qwen3-Next and Qwen3.5: layers of the gated delta rule (gguf_hybrid.c). */
SP_MUST_CHECK enum sp_status sp_gguf_put_delta(struct sp_gguf_writer *w);

/* LFM2; Granite 4; Falcon-H1; Nemotron-H; Mamba-2 (gguf_hybrid.c). */
SP_MUST_CHECK enum sp_status sp_gguf_put_lfm2(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_granite_hybrid(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_falcon_h1(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_nemotron_h(struct sp_gguf_writer *w);
SP_MUST_CHECK enum sp_status sp_gguf_put_mamba2(struct sp_gguf_writer *w);

#endif

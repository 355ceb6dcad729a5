/* Multimodal configs, of which the text model is read. The class defaults of tie_word_embeddings
 * hide the value of the text model where text_tie_first is set. */
#include "format/family/family_table.h"

#define WRAPPER(type, class, text, ...)                                                            \
    {                                                                                              \
        .name = (type), .architecture = class "ForConditionalGeneration", .text_type = (text),     \
        __VA_ARGS__                                                                                \
    }

const struct sp_wrapper sp_wrappers[] = {
    WRAPPER("apertus1p5", "Apertus1p5", "apertus1p5_text", .any_text = false),
    WRAPPER("aria", "Aria", "aria_text", .any_text = false),
    WRAPPER("cohere2_vision", "Cohere2Vision", "cohere2", .any_text = true),
    WRAPPER("cohere_compass", "CohereCompass", "cohere_compass_text", .any_text = false),
    WRAPPER("dots3_note", "Dots3Note", "dots3_note_text", .may_be_flat = true),
    WRAPPER("gemma3", "Gemma3", "gemma3_text", .any_text = false),
    WRAPPER("gemma3n", "Gemma3n", "gemma3n_text", .any_text = false),
    WRAPPER("gemma4", "Gemma4", "gemma4_text", .any_text = false),
    WRAPPER("gemma4_unified", "Gemma4Unified", "gemma4_unified_text", .any_text = false),
    WRAPPER("glm46v", "Glm46V", "glm4v_text", .any_text = true),
    WRAPPER("glm4v", "Glm4v", "glm4v_text", .any_text = false),
    WRAPPER("glm4v_moe", "Glm4vMoe", "glm4v_moe_text", .any_text = false),
    WRAPPER("glm5_next", "Glm5Next", "glm5_next_text", .any_text = false),
    WRAPPER("idefics3", "Idefics3", "llama", .any_text = true),
    WRAPPER("inkling_mm_model", "Inkling", "inkling_text", .any_text = false),
    WRAPPER("inkling2", "Inkling2", "inkling2_text", .any_text = false),
    WRAPPER("inkling2_loop", "Inkling2Loop", "inkling2_loop_text", .any_text = false),
    WRAPPER("internvl", "InternVL", "qwen2", .any_text = true),
    WRAPPER("kimi_k25", "Kimi_K25", "deepseek_v3", .any_text = true),
    WRAPPER("lfm2_vl", "Lfm2Vl", "lfm2", .any_text = true),
    WRAPPER("lfm3_vl", "Lfm3Vl", "lfm3", .any_text = true),
    WRAPPER("llama4", "Llama4", "llama4_text", .any_text = false),
    WRAPPER("minimax_m3_vl", "MiniMaxM3Sparse", "minimax_m3_vl_text", .any_text = false),
    WRAPPER("mistral3", "Mistral3", "mistral", .any_text = true, .text_tie_first = true),
    WRAPPER("mistral_large4", "MistralLarge4", "mistral_large4_text", .any_text = false),
    WRAPPER("muse_glimmer", "MuseGlimmer", "muse_glimmer_text", .any_text = false),
    WRAPPER("qwen2_5_vl", "Qwen2_5_VL", "qwen2_5_vl_text", .may_be_flat = true),
    WRAPPER("qwen2_vl", "Qwen2VL", "qwen2_vl_text", .may_be_flat = true),
    WRAPPER("qwen3_5", "Qwen3_5", "qwen3_5_text", .text_tie_first = true),
    WRAPPER("qwen3_5_moe", "Qwen3_5Moe", "qwen3_5_moe_text", .text_tie_first = true),
    WRAPPER("qwen3_vl", "Qwen3VL", "qwen3_vl_text", .any_text = false),
    WRAPPER("qwen3_vl_moe", "Qwen3VLMoe", "qwen3_vl_moe_text", .any_text = false),
    WRAPPER("qwen4_exp", "Qwen4Exp", "qwen4_exp_text", .any_text = false),
    WRAPPER("smolvlm", "SmolVLM", "llama", .any_text = true),
    WRAPPER("step3p7", "Step3p7", "step3p5", .any_text = false),
    {0},
};

#include "convert/gguf/gguf_pre.h"

#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS(digits)                                                                              \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                                    \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" REST
#define MARKED_WORDS                                                                               \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"                                   \
                 "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" REST
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define CASED(contractions, digits)                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+" contractions "|[^\\r\\n\\p{L}\\p{N}]?[" UPPER \
    "]+[" LOWER "]*" contractions "|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" REST

static const char qwen2_pattern[] = WORDS(""), llama3_pattern[] = WORDS("{1,3}"),
                  qwen35_pattern[] = MARKED_WORDS;
const char sp_gguf_three_digits[] = "\\p{N}{1,3}";
const char sp_gguf_han_kana[] = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
static const char deepseek3_pattern[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*" REST;
static const char seed_pattern[] =
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" REST;
static const char o200k_pattern[] = CASED(CONTRACTIONS "?", "{1,3}"),
                  tekken_pattern[] = CASED("", "");

/* The values of tokenizer.ggml.pre. */
static const struct sp_gguf_pre pres[] = {
    {"gpt-2", NULL, 0},
    {"olmo", NULL, 0},
    {"exaone4", NULL, 0},
    {"smollm", NULL, SP_GGUF_PRE_DIGITS},
    {"starcoder", NULL, SP_GGUF_PRE_DIGITS},
    {"refact", NULL, SP_GGUF_PRE_DIGITS},
    {"qwen2", qwen2_pattern, SP_GGUF_PRE_NFC},
    {"qwen35", qwen35_pattern, SP_GGUF_PRE_NFC},
    {"deepseek-r1-qwen", qwen2_pattern, SP_GGUF_PRE_NFC},
    {"llama-bpe", llama3_pattern, SP_GGUF_PRE_IGNORE_MERGES | SP_GGUF_PRE_BOS},
    {"llama3", llama3_pattern, SP_GGUF_PRE_IGNORE_MERGES | SP_GGUF_PRE_BOS},
    {"llama-v3", llama3_pattern, SP_GGUF_PRE_IGNORE_MERGES | SP_GGUF_PRE_BOS},
    {"smaug-bpe", llama3_pattern, 0},
    {"glm4", llama3_pattern, 0},
    {"chatglm-bpe", llama3_pattern, 0},
    {"seed-coder", seed_pattern, 0},
    {"dbrx", llama3_pattern, 0},
    {"gpt-4o", o200k_pattern, SP_GGUF_PRE_IGNORE_MERGES},
    {"tekken", tekken_pattern, SP_GGUF_PRE_IGNORE_MERGES | SP_GGUF_PRE_BOS},
    {"falcon3", llama3_pattern, SP_GGUF_PRE_IGNORE_MERGES | SP_GGUF_PRE_BOS},
    {"falcon-h1", llama3_pattern, SP_GGUF_PRE_IGNORE_MERGES | SP_GGUF_PRE_BOS},
    {"pixtral", llama3_pattern, SP_GGUF_PRE_IGNORE_MERGES | SP_GGUF_PRE_BOS},
    {"lfm2", llama3_pattern, SP_GGUF_PRE_IGNORE_MERGES | SP_GGUF_PRE_BOS},
    {"glm5", llama3_pattern, SP_GGUF_PRE_IGNORE_MERGES},
    {"deepseek-v3", deepseek3_pattern, SP_GGUF_PRE_DEEPSEEK},
    {"hunyuan-dense", deepseek3_pattern, SP_GGUF_PRE_DEEPSEEK},
    {"hunyuan", qwen2_pattern, 0},
    {"solar-open", qwen2_pattern, 0},
    {"stablelm2", qwen2_pattern, 0},
    {"minimax-m2", o200k_pattern, 0},
    {"llama4", o200k_pattern, 0},
    {"phi-2", NULL, 0},
    {"roberta-bpe", NULL, SP_GGUF_PRE_BOS | SP_GGUF_PRE_EOS},
    {"modern-bert", NULL, SP_GGUF_PRE_NFC | SP_GGUF_PRE_BOS | SP_GGUF_PRE_EOS},
    {"mellum", NULL, 0},
    {"trillion", NULL, 0},
    {"exaone", NULL, SP_GGUF_PRE_DIGITS},
    {"command-r", NULL, SP_GGUF_PRE_DIGITS | SP_GGUF_PRE_NFC},
    {"mellum2", NULL, SP_GGUF_PRE_DIGITS},
};

const struct sp_gguf_pre *sp_gguf_pre_find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        if (strlen(pres[i].name) == len && memcmp(pres[i].name, name, len) == 0) return &pres[i];
    }
    return NULL;
}

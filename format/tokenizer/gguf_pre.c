#include "format/tokenizer/gguf_token_writer.h"

#include "format/base/affix.h"
#include "format/tokenizer/patterns.h"

static const char qwen2_pattern[] = SP_LLAMA3_PATTERN(""),
                  llama3_pattern[] = SP_LLAMA3_PATTERN("{1,3}"),
                  qwen35_pattern[] = SP_QWEN35_PATTERN, deepseek3_pattern[] = SP_DEEPSEEK3_PATTERN,
                  o200k_pattern[] = SP_O200K_PATTERN, tekken_pattern[] = SP_TEKKEN_PATTERN;
static const char seed_pattern[] = SP_CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SP_PATTERN_END;
static const char grouped_pattern[] =
    SP_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+"
                    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SP_PATTERN_END;
static const char bailing_pattern[] =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
    "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
static const char exaone_pattern[] =
    SP_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
                    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
static const char spark_pattern[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\r\n]|\\s+(?!\\S)|\\s+";
static const char youtu_pattern[] = SP_CASED_PATTERN(SP_CONTRACTIONS "?", "");

/* Runs of white space in powers of two. */
static const char jais2_pattern[] = SP_CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)"
    "|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s";
static const char ufakzeka_pattern[] = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
                                       "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SP_PATTERN_END;
static const char sentence_pattern[] = " ?[^\\s(|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+";
/* Groups of three digits from the right; what lies between the borders is a word. */
static const char superbpe_pattern[] = "(?=(?:\\d{3})+(?!\\d))";

/* Han characters are words of their own. */
#define NO_HAN "(?!\\p{Han})"
#define KIMI_UPPER "(?:" NO_HAN "[" SP_UPPER_LETTERS "])"
#define KIMI_LOWER "(?:" NO_HAN "[" SP_LOWER_LETTERS "])"
static const char kimi_pattern[] =
    "\\p{Han}+"
    "|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "*" KIMI_LOWER "+" SP_CONTRACTIONS "?"
    "|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "+" KIMI_LOWER "*" SP_CONTRACTIONS "?"
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SP_PATTERN_END;

/* ---- splits in front ---- */

#define HAN_KANA "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define OLD_HAN "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"

static const char one_digit[] = "\\p{N}";
static const char *const three_digits[] = {"\\p{N}{1,3}", NULL};
static const char *const deepseek3[] = {"\\p{N}{1,3}", HAN_KANA, NULL};
static const char *const deepseek_coder[] = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", OLD_HAN, NULL};
static const char *const deepseek_llm[] = {
    "[\r\n]",
    /* the letters of bicameral scripts */
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293"
    "\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c"
    "\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0"
    "-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-"
    "\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b"
    "\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-"
    "\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113"
    "\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00"
    "-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-"
    "\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-"
    "\U000118df\U0001e900-\U0001e943]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", "\\s+$", OLD_HAN, NULL};
static const char *const spark[] = {one_digit, HAN_KANA, NULL};
static const char *const youtu[] = {
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a"
    "\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-"
    "\u309f\u30a0-\u30ff]+",
    NULL};
static const char *const digits_from_right[] = {"\\d{1,3}(?=(?:\\d{3})*\\b)", NULL};
static const char *const numbers[] = {"\\p{N}+", NULL};
static const char three_pattern[] = "[0-9][0-9][0-9]";
static const char *const fallback[] = {"[\\p{P}$+<=>^~|]+", SP_GPT2_WORDS, "\\p{N}+", NULL};
static const char *const falcon[] = {"[\\p{P}$+<=>^~|`]+", SP_GPT2_WORDS, NULL};
static const char *const chameleon[] = {
    "<sentinel:[0-9]+>",      "(?:IMGIMG)(?:A|B|C|D|E|F|G|H|I){1,4}Z",
    "[\\t\\n]|    |  ",       "\\p{N}",
    "[\\p{P}!-/:-@\\[-`{-~]", NULL};
static const char *const lines[] = {"[^\\n]+|[\\n]+", NULL};
/* Groups of three digits from the right. Groups of 510 in front of it bound the looking ahead, and
 * Trinity's own tokenizer.json has them, too. */
static const char *const afmoe[] = {
    "\\p{Nd}{1,510}(?=(?:\\p{Nd}{510})*+(?!\\p{Nd}))",
    "\\p{Nd}{1,3}(?=(?:\\p{Nd}{3})*+(?!\\p{Nd}))",
    "(?:[\u4e00-\u9fff\u3040-\u309f\u30a0-\u30ff\u3400-\u4dbf\uf900-\ufaff\uff65-\uff9f\u2f00-"
    "\u2fdf]+"
    "|[\u0e00-\u0e7f]+|[\u0e80-\u0eff]+|[\u1780-\u17ff]+|[\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff]+"
    "|[\uac00-\ud7af\u1100-\u11ff]+)",
    NULL};

static const char *const sentences[] = {sentence_pattern, NULL};

/* The values of tokenizer.ggml.pre. */
static const struct sp_gguf_pre pres[] = {
    {NULL,
     0,
     NULL,
     {"gpt-2", "olmo", "exaone4", "phi-2", "mellum", "trillion", "jina-es", "jina-de", "jina-v2-es",
      "jina-v2-de", "gigachat", "a.x-4.0", "granite-docling", "jais", "mpt"}},
    {NULL,
     SP_GGUF_PRE_DIGITS,
     NULL,
     {"smollm", "starcoder", "refact", "exaone", "minerva-7b", "codeshell", "mellum2"}},
    {qwen2_pattern, SP_GGUF_PRE_NFC, NULL, {"qwen2", "deepseek-r1-qwen"}},
    {qwen35_pattern, SP_GGUF_PRE_NFC, NULL, {"qwen35"}},
    {llama3_pattern,
     SP_GGUF_PRE_IGNORE_MERGES | SP_GGUF_PRE_BOS,
     NULL,
     {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "midm-2.0",
      "jina-v5-nano"}},
    {llama3_pattern, 0, NULL, {"smaug-bpe", "chatglm-bpe", "dbrx"}},
    {llama3_pattern, SP_GGUF_PRE_IGNORE_MERGES, NULL, {"glm4", "glm5"}},
    {seed_pattern, 0, NULL, {"seed-coder"}},
    {o200k_pattern, SP_GGUF_PRE_IGNORE_MERGES, NULL, {"gpt-4o", "granite-embed-multi-97m"}},
    {tekken_pattern, SP_GGUF_PRE_IGNORE_MERGES | SP_GGUF_PRE_BOS, NULL, {"tekken"}},
    {deepseek3_pattern, 0, deepseek3, {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}},
    {qwen2_pattern,
     0,
     NULL,
     {"hunyuan", "solar-open", "stablelm2", "kormo", "f2llmv2", "megrez", "grok-2"}},
    {o200k_pattern, 0, NULL, {"minimax-m2", "llama4", "kanana2", "talkie"}},
    {NULL, SP_GGUF_PRE_BOS | SP_GGUF_PRE_EOS | SP_GGUF_PRE_TWO_SEPARATORS, NULL, {"roberta-bpe"}},
    {NULL, SP_GGUF_PRE_NFC | SP_GGUF_PRE_BOS | SP_GGUF_PRE_EOS, NULL, {"modern-bert"}},
    {NULL, SP_GGUF_PRE_DIGITS | SP_GGUF_PRE_NFC, NULL, {"command-r"}},
    {spark_pattern, 0, spark, {"spark2_5"}},
    {one_digit, 0, deepseek_llm, {"deepseek-llm"}},
    {one_digit, 0, deepseek_coder, {"deepseek-coder"}},
    {youtu_pattern, SP_GGUF_PRE_IGNORE_MERGES, youtu, {"youtu"}},
    {kimi_pattern, SP_GGUF_PRE_IGNORE_MERGES, NULL, {"kimi-k2"}},
    {deepseek3_pattern, 0, afmoe, {"afmoe"}},
    {exaone_pattern, 0, NULL, {"exaone-moe"}},
    {bailing_pattern, 0, NULL, {"bailingmoe", "bailingmoe2", "llada-moe"}},
    {grouped_pattern, SP_GGUF_PRE_IGNORE_MERGES, three_digits, {"minicpm5"}},
    {o200k_pattern, 0, digits_from_right, {"tiny_aya", "cohere2moe"}},
    {qwen2_pattern, 0, lines, {"laguna"}},
    {NULL, SP_GGUF_PRE_BOS | SP_GGUF_PRE_EOS, NULL, {"jina-v1-en", "jina-v2-code"}},
    {three_pattern, 0, fallback, {"default"}},
    {three_pattern, 0, falcon, {"falcon"}},
    {jais2_pattern, 0, NULL, {"jais-2"}},
    {ufakzeka_pattern, 0, NULL, {"ufakzeka"}},
    {sentence_pattern, 0, NULL, {"poro-chat", "bloom", "gpt3-finnish"}},
    {one_digit, 0, sentences, {"viking"}},
    {NULL, SP_GGUF_PRE_BOS, chameleon, {"chameleon"}},
    {superbpe_pattern, 0, numbers, {"superbpe"}},
    {NULL, SP_GGUF_PRE_PIECES, NULL, {"gemma4", "granite-embed-multi-311m", "sarvam-moe"}},
};

/* ollama's converter leaves these out, or writes "default" for them. */
static const struct {
    const char *arch, *pre;
} unstated[] = {{"gptoss", "gpt-4o"}, {"lfm2", "lfm2"}, {"mistral3", "tekken"}};

/* Whether a vocabulary is Llama 3's, by the token that ends its turns. */
static bool is_llama3(const struct sp_gguf *file)
{
    enum { EOT = 128009 };
    const struct sp_gguf_value *list = sp_gguf_find(file, "tokenizer.ggml.tokens");
    const uint8_t *at;
    const char *text = "";
    size_t len = 0;

    if (list == NULL || !list->is_array || list->type != SP_GGUF_STRING || list->n <= EOT)
        return false;
    at = list->at;
    for (size_t i = 0; i <= EOT; i++)
        text = sp_gguf_next_string(&at, &len);
    return sp_is_word(text, len, "<|eot_id|>");
}

enum sp_status sp_gguf_pre_find(const struct sp_gguf_pre **out, const struct sp_gguf *file,
                                struct sp_err *err)
{
    const char *name = NULL, *arch = "";
    size_t len = 0, arch_len = 0;
    enum sp_status st;

    if ((st = sp_gguf_get_text(file, "general.architecture", &arch, &arch_len, err))) return st;
    if ((st = sp_gguf_get_text(file, "tokenizer.ggml.pre", &name, &len, err))) return st;
    if (name == NULL || len == 0 || sp_is_word(name, len, "default")) {
        const char *implied = NULL;
        for (size_t i = 0; i < sizeof unstated / sizeof *unstated; i++)
            if (sp_is_word(arch, arch_len, unstated[i].arch)) implied = unstated[i].pre;
        if (sp_is_word(arch, arch_len, "llama") && is_llama3(file)) implied = "llama-bpe";
        if (implied) name = implied;
        if (implied) len = strlen(implied);
    }
    if (name == NULL)
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "tokenizer.ggml.pre is missing, so the pre-tokenizer is unknown; newer GGUF "
                       "files of the model have it");
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        for (const char *const *of = pres[i].names; *of; of++) {
            if (!sp_is_word(name, len, *of)) continue;
            *out = &pres[i];
            return SP_OK;
        }
    }
    return sp_fail(err, SP_E_UNSUPPORTED, "tokenizer.ggml.pre \"%.*s\" is unknown",
                   (int)(len < SP_GGUF_SHOWN ? len : SP_GGUF_SHOWN), name);
}

/* Reads the quantization_config of the methods that pack codes into words: GPTQ, AWQ, AutoRound,
 * MLX and bitsandbytes. An option that changes the layout and is not read is refused by name. */
#include "format/config/prequantized_parts.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PATH_LEN = 512 };

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* A string that must be one of `known` where it is stated. */
static enum sp_status check_text(const struct sp_json *q, const char *key, const char *const *known,
                                 size_t n, const char **value, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_json_get_string(q, key, value, err))) return st;
    if (*value == NULL || sp_is_one_of(*value, known, n)) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s \"%s\" is not supported", key, *value);
}

/* A number of bits that must be one of the digits of `known`. */
static enum sp_status check_bits(const struct sp_json *q, const char *key, const char *known,
                                 int64_t *bits, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_json_get_i64(q, key, 0, 64, bits, err))) return st;
    if (*bits >= 1 && *bits <= 9 && strchr(known, (int)('0' + *bits))) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s %lld is not supported", key, (long long)*bits);
}

static enum sp_status refuse_if_true(const struct sp_json *q, const char *key, struct sp_err *err)
{
    bool set = false;
    enum sp_status st;

    if ((st = sp_json_get_bool(q, key, &set, err)) || !set) return st;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s true is not supported", key);
}

/* ---- GPTQ and AutoRound ---- */

/* The rules of `dynamic` by regular expressions, or extra_config by module paths: bits and groups
 * of some modules. Shapes show the bits, and which modules are quantized at all. */
static enum sp_status read_rules(struct sp_prequantized *out, const struct sp_json *rules,
                                 const char *known_bits, struct sp_err *err)
{
    for (struct sp_json_iter it = {0}; sp_json_next(rules, &it);) {
        int64_t bits = 16;
        enum sp_status st;
        if (it.key[0] == '-') continue;
        if ((st = sp_json_get_i64(it.value, "bits", 1, 64, &bits, err))) return st;
        if (bits >= 16) continue;
        if (sp_json_get(it.value, "bits"))
            st = check_bits(it.value, "bits", known_bits, &bits, err);
        if (st || (st = sp_quant_read_group(out, it.value, "group_size", err))) {
            sp_context(err, "%s", it.key);
            return st;
        }
    }
    return SP_OK;
}

enum sp_status sp_quant_read_gptq(struct sp_prequantized *out, const struct sp_json *q,
                                  struct sp_err *err)
{
    static const char *const formats[] = {"gptq", "gptq_v2"}, *const words[] = {"int32"};
    const char *format = NULL, *pack = NULL;
    int64_t bits = 4;
    enum sp_status st;

    if ((st = check_text(q, "checkpoint_format", formats, COUNT(formats), &format, err)) ||
        (format == NULL && (st = check_text(q, "format", formats, COUNT(formats), &format, err))) ||
        (st = check_text(q, "pack_dtype", words, COUNT(words), &pack, err)) ||
        (st = refuse_if_true(q, "is_marlin_format", err)) ||
        (st = check_bits(q, "bits", "2348", &bits, err)) ||
        (st = sp_quant_read_group(out, q, "group_size", err)) ||
        (st = read_rules(out, sp_json_get(q, "dynamic"), "2348", err)))
        return st;
    out->bits = (unsigned)bits;
    out->zeros_less_one = format == NULL || strcmp(format, "gptq") == 0;
    return SP_OK;
}

enum sp_status sp_quant_read_auto_round(struct sp_prequantized *out, const struct sp_json *q,
                                        struct sp_err *err)
{
    static const char *const packings[] = {"auto_round:auto_gptq", "auto_round",
                                           "auto_round:gptqmodel", "auto_round:auto_awq"};
    static const char *const types[] = {"int"};
    const char *packing = packings[0], *type = NULL;
    int64_t bits = 4;
    enum sp_status st;

    if ((st = check_text(q, "packing_format", packings, COUNT(packings), &packing, err)) ||
        (st = check_text(q, "data_type", types, COUNT(types), &type, err)) ||
        (st = check_bits(q, "bits", "2348", &bits, err)) ||
        (st = sp_quant_read_group(out, q, "group_size", err)) ||
        (st = read_rules(out, sp_json_get(q, "extra_config"), "2348", err)))
        return st;
    out->bits = (unsigned)bits;
    if (strcmp(packing, "auto_round:auto_awq") == 0) out->layout = SP_QUANT_AWQ;
    out->zeros_less_one = strcmp(packing, packings[0]) == 0;
    return SP_OK;
}

/* ---- AWQ ---- */

/* Old files have w_bit, q_group_size and "GEMM", and those of GPTQModel checkpoint_format. The
 * layout of llm-awq is a third one. */
enum sp_status sp_quant_read_awq(struct sp_prequantized *out, const struct sp_json *q,
                                 struct sp_err *err)
{
    static const char *const versions[] = {"gemm", "GEMM", "exllama", "gemv", "GEMV"};
    static const char *const keys[] = {"version", "format", "checkpoint_format"};
    const char *version = NULL, *backend = "autoawq";
    int64_t bits = 4;
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < COUNT(keys) && version == NULL; i++) {
        st = check_text(q, keys[i], versions, COUNT(versions), &version, err);
        if (st) return st;
    }
    if ((st = sp_json_get_string(q, "backend", &backend, err)) ||
        (st = check_bits(q, "bits", "4", &bits, err)) ||
        (st = check_bits(q, "w_bit", "4", &bits, err)) ||
        (st = sp_quant_read_group(out, q, "group_size", err)) ||
        (st = sp_quant_read_group(out, q, "q_group_size", err)))
        return st;
    if (strcmp(backend, "llm-awq") == 0)
        return sp_fail(err, SP_E_UNSUPPORTED, "backend \"%s\" is not supported", backend);
    if (version && sp_is_one_of(version, versions + 3, 2)) out->layout = SP_QUANT_AWQ_V;
    return SP_OK;
}

/* ---- MLX ---- */

static const struct {
    const char *name;
    enum sp_mlx_mode mode;
    unsigned group;
    const char *bits; /* digits; the first is the default */
} mlx_modes[] = {
    {"affine", SP_MLX_AFFINE, 64, "423568"},
    {"mxfp4", SP_MLX_MXFP4, 32, "4"},
    {"nvfp4", SP_MLX_NVFP4, 16, "4"},
    {"mxfp8", SP_MLX_MXFP8, 32, "8"},
};

/* Reads the mode of the whole model or of one module, which may have its own; affine by default. */
static enum sp_status read_mlx_format(struct sp_mlx_format *out, const struct sp_json *q,
                                      struct sp_err *err)
{
    const char *mode = "affine";
    int64_t group, bits;
    size_t i = 0;
    enum sp_status st;

    if ((st = sp_json_get_string(q, "mode", &mode, err))) return st;
    while (i < COUNT(mlx_modes) && strcmp(mode, mlx_modes[i].name) != 0)
        i++;
    if (i == COUNT(mlx_modes))
        return sp_fail(err, SP_E_UNSUPPORTED, "mode \"%s\" is not supported", mode);
    group = mlx_modes[i].group;
    bits = mlx_modes[i].bits[0] - '0';
    if ((st = check_bits(q, "bits", mlx_modes[i].bits, &bits, err)) ||
        (st = sp_json_get_i64(q, "group_size", 1, 1 << 24, &group, err)))
        return st;
    if (i == 0 ? group != 32 && group != 64 && group != 128 : group != mlx_modes[i].group) {
        return sp_fail(err, SP_E_UNSUPPORTED, "group_size %lld is not supported for mode \"%s\"",
                       (long long)group, mode);
    }
    *out = (struct sp_mlx_format){mlx_modes[i].mode, (unsigned)bits, (unsigned)group, true};
    return SP_OK;
}

enum sp_status sp_prequantized_mlx(struct sp_mlx_format *out, const struct sp_prequantized *stated,
                                   const char *path, size_t len, struct sp_err *err)
{
    char key[MAX_PATH_LEN];
    const struct sp_json *own = NULL;
    bool quantized = true;
    enum sp_status st;

    if (len < sizeof key) {
        snprintf(key, sizeof key, "%.*s", (int)len, path);
        own = sp_json_get(stated->json, key);
    }
    (void)sp_json_to_bool(own, &quantized);
    st = read_mlx_format(out, sp_json_kind(own) == SP_JSON_OBJECT ? own : stated->json, err);
    out->quantized = quantized;
    return st;
}

enum sp_status sp_quant_read_mlx(struct sp_prequantized *out, const struct sp_json *q,
                                 struct sp_err *err)
{
    static const char *const known[] = {"group_size", "bits", "mode", "quant_method"};
    struct sp_mlx_format ignored;
    enum sp_status st;

    if ((st = read_mlx_format(&ignored, q, err))) return st;
    for (struct sp_json_iter it = {0}; sp_json_next(q, &it);) {
        bool flag;
        if (sp_is_one_of(it.key, known, COUNT(known)) || sp_json_to_bool(it.value, &flag)) continue;
        if (sp_json_kind(it.value) != SP_JSON_OBJECT) {
            return sp_fail(err, SP_E_UNSUPPORTED,
                           "%s: expected an object, true or false, as for a module", it.key);
        }
        if ((st = read_mlx_format(&ignored, it.value, err))) {
            sp_context(err, "%s", it.key);
            return st;
        }
    }
    out->json = q;
    return SP_OK;
}

/* ---- bitsandbytes ---- */

/* Types, blocks and shapes stand beside each weight. */
enum sp_status sp_quant_read_bitsandbytes(struct sp_prequantized *out, const struct sp_json *q,
                                          struct sp_err *err)
{
    static const char *const types[] = {"nf4", "fp4"};
    const char *type = NULL;

    (void)out;
    return check_text(q, "bnb_4bit_quant_type", types, COUNT(types), &type, err);
}

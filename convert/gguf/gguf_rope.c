/* Rotary embedding of GGUF models: scaling by keys, and by tensors of divisors. */
#include "convert/gguf/gguf_writer.h"

#include "format/base/affix.h"
#include "format/base/bytes.h"
#include "format/ggml_type.h"

#include <string.h>

enum { SHOWN_KEY = 100, MAX_FREQUENCIES = 4096, LONG_CONTEXT = 131072 };

static const char log_multiplier[] = "rope.scaling.yarn_log_multiplier",
                  growth[] = "attention.temperature_scale"; /* of queries by their position */

/* Reads a tensor of divisors, [*n] floats. */
static enum sp_status read_factors(uint8_t bytes[4 * MAX_FREQUENCIES], uint64_t *n,
                                   const struct sp_gguf_writer *w, const char *tensor)
{
    const struct sp_gguf_tensor *t = sp_gguf_find_tensor(w->model->file, tensor);

    if (t == NULL || t->type != SP_GGML_F32 || t->rank != 1 || t->shape[0] > MAX_FREQUENCIES) {
        return sp_fail(w->err, SP_E_INPUT,
                       "tensor %s is missing or not an f32 vector of at most %d", tensor,
                       MAX_FREQUENCIES);
    }
    *n = t->shape[0];
    return sp_gguf_read(w->model->file, t, 0, (size_t)t->size, bytes, w->err);
}

/* Divisors of the frequencies, as LongRoPE and llama.cpp's own tensor have them. */
static enum sp_status put_factors(struct sp_gguf_writer *w, const char *key, const char *tensor)
{
    enum sp_status st;
    uint8_t bytes[4 * MAX_FREQUENCIES];
    uint64_t n = 0;

    if ((st = read_factors(bytes, &n, w, tensor))) return st;
    if ((st = sp_json_put(&w->text, w->err, ", \"%s\": [", key))) return st;
    for (size_t i = 0; i < n && !st; i++) {
        float factor = sp_float_of_bits(sp_get32(bytes + 4 * i));
        if (!(factor > 0 && factor < 1e9f))
            return sp_fail(w->err, SP_E_INPUT, "tensor %s: element %zu is not a valid divisor",
                           tensor, i);
        if (i) st = sp_json_put(&w->text, w->err, ", ");
        if (!st) st = sp_json_put_f32(&w->text, factor, w->err);
    }
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

static enum sp_status put_number(struct sp_gguf_writer *w, const char *before, double value)
{
    enum sp_status st = sp_json_put(&w->text, w->err, "%s", before);

    return st ? st : sp_json_put_f32(&w->text, (float)value, w->err);
}

/* rope_freqs.weight, Llama 3's scaling: the same divisors at every length. */
static enum sp_status put_llama3(struct sp_gguf_writer *w)
{
    enum sp_status st;

    st = sp_json_put(&w->text, w->err,
                     ",\n  \"rope_scaling\": {\"rope_type\": \"longrope\", \"factor\": 1.0, "
                     "\"attention_factor\": 1.0");
    if (!st) st = put_factors(w, "short_factor", "rope_freqs.weight");
    if (!st) st = put_factors(w, "long_factor", "rope_freqs.weight");
    return st ? st : sp_json_put(&w->text, w->err, "}");
}

static enum sp_status put_longrope(struct sp_gguf_writer *w)
{
    double attention = 0;
    enum sp_status st;

    if ((st = sp_gguf_copy_size(w, "rope.scaling.original_context_length",
                                "original_max_position_embeddings")))
        return st;
    st = sp_json_put(&w->text, w->err, ",\n  \"rope_scaling\": {\"rope_type\": \"longrope\"");
    if (!st) st = sp_gguf_read_float(&attention, w, "rope.scaling.attn_factor");
    if (!st && attention > 0) st = put_number(w, ", \"attention_factor\": ", attention);
    if (!st) st = put_factors(w, "short_factor", "rope_factors_short.weight");
    if (!st) st = put_factors(w, "long_factor", "rope_factors_long.weight");
    return st ? st : sp_json_put(&w->text, w->err, "}");
}

/* A member of rope_scaling, if its key is there. */
static enum sp_status put_rope_member(struct sp_gguf_writer *w, const char *key,
                                      const char *published)
{
    double value = 0;
    enum sp_status st;

    if (!sp_gguf_has(w, key)) return SP_OK;
    if ((st = sp_gguf_read_float(&value, w, key))) return st;
    st = sp_json_put(&w->text, w->err, ", \"%s\"", published);
    return st ? st : put_number(w, ": ", value);
}

/* mscale and mscale_all_dim, which are equal in all published models: `unit` times the key, and 1
 * without it. */
static enum sp_status put_mscale(struct sp_gguf_writer *w, double unit)
{
    double value = 1 / unit;
    enum sp_status st = sp_gguf_read_float(&value, w, log_multiplier);

    return st ? st
              : sp_json_put(&w->text, w->err, ", \"mscale\": %.6g, \"mscale_all_dim\": %.6g",
                            value * unit, value * unit);
}

/* The members of an object of rope_scaling, without its braces. */
static enum sp_status put_scaling_members(struct sp_gguf_writer *w, const char *type)
{
    static const struct {
        const char *key, *published;
    } members[] = {
        {"rope.scaling.factor", "factor"},
        {"rope.scaling.original_context_length", "original_max_position_embeddings"},
        {"rope.scaling.yarn_beta_fast", "beta_fast"},
        {"rope.scaling.yarn_beta_slow", "beta_slow"},
    };
    size_t n = strcmp(type, "yarn") == 0     ? sizeof members / sizeof *members
               : strcmp(type, "linear") == 0 ? 1
                                             : 0;
    double attention = 1;
    enum sp_status st;

    if ((st = sp_gguf_read_float(&attention, w, "rope.scaling.attn_factor"))) return st;
    if (attention != 1)
        return sp_fail(w->err, SP_E_UNSUPPORTED, "%s.rope.scaling.attn_factor %g is not supported",
                       w->model->arch->name, attention);

    st = sp_json_put(&w->text, w->err, "\"rope_type\": \"%s\"", type);
    for (size_t i = 0; i < n && !st; i++)
        st = put_rope_member(w, members[i].key, members[i].published);
    /* Files of latent attention have a tenth of the value. */
    if (!st && ((n > 1 && sp_gguf_has(w, log_multiplier)) || sp_gguf_has(w, growth)))
        st = put_mscale(w, w->model->family.latent ? 10 : 1);
    if (!st) st = put_rope_member(w, growth, "llama_4_scaling_beta");
    if (!st && w->model->family.gguf.yarn_untruncated)
        st = sp_json_put(&w->text, w->err, ", \"truncate\": false");
    return st;
}

static enum sp_status put_scaling(struct sp_gguf_writer *w, const char *type)
{
    enum sp_status st = sp_json_put(&w->text, w->err, ",\n  \"rope_scaling\": {");

    if (!st) st = put_scaling_members(w, type);
    return st ? st : sp_json_put(&w->text, w->err, "}");
}

/* Layers with a window rotate by a base of their own and without scaling. */
static enum sp_status put_by_type(struct sp_gguf_writer *w, bool yarn)
{
    double theta = 1e4, windowed;
    enum sp_status st;

    if ((st = sp_gguf_read_float(&theta, w, "rope.freq_base"))) return st;
    windowed = theta;
    if ((st = sp_gguf_read_float(&windowed, w, "rope.freq_base_swa"))) return st;
    st = put_number(w,
                    ",\n  \"rope_parameters\": {\"sliding_attention\": {\"rope_type\": "
                    "\"default\", \"rope_theta\": ",
                    windowed);
    if (!st) st = sp_json_put(&w->text, w->err, "}, \"full_attention\": {");
    if (!st) st = put_scaling_members(w, yarn ? "yarn" : "default");
    if (!st) st = put_number(w, ", \"rope_theta\": ", theta);
    return st ? st : sp_json_put(&w->text, w->err, "}}");
}

/* The part of a full layer's heads that rotates in Gemma 4: divisors of 1, and then divisors so
 * large that nothing rotates. */
static enum sp_status read_rotated_part(double *out, const struct sp_gguf_writer *w)
{
    static const char tensor[] = "rope_freqs.weight";
    uint8_t bytes[4 * MAX_FREQUENCIES];
    uint64_t n = 0, rotated = 0;
    enum sp_status st;

    *out = 1;
    if (sp_gguf_find_tensor(w->model->file, tensor) == NULL) return SP_OK;
    if ((st = read_factors(bytes, &n, w, tensor))) return st;
    while (rotated < n && sp_float_of_bits(sp_get32(bytes + 4 * rotated)) == 1)
        rotated++;
    for (uint64_t i = rotated; i < n; i++) {
        if (sp_float_of_bits(sp_get32(bytes + 4 * i)) >= 1e29f) continue;
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "tensor %s: expected divisors of 1 and then of 1e30", tensor);
    }
    *out = (double)rotated / (double)n;
    return SP_OK;
}

static enum sp_status put_gemma4(struct sp_gguf_writer *w)
{
    static const char *const keys[] = {"rope.freq_base", "rope.freq_base_swa"};
    double theta[] = {1e6, 1e4}, part;
    uint64_t heads = 0, rotated;
    enum sp_status st;

    if ((st = sp_gguf_get_size(&heads, w, "attention.key_length_swa"))) return st;
    rotated = heads;
    if ((st = sp_gguf_get_size(&rotated, w, "rope.dimension_count_swa"))) return st;
    if (rotated != heads) {
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "gemma4.rope.dimension_count_swa differs from the size of a head");
    }
    for (size_t i = 0; i < 2; i++)
        if ((st = sp_gguf_read_float(&theta[i], w, keys[i]))) return st;
    if ((st = read_rotated_part(&part, w))) return st;
    st = put_number(w,
                    ",\n  \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
                    "\"proportional\", \"partial_rotary_factor\": ",
                    part);
    if (!st) st = put_number(w, ", \"rope_theta\": ", theta[0]);
    if (!st) {
        st = put_number(w,
                        "}, \"sliding_attention\": {\"rope_type\": \"default\", "
                        "\"rope_theta\": ",
                        theta[1]);
    }
    return st ? st : sp_json_put(&w->text, w->err, "}}");
}

/* ollama's converter writes no epsilon, marks that llama.cpp's does not have, or images' tensors.
 */
static bool is_of_ollama(const struct sp_gguf_model *m)
{
    static const char *const marks[] = {
        "tokenizer.ggml.add_padding_token", "tokenizer.ggml.add_unknown_token",
        "gemma3.rope.global.freq_base", "gemma3.rope.local.freq_base",
        "gemma3.mm.tokens_per_image"};
    const struct sp_gguf_writer w = {.model = m};

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (sp_gguf_find(m->file, marks[i])) return true;
    return m->n_skipped > 0 || !sp_gguf_has(&w, "attention.layer_norm_rms_epsilon");
}

/* rope.scaling.type, or in a file without it what its factor stands for. */
static enum sp_status read_type(const char **type, size_t *len, const struct sp_gguf_writer *w)
{
    const char *without = w->model->arch->scaling ? w->model->arch->scaling : "linear";
    char name[SP_GGUF_KEY_SIZE];
    double factor = 0;
    enum sp_status st;

    *len = 0;
    sp_gguf_key(name, w, "rope.scaling.type");
    if ((st = sp_gguf_get_text(w->model->file, name, type, len, w->err)) || *len) return st;
    if ((st = sp_gguf_read_float(&factor, w, "rope.scaling.factor"))) return st;
    *type = factor == 0 || factor == 1 ? "none" : without;
    *len = strlen(*type);
    return SP_OK;
}

enum sp_status sp_gguf_put_rope(struct sp_gguf_writer *w)
{
    const struct sp_gguf *file = w->model->file;
    const struct sp_gguf_arch *arch = w->model->arch;
    const char *type = "";
    size_t len = 0;
    bool by_type = w->model->family.rope_by_type, own = w->model->family.read_full_heads != NULL;
    uint64_t context = 0;
    enum sp_status st;

    if ((st = read_type(&type, &len, w))) return st;
    if (own && sp_is_word(type, len, "none")) return put_gemma4(w);
    if (by_type || own)
        st = SP_OK;
    else if (sp_gguf_has(w, "rope.freq_base"))
        st = sp_gguf_copy_float(w, "rope.freq_base", "rope_theta");
    else
        st = sp_gguf_put_word(w, "rope_theta", arch->theta ? arch->theta : "10000.0");
    if (st) return st;
    if (sp_gguf_find_tensor(file, "rope_factors_long.weight") && !by_type) return put_longrope(w);
    if (sp_gguf_find_tensor(file, "rope_freqs.weight") && !by_type) {
        if (sp_is_word(type, len, "none")) return put_llama3(w);
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "%s.rope.scaling.type together with rope_freqs.weight is not supported",
                       arch->name);
    }
    if (by_type && (sp_is_word(type, len, "none") || sp_is_word(type, len, "yarn")))
        return put_by_type(w, sp_is_word(type, len, "yarn"));
    if (sp_is_word(type, len, "none")) {
        if (arch->long_scaling == NULL || sp_gguf_has(w, "rope.scaling.type") ||
            sp_gguf_has(w, "rope.scaling.factor") || !is_of_ollama(w->model) ||
            (st = sp_gguf_get_size(&context, w, "context_length")) || context < LONG_CONTEXT)
            return st;
        return sp_gguf_put_word(w, "rope_scaling", arch->long_scaling);
    }
    if (sp_is_word(type, len, "linear") && !by_type && !own) return put_scaling(w, "linear");
    if (sp_is_word(type, len, "yarn") && !own) return put_scaling(w, "yarn");
    return sp_fail(w->err, SP_E_UNSUPPORTED, "%s.rope.scaling.type \"%.*s\" is not supported",
                   arch->name, (int)(len < SHOWN_KEY ? len : SHOWN_KEY), type);
}

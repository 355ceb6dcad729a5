/* Rotary embedding of GGUF models: scaling by keys, and by tensors of divisors. */
#include "convert/gguf/gguf_writer.h"

#include "format/base/affix.h"
#include "format/base/bytes.h"
#include "format/ggml_type.h"

#include <string.h>

enum { MAX_FREQUENCIES = 4096, LONG_CONTEXT = 131072 };

static const char log_multiplier[] = "rope.scaling.yarn_log_multiplier",
                  growth[] = "attention.temperature_scale"; /* of queries by their position */

/* Reads a tensor of divisors, of which the number is returned. */
static uint64_t read_factors(uint8_t bytes[4 * MAX_FREQUENCIES], struct sp_gguf_writer *w,
                             const char *tensor)
{
    const struct sp_gguf_tensor *t = sp_gguf_find_tensor(w->model->file, tensor);

    if (t == NULL || t->type != SP_GGML_F32 || t->rank != 1 || t->shape[0] > MAX_FREQUENCIES) {
        sp_fail(&w->err, SP_E_INPUT, "tensor %s is missing or not an f32 vector of at most %d",
                tensor, MAX_FREQUENCIES);
        return 0;
    }
    (void)!sp_gguf_read(t, 0, (size_t)t->size, bytes, &w->err);
    return w->err.status ? 0 : t->shape[0];
}

/* Divisors of the frequencies, as LongRoPE and llama.cpp's own tensor have them. */
static void put_factors(struct sp_gguf_writer *w, const char *key, const char *tensor)
{
    uint8_t bytes[4 * MAX_FREQUENCIES];
    uint64_t n = read_factors(bytes, w, tensor);

    sp_json_out_print(&w->out, ", \"%s\": [", key);
    for (size_t i = 0; i < n && !w->err.status; i++) {
        float factor = sp_float_of_bits(sp_get32(bytes + 4 * i));
        if (!(factor > 0 && factor < 1e9f)) {
            sp_fail(&w->err, SP_E_INPUT, "tensor %s: element %zu is not a valid divisor", tensor,
                    i);
        }
        sp_json_out_raw(&w->out, i ? ", " : "");
        sp_json_out_f32(&w->out, factor);
    }
    sp_json_out_raw(&w->out, "]");
}

static void put_number(struct sp_gguf_writer *w, const char *before, double value)
{
    sp_json_out_raw(&w->out, before);
    sp_json_out_f32(&w->out, (float)value);
}

/* rope_freqs.weight, Llama 3's scaling: the same divisors at every length. */
static void put_llama3(struct sp_gguf_writer *w)
{
    sp_gguf_put_word(w, "rope_scaling",
                     "{\"rope_type\": \"longrope\", \"factor\": 1.0, \"attention_factor\": 1.0");
    put_factors(w, "short_factor", "rope_freqs.weight");
    put_factors(w, "long_factor", "rope_freqs.weight");
    sp_json_out_raw(&w->out, "}");
}

static void put_longrope(struct sp_gguf_writer *w)
{
    double attention;

    sp_gguf_copy_size(w, "rope.scaling.original_context_length",
                      "original_max_position_embeddings");
    sp_gguf_put_word(w, "rope_scaling", "{\"rope_type\": \"longrope\"");
    attention = sp_gguf_number(w, "rope.scaling.attn_factor", 0);
    if (attention > 0) put_number(w, ", \"attention_factor\": ", attention);
    put_factors(w, "short_factor", "rope_factors_short.weight");
    put_factors(w, "long_factor", "rope_factors_long.weight");
    sp_json_out_raw(&w->out, "}");
}

/* A member of rope_scaling, if its key is there. */
static void put_rope_member(struct sp_gguf_writer *w, const char *key, const char *published)
{
    if (!sp_gguf_has(w, key)) return;
    sp_json_out_print(&w->out, ", \"%s\": ", published);
    sp_json_out_f32(&w->out, (float)sp_gguf_number(w, key, 0));
}

/* The members of an object of rope_scaling, without its braces. mscale and mscale_all_dim are equal
 * in all published models and 1 without the key; files of latent attention have a tenth of them. */
static void put_scaling_members(struct sp_gguf_writer *w, const char *type)
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
    double attention = sp_gguf_number(w, "rope.scaling.attn_factor", 1);
    double unit = w->model->family.latent ? 10 : 1, mscale;

    if (attention != 1) {
        sp_fail(&w->err, SP_E_UNSUPPORTED, "%s.rope.scaling.attn_factor %g is not supported",
                w->model->arch->name, attention);
    }
    sp_json_out_print(&w->out, "\"rope_type\": \"%s\"", type);
    for (size_t i = 0; i < n; i++)
        put_rope_member(w, members[i].key, members[i].published);
    if ((n > 1 && sp_gguf_has(w, log_multiplier)) || sp_gguf_has(w, growth)) {
        mscale = unit * sp_gguf_number(w, log_multiplier, 1 / unit);
        sp_json_out_print(&w->out, ", \"mscale\": %.6g, \"mscale_all_dim\": %.6g", mscale, mscale);
    }
    put_rope_member(w, growth, "llama_4_scaling_beta");
    if (w->model->family.gguf.yarn_untruncated) sp_json_out_raw(&w->out, ", \"truncate\": false");
}

static void put_scaling(struct sp_gguf_writer *w, const char *type)
{
    sp_gguf_put_word(w, "rope_scaling", "{");
    put_scaling_members(w, type);
    sp_json_out_raw(&w->out, "}");
}

/* Layers with a window rotate by a base of their own and without scaling. */
static void put_by_type(struct sp_gguf_writer *w, bool yarn)
{
    double theta = sp_gguf_number(w, "rope.freq_base", 1e4);
    double windowed = sp_gguf_number(w, "rope.freq_base_swa", theta);

    sp_gguf_put_word(w, "rope_parameters", "{\"sliding_attention\": {\"rope_type\": \"default\"");
    put_number(w, ", \"rope_theta\": ", windowed);
    sp_json_out_raw(&w->out, "}, \"full_attention\": {");
    put_scaling_members(w, yarn ? "yarn" : "default");
    put_number(w, ", \"rope_theta\": ", theta);
    sp_json_out_raw(&w->out, "}}");
}

/* The part of a full layer's heads that rotates in Gemma 4: divisors of 1, and then divisors so
 * large that nothing rotates. */
static double read_rotated_part(struct sp_gguf_writer *w)
{
    static const char tensor[] = "rope_freqs.weight";
    uint8_t bytes[4 * MAX_FREQUENCIES];
    uint64_t n, rotated = 0;

    if (sp_gguf_find_tensor(w->model->file, tensor) == NULL) return 1;
    n = read_factors(bytes, w, tensor);
    while (rotated < n && sp_float_of_bits(sp_get32(bytes + 4 * rotated)) == 1)
        rotated++;
    for (uint64_t i = rotated; i < n; i++) {
        if (sp_float_of_bits(sp_get32(bytes + 4 * i)) >= 1e29f) continue;
        sp_fail(&w->err, SP_E_UNSUPPORTED, "tensor %s: expected divisors of 1 and then of 1e30",
                tensor);
    }
    return (double)rotated / (double)n;
}

static void put_gemma4(struct sp_gguf_writer *w)
{
    uint64_t heads = sp_gguf_size(w, "attention.key_length_swa", 0);
    double theta, windowed;

    if (sp_gguf_size(w, "rope.dimension_count_swa", heads) != heads) {
        sp_fail(&w->err, SP_E_UNSUPPORTED,
                "gemma4.rope.dimension_count_swa differs from the size of a head");
    }
    theta = sp_gguf_number(w, "rope.freq_base", 1e6);
    windowed = sp_gguf_number(w, "rope.freq_base_swa", 1e4);
    sp_gguf_put_word(w, "rope_parameters", "{\"full_attention\": {\"rope_type\": \"proportional\"");
    put_number(w, ", \"partial_rotary_factor\": ", read_rotated_part(w));
    put_number(w, ", \"rope_theta\": ", theta);
    sp_json_out_raw(&w->out, "}, \"sliding_attention\": {\"rope_type\": \"default\"");
    put_number(w, ", \"rope_theta\": ", windowed);
    sp_json_out_raw(&w->out, "}}");
}

/* ollama's converter writes no epsilon, marks that llama.cpp's lacks, or images' tensors. */
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
static const char *read_type(size_t *len, struct sp_gguf_writer *w)
{
    const char *type = "", *without = w->model->arch->scaling ? w->model->arch->scaling : "linear";
    char name[SP_GGUF_KEY_SIZE];
    double factor;

    *len = 0;
    sp_gguf_key(name, w, "rope.scaling.type");
    (void)!sp_gguf_get_text(w->model->file, name, &type, len, &w->err);
    if (w->err.status || *len) return type;
    factor = sp_gguf_number(w, "rope.scaling.factor", 0);
    type = factor == 0 || factor == 1 ? "none" : without;
    *len = strlen(type);
    return type;
}

/* What a file without scaling stands for: that of the published model if it is long. */
static void put_unscaled(struct sp_gguf_writer *w)
{
    const char *scaling = w->model->arch->long_scaling;

    if (scaling && !sp_gguf_has(w, "rope.scaling.type") && !sp_gguf_has(w, "rope.scaling.factor") &&
        is_of_ollama(w->model) && sp_gguf_size(w, "context_length", 0) >= LONG_CONTEXT)
        sp_gguf_put_word(w, "rope_scaling", scaling);
}

void sp_gguf_put_rope(struct sp_gguf_writer *w)
{
    const struct sp_gguf *file = w->model->file;
    const struct sp_gguf_arch *arch = w->model->arch;
    size_t len;
    const char *type = read_type(&len, w);
    bool by_type = w->model->family.rope_by_type, own = w->model->family.read_full_heads != NULL;
    bool none = sp_is_word(type, len, "none"), yarn = sp_is_word(type, len, "yarn");

    if (w->err.status) return;
    if (!by_type && !own && sp_gguf_has(w, "rope.freq_base"))
        sp_gguf_copy_float(w, "rope.freq_base", "rope_theta");
    else if (!by_type && !own)
        sp_gguf_put_word(w, "rope_theta", arch->theta ? arch->theta : "10000.0");
    if (own && none)
        put_gemma4(w);
    else if (sp_gguf_find_tensor(file, "rope_factors_long.weight") && !by_type)
        put_longrope(w);
    else if (sp_gguf_find_tensor(file, "rope_freqs.weight") && !by_type && none)
        put_llama3(w);
    else if (sp_gguf_find_tensor(file, "rope_freqs.weight") && !by_type)
        sp_fail(&w->err, SP_E_UNSUPPORTED,
                "%s.rope.scaling.type together with rope_freqs.weight is not supported",
                arch->name);
    else if (by_type && (none || yarn))
        put_by_type(w, yarn);
    else if (none)
        put_unscaled(w);
    else if (yarn ? !own : sp_is_word(type, len, "linear") && !by_type && !own)
        put_scaling(w, yarn ? "yarn" : "linear");
    else
        sp_fail(&w->err, SP_E_UNSUPPORTED, "%s.rope.scaling.type \"%.*s\" is not supported",
                arch->name, (int)(len < SP_GGUF_SHOWN ? len : SP_GGUF_SHOWN), type);
}

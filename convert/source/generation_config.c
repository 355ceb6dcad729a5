#include "convert/source/source.h"
#include "format/config/config.h"
#include "format/base/warnings.h"
#include "format/modelfile/modelfile_check.h"
#include "format/pack_contents.h"

#include <stdlib.h>
#include <string.h>

/* The keys that are read, and those that change no text; a star stands for any text. Any other key
 * is named. testdata/config/generation_keys.txt says what each does. */
static const char silent[] =
    "do_sample eos_token_id min_p repetition_penalty temperature top_k top_p typical_p "
    "_from_model_config assistant_* bos_token_id cache_* chat_format compile_config "
    "continuous_batching_config decoder_start_token_id disable_compile early_stopping "
    "encoder_no_repeat_ngram_size is_assistant length_penalty low_memory max_cache_len "
    "max_matching_ngram_size max_window_size num_assistant_tokens* num_return_sequences output_* "
    "pad_token_id prefill_chunk_size prompt_lookup_num_tokens remove_invalid_values "
    "renormalize_logits return_dict_in_generate speculation_type target_lookbehind "
    "transformers_version trust_remote_code use_cache use_mtp ";

/* The numbers of the others that change nothing, where that is not 0; null, false, and empty lists
 * and objects never do. */
static const struct {
    const char *key;
    double value;
} neutral[] = {
    {"encoder_repetition_penalty", 1},
    {"forced_bos_token_id", -1},
    {"forced_eos_token_id", -1},
    {"guidance_scale", 1},
    {"max_length", 20},
    {"num_beam_groups", 1},
    {"num_beams", 1},
    {"top_h", 1},
};

static enum sp_status check_values(const struct sp_json *generation, char **warnings,
                                   struct sp_err *err)
{
    size_t n;
    const struct sp_parameter *all = sp_parameters(&n);
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < n && !st; i++) {
        char *text = NULL;
        st = sp_parameter_of_generation(&text, &all[i], generation, warnings, err);
        free(text);
    }
    return st;
}

static bool is_neutral(const char *key, const struct sp_json *v)
{
    double d, unchanged = 0;
    bool b;

    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++)
        if (strcmp(neutral[i].key, key) == 0) unchanged = neutral[i].value;
    if (v == NULL) return true;
    if (sp_json_to_bool(v, &b)) return !b;
    if (sp_json_to_double(v, &d)) return !(d < unchanged) && !(d > unchanged);
    return (sp_json_kind(v) == SP_JSON_ARRAY || sp_json_kind(v) == SP_JSON_OBJECT) &&
           sp_json_len(v) == 0;
}

static enum sp_status note_unread(const struct sp_json *generation, char **warnings,
                                  struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (struct sp_json_iter it = {0}; !st && sp_json_next(generation, &it);) {
        if (sp_config_names(silent, it.key) || is_neutral(it.key, it.value)) continue;
        st = sp_warn(warnings, err, "generation_config.json: %.100s has no effect", it.key);
    }
    return st;
}

enum sp_status sp_generation_check(const struct sp_source *target, char **warnings,
                                   struct sp_err *err)
{
    const struct sp_text *text = &target->texts[SP_SECTION_GENERATION];
    uint32_t ids[SP_MAX_EOS];
    struct sp_json *generation = NULL;
    enum sp_status st;
    size_t n;

    if (target->pack) return SP_OK; /* a packed file's was checked when it was made */
    st = sp_config_eos(ids, &n, &target->texts[SP_SECTION_CONFIG], text, err);
    if (st || text->at == NULL) goto done;
    if ((st = sp_json_parse_settings(&generation, text, err))) goto done;
    st = sp_json_kind(generation) == SP_JSON_OBJECT
             ? check_values(generation, warnings, err)
             : sp_fail(err, SP_E_INPUT, "expected a JSON object, found %s",
                       sp_json_kind_name(sp_json_kind(generation)));
    if (st) {
        sp_context(err, "generation_config.json");
        goto done;
    }
    st = note_unread(generation, warnings, err);
done:
    if (st) sp_context(err, "%s", target->path);
    sp_json_free(generation);
    return st;
}

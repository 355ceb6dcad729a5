#include "convert/source/source.h"
#include "format/config/config.h"
#include "format/base/warnings.h"
#include "format/modelfile/modelfile_check.h"
#include "format/pack_contents.h"

#include <stdlib.h>

/* What else transformers lets change the text, with the value that changes nothing; null, false,
 * and empty lists and objects never do. */
static const struct {
    const char *key;
    double neutral;
} unread[] = {
    {"bad_words_ids", 0},
    {"begin_suppress_tokens", 0},
    {"diversity_penalty", 0},
    {"dola_layers", 0},
    {"encoder_repetition_penalty", 1},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
    {"exponential_decay_length_penalty", 0},
    {"forced_bos_token_id", -1},
    {"forced_eos_token_id", -1},
    {"guidance_scale", 1},
    {"max_length", 20},
    {"max_new_tokens", -1},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"no_repeat_ngram_size", 0},
    {"num_beams", 1},
    {"penalty_alpha", 0},
    {"sequence_bias", 0},
    {"stop_strings", 0},
    {"suppress_tokens", 0},
    {"token_healing", 0},
    {"top_h", 1},
    {"watermarking_config", 0},
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

static bool is_neutral(const struct sp_json *v, double neutral)
{
    double d;
    bool b;

    if (v == NULL) return true;
    if (sp_json_to_bool(v, &b)) return !b;
    if (sp_json_to_double(v, &d)) return !(d < neutral) && !(d > neutral);
    return (sp_json_kind(v) == SP_JSON_ARRAY || sp_json_kind(v) == SP_JSON_OBJECT) &&
           sp_json_len(v) == 0;
}

static enum sp_status note_unread(const struct sp_json *generation, char **warnings,
                                  struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < sizeof unread / sizeof *unread && !st; i++) {
        if (is_neutral(sp_json_get(generation, unread[i].key), unread[i].neutral)) continue;
        st = sp_warn(warnings, err, "generation_config.json: %s has no effect", unread[i].key);
    }
    return st;
}

enum sp_status sp_generation_check(const struct sp_source *target, char **warnings,
                                   struct sp_err *err)
{
    const char *text = target->texts[SP_SECTION_GENERATION];
    size_t size = target->text_sizes[SP_SECTION_GENERATION], n;
    uint32_t ids[SP_MAX_EOS];
    struct sp_json *generation = NULL;
    enum sp_status st;

    if (text == NULL || target->pack)
        return SP_OK; /* a packed file's was checked when it was made */
    if ((st = sp_config_eos(ids, &n, NULL, 0, text, size, err))) goto done;
    if ((st = sp_json_parse_settings(&generation, text, size, err))) goto done;
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

/* What a packed file states about its answers: the PARAMETER, SYSTEM and MESSAGE records of its
 * Modelfile, and the checkpoint's generation_config.json, which count where there is no record. */

#include "format/base/mem.h"
#include "format/json/json.h"
#include "format/modelfile/modelfile_check.h"
#include "format/pack_contents.h"
#include "format/system/macos.h"
#include "runtime/session/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char stop[] = "stop", breakers[] = "dry_sequence_breakers";

/* ---- reading ---- */

/* Stores a number that answers need and that is no option of sampling. */
static enum sp_status set_integer(struct sp_answer_settings *s, const char *name, const char *value,
                                  struct sp_err *err)
{
    const struct {
        const char *name;
        int64_t *to;
    } integers[] = {{"seed", &s->seed},
                    {"num_predict", &s->n_predict},
                    {"num_ctx", &s->n_context},
                    {"draft_num_predict", &s->draft_len},
                    {"reasoning_budget", &s->reasoning_budget}};

    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (strcmp(integers[i].name, name) == 0)
            return sp_parameter_integer(integers[i].to, sp_parameter_find(name), value, err);
    return SP_OK;
}

static enum sp_status take(struct sp_answer_settings *s, const char *name, const char *value,
                           bool of_checkpoint, struct sp_err *err)
{
    const char *option;

    s->settings[s->stated.n_settings++] = (struct sp_file_setting){name, value, of_checkpoint};
    for (size_t i = 0; (option = sp_sampling_get(&s->sampling, i, NULL)); i++)
        if (strcmp(option, name) == 0) return sp_sampling_set(&s->sampling, name, value, err);
    if (strcmp(name, stop) == 0) s->stops[s->n_stops++] = value;
    if (strcmp(name, breakers) == 0) {
        s->sampling.dry_breakers = s->breakers;
        if (strcmp(value, "none") != 0) s->breakers[s->sampling.n_dry_breakers++] = value;
    }
    return set_integer(s, name, value, err);
}

static bool is_stated(const struct sp_answer_settings *s, const char *name)
{
    for (size_t i = 0; i < s->stated.n_settings; i++)
        if (strcmp(s->settings[i].name, name) == 0) return true;
    return false;
}

/* Of records that may not be repeated the last one counts. */
static enum sp_status take_records(struct sp_answer_settings *s, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < s->file.n_records && !st; i++) {
        const struct sp_modelfile_record *r = &s->file.records[i];
        if (r->command == SP_MODELFILE_MESSAGE)
            s->messages[s->stated.n_messages++] = (struct sp_chat_message){r->name, r->value, NULL};
        if (r->command != SP_MODELFILE_PARAMETER) continue;
        if (strcmp(r->name, stop) == 0 || strcmp(r->name, breakers) == 0 ||
            sp_modelfile_find(&s->file, SP_MODELFILE_PARAMETER, r->name) == r)
            st = take(s, r->name, r->value, false, err);
    }
    s->n_records = s->stated.n_settings;
    return st;
}

/* Hugging Face's repetition penalty covers the whole context, hence repeat_last_n is -1 with it. */
static enum sp_status take_generation(struct sp_answer_settings *s, const struct sp_json *json,
                                      struct sp_err *err)
{
    size_t n;
    const struct sp_parameter *all = sp_parameters(&n);
    bool has_window = is_stated(s, "repeat_last_n");

    for (size_t i = 0; i < n; i++) {
        enum sp_status st;
        char *text;
        if (is_stated(s, all[i].name)) continue;
        if ((st = sp_parameter_of_generation(&text, &all[i], json, NULL, err))) return st;
        if (text && (st = take(s, all[i].name, text, true, err))) return st;
        if (text == NULL || has_window || strcmp(all[i].name, "repeat_penalty") != 0) continue;
        if ((st = sp_copy_text(&text, "-1", 2, err))) return st;
        if ((st = take(s, "repeat_last_n", text, true, err))) return st;
    }
    return SP_OK;
}

static enum sp_status read_generation(struct sp_answer_settings *s, const struct sp_pack *pack,
                                      struct sp_err *err)
{
    enum sp_status st;
    struct sp_json *json = NULL;
    struct sp_text text;

    st = sp_pack_read_section(pack, SP_PART_TARGET, SP_SECTION_GENERATION, &text, err);
    if (st || text.at == NULL) return st;
    st = sp_json_parse_settings(&json, &text, err);
    if (st == SP_OK) st = take_generation(s, json, err);
    if (st) sp_context(err, "%s: generation_config.json", sp_pack_path(pack));
    sp_json_free(json);
    free(text.at);
    return st;
}

static enum sp_status read_file(struct sp_answer_settings *s, const struct sp_pack *pack,
                                struct sp_err *err)
{
    const struct sp_modelfile_record *system;
    size_t n, n_parameters;
    enum sp_status st;

    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &s->records, err);
    if (!st && s->records.at)
        st = sp_modelfile_parse(&s->file, sp_pack_path(pack), s->records.at, s->records.size, err);
    if (st) return st;
    (void)sp_parameters(&n_parameters);
    n = s->file.n_records + n_parameters + 1;
    if ((st = sp_new(&s->settings, n, sizeof *s->settings, err))) return st;
    if ((st = sp_new(&s->messages, n, sizeof *s->messages, err))) return st;
    if ((st = sp_new(&s->stops, n, sizeof *s->stops, err))) return st;
    if ((st = sp_new(&s->breakers, n, sizeof *s->breakers, err))) return st;
    s->stated.settings = s->settings;
    s->stated.messages = s->messages;
    if ((system = sp_modelfile_find(&s->file, SP_MODELFILE_SYSTEM, NULL)))
        s->stated.system = system->value;
    if ((st = take_records(s, err))) return st;
    return read_generation(s, pack, err);
}

static enum sp_status open_settings(struct sp_file_settings **out, const struct sp_pack *pack,
                                    struct sp_err *err)
{
    struct sp_answer_settings *s = NULL;
    enum sp_status st;

    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    s->sampling = (struct sp_sampling)SP_SAMPLING_INIT;
    s->seed = s->draft_len = s->reasoning_budget = -1;
    if ((st = read_file(s, pack, err)))
        sp_file_settings_close(&s->stated);
    else
        *out = &s->stated;
    return st;
}

enum sp_status sp_file_settings_open(struct sp_file_settings **out, const char *path,
                                     struct sp_err *err)
{
    struct sp_pack *pack = NULL;
    enum sp_status st;

    if ((st = sp_pack_open(&pack, path, err))) return st;
    st = open_settings(out, pack, err);
    sp_pack_close(pack);
    return st;
}

enum sp_status sp_package_settings(const struct sp_package *package, struct sp_file_settings **out,
                                   struct sp_err *err)
{
    return open_settings(out, package->pack, err);
}

void sp_file_settings_close(struct sp_file_settings *settings)
{
    struct sp_answer_settings *s = (struct sp_answer_settings *)settings;

    if (s == NULL) return;
    for (size_t i = s->n_records; i < s->stated.n_settings; i++)
        free((char *)(uintptr_t)s->settings[i].value);
    free(s->settings);
    free(s->messages);
    free(s->stops);
    free(s->breakers);
    sp_modelfile_release(&s->file);
    free(s->records.at);
    free(s);
}

enum sp_status sp_file_settings_apply(struct sp_file_settings *settings, struct sp_request *request,
                                      struct sp_err *err)
{
    struct sp_answer_settings *s = (struct sp_answer_settings *)settings;
    uint32_t drawn;

    s->sampling.seed = (uint64_t)s->seed;
    if (s->seed < 0) {
        if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
            return sp_fail(err, SP_E_IO, "a random seed: %s", strerror(errno));
        s->sampling.seed = drawn;
    }
    request->sampling = &s->sampling;
    request->max_tokens = s->n_predict > 0 ? (size_t)s->n_predict : 0;
    request->draft_len = s->draft_len < 0 ? SP_DRAFT_LENGTH_AUTO : (int)s->draft_len;
    request->stops = s->stops;
    request->n_stops = s->n_stops;
    return SP_OK;
}

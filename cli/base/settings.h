/* The settings of generation, each with its origin: the command line, the packed file's PARAMETER
 * records, the checkpoint's generation_config.json or built in. */
#ifndef SP_CLI_BASE_SETTINGS_H
#define SP_CLI_BASE_SETTINGS_H

#include "cli/base/opt.h"
#include "format/json/json_write.h"
#include "runtime/spectool.h"

enum { SP_MAX_SETTINGS = 64, SP_SEED_FRESH = -1, SP_MAX_STOPS = 64, SP_REASONING_UNLIMITED = -1 };

/* The texts of a setting; valid when zeroed. */
struct sp_setting_texts {
    const char *from;             /* origin, static; NULL: the texts are not set */
    const char *at[SP_MAX_STOPS]; /* [n] owned */
    size_t n;
};

/* The settings. The option table fills the fields, sp_settings_complete sets the rest. */
struct sp_settings {
    struct sp_sampling sampling; /* its numbers */
    int64_t seed;                /* seed, or SP_SEED_FRESH */
    int64_t n_predict;           /* <= 0: no limit but a stop text and the context */
    int64_t reasoning_budget;    /* most tokens of reasoning, or SP_REASONING_UNLIMITED */
    int64_t n_context;           /* 0: the model's maximum */
    int64_t n_threads;           /* 0: the number of cores */
    int64_t draft_len;           /* SP_DRAFT_LENGTH_AUTO; 0: do not draft */
    const char *accept;
    /* As given; borrowed from the arguments. */
    struct sp_opt_list stop_options, bias_options, breaker_options;
    /* The following fields are set by sp_settings_complete. */
    const char *from[SP_MAX_SETTINGS]; /* origin of each setting, such as "command line"; static */
    struct sp_logit_bias *biases;      /* logit biases; owned */
    size_t n_biases;
    struct sp_setting_texts stops;
    struct sp_setting_texts breakers; /* of DRY; not set: those of struct sp_sampling */
};

#define SP_SETTINGS_DEFAULTS                                                                       \
    {                                                                                              \
        .sampling = SP_SAMPLING_INIT, .seed = SP_SEED_FRESH, .draft_len = SP_DRAFT_LENGTH_AUTO,    \
        .reasoning_budget = SP_REASONING_UNLIMITED                                                 \
    }

extern const char *const sp_settings_accepts[]; /* "coupled", "rejection", NULL */

/* Completes the settings from those of the file; `args` are those of a command whose options
 * include all settings. Draws a random seed if none is set. */
SP_MUST_CHECK enum sp_status sp_settings_complete(struct sp_settings *settings,
                                                  const struct sp_args *args,
                                                  const struct sp_file_settings *file,
                                                  struct sp_err *err);
void sp_settings_release(struct sp_settings *settings);

/* Sets a setting by its Modelfile name ("top_k"), or adds a "stop" or "dry_sequence_breakers".
 * SP_E_USAGE or SP_E_INPUT for an invalid name or value. */
SP_MUST_CHECK enum sp_status sp_settings_set(struct sp_settings *settings, const char *name,
                                             const char *value, struct sp_err *err);

/* Prints the value of a setting by its Modelfile name, as sp_settings_set has stored it: "top_k is
 * 3."; returns false for other names. */
bool sp_settings_print_one(FILE *out, const struct sp_settings *settings, const char *name);

/* Draws a new seed if the seed was drawn. *drawn: it was. */
SP_MUST_CHECK enum sp_status sp_settings_redraw(struct sp_settings *settings, bool *drawn,
                                                struct sp_err *err);

/* The Modelfile name of setting i, from 0; static; NULL: there are no more. */
const char *sp_settings_name(size_t i);

/* What a setting is about: requests may change those of sampling and of length. */
enum sp_setting_kind {
    SP_SETTING_NONE,     /* there is no such setting */
    SP_SETTING_SAMPLING, /* of sampling and drafting */
    SP_SETTING_LENGTH,
    SP_SETTING_SESSION,
};
enum sp_setting_kind sp_settings_kind(const char *name);

/* Copies the settings so that they can be changed; a seed that was drawn is drawn again. Option
 * lists stay borrowed. */
SP_MUST_CHECK enum sp_status
sp_settings_copy(struct sp_settings *out, const struct sp_settings *settings, struct sp_err *err);

SP_MUST_CHECK enum sp_status sp_settings_add_bias(struct sp_settings *settings, uint32_t id,
                                                  float bias, struct sp_err *err);

/* Fills the sampling parameters, which borrow from the settings. */
void sp_settings_sampling(struct sp_sampling *out, const struct sp_settings *settings);

/* Writes the options of sampling as members of a JSON object; `only`: this one; NULL: all. */
void sp_settings_sampling_to_json(struct sp_json_out *out, const struct sp_settings *settings,
                                  const char *only);

/* Writes the settings that the user chose, as members of a JSON object. */
void sp_settings_to_json(struct sp_json_out *out, const struct sp_settings *settings);
/* Takes what sp_settings_to_json wrote; `object` NULL: nothing. Absent settings stay. On failure
 * the settings may be changed in part. */
SP_MUST_CHECK enum sp_status sp_settings_of_json(struct sp_settings *settings,
                                                 const struct sp_json *object, struct sp_err *err);

/* Prints a line per setting: name, value, origin. */
void sp_settings_print(FILE *out, const struct sp_settings *settings);

#endif

/* A config.json being read: lookup of its keys. For config*.c, and the readers of single families
 * (format/family/families/). */
#ifndef SP_FORMAT_CONFIG_CONFIG_TEXT_H
#define SP_FORMAT_CONFIG_CONFIG_TEXT_H

#include "format/base/warnings.h"
#include "format/config/config.h"
#include "format/json/json.h"

struct sp_family; /* family_row.h */
struct sp_sizes;
struct sp_wrapper;

/* Upper limits of the numbers in a config: far above any model, far below overflow. */
enum {
    SP_CAP_LAYERS = 4096,
    SP_CAP_WIDTH = 1 << 20,
    SP_CAP_HEADS = 1 << 14,
    SP_CAP_VOCAB = 1 << 24,
    SP_CAP_EXPERTS = 1 << 14,
    SP_CAP_POSITIONS = 1 << 30,
};

/* One config.json being read. All pointers are borrowed. A reader that fails records it in `err`,
 * where the first failure stays, and reading goes on: what is read after a failure is not used. */
struct sp_config_text {
    const struct sp_json *root;
    const struct sp_json *text;   /* text_config or its counterpart in a draft; NULL: none */
    bool skips_null;              /* a null there does not hide the value of the root */
    bool speculators;             /* a draft in the format of the speculators library */
    const struct sp_json *dflash; /* dflash_config; NULL: there is none */
    const struct sp_family *family;
    const struct sp_wrapper *wrapper; /* NULL: the text config is the root */
    enum sp_draft_kind draft;
    const char *what; /* beginning of messages about drafts: "dflash ", ...; else "" */
    char **warnings;
    const struct sp_sizes *sizes; /* set once they have been read */
    struct sp_err *err;           /* not NULL */
};

static inline bool sp_text_failed(const struct sp_config_text *t)
{
    return t->err->status != SP_OK;
}

/* Fail with a message about the config: SP_E_INPUT, or SP_E_UNSUPPORTED. */
#define SP_INVALID(t, ...) ((void)sp_fail((t)->err, SP_E_INPUT, __VA_ARGS__))
#define SP_REFUSED(t, ...) ((void)sp_fail((t)->err, SP_E_UNSUPPORTED, __VA_ARGS__))
/* Adds a warning about a config that has not failed. */
#define SP_NOTED(t, ...)                                                                           \
    ((void)(sp_text_failed(t) || sp_warn((t)->warnings, (t)->err, __VA_ARGS__)))

/* A key is looked for in text_config, then at the root, then there under the family's other
 * spellings (sp_family.key_names). */

/* True if the config has `key`, even as null. */
bool sp_text_has(const struct sp_config_text *t, const char *key);
/* The value of `key`; NULL if it is missing or null. */
const struct sp_json *sp_text_get(const struct sp_config_text *t, const char *key);

/* These readers leave *out unchanged if the key is missing or null, or if its value is wrong, which
 * is a failure. A key of NULL is missing. */
void sp_text_unsigned(const struct sp_config_text *t, const char *key, unsigned min, unsigned max,
                      unsigned *out);
/* Takes a list that has the same number for each layer, too. */
void sp_text_uniform(const struct sp_config_text *t, const char *key, unsigned min, unsigned max,
                     unsigned *out);
void sp_text_i64(const struct sp_config_text *t, const char *key, int64_t min, int64_t max,
                 int64_t *out);
void sp_text_double(const struct sp_config_text *t, const char *key, double min, double max,
                    double *out);
void sp_text_bool(const struct sp_config_text *t, const char *key, bool *out);
/* Like sp_text_bool, but null is false. */
void sp_text_flag(const struct sp_config_text *t, const char *key, bool *out);
void sp_text_string(const struct sp_config_text *t, const char *key, const char **out);
/* Fails if the key is false. */
void sp_text_need(const struct sp_config_text *t, const char *key);

/* The same for a member of one object of the config. */
void sp_member_unsigned(const struct sp_config_text *t, const struct sp_json *object,
                        const char *key, unsigned min, unsigned max, unsigned *out);
void sp_member_double(const struct sp_config_text *t, const struct sp_json *object, const char *key,
                      double min, double max, double *out);
void sp_member_bool(const struct sp_config_text *t, const struct sp_json *object, const char *key,
                    bool *out);
void sp_member_string(const struct sp_config_text *t, const struct sp_json *object, const char *key,
                      const char **out);

/* Item i of a list as a text; "" if it is none. */
static inline const char *sp_text_at(const struct sp_json *list, size_t i)
{
    const char *text = sp_json_to_string(sp_json_at(list, i), NULL);

    return text ? text : "";
}

/* Reads a member of one object as unsigned; *out is unchanged if it is missing or null. */
SP_MUST_CHECK enum sp_status sp_object_unsigned(const struct sp_json *object, const char *key,
                                                unsigned min, unsigned max, unsigned *out,
                                                struct sp_err *err);

#endif

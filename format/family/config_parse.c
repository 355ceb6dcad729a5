/* sp_config_parse: finds the row of the family table, and calls the readers (config_readers.h) with
 * it. Only config*.c and the family table know the names of keys. */
#include "format/family/config_parse.h"

#include "format/base/affix.h"
#include "format/base/warnings.h"
#include "format/config/config_readers.h"
#include "format/family/family_table.h"

#include <string.h>

/* *out = architectures[0], or NULL if there is none. */
static enum sp_status read_architecture(const char **out, const struct sp_json *root,
                                        struct sp_err *err)
{
    const struct sp_json *list = sp_json_get(root, "architectures");
    const struct sp_json *first = sp_json_at(list, 0);
    size_t len;

    *out = NULL;
    if (first == NULL) return SP_OK;
    *out = sp_json_to_string(first, &len);
    if (*out == NULL || strlen(*out) != len || len >= sizeof((struct sp_config *)0)->architecture)
        return sp_fail(err, SP_E_INPUT, "architectures[0] is not the name of an architecture");
    return SP_OK;
}

/* The family of the text model in a multimodal config, by the model_type of text_config. */
static enum sp_status find_wrapped(struct sp_config_text *t)
{
    const char *type = t->wrapper->text_type;
    enum sp_status st;

    if (t->text == NULL && t->wrapper->may_be_flat) {
        t->family = sp_family_by_type(type);
        return SP_OK;
    }
    if (sp_json_kind(t->text) != SP_JSON_OBJECT) {
        return SP_INVALID(t, "text_config is missing, which model_type \"%s\" needs",
                          t->wrapper->name);
    }
    if ((st = sp_json_get_string(t->text, "model_type", &type, t->err))) return st;
    t->family = sp_family_by_type(type);
    if (t->family == NULL || (!t->wrapper->any_text && strcmp(type, t->wrapper->text_type) != 0)) {
        return SP_REFUSED(t, "model_type \"%s\" in the text_config of \"%s\" is not supported",
                          type, t->wrapper->name);
    }
    return SP_OK;
}

/* True if transformers has no class for this family and runs it as another architecture. */
static bool runs_as(const struct sp_family *f, const char *architecture)
{
    return f && f->run_as && strcmp(f->run_as, architecture) == 0;
}

/* The end of the names of models with a classification head. */
static const char classifier[] = "ForSequenceClassification";

bool sp_config_is_classifier(const struct sp_config *config)
{
    size_t n = strlen(config->architecture), k = strlen(classifier);

    return n > k && strcmp(config->architecture + n - k, classifier) == 0;
}

/* True if the architecture is the family's with a classification head. */
static bool classifies_as(const struct sp_family *f, const char *architecture)
{
    const char *end = strstr(architecture, classifier), *own = f ? f->architecture : NULL;
    size_t n;

    if (own == NULL || end == NULL || end[strlen(classifier)]) return false;
    n = (size_t)(end - architecture);
    return strncmp(own, architecture, n) == 0 &&
           (strcmp(own + n, "Model") == 0 || strcmp(own + n, "ForCausalLM") == 0);
}

/* A class that nobody knows, of a model_type that is known: transformers' AutoModelForCausalLM goes
 * by the type alone. Refused are classes with another head, and those that bring their own code. */
static enum sp_status take_unknown(const struct sp_config_text *t, const char *type,
                                   const char *architecture)
{
    const char *task = strstr(architecture, "For");

    if (task && strcmp(task, "ForCausalLM") != 0 && strcmp(task, "ForConditionalGeneration") != 0)
        return SP_REFUSED(t, "architecture \"%s\" is not supported", architecture);
    if (sp_json_has(t->root, "auto_map")) {
        return SP_REFUSED(t,
                          "architecture \"%s\" is not supported: code of its own (auto_map) may "
                          "compute otherwise than model_type \"%s\"",
                          architecture, type);
    }
    return sp_warn(t->warnings, t->err,
                   "architecture \"%s\" is unknown; the model is read as its model_type \"%s\"",
                   architecture, type);
}

/* model_type determines the family; an architecture of another family is an error. */
static enum sp_status find_family(struct sp_config_text *t, const char *architecture)
{
    const struct sp_wrapper *wrapper = sp_wrapper_by_architecture(architecture);
    const struct sp_family *family = sp_family_by_architecture(architecture);
    const char *type = NULL;
    enum sp_status st;

    if ((st = sp_json_get_string(t->root, "model_type", &type, t->err))) return st;
    if (type == NULL && architecture == NULL)
        return SP_INVALID(t, "neither model_type nor architectures is given");
    if (type) {
        t->wrapper = sp_wrapper_by_type(type);
        t->family = sp_family_by_type(type);
        if (t->wrapper == NULL && t->family == NULL) {
            return SP_REFUSED(
                t, "model_type \"%s\" is not supported%s", type,
                sp_ends_with(type, "_mtp")
                    ? ": a prediction head drafts only as a part of its model's checkpoint"
                    : "");
        }
    }
    if (architecture && t->wrapper == NULL && classifies_as(t->family, architecture)) return SP_OK;
    if (architecture && wrapper == NULL && family == NULL) {
        if (type == NULL)
            return SP_REFUSED(t, "architecture \"%s\" is not supported", architecture);
        if ((st = take_unknown(t, type, architecture))) return st;
    } else if (type && architecture && (wrapper != t->wrapper || family != t->family) &&
               !runs_as(t->family, architecture)) {
        return SP_INVALID(t, "model_type \"%s\" contradicts architecture \"%s\"", type,
                          architecture);
    }
    if (type == NULL) {
        t->wrapper = wrapper;
        t->family = family;
    }
    return t->wrapper ? find_wrapped(t) : SP_OK;
}

static enum sp_status find_assistant_family(struct sp_config_text *t)
{
    const char *type = "gemma4_text";
    enum sp_status st;

    if (sp_json_kind(t->text) != SP_JSON_OBJECT)
        return SP_INVALID(t, "assistant: text_config is missing");
    if ((st = sp_json_get_string(t->text, "model_type", &type, t->err))) return st;
    t->family = sp_family_by_type(type);
    if (t->family && t->family->assistants) return SP_OK;
    return SP_REFUSED(t, "assistant: text_config of model_type \"%s\" is not supported", type);
}

/* The layers of EAGLE-3 drafts have Llama's or Qwen3's shape. */
static enum sp_status find_eagle3_family(struct sp_config_text *t)
{
    const char *type = "llama";
    enum sp_status st;

    if ((st = sp_text_string(t, "model_type", &type))) return st;
    t->family = sp_family_by_type(type);
    if (t->family && (strcmp(type, "llama") == 0 || strcmp(type, "qwen3") == 0)) return SP_OK;
    return SP_REFUSED(t, "%s drafts of model_type \"%s\" are not supported",
                      sp_draft_name(t->draft), type);
}

/* The layers of DFlash drafts have Qwen3's shape for every target, but may have other names. */
static enum sp_status find_draft_family(struct sp_config_text *t, const char *architecture)
{
    const char *type = "qwen3";
    enum sp_status st;

    if (t->draft == SP_DRAFT_ASSISTANT) return find_assistant_family(t);
    if (sp_draft_is_eagle(t->draft)) return find_eagle3_family(t);
    if (!t->speculators && (t->family = sp_family_by_architecture(architecture))) return SP_OK;
    if ((st = sp_text_string(t, "model_type", &type))) return st;
    if (strcmp(type, "qwen3") != 0 && strcmp(type, "muse_glimmer_assistant") != 0)
        return SP_REFUSED(t, "dflash drafts of model_type \"%s\" are not supported", type);
    t->family = sp_family_by_type(type);
    return SP_OK;
}

static enum sp_status parse(struct sp_config *c, const struct sp_json *root, char **warnings,
                            struct sp_err *err)
{
    static sp_read_fn *const readers[] = {
        sp_config_read_traits,     sp_config_read_ropes,  sp_config_read_layers,
        sp_config_read_routing,    sp_config_read_latent, sp_config_read_delta,
        sp_config_read_short_conv, sp_config_read_mamba,
    };
    struct sp_sizes sizes;
    struct sp_config_text t = {
        .root = root, .what = "", .warnings = warnings, .sizes = &sizes, .err = err};
    struct sp_family family;
    const char *architecture;
    enum sp_status st;

    if (sp_json_kind(root) != SP_JSON_OBJECT) {
        return sp_fail(err, SP_E_INPUT, "the configuration is %s, expected a JSON object",
                       sp_json_kind_name(sp_json_kind(root)));
    }
    t.text = sp_json_get(root, "text_config");
    if ((st = read_architecture(&architecture, root, err))) return st;
    if ((st = sp_config_detect_draft(&t))) return st;
    st = t.draft ? find_draft_family(&t, architecture) : find_family(&t, architecture);
    if (st) return st;
    sp_family_resolve(&family, t.family);
    t.family = &family;
    if ((st = sp_config_refuse(&t)) || (st = sp_config_read_sizes(&sizes, &t))) return st;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if ((st = readers[i](c, &t))) return st;
    if (family.read_own && (st = family.read_own(c, &t))) return st;
    memcpy(c->family, family.name, strlen(family.name) + 1);
    if (architecture) memcpy(c->architecture, architecture, strlen(architecture) + 1);
    if (sp_config_is_classifier(c)) c->tied = false;
    return t.draft ? sp_config_read_draft(c, &t) : sp_config_read_causal(c, &t);
}

enum sp_status sp_config_parse(struct sp_config *out, const char *json, size_t size,
                               char **warnings, struct sp_err *err)
{
    struct sp_config c = {0};
    struct sp_json *root = NULL, *text;
    struct sp_json_marks marks[2] = {{0}};
    bool wrapped;
    enum sp_status st;

    memset(out, 0, sizeof *out);
    if ((st = sp_json_parse_within(&root, json, size, SP_JSON_LENIENT, SP_JSON_SETTINGS, err)))
        goto done;
    text = (struct sp_json *)(uintptr_t)sp_json_get(root, "text_config");
    wrapped = sp_json_kind(text) == SP_JSON_OBJECT;
    sp_json_watch(root, &marks[0]);
    if (wrapped) sp_json_watch(text, &marks[1]);
    if ((st = parse(&c, root, warnings, err))) goto done;
    if (warnings && wrapped && (st = sp_config_note_unread(text, warnings, err))) goto done;
    if (warnings && (st = sp_config_note_unread(root, warnings, err))) goto done;
    *out = c;
    memset(&c, 0, sizeof c);
done:
    sp_config_release(&c);
    sp_json_free(root);
    return st;
}

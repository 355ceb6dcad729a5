/* sp_config_parse: finds the row of the family table, and calls the readers (config_readers.h) with
 * it. Only config*.c and the family table know the names of keys. */
#include "format/family/config_parse.h"

#include "format/base/affix.h"
#include "format/config/config_readers.h"
#include "format/family/family_table.h"

#include <string.h>

/* architectures[0], or NULL if there is none. */
static const char *read_architecture(const struct sp_config_text *t)
{
    const struct sp_json *first = sp_json_at(sp_json_get(t->root, "architectures"), 0);
    size_t len;
    const char *name = sp_json_to_string(first, &len);

    if (first &&
        (name == NULL || strlen(name) != len || len >= sizeof((struct sp_config *)0)->architecture))
        SP_INVALID(t, "architectures[0] is not the name of an architecture");
    return name;
}

/* The family of the text model in a multimodal config, by the model_type of text_config. */
static void find_wrapped(struct sp_config_text *t)
{
    const char *type = t->wrapper->text_type;

    if (t->text == NULL && t->wrapper->may_be_flat) {
        t->family = sp_family_by_type(type);
        return;
    }
    if (sp_json_kind(t->text) != SP_JSON_OBJECT)
        SP_INVALID(t, "text_config is missing, which model_type \"%s\" needs", t->wrapper->name);
    sp_member_string(t, t->text, "model_type", &type);
    t->family = sp_family_by_type(type);
    if (t->family == NULL || (!t->wrapper->any_text && strcmp(type, t->wrapper->text_type) != 0)) {
        SP_REFUSED(t, "model_type \"%s\" in the text_config of \"%s\" is not supported", type,
                   t->wrapper->name);
    }
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
static void take_unknown(const struct sp_config_text *t, const char *type, const char *architecture)
{
    const char *task = strstr(architecture, "For");

    if (task && strcmp(task, "ForCausalLM") != 0 && strcmp(task, "ForConditionalGeneration") != 0)
        SP_REFUSED(t, "architecture \"%s\" is not supported", architecture);
    if (sp_json_has(t->root, "auto_map")) {
        SP_REFUSED(t,
                   "architecture \"%s\" is not supported: code of its own (auto_map) may "
                   "compute otherwise than model_type \"%s\"",
                   architecture, type);
    }
    SP_NOTED(t, "architecture \"%s\" is unknown; the model is read as its model_type \"%s\"",
             architecture, type);
}

/* model_type determines the family; an architecture of another family is an error. */
static void find_family(struct sp_config_text *t, const char *architecture)
{
    const struct sp_wrapper *wrapper = sp_wrapper_by_architecture(architecture);
    const struct sp_family *family = sp_family_by_architecture(architecture);
    const char *type = NULL;

    sp_member_string(t, t->root, "model_type", &type);
    if (type == NULL && architecture == NULL)
        SP_INVALID(t, "neither model_type nor architectures is given");
    if (type) {
        t->wrapper = sp_wrapper_by_type(type);
        t->family = sp_family_by_type(type);
        if (t->wrapper == NULL && t->family == NULL) {
            SP_REFUSED(t, "model_type \"%s\" is not supported%s", type,
                       sp_ends_with(type, "_mtp")
                           ? ": a prediction head drafts only as a part of its model's checkpoint"
                           : "");
        }
    }
    if (architecture && t->wrapper == NULL && classifies_as(t->family, architecture)) return;
    if (architecture && wrapper == NULL && family == NULL)
        if (type == NULL)
            SP_REFUSED(t, "architecture \"%s\" is not supported", architecture);
        else
            take_unknown(t, type, architecture);
    else if (type && architecture && (wrapper != t->wrapper || family != t->family) &&
             !runs_as(t->family, architecture))
        SP_INVALID(t, "model_type \"%s\" contradicts architecture \"%s\"", type, architecture);
    if (type == NULL) {
        t->wrapper = wrapper;
        t->family = family;
    }
    if (t->wrapper) find_wrapped(t);
}

static void find_assistant_family(struct sp_config_text *t)
{
    const char *type = "gemma4_text";

    if (sp_json_kind(t->text) != SP_JSON_OBJECT) SP_INVALID(t, "assistant: text_config is missing");
    sp_member_string(t, t->text, "model_type", &type);
    t->family = sp_family_by_type(type);
    if (t->family == NULL || !t->family->assistants)
        SP_REFUSED(t, "assistant: text_config of model_type \"%s\" is not supported", type);
}

/* The layers of EAGLE-3 drafts have Llama's or Qwen3's shape. */
static void find_eagle3_family(struct sp_config_text *t)
{
    const char *type = "llama";

    sp_text_string(t, "model_type", &type);
    t->family = sp_family_by_type(type);
    if (!sp_is_among(type, "llama qwen3"))
        SP_REFUSED(t, "%s drafts of model_type \"%s\" are not supported", sp_draft_name(t->draft),
                   type);
}

/* The layers of DFlash drafts have Qwen3's shape for every target, but may have other names. */
static void find_dflash_family(struct sp_config_text *t, const char *architecture)
{
    const char *type = "qwen3";

    if (!t->speculators && (t->family = sp_family_by_architecture(architecture))) return;
    sp_text_string(t, "model_type", &type);
    if (!sp_is_among(type, "qwen3 muse_glimmer_assistant"))
        SP_REFUSED(t, "dflash drafts of model_type \"%s\" are not supported", type);
    t->family = sp_family_by_type(type);
}

static void parse(struct sp_config *c, struct sp_config_text *t, struct sp_family *family,
                  struct sp_sizes *sizes)
{
    static sp_read_fn *const readers[] = {
        sp_config_read_traits,     sp_config_read_ropes,  sp_config_read_layers,
        sp_config_read_routing,    sp_config_read_latent, sp_config_read_delta,
        sp_config_read_short_conv, sp_config_read_mamba,
    };
    const char *architecture = read_architecture(t);

    if (sp_json_kind(t->root) != SP_JSON_OBJECT) {
        SP_INVALID(t, "the configuration is %s, expected a JSON object",
                   sp_json_kind_name(sp_json_kind(t->root)));
    }
    sp_config_detect_draft(t);
    if (t->draft == SP_DRAFT_NONE)
        find_family(t, architecture);
    else if (t->draft == SP_DRAFT_ASSISTANT)
        find_assistant_family(t);
    else if (sp_draft_is_eagle(t->draft))
        find_eagle3_family(t);
    else
        find_dflash_family(t, architecture);
    if (sp_text_failed(t)) return;
    sp_family_resolve(family, t->family);
    t->family = family;
    t->sizes = sizes;
    sp_config_refuse(t);
    sp_config_read_sizes(sizes, t);
    for (size_t i = 0; i < sizeof readers / sizeof *readers && !sp_text_failed(t); i++)
        readers[i](c, t);
    if (family->read_own && !sp_text_failed(t)) family->read_own(c, t);
    if (sp_text_failed(t)) return;
    memcpy(c->family, family->name, strlen(family->name) + 1);
    if (architecture) memcpy(c->architecture, architecture, strlen(architecture) + 1);
    if (sp_config_is_classifier(c)) c->tied = false;
    (t->draft ? sp_config_read_draft : sp_config_read_causal)(c, t);
}

enum sp_status sp_config_parse(struct sp_config *out, const char *json, size_t size,
                               char **warnings, struct sp_err *err)
{
    struct sp_config c = {0};
    struct sp_json *root = NULL, *text;
    struct sp_json_marks marks[2] = {{0}};
    struct sp_err failure = {0};
    struct sp_config_text t = {.what = "", .warnings = warnings, .err = &failure};
    struct sp_family family;
    struct sp_sizes sizes;
    bool wrapped;

    memset(out, 0, sizeof *out);
    if (sp_json_parse_within(&root, json, size, SP_JSON_LENIENT, SP_JSON_SETTINGS, &failure))
        return sp_fail_as(err, &failure);
    text = (struct sp_json *)(uintptr_t)sp_json_get(root, "text_config");
    wrapped = sp_json_kind(text) == SP_JSON_OBJECT;
    sp_json_watch(root, &marks[0]);
    if (wrapped) sp_json_watch(text, &marks[1]);
    t.root = root;
    t.text = text;
    parse(&c, &t, &family, &sizes);
    if (warnings && wrapped && !failure.status) sp_config_note_unread(text, &t);
    if (warnings && !failure.status) sp_config_note_unread(root, &t);
    sp_json_free(root);
    if (!failure.status)
        *out = c;
    else
        sp_config_release(&c);
    return failure.status ? sp_fail_as(err, &failure) : SP_OK;
}

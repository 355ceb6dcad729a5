#include "cli/serve/request/serve_request.h"
#include "format/base/affix.h"
#include "format/modelfile/modelfile_check.h"

#include <stdlib.h>
#include <string.h>

bool sp_serve_field_ends(const struct sp_serve_field *f)
{
    return !f->key && !f->members && !f->names && !f->read && !f->write;
}

/* Stores or checks a value of the row's kind. */
static enum sp_status read_value(const struct sp_serve_member *m, struct sp_err *err)
{
    const struct sp_serve_field *f = m->field;
    union {
        bool flag;
        int64_t number;
        const struct sp_json *json;
        const char *text;
    } nowhere;
    void *to = f->offset ? (char *)m->request + f->offset : (char *)&nowhere;

    if (f->kind == SP_JSON_BOOL) return sp_json_get_bool(m->object, f->key, to, err);
    if (f->kind == SP_JSON_INT) return sp_json_get_i64(m->object, f->key, f->min, f->max, to, err);
    if (f->kind == SP_JSON_STRING && !f->offset && !f->read)
        return sp_json_get_string(m->object, f->key, &nowhere.text, err);
    return sp_serve_read_kind(to, m->object, f->key, f->kind, err);
}

static enum sp_status refuse(const struct sp_serve_member *m, struct sp_err *err)
{
    const struct sp_serve_field *f = m->field;
    bool harmless;
    char *text = NULL;
    enum sp_status st;

    if ((st = sp_json_print(&text, m->value, err))) return st;
    harmless = f->harmless != NULL && strcmp(text, f->harmless) == 0;
    free(text);
    return harmless ? SP_OK : sp_fail(err, SP_E_UNSUPPORTED, "%s: %s", f->key, f->why);
}

/* Reads the members of a value. Errors and faults begin with its key. */
static enum sp_status read_members(const struct sp_serve_member *m, struct sp_err *err)
{
    struct sp_serve_fault *fault = &m->request->fault;
    const char *key = m->field->key;
    char param[sizeof fault->param];
    enum sp_status st =
        sp_serve_read_fields(m->request, key ? m->value : m->object, m->field->members, err);

    if (st == SP_OK || key == NULL) return st;
    sp_context(err, "%s", key);
    memcpy(param, fault->param, sizeof param);
    if (*param) sp_serve_fault_set(fault, fault->code, "%s.%s", key, param);
    return st;
}

static enum sp_status read_field(const struct sp_serve_member *m, struct sp_err *err)
{
    const struct sp_serve_field *f = m->field;
    enum sp_status st;

    if (f->names) sp_serve_read_hints(m->object, f->names);
    if (m->value && f->kind && (st = read_value(m, err))) return st;
    if (f->members && (st = read_members(m, err))) return st;
    if (f->read) return m->value || !f->key || f->always ? f->read(m, err) : SP_OK;
    return m->value && f->why ? refuse(m, err) : SP_OK;
}

enum sp_status sp_serve_read_fields(struct sp_serve_request *request, const struct sp_json *object,
                                    const struct sp_serve_field *f, struct sp_err *err)
{
    enum sp_status st;

    for (; !sp_serve_field_ends(f); f++) {
        struct sp_serve_member m = {request, object, f->key ? sp_json_get(object, f->key) : NULL,
                                    f};
        if ((st = read_field(&m, err))) return st;
    }
    return SP_OK;
}

/* ---- settings ---- */

/* Sets the Modelfile's parameter from the member `key`, if there is one. */
static enum sp_status read_parameter(const struct sp_serve_member *m, const char *key,
                                     const char *parameter, struct sp_err *err)
{
    const struct sp_json *value = sp_json_get(m->object, key);
    const enum sp_json_kind kind = sp_json_kind(value);
    const bool is_number = kind == SP_JSON_INT || kind == SP_JSON_DOUBLE;
    char *text = NULL;
    enum sp_status st;

    if (value == NULL) return SP_OK;
    st = is_number ? sp_parameter_of_json(&text, sp_parameter_find(parameter), value, err)
                   : sp_serve_wrong(key, value, "a number", err);
    if (!st) st = sp_settings_set(&m->request->settings, parameter, text, err);
    free(text);
    if (st == SP_OK) return SP_OK;
    if (sp_begins_with(err->text, parameter)) {
        const struct sp_err own = *err;
        *err = (struct sp_err){0};
        (void)!sp_fail(err, st, "%s%s", key, own.text + strlen(parameter));
    }
    sp_serve_fault_set(&m->request->fault, is_number ? "invalid_value" : "invalid_type", "%s", key);
    return st;
}

enum sp_status sp_serve_read_setting(const struct sp_serve_member *m, struct sp_err *err)
{
    return read_parameter(m, m->field->key, m->field->parameter, err);
}

static enum sp_status read_named(const struct sp_serve_member *m, enum sp_setting_kind kind,
                                 struct sp_err *err)
{
    const char *name;
    enum sp_status st;

    for (size_t i = 0; (name = sp_settings_name(i)); i++)
        if (sp_settings_kind(name) == kind && (st = read_parameter(m, name, name, err))) return st;
    return SP_OK;
}

/* Adds a text to the stop texts or to the sequence breakers. */
static enum sp_status read_text(struct sp_settings *settings, const char *key,
                                const struct sp_json *value, const char *expected,
                                struct sp_err *err)
{
    size_t len;
    const char *text = sp_json_to_string(value, &len);

    if (text == NULL) {
        return sp_fail(err, SP_E_INPUT, "%s is %s, expected %s", key,
                       sp_json_kind_name(sp_json_kind(value)), expected);
    }
    if (len == 0 && strcmp(key, "stop") == 0) return sp_fail(err, SP_E_INPUT, "stop is empty");
    if (strlen(text) != len) return sp_fail(err, SP_E_INPUT, "%s contains a NUL", key);
    return sp_settings_set(settings, key, text, err);
}

/* Reads an array of texts in the place of the sequence breakers of DRY. */
static enum sp_status read_breakers(const struct sp_serve_member *m, struct sp_err *err)
{
    static const char key[] = "dry_sequence_breakers", expected[] = "an array of strings";
    const struct sp_json *texts = sp_json_get(m->object, key);
    struct sp_settings *settings = &m->request->settings;
    enum sp_status st = SP_OK;

    if (texts == NULL) return SP_OK;
    if (sp_json_kind(texts) != SP_JSON_ARRAY) return sp_serve_wrong(key, texts, expected, err);
    if (sp_json_len(texts) == 0) return sp_settings_set(settings, key, "none", err);
    for (size_t i = 0; i < sp_json_len(texts) && !st; i++)
        st = read_text(settings, key, sp_json_at(texts, i), expected, err);
    return st;
}

enum sp_status sp_serve_read_sampling(const struct sp_serve_member *m, struct sp_err *err)
{
    enum sp_status st = read_named(m, SP_SETTING_SAMPLING, err);

    return st ? st : read_breakers(m, err);
}

enum sp_status sp_serve_read_lengths(const struct sp_serve_member *m, struct sp_err *err)
{
    return read_named(m, SP_SETTING_LENGTH, err);
}

enum sp_status sp_serve_read_stops(const struct sp_serve_member *m, struct sp_err *err)
{
    static const char expected[] = "a string or an array of strings";
    struct sp_settings *settings = &m->request->settings;
    enum sp_status st = SP_OK;

    if (sp_json_kind(m->value) != SP_JSON_ARRAY)
        return read_text(settings, "stop", m->value, expected, err);
    for (size_t i = 0; i < sp_json_len(m->value) && !st; i++)
        st = read_text(settings, "stop", sp_json_at(m->value, i), expected, err);
    return st;
}

enum sp_status sp_serve_check_top(const struct sp_serve_member *m, struct sp_err *err)
{
    if (m->request->n_top == 0 || m->request->logprobs) return SP_OK;
    m->request->n_top = 0;
    if (m->field->why == NULL) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s requires %s", m->field->key, m->field->why);
}

enum sp_status sp_serve_read_reasoning_budget(const struct sp_serve_member *m, struct sp_err *err)
{
    const char *key = m->field->key;
    struct sp_serve_request *request = m->request;
    enum sp_status st;

    st = read_parameter(m, key, "reasoning_budget", err);
    if (st || request->settings.reasoning_budget < 0 || request->template ||
        request->conversation->chat_info.can_limit_reasoning)
        return st;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s: the reasoning of this model cannot be limited", key);
}

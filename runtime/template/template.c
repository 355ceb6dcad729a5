/* The common interface of both template languages. */
#include "runtime/template/template.h"
#include "format/base/affix.h"
#include "format/base/mem.h"
#include "format/base/strbuf.h"
#include "runtime/template/go/gotemplate.h"
#include "runtime/template/jinja/jinja.h"

#include <stdio.h>

struct sp_template {
    struct sp_heap heap; /* of the compiled template, and of the tokens */
    const struct sp_jinja_node *jinja;
    const struct sp_gotemplate *go; /* NULL: the template is Jinja */
    char *text;                     /* source of the template */
    size_t size;
    struct sp_template *with_tools; /* for conversations with tools; NULL: this one */
    struct sp_value tokens; /* a dictionary of variables such as bos_token; ABSENT: none read */
};

/* The language of an action by the text after `{{`. In Go that is a field, a variable, a keyword,
 * a comment, or a function and its operand; any other name is Jinja. */
static enum sp_template_language action_language(const char *text, size_t size)
{
    size_t at = 0, len = 0;

    if (at < size && text[at] == '-') at++;
    while (at < size && strchr(" \t\r\n", text[at]) != NULL && text[at])
        at++;
    if (at >= size) return SP_TEMPLATE_UNKNOWN;
    if (text[at] == '.' || text[at] == '$') return SP_TEMPLATE_GO;
    if (size - at > 2 && text[at] == '/' && text[at + 1] == '*') return SP_TEMPLATE_GO;
    while (at + len < size &&
           ((text[at + len] >= 'a' && text[at + len] <= 'z') ||
            (text[at + len] >= 'A' && text[at + len] <= 'Z') ||
            (text[at + len] >= '0' && text[at + len] <= '9' && len > 0) || text[at + len] == '_'))
        len++;
    if (len == 0) return SP_TEMPLATE_UNKNOWN;
    if (at + len < size && strchr(" }-(\t\r\n", text[at + len]) == NULL) return SP_TEMPLATE_JINJA;
    return sp_gotemplate_has_word(text + at, len) ? SP_TEMPLATE_GO : SP_TEMPLATE_JINJA;
}

enum sp_template_language sp_template_recognize(const char *text, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++) {
        enum sp_template_language language = SP_TEMPLATE_UNKNOWN;
        if (text[i] != '{') continue;
        if (text[i + 1] == '{') {
            language = action_language(text + i + 2, size - i - 2);
            i++;
        } else if (text[i + 1] == '%' || text[i + 1] == '#') {
            language = SP_TEMPLATE_JINJA;
        }
        if (language != SP_TEMPLATE_UNKNOWN) return language;
    }
    return SP_TEMPLATE_UNKNOWN;
}

enum sp_status sp_template_compile(struct sp_template **out, const char *text, size_t size,
                                   enum sp_template_language language, struct sp_err *err)
{
    enum sp_status st;
    struct sp_template *t;

    if (language == SP_TEMPLATE_UNKNOWN) language = sp_template_recognize(text, size);
    if (size > SP_TEMPLATE_MAX_TEXT) {
        return sp_fail(err, SP_E_INPUT, "template of %zu bytes, at most %zu are possible", size,
                       SP_TEMPLATE_MAX_TEXT);
    }
    if ((st = sp_new(&t, 1, sizeof *t, err))) return st;
    t->size = size;
    sp_heap_init(&t->heap, SP_TEMPLATE_MAX_TREE, SP_TEMPLATE_MAX_WORK, err);
    if ((st = sp_copy_text(&t->text, text, size, err))) goto done;
    if (language == SP_TEMPLATE_JINJA)
        t->jinja = sp_jinja_compile(&t->heap, t->text, size);
    else
        t->go = sp_gotemplate_compile(&t->heap, t->text, size);
    if ((st = t->heap.status)) goto done;
    t->heap.err = NULL;
    *out = t;
    t = NULL;
done:
    sp_template_close(t);
    return st;
}

void sp_template_close(struct sp_template *t)
{
    if (t == NULL) return;
    sp_template_close(t->with_tools);
    sp_heap_release(&t->heap);
    free(t->text);
    free(t);
}

enum sp_template_language sp_template_language(const struct sp_template *t)
{
    return t->go != NULL ? SP_TEMPLATE_GO : SP_TEMPLATE_JINJA;
}

const char *sp_template_text(const struct sp_template *t, size_t *size)
{
    *size = t->size;
    return t->text;
}

/* A token is a text, or an object with its text as "content"; anything else is none. */
static void read_token(struct sp_template *t, const struct sp_json_iter *token)
{
    const struct sp_json *value = token->value;
    struct sp_value name = sp_value_copy_text(&t->heap, token->key, strlen(token->key));
    const char *text;
    size_t len;

    if (sp_json_kind(value) == SP_JSON_OBJECT) value = sp_json_get(value, "content");
    if ((text = sp_json_to_string(value, &len)) != NULL)
        sp_dict_set(&t->heap, t->tokens.dict, name, sp_value_copy_text(&t->heap, text, len));
}

/* The tokens are those that transformers knows by name: all members such as bos_token, and the
 * names of extra_special_tokens. */
enum sp_status sp_template_read_tokens(struct sp_template *t, const struct sp_text *config,
                                       struct sp_err *err)
{
    struct sp_json *json = NULL;
    const struct sp_json *extra;
    enum sp_status st;

    if ((st = sp_json_parse_settings(&json, config, err))) return st;
    extra = sp_json_get(json, "extra_special_tokens");
    t->heap.err = err;
    if (t->tokens.kind == SP_V_ABSENT) t->tokens = sp_value_dict(&t->heap);
    for (struct sp_json_iter it = {0}; sp_json_next(json, &it);)
        if (sp_ends_with(it.key, "_token")) read_token(t, &it);
    for (struct sp_json_iter it = {0};
         sp_json_kind(extra) == SP_JSON_OBJECT && sp_json_next(extra, &it);)
        read_token(t, &it);
    t->heap.err = NULL;
    sp_json_free(json);
    return t->heap.status;
}

/* Finds the template with a name in a list of {"name", "template"}, or NULL. */
static const struct sp_json *named(const struct sp_json *list, const char *name)
{
    for (size_t i = 0; i < sp_json_len(list); i++) {
        const struct sp_json *entry = sp_json_at(list, i);
        const char *is = sp_json_to_string(sp_json_get(entry, "name"), &(size_t){0});
        if (is != NULL && strcmp(is, name) == 0) return sp_json_get(entry, "template");
    }
    return NULL;
}

/* transformers asks for the name of a template then. */
static enum sp_status fail_without_default(const struct sp_json *list, struct sp_err *err)
{
    char names[256] = "";
    size_t len = 0;

    for (size_t i = 0; i < sp_json_len(list) && len < sizeof names; i++) {
        const char *name = sp_json_get_text(sp_json_at(list, i), "name");
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%.40s", i ? ", " : "",
                                name ? name : "one without a name");
    }
    return sp_fail(err, SP_E_INPUT,
                   "chat_template is a list without a template named default (it has %s); a "
                   "TEMPLATE of the Modelfile can be one of them",
                   names);
}

/* `name` and `expected` are for messages. */
static enum sp_status compile_json(struct sp_template **out, const struct sp_json *json,
                                   const char *name, const char *expected, struct sp_err *err)
{
    size_t len;
    const char *text = sp_json_to_string(json, &len);

    if (text) return sp_template_compile(out, text, len, SP_TEMPLATE_JINJA, err);
    return sp_fail(err, SP_E_INPUT, "%s is %s, expected %s", name,
                   sp_json_kind_name(sp_json_kind(json)), expected);
}

/* Compiles the member "chat_template" of a JSON file: a text, or a list of named ones. *out stays
 * NULL if it is absent. */
static enum sp_status compile_member(struct sp_template **out, const struct sp_json *json,
                                     struct sp_err *err)
{
    enum sp_status st;
    const struct sp_json *member = sp_json_get(json, "chat_template"), *tools = NULL;
    const char *name = "chat_template";
    const char *expected = "a string or a list with a template named default";

    if (member == NULL) return SP_OK;
    if (sp_json_kind(member) == SP_JSON_ARRAY) {
        tools = named(member, "tool_use");
        if (named(member, "default") == NULL) return fail_without_default(member, err);
        member = named(member, "default");
        name = "the template default of chat_template";
        expected = "a string";
    }
    if ((st = compile_json(out, member, name, expected, err)) || tools == NULL) return st;
    return compile_json(&(*out)->with_tools, tools, "the template tool_use of chat_template",
                        "a string", err);
}

static enum sp_status open_member(struct sp_template **out, const struct sp_text *text,
                                  const char *name, struct sp_err *err)
{
    enum sp_status st;
    struct sp_json *json = NULL;

    st = sp_json_parse_settings(&json, text, err);
    if (!st) st = compile_member(out, json, err);
    if (st) sp_context(err, "%s", name);
    sp_json_free(json);
    return st;
}

enum sp_status sp_template_open(struct sp_template **out, const struct sp_template_texts *texts,
                                struct sp_err *err)
{
    const struct sp_text *modelfile = &texts->modelfile, *jinja = &texts->jinja;
    enum sp_status st = SP_OK;
    struct sp_template *t = NULL;

    if (modelfile->at != NULL) {
        st = sp_template_compile(&t, modelfile->at, modelfile->size, SP_TEMPLATE_UNKNOWN, err);
        if (st) sp_context(err, "TEMPLATE");
    } else if (jinja->at != NULL) {
        st = sp_template_compile(&t, jinja->at, jinja->size, SP_TEMPLATE_JINJA, err);
        if (st) sp_context(err, "chat_template.jinja");
    } else {
        st = open_member(&t, &texts->json, "chat_template.json", err);
        if (!st && t == NULL) st = open_member(&t, &texts->config, "tokenizer_config.json", err);
    }
    if (!st && t != NULL) st = sp_template_read_tokens(t, &texts->config, err);
    if (st) {
        sp_template_close(t);
        return st;
    }
    *out = t;
    return SP_OK;
}

static void set_json(struct sp_heap *heap, struct sp_dict *vars, const char *name,
                     const struct sp_json *json)
{
    sp_dict_set_name(heap, vars, name, sp_value_from_json(heap, json));
}

/* Sets the variables that transformers passes: messages, tools, documents, the tokenizer's tokens,
 * and then the caller's own variables, which take precedence. */
static struct sp_value jinja_vars(struct sp_heap *heap, const struct sp_template *t,
                                  const struct sp_template_input *in)
{
    struct sp_json_iter it = {0};
    struct sp_value out = sp_value_dict(heap);
    struct sp_dict *vars = out.dict;

    set_json(heap, vars, "messages", in->messages);
    set_json(heap, vars, "tools", in->tools);
    set_json(heap, vars, "documents", NULL);
    for (size_t i = 0; t->tokens.kind == SP_V_DICT && i < t->tokens.dict->n; i++)
        sp_dict_set(heap, vars, t->tokens.dict->at[i].key, t->tokens.dict->at[i].value);
    if (in->generation_prompt)
        sp_dict_set_name(heap, vars, "add_generation_prompt", sp_value_bool(true));
    if (in->is_think_set) {
        sp_dict_set_name(heap, vars, "enable_thinking", sp_value_bool(in->think));
        sp_dict_set_name(heap, vars, "thinking", sp_value_bool(in->think));
    }
    if (in->think_level != NULL)
        sp_dict_set_name(heap, vars, "reasoning_effort", sp_value_name(in->think_level));
    while (sp_json_next(in->kwargs, &it))
        set_json(heap, vars, it.key, it.value);
    return out;
}

static enum sp_status render_jinja(struct sp_builder *out, const struct sp_template *t,
                                   const struct sp_template_input *in)
{
    struct sp_value vars =
        in->vars ? sp_value_from_json(out->heap, in->vars) : jinja_vars(out->heap, t, in);

    if (out->heap->status) return out->heap->status;
    if (t->with_tools != NULL && sp_json_len(in->tools) > 0) t = t->with_tools;
    return sp_jinja_render(out, t->jinja, vars, in->now);
}

static struct sp_value text_value(const struct sp_json *json)
{
    size_t len = 0;
    const char *text = sp_json_to_string(json, &len);

    return text ? sp_value_text(text, len) : sp_value_name("");
}

static enum sp_status render_go(struct sp_builder *out, const struct sp_template *t,
                                const struct sp_template_input *in)
{
    struct sp_go_chat chat = {.messages = in->messages,
                              .tools = in->tools,
                              .prompt = text_value(in->prompt),
                              .suffix = text_value(in->suffix),
                              .think = in->think,
                              .is_think_set = in->is_think_set,
                              .think_level = in->think_level,
                              .now = in->now};

    if (in->vars == NULL) return sp_go_chat(out, t->go, &chat);
    return sp_gotemplate_render(out, t->go, sp_go_value(out->heap, in->vars), SP_GOTEMPLATE_ALL,
                                in->now);
}

static enum sp_status check_kind(const struct sp_json *json, enum sp_json_kind kind,
                                 const char *name, struct sp_err *err)
{
    if (json == NULL || sp_json_kind(json) == kind) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s is %s, expected %s", name,
                   sp_json_kind_name(sp_json_kind(json)), sp_json_kind_name(kind));
}

enum sp_status sp_template_render(char **text, size_t *len, const struct sp_template *t,
                                  const struct sp_template_input *in, struct sp_err *err)
{
    enum sp_status st;
    struct sp_heap heap;
    struct sp_builder out = {.heap = &heap};

    if ((st = check_kind(in->messages, SP_JSON_ARRAY, "messages", err))) return st;
    if ((st = check_kind(in->tools, SP_JSON_ARRAY, "tools", err))) return st;
    if ((st = check_kind(in->kwargs, SP_JSON_OBJECT, "kwargs", err))) return st;
    if ((st = check_kind(in->vars, SP_JSON_OBJECT, "vars", err))) return st;
    if ((st = check_kind(in->prompt, SP_JSON_STRING, "prompt", err))) return st;
    if ((st = check_kind(in->suffix, SP_JSON_STRING, "suffix", err))) return st;
    sp_heap_init(&heap, in->exhausted ? SP_TEMPLATE_PROBE_MEMORY : SP_TEMPLATE_MAX_MEMORY,
                 in->exhausted ? SP_TEMPLATE_PROBE_WORK : SP_TEMPLATE_MAX_WORK, err);
    st = t->go ? render_go(&out, t, in) : render_jinja(&out, t, in);
    if (!st && !sp_heap_count(&heap, out.len + 1)) st = heap.status;
    if (!st) st = sp_copy_text(text, out.at ? out.at : "", out.len, err);
    if (!st) *len = out.len;
    if (heap.exhausted && in->exhausted) *in->exhausted = true;
    sp_heap_release(&heap);
    return st;
}

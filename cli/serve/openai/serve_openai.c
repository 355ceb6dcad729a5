#include "cli/serve/openai/serve_openai.h"
#include "cli/serve/request/serve_request.h"
#include "cli/serve/jobs/serve_model.h"

#include <stdlib.h>

enum sp_status sp_serve_openai_read_limit(const struct sp_serve_member *m, struct sp_err *err)
{
    const char *key = m->field->key;
    enum sp_status st = sp_serve_read_setting(m, err);
    int64_t n;

    if (st || m->request->prompt_only || !sp_json_to_i64(m->value, &n) || n != 0) return st;
    sp_serve_fault_set(&m->request->fault, "invalid_value", "%s", key);
    return sp_fail(err, SP_E_INPUT, "%s is 0, expected 1 or more", key);
}

/* Checks the number of answers; must be called after the prompts are read. */
static enum sp_status check_n(const struct sp_serve_member *m, struct sp_err *err)
{
    const struct sp_serve_request *request = m->request;

    if (sp_serve_request_n_answers(request) <= SP_SERVE_MAX_ANSWERS) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "n is %d for %zu prompts, expected at most %d answers in total",
                   (int)request->n_each, request->n_prompts, SP_SERVE_MAX_ANSWERS);
}

/* Reads {"ID": bias, ...}. */
static enum sp_status read_biases(const struct sp_serve_member *m, struct sp_err *err)
{
    enum sp_status st;
    struct sp_json_iter it = {0};

    if (sp_json_kind(m->value) != SP_JSON_OBJECT) {
        return sp_serve_wrong("logit_bias", m->value,
                              "an object with token IDs as keys and numbers as values", err);
    }
    while (sp_json_next(m->value, &it)) {
        char *end;
        unsigned long long id = strtoull(it.key, &end, 10);
        double bias;
        if (*it.key < '0' || *it.key > '9' || *end || id > UINT32_MAX ||
            !sp_json_to_double(it.value, &bias) || !(bias >= -100 && bias <= 100)) {
            return sp_fail(err, SP_E_INPUT,
                           "logit_bias: \"%s\": expected a token ID and a number -100..100",
                           it.key);
        }
        if ((st = sp_settings_add_bias(&m->request->settings, (uint32_t)id, (float)bias, err)))
            return st;
    }
    return SP_OK;
}

/* ---- what both APIs have ---- */

static void write_drafted(struct sp_serve_response *r, const struct sp_serve_field *field,
                          const struct sp_json *value)
{
    bool wanted = false;

    (void)field;
    if (sp_json_to_bool(value, &wanted) && wanted)
        sp_json_out_bool(&r->out, "drafted", r->is_drafted);
}

static const struct sp_serve_field stream_options[] = {
    {"include_usage", SP_JSON_BOOL, SP_SERVE_AT(include_usage)},
    {"include_drafted", SP_JSON_BOOL, .in_choice = true, .write = write_drafted},
    {.key = NULL},
};

static const struct sp_serve_field common[] = {
    {.read = sp_serve_read_sampling},
    {"max_tokens", .read = sp_serve_openai_read_limit, .parameter = "num_predict"},
    {"max_completion_tokens", .read = sp_serve_openai_read_limit, .parameter = "num_predict"},
    {"ignore_eos", SP_JSON_BOOL, SP_SERVE_AT(ignore_eos)},
    {"min_tokens", SP_JSON_INT, SP_SERVE_AT(min_tokens), .max = INT32_MAX},
    {"stop", .read = sp_serve_read_stops},
    {"logit_bias", .read = read_biases},
    {"response_format", .read = sp_serve_openai_read_response_format},
    {"grammar", .read = sp_serve_openai_read_grammar},
    {"json_schema", .read = sp_serve_openai_read_json_schema},
    {"lora", SP_JSON_ARRAY, .read = sp_serve_openai_read_lora},
    {"return_progress", SP_JSON_BOOL, SP_SERVE_AT(return_progress)},
    {"stream_options", SP_JSON_OBJECT, .members = stream_options},
    {.key = NULL},
};

/* ---- chats ---- */

enum sp_status sp_serve_openai_read_effort(const struct sp_serve_member *m, struct sp_err *err)
{
    struct sp_serve_request *request = m->request;
    const char *key = m->field->key, *level = sp_json_to_string(m->value, NULL);
    int64_t n = 0;
    enum sp_status st;

    if (level != NULL) {
        st = sp_serve_set_think_level(request, key, level, err);
        if (!st) (void)sp_serve_leave_out_reasoning(request, key);
        return st;
    }
    if (!sp_json_to_i64(m->value, &n) || n < 0) {
        return sp_fail(err, SP_E_INPUT, "%s is %s, expected a level or a number of tokens", key,
                       n < 0 ? "negative" : sp_json_kind_name(sp_json_kind(m->value)));
    }
    request->is_think_set = true;
    request->think = n > 0;
    if (sp_serve_leave_out_reasoning(request, key)) return SP_OK;
    return sp_serve_read_reasoning_budget(m, err);
}

static enum sp_status read_messages(const struct sp_serve_member *m, struct sp_err *err)
{
    return sp_serve_read_messages(m->request, m->value, err);
}

static const char text_only[] = "only text is supported";

const struct sp_serve_field sp_serve_openai_chat_fields[] = {
    {.read = sp_serve_check_template},
    {.names = "cache_prompt metadata prediction prompt_cache_key prompt_cache_retention "
              "safety_identifier service_tier store user"},
    {"functions", .why = "deprecated, use tools"},
    {"function_call", .harmless = "\"none\"", .why = "deprecated, use tool_choice"},
    {"modalities", .harmless = "[\"text\"]", .why = text_only},
    {"audio", .why = text_only},
    {"web_search_options", .why = "web search is not supported"},
    {.members = common},
    {"tools", .read = sp_serve_read_functions},
    {"tool_choice", .read = sp_serve_openai_read_tool_choice, .always = true},
    {"chat_template_kwargs", SP_JSON_OBJECT, SP_SERVE_AT(kwargs)},
    {"reasoning_effort", .read = sp_serve_openai_read_effort},
    /* the names that llama-server and vLLM have for it */
    {"thinking_budget_tokens", .read = sp_serve_read_reasoning_budget},
    {"thinking_token_budget", .read = sp_serve_read_reasoning_budget},
    {"logprobs", SP_JSON_BOOL, SP_SERVE_AT(logprobs)},
    {"top_logprobs", SP_JSON_INT, SP_SERVE_AT(n_top), .max = SP_SERVE_MAX_TOP,
     .read = sp_serve_check_top, .why = "\"logprobs\": true"},
    {"n", SP_JSON_INT, SP_SERVE_AT(n_each), .min = 1, .max = SP_SERVE_MAX_ANSWERS, .read = check_n},
    {"messages", .read = read_messages, .always = true},
    {.key = NULL},
};

/* ---- texts ---- */

/* Reads a prompt: a string or an array of token ids. */
static enum sp_status read_prompt(struct sp_serve_raw_prompt *to, const struct sp_json *prompt,
                                  struct sp_err *err)
{
    if (sp_json_kind(prompt) == SP_JSON_ARRAY) {
        enum sp_status st;
        if (sp_json_len(prompt) == 0) {
            return sp_fail(err, SP_E_INPUT,
                           "prompt is an empty array, expected a string or token IDs");
        }
        st = sp_ids_of_json(&to->ids, prompt, err);
        if (st) sp_context(err, "prompt");
        return st;
    }
    to->text = sp_json_to_string(prompt, &to->size);
    if (to->text) return SP_OK;
    return sp_serve_wrong("prompt", prompt, "a string or token IDs", err);
}

/* Reads one prompt or an array of prompts. */
static enum sp_status read_prompts(const struct sp_serve_member *m, struct sp_err *err)
{
    struct sp_serve_request *request = m->request;
    enum sp_json_kind kind = sp_json_kind(sp_json_at(m->value, 0));
    bool several = kind == SP_JSON_STRING || kind == SP_JSON_ARRAY;
    size_t n = several ? sp_json_len(m->value) : 1;
    enum sp_status st;

    if (n > SP_SERVE_MAX_ANSWERS) {
        return sp_fail(err, SP_E_INPUT, "prompt has %zu elements, expected at most %d", n,
                       SP_SERVE_MAX_ANSWERS);
    }
    if (m->value == NULL)
        sp_serve_fault_set(&request->fault, "missing_required_parameter", "prompt");
    if ((st = sp_serve_request_take_prompts(request, n, err))) return st;
    if (!several) return read_prompt(&request->prompts[0], m->value, err);
    for (size_t i = 0; i < n && !st; i++)
        st = read_prompt(&request->prompts[i], sp_json_at(m->value, i), err);
    return st;
}

/* Reads the text after the gap that the answer fills; must be called after the prompts are read. */
static enum sp_status read_suffix(const struct sp_serve_member *m, struct sp_err *err)
{
    struct sp_serve_request *request = m->request;
    size_t len = 0;
    enum sp_status st;

    (void)sp_json_to_string(m->value, &len);
    if (len == 0) return SP_OK;
    if (request->echo) return sp_fail(err, SP_E_INPUT, "echo and suffix cannot be combined");
    if ((st = sp_serve_model_check_infill(request->model, "suffix", err))) return st;
    for (size_t i = 0; i < request->n_prompts; i++) {
        if (request->prompts[i].text) continue;
        return sp_fail(err, SP_E_INPUT, "suffix requires a prompt of text, not of token IDs");
    }
    request->suffix = m->value;
    return SP_OK;
}

/* Finds out whether the prompt alone is wanted. */
static enum sp_status read_prompt_only(const struct sp_serve_member *m, struct sp_err *err)
{
    int64_t n = -1;

    (void)err;
    (void)sp_json_to_i64(sp_json_get(m->object, "max_tokens"), &n);
    m->request->prompt_only = m->request->echo && n == 0;
    return SP_OK;
}

static enum sp_status want_logprobs(const struct sp_serve_member *m, struct sp_err *err)
{
    (void)err;
    m->request->logprobs = true;
    return SP_OK;
}

const struct sp_serve_field sp_serve_openai_text_fields[] = {
    {"echo", SP_JSON_BOOL, SP_SERVE_AT(echo)},
    {.read = read_prompt_only},
    {.names = "cache_prompt user"},
    {"best_of", .harmless = "1", .why = "not supported, all n answers are returned"},
    {.members = common},
    {"logprobs", SP_JSON_INT, SP_SERVE_AT(n_top), .max = SP_SERVE_MAX_TOP, .read = want_logprobs},
    {"prompt", .read = read_prompts, .always = true},
    {"suffix", SP_JSON_STRING, .read = read_suffix},
    {"n", SP_JSON_INT, SP_SERVE_AT(n_each), .min = 1, .max = SP_SERVE_MAX_ANSWERS, .read = check_n},
    {.key = NULL},
};

/* ---- LoRA adapters ---- */

enum { MOST_SCALE = 100 };

static enum sp_status read_entry(struct sp_serve_request *request, const struct sp_json *entry,
                                 struct sp_err *err)
{
    const struct sp_serve_model *model = request->model;
    double scale = 0;
    int64_t id = 0;
    enum sp_status st;

    if (sp_json_kind(entry) != SP_JSON_OBJECT || sp_json_get(entry, "id") == NULL ||
        sp_json_get(entry, "scale") == NULL)
        return sp_fail(err, SP_E_INPUT, "expected an object with id and scale");
    if (model->n_adapters == 0) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%s",
                       model->loaded->lora ? "all requests use the adapter of --adapter"
                                           : "the server has no adapters (--adapter)");
    }
    if ((st = sp_json_get_i64(entry, "id", 0, (int64_t)model->n_adapters - 1, &id, err))) return st;
    if ((st = sp_json_get_double(entry, "scale", -MOST_SCALE, MOST_SCALE, &scale, err))) return st;
    if ((float)scale == 0) return SP_OK;
    if (request->lora) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "adapters are not added to each other, expected one scale other than 0");
    }
    request->lora = model->loaded->loras[id];
    request->lora_scale = (float)scale;
    return SP_OK;
}

enum sp_status sp_serve_openai_read_lora(const struct sp_serve_member *m, struct sp_err *err)
{
    const char *name = sp_json_get_text(m->object, "model");
    enum sp_status st;

    for (size_t i = 0; i < sp_json_len(m->value); i++) {
        if ((st = read_entry(m->request, sp_json_at(m->value, i), err))) {
            sp_context(err, "lora[%zu]", i);
            return st;
        }
    }
    if (sp_json_len(m->value) > 0 && sp_serve_model_lora(m->request->model, name))
        return sp_fail(err, SP_E_INPUT, "lora: the model %s is an adapter already", name);
    return SP_OK;
}

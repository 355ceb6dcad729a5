#include "cli/serve/openai/serve_openai.h"
#include "cli/serve/request/serve_request.h"
#include "cli/serve/jobs/serve_model.h"

static const struct sp_request_setting limits[] = {
    {"max_tokens", "num_predict"},
    {"max_completion_tokens", "num_predict"},
    {NULL, NULL},
};

static const char text_only[] = "only text is supported";

static const struct sp_serve_refusal chat_refusals[] = {
    {"functions", NULL, "deprecated, use tools"},
    {"function_call", "\"none\"", "deprecated, use tool_choice"},
    {"modalities", "[\"text\"]", text_only},
    {"audio", NULL, text_only},
    {"web_search_options", NULL, "web search is not supported"},
    {NULL, NULL, NULL},
};

static const struct sp_serve_refusal text_refusals[] = {
    {"best_of", "1", "not supported, all n answers are returned"},
    {NULL, NULL, NULL},
};

static enum sp_status read_stream(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *options = NULL;
    enum sp_status st;

    if ((st = sp_json_get_bool(request->body, "stream", &request->stream, err))) return st;
    st = sp_json_get_bool(request->body, "return_progress", &request->return_progress, err);
    if (st) return st;
    if ((st = sp_serve_read_kind(&options, request->body, "stream_options", SP_JSON_OBJECT, err)))
        return st;
    if ((st = sp_json_get_bool(options, "include_usage", &request->include_usage, err))) return st;
    return sp_json_get_bool(options, "include_drafted", &request->include_drafted, err);
}

/* Reports the member `key` as wrong. */
static enum sp_status wrong_number(struct sp_serve_request *request, const char *key,
                                   enum sp_status st)
{
    enum sp_json_kind kind = sp_json_kind(sp_json_get(request->body, key));
    bool is_number = kind == SP_JSON_INT || kind == SP_JSON_DOUBLE;

    sp_serve_fault_set(&request->fault, is_number ? "invalid_value" : "invalid_type", "%s", key);
    return st;
}

enum sp_status sp_serve_openai_read_settings(struct sp_serve_request *request,
                                             const struct sp_request_setting *limit,
                                             struct sp_err *err)
{
    const char *key;
    enum sp_status st;
    int64_t n;

    st = sp_request_settings_read_named(&request->settings, request->body, SP_SETTING_SAMPLING,
                                        &key, err);
    if (st) return wrong_number(request, key, st);
    if ((st = sp_request_settings_read_breakers(&request->settings, request->body, err))) return st;
    for (const struct sp_request_setting *row = limit; row->key != NULL; row++) {
        const struct sp_request_setting one[] = {*row, {NULL, NULL}};
        st = sp_request_settings_read(&request->settings, request->body, one, err);
        if (st) return wrong_number(request, row->key, st);
    }
    for (; limit->key != NULL && !request->prompt_only; limit++) {
        if (sp_json_to_i64(sp_json_get(request->body, limit->key), &n) && n == 0) {
            sp_serve_fault_set(&request->fault, "invalid_value", "%s", limit->key);
            return sp_fail(err, SP_E_INPUT, "%s is 0, expected 1 or more", limit->key);
        }
    }
    return SP_OK;
}

/* Reads the number of answers; must be called after the prompts are read. */
static enum sp_status read_n(struct sp_serve_request *request, struct sp_err *err)
{
    int64_t n = 1;
    enum sp_status st = sp_json_get_i64(request->body, "n", 1, SP_SERVE_MAX_ANSWERS, &n, err);

    if (st) return st;
    request->n_each = (size_t)n;
    if (sp_serve_request_n_answers(request) <= SP_SERVE_MAX_ANSWERS) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "n is %d for %zu prompts, expected at most %d answers in total",
                   (int)n, request->n_prompts, SP_SERVE_MAX_ANSWERS);
}

static const char chat_hints[] =
    "cache_prompt metadata prediction prompt_cache_key prompt_cache_retention safety_identifier "
    "service_tier store user";

static enum sp_status read_common(struct sp_serve_request *request,
                                  const struct sp_serve_refusal *refusals, const char *hints,
                                  struct sp_err *err)
{
    enum sp_status st;

    sp_serve_read_hints(request->body, hints);
    if ((st = sp_serve_refuse(request->body, refusals, err)) ||
        (st = sp_serve_openai_read_settings(request, limits, err)) ||
        (st = sp_json_get_bool(request->body, "ignore_eos", &request->ignore_eos, err)) ||
        (st = sp_json_get_i64(request->body, "min_tokens", 0, INT32_MAX, &request->min_tokens,
                              err)) ||
        (st = sp_request_settings_read_stops(&request->settings, sp_json_get(request->body, "stop"),
                                             err)) ||
        (st = sp_request_settings_read_biases(&request->settings,
                                              sp_json_get(request->body, "logit_bias"), err)) ||
        (st = sp_serve_openai_read_response_format(request, err)) ||
        (st = sp_serve_openai_read_lora(request, err)))
        return st;
    return read_stream(request, err);
}

enum sp_status sp_serve_openai_read_kwargs(struct sp_serve_request *request, struct sp_err *err)
{
    return sp_serve_read_kind(&request->kwargs, request->body, "chat_template_kwargs",
                              SP_JSON_OBJECT, err);
}

enum sp_status sp_serve_openai_read_effort(struct sp_serve_request *request,
                                           const struct sp_json *object, const char *key,
                                           struct sp_err *err)
{
    const struct sp_json *effort = sp_json_get(object, key);
    const char *level = sp_json_to_string(effort, NULL);
    int64_t n = 0;
    enum sp_status st;

    if (effort == NULL) return SP_OK;
    if (level != NULL) {
        st = sp_serve_set_think_level(request, key, level, err);
        if (!st) (void)sp_serve_leave_out_reasoning(request, key);
        return st;
    }
    if (!sp_json_to_i64(effort, &n) || n < 0) {
        return sp_fail(err, SP_E_INPUT, "%s is %s, expected a level or a number of tokens", key,
                       n < 0 ? "negative" : sp_json_kind_name(sp_json_kind(effort)));
    }
    request->is_think_set = true;
    request->think = n > 0;
    if (sp_serve_leave_out_reasoning(request, key)) return SP_OK;
    return sp_serve_read_reasoning_budget(request, object, key, err);
}

enum sp_status sp_serve_openai_read_chat(struct sp_serve_request *request, struct sp_err *err)
{
    int64_t n_top = 0;
    enum sp_status st;

    if ((st = sp_serve_model_check_template(request->model, err)) ||
        (st = read_common(request, chat_refusals, chat_hints, err)) ||
        (st = sp_serve_read_functions(request, err)) ||
        (st = sp_serve_openai_read_tool_choice(request, sp_json_get(request->body, "tool_choice"),
                                               err)) ||
        (st = sp_serve_openai_read_kwargs(request, err)) ||
        (st = sp_serve_openai_read_effort(request, request->body, "reasoning_effort", err)) ||
        /* the names that llama-server and vLLM have for it */
        (st = sp_serve_read_reasoning_budget(request, request->body, "thinking_budget_tokens",
                                             err)) ||
        (st = sp_serve_read_reasoning_budget(request, request->body, "thinking_token_budget",
                                             err)) ||
        (st = sp_json_get_bool(request->body, "logprobs", &request->logprobs, err)) ||
        (st = sp_json_get_i64(request->body, "top_logprobs", 0, SP_SERVE_MAX_TOP, &n_top, err)))
        return st;
    if (n_top > 0 && !request->logprobs)
        return sp_fail(err, SP_E_INPUT, "top_logprobs requires \"logprobs\": true");
    request->n_top = (unsigned)n_top;
    if ((st = read_n(request, err))) return st;
    return sp_serve_read_messages(request, sp_json_get(request->body, "messages"), err);
}

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
    if (to->text == NULL) {
        return sp_fail(err, SP_E_INPUT, "prompt is %s, expected a string or token IDs",
                       prompt ? sp_json_kind_name(sp_json_kind(prompt)) : "missing");
    }
    return SP_OK;
}

/* Reads one prompt or an array of prompts. */
static enum sp_status read_prompts(struct sp_serve_request *request, const struct sp_json *prompt,
                                   struct sp_err *err)
{
    enum sp_json_kind kind = sp_json_kind(sp_json_at(prompt, 0));
    bool several = kind == SP_JSON_STRING || kind == SP_JSON_ARRAY;
    size_t n = several ? sp_json_len(prompt) : 1;
    enum sp_status st;

    if (n > SP_SERVE_MAX_ANSWERS) {
        return sp_fail(err, SP_E_INPUT, "prompt has %zu elements, expected at most %d", n,
                       SP_SERVE_MAX_ANSWERS);
    }
    if (prompt == NULL) sp_serve_fault_set(&request->fault, "missing_required_parameter", "prompt");
    if ((st = sp_serve_request_take_prompts(request, n, err))) return st;
    if (!several) return read_prompt(&request->prompts[0], prompt, err);
    for (size_t i = 0; i < n && !st; i++)
        st = read_prompt(&request->prompts[i], sp_json_at(prompt, i), err);
    return st;
}

/* Reads the text after the gap that the answer fills; must be called after the prompts are read. */
static enum sp_status read_suffix(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *suffix = NULL;
    size_t len = 0;
    enum sp_status st = sp_serve_read_kind(&suffix, request->body, "suffix", SP_JSON_STRING, err);

    if (st) return st;
    (void)sp_json_to_string(suffix, &len);
    if (len == 0) return SP_OK;
    if (request->echo) return sp_fail(err, SP_E_INPUT, "echo and suffix cannot be combined");
    if ((st = sp_serve_model_check_infill(request->model, "suffix", err))) return st;
    for (size_t i = 0; i < request->n_prompts; i++) {
        if (request->prompts[i].text) continue;
        return sp_fail(err, SP_E_INPUT, "suffix requires a prompt of text, not of token IDs");
    }
    request->suffix = suffix;
    return SP_OK;
}

enum sp_status sp_serve_openai_read_text(struct sp_serve_request *request, struct sp_err *err)
{
    int64_t n_top = -1, n_tokens = -1;
    enum sp_status st;

    if ((st = sp_json_get_bool(request->body, "echo", &request->echo, err))) return st;
    (void)sp_json_to_i64(sp_json_get(request->body, "max_tokens"), &n_tokens);
    request->prompt_only = request->echo && n_tokens == 0;
    if ((st = read_common(request, text_refusals, "cache_prompt user", err))) return st;
    if ((st = sp_json_get_i64(request->body, "logprobs", 0, SP_SERVE_MAX_TOP, &n_top, err)))
        return st;
    request->logprobs = n_top >= 0;
    request->n_top = n_top > 0 ? (unsigned)n_top : 0;
    if ((st = read_prompts(request, sp_json_get(request->body, "prompt"), err))) return st;
    if ((st = read_suffix(request, err))) return st;
    return read_n(request, err);
}

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

enum sp_status sp_serve_openai_read_lora(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *list = NULL;
    const char *name = sp_json_get_text(request->body, "model");
    enum sp_status st = sp_serve_read_kind(&list, request->body, "lora", SP_JSON_ARRAY, err);

    if (st) return st;
    for (size_t i = 0; i < sp_json_len(list); i++) {
        if ((st = read_entry(request, sp_json_at(list, i), err))) {
            sp_context(err, "lora[%zu]", i);
            return st;
        }
    }
    if (sp_json_len(list) > 0 && sp_serve_model_lora(request->model, name))
        return sp_fail(err, SP_E_INPUT, "lora: the model %s is an adapter already", name);
    return SP_OK;
}
